"""RoCEv2 packets: what is read of them, and what is passed over."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pp1wire.capture.layers import Layers
from pp1wire.capture.packets import SkipCode
from pp1wire.capture.rocev2 import CmKind, CmMessage, Operation, RocePacket, parse_rocev2
from tests.capture import roce_wire as wire
from tests.capture.packing import CLIENT, SERVER, captured, ipv6
from tests.capture.roce_wire import DOWN, UP, packet, transport

ENDS = (CLIENT.address, SERVER.address)


def parse(data: bytes, original: int | None = None):
    return Layers().add(captured(data, original=original))


def read(data: bytes, original: int | None = None) -> RocePacket:
    found = parse(data, original)
    assert isinstance(found, RocePacket), found
    return found


@given(st.integers(0, 2**24 - 1), st.integers(2, 2**24 - 1), st.binary(max_size=40))
def test_padding_and_checksum_are_stripped(psn, pair, payload) -> None:
    found = read(packet(UP, wire.ONLY, pair, psn, payload, port=51_234) + b"link padding")
    assert found == RocePacket(
        Operation.SEND, wire.ONLY, *ENDS, pair, psn, memoryview(payload), len(payload), 51_234
    )  # fmt: skip


def test_honest_roce_over_ipv6_is_read() -> None:
    found = read(ipv6(transport(wire.ONLY, 9, 8, b"payload"), 17))
    assert (found.payload, len(found.source), found.queue_pair, found.psn) == (b"payload", 16, 9, 8)


SENDS = [wire.FIRST, wire.MIDDLE, wire.LAST, wire.ONLY]
WITH_MORE = [wire.LAST_IMMEDIATE, wire.ONLY_IMMEDIATE, wire.LAST_INVALIDATE, wire.ONLY_INVALIDATE]


@pytest.mark.parametrize("opcode", SENDS + WITH_MORE)
def test_immediate_data_and_keys_are_no_payload(opcode) -> None:
    more = b"more" if opcode in WITH_MORE else b""
    found = read(packet(UP, opcode, 5, 6, more + b"payload"))
    assert (found.operation, found.payload, found.length) == (Operation.SEND, b"payload", 7)
    if more:
        assert parse(packet(UP, opcode, 5, 6, b"mor")).code is SkipCode.MALFORMED


@pytest.mark.parametrize(
    ("opcode", "operation"),
    [(6, Operation.OTHER), (11, Operation.OTHER), (12, Operation.OTHER), (19, Operation.OTHER), (20, Operation.OTHER),
     (13, Operation.RESPONSE), (14, Operation.RESPONSE), (15, Operation.RESPONSE), (16, Operation.RESPONSE)],
)  # fmt: skip
def test_other_operations_are_told_apart(opcode, operation) -> None:
    assert read(packet(UP, opcode, 5, 6, bytes(40))).operation is operation


@pytest.mark.parametrize(("syndrome", "psn"), [(0, 7), (0x1F, 7), (0x20, 6), (0x60, 6), (0x63, 6)])
def test_acknowledgements_name_what_is_expected_next(syndrome, psn) -> None:
    found = read(wire.acknowledgement(UP, 5, 6, syndrome))
    assert (found.operation, found.psn) == (Operation.ACKNOWLEDGE, psn)
    assert read(wire.acknowledgement(UP, 5, 2**24 - 1)).psn == 0


def test_management_names_both_queue_pairs_and_where_they_begin() -> None:
    request = wire.management(UP, wire.REQUEST, local=1, queue_pair=0x111111, psn=0xABCDEF)
    assert parse(request) == CmMessage(CmKind.REQUEST, *ENDS, 1, 0, 0x111111, 0xABCDEF)
    reply = wire.management(DOWN, wire.REPLY, local=2, remote=1, queue_pair=0x222222, psn=0x000001)
    assert parse(reply) == CmMessage(CmKind.REPLY, *ENDS[::-1], 2, 1, 0x222222, 1)
    found = parse(wire.management(UP, wire.DISCONNECT, local=1, remote=2, queue_pair=0x222222))
    assert found._replace(psn=0) == CmMessage(CmKind.DISCONNECT, *ENDS, 1, 2, 0x222222, 0)
    assert parse(wire.management(UP, wire.READY, local=1, remote=2)).code is SkipCode.NOT_TCP
    assert parse(packet(UP, wire.UD_SEND, 1, 5, bytes(264))).code is SkipCode.NOT_TCP
    for cut in range(28 + 8 + 12 + 8 + 24, len(request) - 200, 9):
        assert parse(request[:cut], len(request)).code is SkipCode.CUT


@pytest.mark.parametrize("opcode", [0x20, 0x24, 0x40, 0x64, 0x80, 0xFF])
def test_unknown_operations_are_passed_over_and_counted(opcode) -> None:
    found = parse(packet(UP, opcode, 5, 6, bytes(40)))
    assert found == (SkipCode.NOT_SEND, f"RoCEv2 operation {opcode:#04x}: only SENDs of reliable connections are read")


def test_congestion_notifications_and_other_ports_are_nothing() -> None:
    assert parse(packet(UP, wire.CONGESTION, 5, 0, bytes(16))).code is SkipCode.NOT_TCP
    data = bytearray(packet(UP, wire.ONLY, 5, 6, b"payload"))
    data[22:24] = (4792).to_bytes(2, "big")
    assert parse(bytes(data)) == (SkipCode.NOT_TCP, "UDP")


def test_honest_snapshot_cuts_keep_what_was_captured() -> None:
    data = packet(UP, wire.ONLY, 5, 6, b"payload")
    assert len(data) == 20 + 8 + 12 + 8 + 4
    for cut in range(40, len(data) + 1):
        found = read(data[:cut], len(data))
        assert (found.payload, found.length) == (b"payload"[: cut - 40], 7)
    for cut in range(24, 40):
        assert parse(data[:cut], len(data)).code is SkipCode.CUT


def test_a_length_that_cannot_be_is_malformed() -> None:
    for length, expected in ((23, "24 to 32"), (33, "24 to 32")):
        data = bytearray(packet(UP, wire.ONLY, 5, 6, b"payload"))
        data[24:26] = length.to_bytes(2, "big")
        found = parse(bytes(data))
        assert found == (SkipCode.MALFORMED, f"UDP length of RoCEv2: expected {expected}, got {length}")
    data = bytearray(packet(UP, wire.ONLY, 5, 6))
    data[29] = 0x10  # a byte of padding, where there is none
    assert parse(bytes(data)).code is SkipCode.MALFORMED


@given(st.binary(max_size=80), st.integers(0, 100))
def test_one_family_any_bytes_give_a_packet_or_a_reason(tail, original) -> None:
    for data in (tail, bytes.fromhex("c35012b7") + tail, bytes.fromhex("c35012b700000000") + tail):
        found = parse_rocev2(*ENDS, memoryview(data), max(original, len(data)))
        if isinstance(found, RocePacket):
            assert 0 <= len(found.payload) <= found.length
