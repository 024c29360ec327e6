"""Where in a stream a field of a message stands, so that a reject of the protocol names it as one of the wire does."""

from __future__ import annotations

from typing import NamedTuple

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import RemoteProtocolError
from pp1wire.wire._schema_v2 import BODY_COLUMNS, BODY_FIELDS, BODY_STRUCTS, HEADER_FIELDS, MessageType, RejectCode
from pp1wire.wire.frames import Frame
from pp1wire.wire.header import HEADER_BYTES

__all__ = ["Place", "as_local"]

_HEADER = {spec.name: spec.offset for spec in HEADER_FIELDS}
_BODY = {
    number: {spec.name: HEADER_BYTES + spec.offset for spec in specs}
    | {name: HEADER_BYTES + BODY_STRUCTS[number].size for name, _, _ in BODY_COLUMNS[number]}
    for number, specs in BODY_FIELDS.items()
}
_ENTRY_BYTES = 4


class Place(NamedTuple):
    """One message in one direction of a connection."""

    offset: int
    """Bytes from the start of the stream to the frame."""
    message_type: MessageType
    identity: tuple[int, int, int] | None
    """(session, generation, round)."""

    @classmethod
    def of(cls, frame: Frame) -> Place:
        """Where `frame` stands."""
        return cls(frame.offset, frame.header.message_type, frame.header.identity)

    def header(self, code: RejectCode, name: str, expected: object, actual: object) -> RemoteProtocolError:
        """The reject of header field `name`; the caller raises it."""
        return self._reject(code, _HEADER[name], f"header.{name}", expected, actual)

    def body(
        self, code: RejectCode, name: str, expected: object, actual: object, index: int | None = None
    ) -> RemoteProtocolError:
        """The reject of body field `name`, or of entry `index` of that column; the caller raises it."""
        at, path = _BODY[self.message_type][name], f"{self.message_type.name.lower()}.{name}"
        if index is not None:
            at, path = at + _ENTRY_BYTES * index, f"{path}[{index}]"
        return self._reject(code, at, path, expected, actual)

    def _reject(self, code: RejectCode, at: int, path: str, expected: object, actual: object) -> RemoteProtocolError:
        return RemoteProtocolError(
            code,
            offset=self.offset + at,
            path=path,
            expected=expected,
            actual=actual,
            message_type=self.message_type,
            identity=self.identity,
        )


def as_local(error: RemoteProtocolError) -> LocalProtocolError:
    """The same fault, found in what this end was about to send: its caller's, not its peer's."""
    return LocalProtocolError(
        f"{error.path}: expected {error.expected}, got {error.actual} ({error.code.name.lower()})"
    )
