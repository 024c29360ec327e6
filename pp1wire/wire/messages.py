"""The bodies of all messages but REPLY, whose rows `pp1wire.wire.rows` judges together.

The schema tables drive structure and bounds; the named rules that they cannot say are in `_RULES`, one function a message.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import numpy as np

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
from pp1wire.wire.checksums import body_checksum, prefix_digest
from pp1wire.wire.fields import FieldSpec
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import HEADER_BYTES
from pp1wire.wire.reject import RemoteProtocolError, short

__all__ = ["check_body_checksum", "check_fixed_fields", "check_integer", "decode_body", "pack_body", "reject_in"]

Values = dict[str, Any]


def reject_in(frame: Frame, code: RejectCode, at: int, name: str, expected: object, actual: object) -> NoReturn:
    """Raise the reject of body field `name`, `at` bytes into the body of `frame`."""
    message_type = frame.header.message_type
    raise RemoteProtocolError(
        code,
        offset=frame.offset + HEADER_BYTES + at,
        path=f"{message_type.name.lower()}.{name}",
        expected=expected,
        actual=actual,
        message_type=message_type,
        identity=frame.header.identity,
    )


def check_body_checksum(frame: Frame) -> None:
    """Raise BODY_CHECKSUM_MISMATCH unless the body is what its sender hashed, under the identity it was sent with."""
    actual = body_checksum(frame.data)
    if actual != frame.header.body_checksum:
        raise RemoteProtocolError(
            RejectCode.BODY_CHECKSUM_MISMATCH,
            offset=frame.offset + 48,
            path="header.body_checksum",
            expected=actual,
            actual=frame.header.body_checksum,
            message_type=frame.header.message_type,
            identity=frame.header.identity,
        )


def check_fixed_fields(frame: Frame) -> Values:
    """The fixed fields of the body by name, each within its schema's bounds; reserved bytes are checked and left out."""
    message_type = frame.header.message_type
    raw = schema.BODY_STRUCTS[message_type].unpack_from(frame.data, HEADER_BYTES)
    values: Values = {}
    for spec, value in zip(schema.BODY_FIELDS[message_type], raw, strict=True):
        if spec.kind == "int":
            if not spec.minimum <= value <= spec.maximum:
                _out_of_bounds(frame, spec, f"{spec.minimum} to {spec.maximum}", value)
        elif spec.kind == "zeros":
            if any(value):
                reject_in(frame, RejectCode.RESERVED_NOT_ZERO, spec.offset, spec.name, "zero bytes", value.hex())
            continue
        elif spec.kind == "enum" and spec.enum is not None:
            try:
                value = spec.enum(value)
            except ValueError:
                known = ", ".join(str(int(v)) for v in spec.enum)
                reject_in(frame, RejectCode.UNKNOWN_VALUE, spec.offset, spec.name, f"one of {known}", value)
        elif spec.kind == "text":
            value = _text(frame, spec, value)
        values[spec.name] = value
    return values


def decode_body(frame: Frame, agreement: Agreement | None) -> Message:
    """The message in `frame`, which is not a REPLY.

    Raises:
        RemoteProtocolError: body checksum, structure, canonical form or meaning, in that order.
    """
    check_body_checksum(frame)
    header = frame.header
    values = check_fixed_fields(frame)
    at = HEADER_BYTES + schema.BODY_STRUCTS[header.message_type].size
    for name, code, _ in schema.BODY_COLUMNS[header.message_type]:
        # One column a message here, so it takes the rest of the body; its own count is judged by the rules.
        values[name] = np.frombuffer(bytes(frame.data[at:]), dtype=code)
    _RULES[header.message_type](frame, values, agreement)
    for derived in schema.DERIVED_FIELDS[header.message_type]:
        del values[derived]
    for name in schema.IDENTITY_FIELDS[header.message_type]:
        values[name] = getattr(header, name)
    return schema.MESSAGE_CLASSES[header.message_type](**values)


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
            values.append(_wire_value(f"{_name(message_type)}.{spec.name}", spec, getattr(message, spec.name)))
    body = schema.BODY_STRUCTS[message_type].pack(*values)
    for name, code, length in schema.BODY_COLUMNS[message_type]:
        column = getattr(message, name)
        if length.isdigit():
            if len(column) > int(length):
                raise LocalProtocolError(f"{_name(message_type)}.{name}: expected at most {length}, got {len(column)}")
            column = np.concatenate([column, np.zeros(int(length) - len(column), dtype=code)])
        body += column.astype(code).tobytes()
    return body


