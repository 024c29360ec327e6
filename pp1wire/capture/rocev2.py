"""RoCEv2 packets: InfiniBand's transport over UDP.

Source: InfiniBand Architecture Specification volume 1, chapters 9 (transport) and 12 (communication management), and
its annex A17 (RoCEv2). Of the transports only reliable connections (RC) are read, and of their operations SENDs; what
else takes up packet sequence numbers (PSN) is told, so that it leaves no gap. The communication manager's messages
show where a connection begins and ends, and which two queue pairs it joins. Checksums (ICRC) are not verified, as for
TCP.
"""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import Final, NamedTuple

from pp1wire.capture.packets import SkipCode, Skipped, short

__all__ = ["PSN_BITS", "CmKind", "CmMessage", "Operation", "RocePacket", "parse_rocev2"]

PSN_BITS: Final = 24

_UDP_PORT = 4791
_UDP_BYTES, _BTH_BYTES, _ICRC_BYTES, _DETH_BYTES, _MAD_BYTES = 8, 12, 4, 8, 24
_BTH = struct.Struct(">BBxxII")  # opcode, flags, reserved and queue pair, reserved and PSN
_RC_OPCODES, _UD_SEND_ONLY, _CONGESTION = range(32), 0x64, 0x81
_MANAGEMENT_QP = 1
_CM_CLASS = 7

# Header bytes between the base header and the payload: immediate data or a key to invalidate.
_SENDS: Final = {0: 0, 1: 0, 2: 0, 3: 4, 4: 0, 5: 4, 22: 4, 23: 4}
_READ_RESPONSES: Final = range(13, 17)
_ACKNOWLEDGES: Final = frozenset({17, 18})
_POSITIVE = 0  # the upper 3 bits of a syndrome


class Operation(Enum):
    """What a packet of a reliable connection does."""

    SEND = auto()
    OTHER = auto()
    """Another request (RDMA WRITE or READ, an atomic operation): it takes up its PSN."""
    RESPONSE = auto()
    """An answer to an RDMA READ: it takes up a PSN of the other direction."""
    ACKNOWLEDGE = auto()
    """Every PSN of the other direction before `psn` was received."""


class RocePacket(NamedTuple):
    """One packet of a reliable connection."""

    operation: Operation
    opcode: int
    source: bytes
    """IP address, 4 or 16 bytes."""
    destination: bytes
    queue_pair: int
    """Of the destination; that of the source is in no packet."""
    psn: int
    payload: memoryview
    """Of a SEND, the captured part."""
    length: int
    """Payload bytes on the link."""
    source_port: int
    """UDP port, which many senders derive from both queue pairs."""


class CmKind(Enum):
    """What a message of the communication manager does; the values are its attribute ids."""

    REQUEST = 0x10
    REPLY = 0x13
    DISCONNECT = 0x15


# Where the queue pair and the starting sequence number stand, 3 bytes each; a disconnect has no such number.
_CM_FIELDS: Final = {CmKind.REQUEST: (32, 44), CmKind.REPLY: (12, 20), CmKind.DISCONNECT: (8, 8)}


class CmMessage(NamedTuple):
    """One message of the communication manager."""

    kind: CmKind
    source: bytes
    destination: bytes
    local_id: int
    """The sender's number for the connection."""
    remote_id: int
    """The receiver's; 0 in a request."""
    queue_pair: int
    """The sender's; the receiver's in a disconnect."""
    psn: int
    """The first that the receiver of this message will use; means nothing in a disconnect."""


def parse_rocev2(
    source: bytes, destination: bytes, data: memoryview, original: int
) -> RocePacket | CmMessage | Skipped:
    """What a UDP packet of `original` bytes, of which `data` were captured, holds."""
    if len(data) < 4 or data[2] << 8 | data[3] != _UDP_PORT:
        return Skipped(SkipCode.NOT_TCP, "UDP")
    needed = _UDP_BYTES + _BTH_BYTES
    if len(data) < needed:
        return short("RoCEv2 header", needed, len(data), original)
    size = data[4] << 8 | data[5] or original
    if not needed + _ICRC_BYTES <= size <= original:
        expected = f"{needed + _ICRC_BYTES} to {original}"
        return Skipped(SkipCode.MALFORMED, f"UDP length of RoCEv2: expected {expected}, got {size}")
    opcode, flags, queue_pair, psn = _BTH.unpack_from(data, _UDP_BYTES)
    queue_pair, psn, padding = queue_pair & 0xFFFFFF, psn & 0xFFFFFF, flags >> 4 & 3
    body, length = data[needed : size - _ICRC_BYTES], size - needed - _ICRC_BYTES - padding
    if opcode == _UD_SEND_ONLY and queue_pair == _MANAGEMENT_QP:
        return _management(source, destination, body, length)
    if opcode not in _RC_OPCODES:
        code = SkipCode.NOT_TCP if opcode == _CONGESTION else SkipCode.NOT_SEND
        return Skipped(code, f"RoCEv2 operation {opcode:#04x}: only SENDs of reliable connections are read")
    operation, header = Operation.OTHER, 0
    if opcode in _SENDS:
        operation, header = Operation.SEND, _SENDS[opcode]
    elif opcode in _READ_RESPONSES:
        operation = Operation.RESPONSE
    elif opcode in _ACKNOWLEDGES:
        operation, header = Operation.ACKNOWLEDGE, 4
        if len(body) < header:
            return short("RoCEv2 acknowledgement", header, len(body), length)
        # A negative one names the PSN that is still expected.
        psn = (psn + (body[0] >> 5 == _POSITIVE)) & 0xFFFFFF
    if length < header:
        return Skipped(SkipCode.MALFORMED, f"RoCEv2 payload: expected at least {header} bytes, got {length}")
    payload, length = body[header : header + max(length - header, 0)], length - header
    port = data[0] << 8 | data[1]
    return RocePacket(operation, opcode, source, destination, queue_pair, psn, payload, length, port)


def _management(source: bytes, destination: bytes, data: memoryview, length: int) -> CmMessage | Skipped:
    """A message of the communication manager, behind the header of an unreliable datagram."""
    message = data[_DETH_BYTES + _MAD_BYTES :]
    other = Skipped(SkipCode.NOT_TCP, "RoCEv2 management")
    if len(data) < _DETH_BYTES + _MAD_BYTES or data[_DETH_BYTES + 1] != _CM_CLASS:
        return other
    attribute = data[_DETH_BYTES + 16] << 8 | data[_DETH_BYTES + 17]
    kind = next((k for k in CmKind if k.value == attribute), None)
    if kind is None:
        return other
    if len(message) < 48:
        return short("connection management message", 48, len(message), length - _DETH_BYTES - _MAD_BYTES)
    local_id, remote_id = struct.unpack_from(">II", message)
    remote_id = 0 if kind is CmKind.REQUEST else remote_id
    pair, psn = _CM_FIELDS[kind]
    numbers = (int.from_bytes(message[at : at + 3], "big") for at in (pair, psn))
    return CmMessage(kind, source, destination, local_id, remote_id, *numbers)
