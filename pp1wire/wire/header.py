"""The 64-byte frame header: its fields, and the checks that come before a length is believed."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

from pp1wire.wire._schema_v2 import HEADER_STRUCT, MAGIC, WIRE_VERSION, MessageType, RejectCode
from pp1wire.wire.agreement import HEADER_BYTES, Agreement, fixed_body_bytes
from pp1wire.wire.checksums import Buffer, body_checksum, header_checksum
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["HEADER_BYTES", "Header", "check_header", "check_opening", "seal"]

_HELLO_BODY_BYTES = fixed_body_bytes(MessageType.HELLO)
_HELLO_BOUNDS = (_HELLO_BODY_BYTES, _HELLO_BODY_BYTES, 1)
_HELLO, _RESET = MessageType.HELLO, MessageType.RESET
_unpack_header = HEADER_STRUCT.unpack_from
_MESSAGE_TYPES = {int(t): t for t in MessageType}


class Header(NamedTuple):
    """A verified frame header."""

    message_type: MessageType
    sequence: int
    body_length: int
    slot: int
    agreement_id: int
    session: int
    generation: int
    round: int
    body_checksum: int

    @property
    def identity(self) -> tuple[int, int, int]:
        """(session, generation, round)."""
        return self.session, self.generation, self.round


def check_opening(data: Buffer, offset: int) -> None:
    """Judge the first bytes of a frame, as many as there are: another protocol is told at its first wrong byte.

    Raises:
        RemoteProtocolError: BAD_MAGIC or UNSUPPORTED_VERSION.
    """
    magic = bytes(data[:4])
    if magic != MAGIC[: len(magic)]:
        raise RemoteProtocolError(
            RejectCode.BAD_MAGIC, offset=offset, path="header.magic", expected=MAGIC, actual=magic
        )
    if len(data) >= 6:
        version = int.from_bytes(data[4:6], "little")
        if version != WIRE_VERSION:
            raise RemoteProtocolError(
                RejectCode.UNSUPPORTED_VERSION,
                offset=offset + 4, path="header.wire_version", expected=WIRE_VERSION, actual=version,
            )  # fmt: skip


def check_header(
    data: Buffer, offset: int, agreement: Agreement | None, sequence: int | None, *, start: int = 0
) -> Header:
    """Judge a whole header, in the order of checks of `docs/wire.md`.

    Args:
        data: at least 64 bytes from `start` on.
        offset: where the header stands in the stream.
        agreement: None while only a HELLO may come.
        sequence: the number that the frame must have; None takes any.
        start: where the header stands in `data`.

    Raises:
        RemoteProtocolError: of connection scope.
    """
    (
        magic, version, type_number, reserved_1, number, length, slot, reserved_2,
        agreement_id, session, generation, round_, body_sum, header_sum,
    ) = _unpack_header(data, start)  # fmt: skip
    if magic != MAGIC or version != WIRE_VERSION:
        check_opening(data[start : start + 6], offset)
    actual = header_checksum(data[start : start + 56])
    if header_sum != actual:
        raise _error(RejectCode.HEADER_CHECKSUM_MISMATCH, offset, 56, "header_checksum", actual, header_sum)
    message_type = _MESSAGE_TYPES.get(type_number)
    if message_type is None:
        raise _error(RejectCode.UNKNOWN_MESSAGE_TYPE, offset, 6, "message_type", MessageType, type_number)
    header = Header(message_type, number, length, slot, agreement_id, session, generation, round_, body_sum)
    is_hello = message_type is _HELLO
    if is_hello != (agreement is None):
        expected = "a HELLO" if agreement is None else "no second HELLO"
        raise _reject(RejectCode.UNEXPECTED_MESSAGE, header, offset, 6, "message_type", expected, message_type.name)
    bounds = _HELLO_BOUNDS if agreement is None else agreement.body_bytes(message_type)
    smallest, largest, step = bounds
    if length != smallest and (not smallest <= length <= largest or (length - smallest) % step):
        _reject_length(header, offset, agreement, bounds)
    if reserved_1 != b"\0":
        raise _reject(RejectCode.HEADER_RESERVED_NOT_ZERO, header, offset, 7, "reserved_1", "zero", reserved_1)
    if reserved_2 != b"\0\0":
        raise _reject(RejectCode.HEADER_RESERVED_NOT_ZERO, header, offset, 22, "reserved_2", "zero", reserved_2)
    if number != sequence and sequence is not None:
        raise _reject(RejectCode.SEQUENCE_MISMATCH, header, offset, 8, "sequence", sequence, number)
    expected_id = 0 if agreement is None else agreement.id
    if agreement_id != expected_id:
        raise _reject(RejectCode.AGREEMENT_MISMATCH, header, offset, 24, "agreement_id", expected_id, agreement_id)
    if agreement is None:
        good = not (slot or session or generation or round_)
    else:
        # A RESET alone has no round.
        good = bool(slot < agreement.max_slots and session and generation and (round_ == 0) == (message_type is _RESET))
    if not good:
        _reject_identity(header, offset, agreement)
    return header


def _reject_length(header: Header, offset: int, agreement: Agreement | None, bounds: tuple[int, int, int]) -> NoReturn:
    longest = _HELLO_BODY_BYTES if agreement is None else agreement.longest_body
    smallest, largest, step = bounds
    if header.body_length > longest:
        code, expected = RejectCode.OVERSIZED_BODY, f"at most {longest}"
    else:
        code = RejectCode.WRONG_BODY_LENGTH
        expected = str(smallest) if smallest == largest else f"{smallest} to {largest} in steps of {step}"
    raise _reject(code, header, offset, 16, "body_length", expected, header.body_length)


def _reject_identity(header: Header, offset: int, agreement: Agreement | None) -> NoReturn:
    # (offset, field, value, smallest, largest) of the legal values.
    if agreement is None:
        names = ("slot", "session", "generation", "round")
        bounds = [(at, name, getattr(header, name), 0, 0) for at, name in zip((20, 32, 40, 44), names, strict=True)]
    else:
        is_reset = header.message_type is MessageType.RESET
        bounds = [
            (20, "slot", header.slot, 0, agreement.max_slots - 1),
            (32, "session", header.session, 1, 2**64 - 1),
            (40, "generation", header.generation, 1, 2**32 - 1),
            (44, "round", header.round, 0 if is_reset else 1, 0 if is_reset else 2**32 - 1),
        ]
    at, name, value, smallest, largest = next(bound for bound in bounds if not bound[3] <= bound[2] <= bound[4])
    expected = str(smallest) if smallest == largest else f"{smallest} to {largest}"
    raise _reject(RejectCode.HEADER_OUT_OF_BOUNDS, header, offset, at, name, expected, value)


def _error(code: RejectCode, offset: int, at: int, name: str, expected: object, actual: object) -> RemoteProtocolError:
    return RemoteProtocolError(code, offset + at, f"header.{name}", expected, actual)


def _reject(
    code: RejectCode, header: Header, offset: int, at: int, name: str, expected: object, actual: object
) -> RemoteProtocolError:
    return RemoteProtocolError(
        code, offset + at, f"header.{name}", expected, actual, header.message_type, header.identity
    )


def seal(
    frame: bytearray | memoryview,
    message_type: int,
    *,
    sequence: int,
    agreement_id: int,
    session: int = 0,
    slot: int = 0,
    generation: int = 0,
    round: int = 0,
) -> None:
    """Write the header of `frame`, whose body is in place, with both checksums."""
    fields = [
        MAGIC, WIRE_VERSION, message_type, b"\0", sequence, len(frame) - HEADER_BYTES, slot, b"\0\0",
        agreement_id, session, generation, round, 0, 0,
    ]  # fmt: skip
    HEADER_STRUCT.pack_into(frame, 0, *fields)
    frame[48:56] = body_checksum(frame).to_bytes(8, "little")
    frame[56:64] = header_checksum(frame).to_bytes(8, "little")
