"""The 64-byte frame header: its fields, and the checks that come before a length is believed."""

from __future__ import annotations

from typing import NamedTuple

from pp1wire.wire._schema_v2 import HEADER_STRUCT, MAGIC, WIRE_VERSION, MessageType, RejectCode
from pp1wire.wire.agreement import HEADER_BYTES, Agreement, fixed_body_bytes
from pp1wire.wire.checksums import Buffer, body_checksum, header_checksum
from pp1wire.wire.reject import RemoteProtocolError

__all__ = ["HEADER_BYTES", "Header", "check_header", "check_opening", "seal"]

_HELLO_BODY_BYTES = fixed_body_bytes(MessageType.HELLO)
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


def check_header(data: Buffer, offset: int, agreement: Agreement | None, sequence: int | None) -> Header:
    """Judge a whole header, in the order of checks of `docs/wire.md`.

    Args:
        data: at least 64 bytes.
        offset: where they stand in the stream.
        agreement: None while only a HELLO may come.
        sequence: the number that the frame must have; None takes any.

    Raises:
        RemoteProtocolError: of connection scope.
    """
    check_opening(data[:6], offset)
    (
        _, _, type_number, reserved_1, number, length, slot, reserved_2,
        agreement_id, session, generation, round_, body_sum, header_sum,
    ) = HEADER_STRUCT.unpack_from(data)  # fmt: skip
    actual = header_checksum(data)
    if header_sum != actual:
        raise _error(RejectCode.HEADER_CHECKSUM_MISMATCH, offset, 56, "header_checksum", actual, header_sum)
    message_type = _MESSAGE_TYPES.get(type_number)
    if message_type is None:
        known = ", ".join(str(t) for t in _MESSAGE_TYPES)
        raise _error(RejectCode.UNKNOWN_MESSAGE_TYPE, offset, 6, "message_type", f"one of {known}", type_number)
    header = Header(message_type, number, length, slot, agreement_id, session, generation, round_, body_sum)
    _check_size(header, offset, agreement)
    for at, name, reserved in ((7, "reserved_1", reserved_1), (22, "reserved_2", reserved_2)):
        if any(reserved):
            raise _reject(RejectCode.HEADER_RESERVED_NOT_ZERO, header, offset, at, name, "zero", reserved.hex())
    if sequence is not None and number != sequence:
        raise _reject(RejectCode.SEQUENCE_MISMATCH, header, offset, 8, "sequence", sequence, number)
    expected_id = 0 if agreement is None else agreement.id
    if agreement_id != expected_id:
        raise _reject(RejectCode.AGREEMENT_MISMATCH, header, offset, 24, "agreement_id", expected_id, agreement_id)
    _check_identity(header, offset, agreement)
    return header


def _check_size(header: Header, offset: int, agreement: Agreement | None) -> None:
    is_hello = header.message_type is MessageType.HELLO
    if is_hello != (agreement is None):
        expected = "a HELLO" if agreement is None else "no second HELLO"
        raise _reject(
            RejectCode.UNEXPECTED_MESSAGE, header, offset, 6, "message_type", expected, header.message_type.name
        )
    length = header.body_length
    longest = _HELLO_BODY_BYTES if agreement is None else agreement.longest_body
    if length > longest:
        raise _reject(RejectCode.OVERSIZED_BODY, header, offset, 16, "body_length", f"at most {longest}", length)
    smallest, largest, step = (
        (_HELLO_BODY_BYTES, _HELLO_BODY_BYTES, 1) if agreement is None else agreement.body_bytes(header.message_type)
    )
    if not smallest <= length <= largest or (length - smallest) % step:
        expected = str(smallest) if smallest == largest else f"{smallest} to {largest} in steps of {step}"
        raise _reject(RejectCode.WRONG_BODY_LENGTH, header, offset, 16, "body_length", expected, length)


def _check_identity(header: Header, offset: int, agreement: Agreement | None) -> None:
    # (offset, field, value, smallest, largest): a HELLO has no identity, a RESET has no round.
    if agreement is None:
        zero = (header.slot, header.session, header.generation, header.round)
        if not any(zero):
            return
        bounds = tuple(
            (at, name, value, 0, 0)
            for at, name, value in zip((20, 32, 40, 44), ("slot", "session", "generation", "round"), zero, strict=True)
        )
    else:
        is_reset = header.message_type is MessageType.RESET
        if (
            header.slot < agreement.max_slots
            and header.session
            and header.generation
            and bool(header.round) != is_reset
        ):
            return
        bounds = (
            (20, "slot", header.slot, 0, agreement.max_slots - 1),
            (32, "session", header.session, 1, 2**64 - 1),
            (40, "generation", header.generation, 1, 2**32 - 1),
            (44, "round", header.round, 0 if is_reset else 1, 0 if is_reset else 2**32 - 1),
        )
    for at, name, value, smallest, largest in bounds:
        if not smallest <= value <= largest:
            expected = str(smallest) if smallest == largest else f"{smallest} to {largest}"
            raise _reject(RejectCode.HEADER_OUT_OF_BOUNDS, header, offset, at, name, expected, value)


def _error(code: RejectCode, offset: int, at: int, name: str, expected: object, actual: object) -> RemoteProtocolError:
    return RemoteProtocolError(code, offset=offset + at, path=f"header.{name}", expected=expected, actual=actual)


def _reject(
    code: RejectCode, header: Header, offset: int, at: int, name: str, expected: object, actual: object
) -> RemoteProtocolError:
    return RemoteProtocolError(
        code,
        offset=offset + at,
        path=f"header.{name}",
        expected=expected,
        actual=actual,
        message_type=header.message_type,
        identity=header.identity,
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
