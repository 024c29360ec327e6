"""The bodies of all messages but REPLY, whose rows `pp1wire.wire.rows` judges together.

The schema tables drive structure and bounds; the named rules that they cannot say are in `_RULES`, one function a message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import xxhash

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import _schema_v2 as schema
from pp1wire.wire._schema_v2 import (
    CommitKind,
    HelloRole,
    HelloStatus,
    Message,
    MessageType,
    RejectCode,
    Representation,
    ResetReason,
    SupportPolicy,
)
from pp1wire.wire.agreement import Agreement
from pp1wire.wire.bodies import BODIES, Seen
from pp1wire.wire.fields import FieldSpec
from pp1wire.wire.frames import Frame, check_body_checksum, fault_in
from pp1wire.wire.reject import MESSAGE_NAMES, RemoteProtocolError, short

__all__ = ["check_integer", "decode_body", "pack_body"]

Column = npt.NDArray[np.int32]

_NO_IDS: Final = np.frombuffer(b"", dtype="<i4")


def decode_body(frame: Frame, agreement: Agreement | None, seen: Seen | None = None) -> Message:
    """The message in `frame`, which is not a REPLY; it shares what is equal with what was `seen`.

    Raises:
        RemoteProtocolError: body checksum, structure, canonical form or meaning, in that order.
    """
    header, data = frame.header, frame.data
    check_body_checksum(frame)
    body = BODIES[header.message_type]
    values = body.read(frame)
    column, tail = _NO_IDS, b""
    if body.entries is not None:
        # One column a message, and it takes the rest of the body; its own count is judged by the rules.
        count, tail = values[body.entries], bytes(data[body.end :])
        if tail:
            column = np.frombuffer(tail, dtype="<i4", count=min(count, len(tail) // 4))
    rules = _RULES.get(header.message_type)
    if rules is not None:
        fault = rules(frame, body.fields(values), column, tail, agreement)
        if fault is not None:
            raise fault
    return body.message(header, values, column, seen)


def pack_body(message: Message, message_type: MessageType) -> bytes:
    """The body of `message`, which is not a REPLY, as bytes; whether it is legal is judged by decoding it.

    Raises:
        LocalProtocolError: a value does not fit its field.
    """
    derived = schema.DERIVED_FIELDS[message_type]
    values: list[Any] = []
    for spec in schema.BODY_FIELDS[message_type]:
        if spec.kind == "zeros":
            values.append(bytes(spec.size))
        elif spec.name in derived:
            values.append(len(getattr(message, derived[spec.name])))
        else:
            values.append(_wire_value(f"{MESSAGE_NAMES[message_type]}.{spec.name}", spec, getattr(message, spec.name)))
    body = schema.BODY_STRUCTS[message_type].pack(*values)
    for name, code, length in schema.BODY_COLUMNS[message_type]:
        column = getattr(message, name)
        if length.isdigit():
            if len(column) > int(length):
                raise LocalProtocolError(
                    f"{MESSAGE_NAMES[message_type]}.{name}: expected at most {length}, got {len(column)}"
                )
            column = np.concatenate([column, np.zeros(int(length) - len(column), dtype=code)])
        body += column.astype(code).tobytes()
    return body


def check_integer(path: str, value: object, size: int) -> None:
    """Raise LocalProtocolError unless `value` is an integer that fits `size` unsigned bytes."""
    if not isinstance(value, (int, np.integer)) or not 0 <= int(value) < 2 ** (8 * size):
        raise LocalProtocolError(f"{path}: expected an unsigned integer of {8 * size} bits, got {short(value)}")


def _wire_value(path: str, spec: FieldSpec, value: Any) -> Any:
    # `struct` cuts and pads bytes and rounds numbers without a word, so what would not come back as it went is refused here.
    if spec.kind == "text":
        if not (isinstance(value, str) and value.isascii() and value.isprintable() and len(value) <= spec.size):
            raise LocalProtocolError(
                f"{path}: expected at most {spec.size} printable ASCII characters, got {short(value)}"
            )
        return value.encode("ascii")
    if spec.kind == "bytes":
        if not isinstance(value, bytes) or len(value) != spec.size:
            raise LocalProtocolError(f"{path}: expected {spec.size} bytes, got {short(value)}")
    elif spec.kind == "float":
        if not isinstance(value, (float, int, np.floating, np.integer)) or not _is_double(value):
            raise LocalProtocolError(f"{path}: expected a number that float64 holds exactly, got {short(value)}")
    else:
        check_integer(path, value, spec.size)
    return value


def _is_double(value: Any) -> bool:
    try:
        return bool(float(value) == value) or bool(value != value)
    except OverflowError:
        return False


def _at(message_type: MessageType, name: str) -> int:
    return _OFFSETS[message_type][name]


_OFFSETS: Mapping[int, dict[str, int]] = {
    number: {spec.name: spec.offset for spec in specs}
    | {name: schema.BODY_STRUCTS[number].size for name, _, _ in schema.BODY_COLUMNS[number]}
    for number, specs in schema.BODY_FIELDS.items()
}


def _fault(
    frame: Frame, code: RejectCode, name: str, expected: object, actual: object, index: int | None = None
) -> RemoteProtocolError:
    at = _at(frame.header.message_type, name)
    if index is not None:
        at, name = at + 4 * index, f"{name}[{index}]"
    return fault_in(frame, code, at, name, expected, actual)


def _token_fault(
    frame: Frame, name: str, tokens: npt.NDArray[np.int32], agreement: Agreement
) -> RemoteProtocolError | None:
    # A negative id read as unsigned lies above every vocabulary, so one comparison finds all three faults.
    beyond = tokens.view(np.uint32) >= agreement.vocab_size
    if np.count_nonzero(beyond):
        index = beyond.tobytes().find(True)  # a tenth of what argmax takes for a few
        token = tokens.item(index)
        padded = agreement.vocab_size <= token < agreement.padded_vocab_size
        code = RejectCode.TOKEN_PADDED if padded else RejectCode.TOKEN_OUT_OF_RANGE
        return _fault(frame, code, name, range(agreement.vocab_size), token, index)
    return None


def _hello_rules(
    frame: Frame, v: Any, column: Column, tail: bytes, agreement: Agreement | None
) -> RemoteProtocolError | None:
    refused = v.status is HelloStatus.REFUSED
    if refused and v.role is HelloRole.OFFER:
        return _fault(frame, RejectCode.REFUSAL_MISMATCH, "status", "accepted in an offer", "refused")
    if refused != (v.refusal != 0):
        return _fault(frame, RejectCode.REFUSAL_MISMATCH, "refusal", "a reason if and only if refused", v.refusal)
    if v.padded_vocab_size < v.vocab_size:
        return _fault(
            frame, RejectCode.PADDED_VOCAB_TOO_SMALL, "padded_vocab_size",
            f"at least {v.vocab_size}", v.padded_vocab_size,
        )  # fmt: skip
    if not any(v.nonce):
        return _fault(frame, RejectCode.NONCE_NOT_FRESH, "nonce", "random bytes", "zero")
    return None


def _step_rules(
    frame: Frame, v: Any, column: Column, tail: bytes, agreement: Agreement | None
) -> RemoteProtocolError | None:
    assume = _agreed(agreement)
    if not 0 < v.temperature < math.inf:
        return _fault(frame, RejectCode.TEMPERATURE_NOT_POSITIVE, "temperature", "finite and above 0", v.temperature)
    if v.depth > assume.max_depth:
        return _fault(frame, RejectCode.DEPTH_OVER_AGREEMENT, "depth", range(1, assume.max_depth + 1), v.depth)
    dense = assume.representation is Representation.DENSE
    policy = SupportPolicy.FULL if dense else SupportPolicy.TOP_K
    if v.support_policy is not policy:
        return _fault(frame, RejectCode.SUPPORT_MISMATCH, "support_policy", policy, v.support_policy)
    smallest, largest = (0, 0) if dense else (1, assume.max_support)
    if not smallest <= v.support <= largest:
        return _fault(frame, RejectCode.SUPPORT_MISMATCH, "support", range(smallest, largest + 1), v.support)
    if v.position + v.depth >= 2**32:
        return _fault(frame, RejectCode.POSITION_OVERFLOW, "position", f"below {2**32 - v.depth}", v.position)
    return None


def _commit_rules(
    frame: Frame, v: Any, column: Column, tail: bytes, agreement: Agreement | None
) -> RemoteProtocolError | None:
    assume, count = _agreed(agreement), v.token_count
    expected = v.accepted if v.kind is CommitKind.NONE else v.accepted + 1
    if v.kind is CommitKind.TARGET_ONLY and v.accepted:
        return _fault(frame, RejectCode.COMMIT_COUNT_MISMATCH, "accepted", "0 for a target-only token", v.accepted)
    if count != expected:
        return _fault(frame, RejectCode.COMMIT_COUNT_MISMATCH, "token_count", expected, count)
    unused = tail[4 * count :]
    if any(unused):
        padding = np.frombuffer(unused, dtype="<i4")
        index = int((padding != 0).argmax())
        return _fault(frame, RejectCode.COMMIT_PADDING_NOT_ZERO, "tokens", 0, int(padding[index]), count + index)
    fault = _token_fault(frame, "tokens", column, assume)
    if fault is not None:
        return fault
    if v.new_position != v.position + count:
        return _fault(frame, RejectCode.COMMIT_POSITION_MISMATCH, "new_position", v.position + count, v.new_position)
    return None


def _reset_rules(
    frame: Frame, v: Any, column: Column, tail: bytes, agreement: Agreement | None
) -> RemoteProtocolError | None:
    assume, count = _agreed(agreement), v.prefix_count
    held, required = len(tail) // 4, 0 if v.reason is ResetReason.CLOSE else v.position
    if count != held:
        return _fault(frame, RejectCode.PREFIX_COUNT_MISMATCH, "prefix_count", f"{held}, the ids in the body", count)
    if count != required:
        return _fault(frame, RejectCode.PREFIX_COUNT_MISMATCH, "prefix_count", required, count)
    fault = _token_fault(frame, "prefix_ids", column, assume)
    if fault is not None:
        return fault
    if v.reason is not ResetReason.CLOSE:
        digest = xxhash.xxh3_128_digest(tail)
        if digest != v.prefix_digest:
            return _fault(frame, RejectCode.PREFIX_DIGEST_MISMATCH, "prefix_digest", digest, v.prefix_digest)
    return None


def _agreed(agreement: Agreement | None) -> Agreement:
    if agreement is None:
        raise LocalProtocolError("this message needs an agreement; only a HELLO comes before one")
    return agreement


# A COMPLETION shows nothing wrong alone; `pp1wire.protocol` compares it with its round.
_RULES: Mapping[int, Callable[[Frame, Any, Column, bytes, Agreement | None], RemoteProtocolError | None]] = {
    MessageType.HELLO: _hello_rules,
    MessageType.STEP: _step_rules,
    MessageType.COMMIT: _commit_rules,
    MessageType.RESET: _reset_rules,
}