def _name(message_type: MessageType) -> str:
    return message_type.name.lower()


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


def _out_of_bounds(frame: Frame, spec: FieldSpec, expected: object, value: object) -> NoReturn:
    code = RejectCode.VALUE_OUT_OF_BOUNDS if spec.reject is None else RejectCode[spec.reject.upper()]
    reject_in(frame, code, spec.offset, spec.name, expected, value)


def _text(frame: Frame, spec: FieldSpec, value: bytes) -> str:
    text = value.rstrip(b"\0")
    if not all(0x20 <= byte < 0x7F for byte in text):
        reject_in(
            frame, RejectCode.TEXT_NOT_CANONICAL, spec.offset, spec.name,
            "printable ASCII, then zero bytes", value,
        )  # fmt: skip
    return text.decode("ascii")


def _at(message_type: MessageType, name: str) -> int:
    return _OFFSETS[message_type][name]


_OFFSETS: Mapping[int, dict[str, int]] = {
    number: {spec.name: spec.offset for spec in specs}
    | {name: schema.BODY_STRUCTS[number].size for name, _, _ in schema.BODY_COLUMNS[number]}
    for number, specs in schema.BODY_FIELDS.items()
}


def _reject(
    frame: Frame, code: RejectCode, name: str, expected: object, actual: object, index: int | None = None
) -> None:
    at = _at(frame.header.message_type, name)
    if index is not None:
        at, name = at + 4 * index, f"{name}[{index}]"
    reject_in(frame, code, at, name, expected, actual)


def _check_tokens(frame: Frame, name: str, tokens: np.ndarray[Any, np.dtype[np.int32]], agreement: Agreement) -> None:
    # A negative id read as unsigned lies above every vocabulary, so one comparison finds all three faults.
    beyond = tokens.view(np.uint32) >= agreement.vocab_size
    if beyond.any():
        index = int(beyond.argmax())
        token = int(tokens[index])
        padded = agreement.vocab_size <= token < agreement.padded_vocab_size
        code = RejectCode.TOKEN_PADDED if padded else RejectCode.TOKEN_OUT_OF_RANGE
        _reject(frame, code, name, f"0 to {agreement.vocab_size - 1}", token, index)


def _hello_rules(frame: Frame, v: Values, agreement: Agreement | None) -> None:  # noqa: ARG001
    refused = v["status"] is HelloStatus.REFUSED
    if refused and v["role"] is HelloRole.OFFER:
        _reject(frame, RejectCode.REFUSAL_MISMATCH, "status", "accepted in an offer", "refused")
    if refused != (v["refusal"] != 0):
        _reject(frame, RejectCode.REFUSAL_MISMATCH, "refusal", "a reason if and only if refused", v["refusal"].name)
    if v["padded_vocab_size"] < v["vocab_size"]:
        _reject(
            frame, RejectCode.PADDED_VOCAB_TOO_SMALL, "padded_vocab_size",
            f"at least {v['vocab_size']}", v["padded_vocab_size"],
        )  # fmt: skip
    if not any(v["nonce"]):
        _reject(frame, RejectCode.NONCE_NOT_FRESH, "nonce", "random bytes", "zero")


