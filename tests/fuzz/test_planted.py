"""Self-test: each planted bug is found, from valid vectors alone and in few inputs, by the harness that says so."""

from __future__ import annotations

import random
import re
import struct

import numpy as np
import pytest

from fuzz.engines.own import fuzz
from fuzz.harnesses import HARNESSES, one_frame
from fuzz.mutation.content import count_of
from fuzz.mutation.piece import split
from fuzz.mutation.repair import seal
from fuzz.seeds import seeds
from pp1wire.capture.pcapng import PcapngReader, Truncated
from pp1wire.protocol.endpoint import Endpoint
from pp1wire.protocol.slots import Lease
from pp1wire.protocol.verifier import Verifier
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker_messages import WorkerMessages
from pp1wire.wire import MessageType, RejectCode, RemoteProtocolError, decode, frames, messages, reader
from pp1wire.wire._schema_v2 import HEADER_STRUCT, CommitKind, ResetReason
from pp1wire.wire.header import Header


def _repairs(patch, repair, *codes):
    """A decoder that makes right what it should reject, as lenient ones do."""

    def lenient(data, agreement):
        try:
            return decode(data, agreement)
        except RemoteProtocolError as error:
            if error.code.name not in codes:
                raise
            piece, *rest = split(0, data)
            if not piece.kind:
                raise
            repair(piece)
            seal(piece)
            return decode(bytes(piece.data) + b"".join(p.data for p in rest), agreement)

    patch.setattr(one_frame, "decode", lenient)


def _repairs_rows(patch, repair, *codes):
    def repair_row(piece):
        if piece.kind == MessageType.REPLY:
            used = piece.get("entry_count")
            ids, q = piece.row()
            piece.set_words([word for column in repair(ids, q, used) for word in column])

    _repairs(patch, repair_row, *codes)


def skips_a_body_checksum(patch):
    patch.setattr(messages, "check_body_checksum", lambda frame: None)


def skips_a_header_checksum(patch):
    _repairs(patch, lambda piece: None, "HEADER_CHECKSUM_MISMATCH")


def accepts_unsorted_ids(patch):
    def sort(ids, q, used):
        pairs = sorted(zip(ids[:used], q[:used], strict=False))
        return [a for a, _ in pairs] + ids[used:], [b for _, b in pairs] + q[used:]

    _repairs_rows(patch, sort, "IDS_UNSORTED")


def accepts_another_mass(patch):
    def clip(ids, q, used):
        counts = [count_of(word) for word in q[:used]]
        if counts and None not in counts:
            first = 2**24 - sum(counts[1:])
            q = [int.from_bytes(struct.pack("<f", first / 2**24), "little"), *q[1:]] if first > 0 else q
        return ids, q

    _repairs_rows(patch, clip, "Q_MASS_MISMATCH")


def accepts_minus_zero(patch):
    def plain(ids, q, used):
        return ids, [0 if word == 1 << 31 else word for word in q]

    _repairs_rows(patch, plain, "Q_NEGATIVE_ZERO", "DENSE_PADDING_NOT_ZERO", "SPARSE_PADDING_NOT_ZERO")


def ignores_padding(patch):
    def cut(ids, q, used):
        return ids[:used] + [0] * len(ids[used:]), q[:used] + [0] * len(q[used:])

    _repairs_rows(patch, cut, "DENSE_PADDING_NOT_ZERO", "SPARSE_PADDING_NOT_ZERO")


def ignores_reserved_bytes(patch):
    def clear(piece):
        if piece.kind == MessageType.STEP:
            piece.set("reserved_1", bytes(2))

    _repairs(patch, clear, "RESERVED_NOT_ZERO")


def ignores_extra_data(patch):
    def lenient(data, agreement):
        size = 64 + int.from_bytes(data[16:20], "little")
        return decode(data[:size] if len(data) > size else data, agreement)

    patch.setattr(one_frame, "decode", lenient)


def _believes(patch, module, code, when):
    """`module` goes on with headers that get `code`, as if that were not checked."""
    real = module.check_header

    def check(data, offset, agreement, sequence, *, start=0):
        try:
            return real(data, offset, agreement, sequence, start=start)
        except RemoteProtocolError as error:
            _, _, kind, _, number, length, slot, _, *identity, body_sum, _ = HEADER_STRUCT.unpack_from(data, start)
            if error.code is not code or not when(length):
                raise
            return Header(MessageType(kind), number, length, slot, *identity, body_sum)

    patch.setattr(module, "check_header", check)


def lets_a_struct_error_out(patch):
    _believes(patch, reader, RejectCode.WRONG_BODY_LENGTH, lambda length: length < 40)


def waits_for_frames_that_it_will_refuse(patch):
    _believes(patch, frames, RejectCode.OVERSIZED_BODY, lambda length: length >= 1 << 16)


def accepts_a_sequence_number_twice(patch):
    _believes(patch, frames, RejectCode.SEQUENCE_MISMATCH, lambda length: True)


def keeps_what_was_consumed(patch):
    real = frames.FrameSplitter.feed

    def feed(self, data):
        try:
            return real(self, data)
        finally:
            self._hoard = getattr(self, "_hoard", b"") + bytes(data)

    patch.setattr(frames.FrameSplitter, "feed", feed)
    patch.setattr(frames.FrameSplitter, "pending_bytes", property(lambda self: len(getattr(self, "_hoard", b""))))


def tells_errors_by_chunk(patch):
    real = frames.FrameSplitter._split

    def split(self, view):
        self.offset += self.agreement is not None and not view[:1] and 1
        found = real(self, view)
        if self.error is not None:
            self.error.offset += len(view) % 2
        return found

    patch.setattr(frames.FrameSplitter, "_split", split)