def _step_rules(frame: Frame, v: Values, agreement: Agreement | None) -> None:
    assume = _agreed(agreement)
    if not (math.isfinite(v["temperature"]) and v["temperature"] > 0):
        _reject(frame, RejectCode.TEMPERATURE_NOT_POSITIVE, "temperature", "finite and above 0", v["temperature"])
    if v["depth"] > assume.max_depth:
        _reject(frame, RejectCode.DEPTH_OVER_AGREEMENT, "depth", f"at most {assume.max_depth}", v["depth"])
    dense = assume.representation is Representation.DENSE
    policy = SupportPolicy.FULL if dense else SupportPolicy.TOP_K
    if v["support_policy"] is not policy:
        _reject(frame, RejectCode.SUPPORT_MISMATCH, "support_policy", policy.name, v["support_policy"].name)
    smallest, largest = (0, 0) if dense else (1, assume.max_support)
    if not smallest <= v["support"] <= largest:
        _reject(frame, RejectCode.SUPPORT_MISMATCH, "support", f"{smallest} to {largest}", v["support"])
    if v["position"] + v["depth"] >= 2**32:
        _reject(frame, RejectCode.POSITION_OVERFLOW, "position", f"below {2**32 - v['depth']}", v["position"])


def _completion_rules(frame: Frame, v: Values, agreement: Agreement | None) -> None:
    """Nothing that a COMPLETION shows alone; `pp1wire.protocol` compares it with its round."""


def _commit_rules(frame: Frame, v: Values, agreement: Agreement | None) -> None:
    assume = _agreed(agreement)
    kind, accepted, count, tokens = v["kind"], v["accepted"], v["token_count"], v["tokens"]
    expected = accepted if kind is CommitKind.NONE else accepted + 1
    if kind is CommitKind.TARGET_ONLY and accepted:
        _reject(frame, RejectCode.COMMIT_COUNT_MISMATCH, "accepted", "0 for a target-only token", accepted)
    if count != expected:
        _reject(frame, RejectCode.COMMIT_COUNT_MISMATCH, "token_count", expected, count)
    for index in range(count, len(tokens)):
        if tokens[index]:
            _reject(frame, RejectCode.COMMIT_PADDING_NOT_ZERO, "tokens", 0, int(tokens[index]), index)
    v["tokens"] = tokens[:count]
    _check_tokens(frame, "tokens", v["tokens"], assume)
    if v["new_position"] != v["position"] + count:
        _reject(frame, RejectCode.COMMIT_POSITION_MISMATCH, "new_position", v["position"] + count, v["new_position"])


def _reset_rules(frame: Frame, v: Values, agreement: Agreement | None) -> None:
    assume = _agreed(agreement)
    ids, count = v["prefix_ids"], v["prefix_count"]
    required = 0 if v["reason"] is ResetReason.CLOSE else v["position"]
    if count != len(ids):
        _reject(frame, RejectCode.PREFIX_COUNT_MISMATCH, "prefix_count", f"{len(ids)}, the ids in the body", count)
    if count != required:
        _reject(frame, RejectCode.PREFIX_COUNT_MISMATCH, "prefix_count", required, count)
    _check_tokens(frame, "prefix_ids", ids, assume)
    if v["reason"] is not ResetReason.CLOSE:
        digest = prefix_digest(ids)
        if digest != v["prefix_digest"]:
            _reject(frame, RejectCode.PREFIX_DIGEST_MISMATCH, "prefix_digest", digest.hex(), v["prefix_digest"].hex())


def _agreed(agreement: Agreement | None) -> Agreement:
    if agreement is None:
        raise LocalProtocolError("this message needs an agreement; only a HELLO comes before one")
    return agreement


_RULES: Mapping[int, Callable[[Frame, Values, Agreement | None], None]] = {
    MessageType.HELLO: _hello_rules,
    MessageType.STEP: _step_rules,
    MessageType.COMPLETION: _completion_rules,
    MessageType.COMMIT: _commit_rules,
    MessageType.RESET: _reset_rules,
}