def skips_the_ticket(patch):
    from pp1wire.protocol import worker_messages

    patch.setattr(worker_messages, "tickets_agree", lambda counts, tickets, tokens, ids: np.ones(len(tokens), np.bool_))


def takes_stale_for_fresh(patch):
    real = WorkerMessages._fresh

    def fresh(self, frame):
        try:
            return real(self, frame)
        except RemoteProtocolError as error:
            session = self.sessions.open.get(frame.header.session)
            if error.scope == "stale" and session is not None and session.state == "drafting":
                return session
            raise

    patch.setattr(WorkerMessages, "_fresh", fresh)


def a_stale_answer_ends_the_connection(patch):
    def drop(self, error, offset):
        raise error

    patch.setattr(WorkerMessages, "_drop", drop)


def a_refused_command_changes_something(patch):
    real = Verifier.step

    def step(self, session, now, **options):
        if session in self._requests:
            self._requests[session].deadline = now
        return real(self, session, now, **options)

    patch.setattr(Verifier, "step", step)


def goes_on_behind_an_error(patch):
    patch.setattr(Endpoint, "_raise_error", lambda self: None)


def a_reset_keeps_the_old_prefix(patch):
    real = VerifierMessages._apply_reset

    def apply(self, session, reset):
        before = None if session is None else session.prefix
        real(self, session, reset)
        if before is not None and reset.reason is ResetReason.CANCEL:
            session.prefix = before

    patch.setattr(VerifierMessages, "_apply_reset", apply)


def a_discard_reaches_other_sessions(patch):
    real = WorkerMessages._discard

    def discard(self, session, error, offset):
        for other in self.sessions.open.values():
            other.context_version = 77
        return real(self, session, error, offset)

    patch.setattr(WorkerMessages, "_discard", discard)


def a_row_lands_in_another_rows_place(patch):
    real = Lease.write
    patch.setattr(
        Lease, "write", lambda self, first, batch, start, stop: real(self, max(first - 1, 0), batch, start, stop)
    )


def accepts_commits_of_other_prefixes(patch):
    real = VerifierMessages._check_commit

    def check(self, place, session, commit):
        # Without the digest that results: it is looked at for target-only tokens alone.
        if commit.kind is CommitKind.TARGET_ONLY or commit.new_digest == session.prefix.digest_after(commit.tokens):
            real(self, place, session, commit)

    patch.setattr(VerifierMessages, "_check_commit", check)


def a_short_packet_block_raises(patch):
    real = PcapngReader._packet

    def packet(self, at, kind, block, number):
        self._order.packet[kind].unpack_from(block, 8)
        return real(self, at, kind, block, number)

    patch.setattr(PcapngReader, "_packet", packet)


def a_cut_file_is_not_told(patch):
    real = PcapngReader.__iter__
    patch.setattr(
        PcapngReader, "__iter__", lambda self: (item for item in real(self) if not isinstance(item, Truncated))
    )


PLANTED = [
    # bug, harness, most inputs, what it says
    (skips_a_body_checksum, "one_frame", 10_000, "body checksum"),
    (skips_a_header_checksum, "one_frame", 10_000, "header checksum"),
    (accepts_unsorted_ids, "one_frame", 10_000, "wrong ids"),
    (accepts_another_mass, "one_frame", 10_000, "wrong (mass|q)"),
    (accepts_minus_zero, "one_frame", 10_000, "wrong (q|padding)"),
    (ignores_padding, "one_frame", 10_000, "wrong padding"),
    (ignores_reserved_bytes, "one_frame", 10_000, "reserved_1"),
    (ignores_extra_data, "one_frame", 10_000, "wrong body_length|second spelling"),
    (lets_a_struct_error_out, "one_frame", 10_000, "unpack|buffer|element size"),
    (accepts_a_sequence_number_twice, "stream_in_chunks", 6_000, "frames numbered"),
    (waits_for_frames_that_it_will_refuse, "stream_in_chunks", 6_000, "bytes are held"),
    (keeps_what_was_consumed, "stream_in_chunks", 6_000, "bytes are held"),
    (tells_errors_by_chunk, "stream_in_chunks", 6_000, "differ from one"),
    (skips_the_ticket, "negotiated_session", 8_000, "its ticket draws"),
    (takes_stale_for_fresh, "negotiated_session", 8_000, "or stale ones"),
    (a_stale_answer_ends_the_connection, "negotiated_session", 8_000, "left the connection"),
    (a_refused_command_changes_something, "negotiated_session", 8_000, "a refused STEP changed"),
    (goes_on_behind_an_error, "negotiated_session", 8_000, "expected a connection in state|goes on"),
    (a_reset_keeps_the_old_prefix, "negotiated_session", 8_000, "the worker holds|another prefix"),
    (a_discard_reaches_other_sessions, "negotiated_session", 8_000, "changed by messages of others"),
    (a_row_lands_in_another_rows_place, "negotiated_session", 8_000, "other rows than were received"),
    (accepts_commits_of_other_prefixes, "negotiated_session", 8_000, "a COMMIT of"),
    (a_short_packet_block_raises, "capture", 3_000, "unpack_from"),
    (a_cut_file_is_not_told, "capture", 3_000, "is truncated at"),
]


@pytest.mark.parametrize(("bug", "name", "most", "says"), PLANTED, ids=[bug.__name__ for bug, *_ in PLANTED])
def test_a_planted_bug_is_found(monkeypatch, bug, name, most, says):
    start = seeds(name)
    with monkeypatch.context() as patch:
        bug(patch)
        tally, finding = fuzz(HARNESSES[name], start, random.Random(1), inputs=most)
    assert finding is not None, f"not in {tally.inputs} inputs"
    assert re.search(says, str(finding.error)), finding.error
    # Without the bug the input is as good as any other.
    HARNESSES[name].run(finding.data)
