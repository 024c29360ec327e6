"""Self-test: each planted bug is found, from valid vectors alone and in few inputs, by the harness that says so."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

from fuzz.engines.own import fuzz
from fuzz.harnesses import HARNESSES, one_frame
from fuzz.seeds import seeds
from pp1wire.capture.pcapng import PcapngReader, Truncated
from pp1wire.protocol.endpoint import Endpoint
from pp1wire.protocol.slots import Lease
from pp1wire.protocol.verifier import Verifier
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker_messages import WorkerMessages
from pp1wire.wire import RemoteProtocolError, decode, encode_rows, frames, header, messages, rows
from pp1wire.wire._schema_v2 import Q_TOTAL, CommitKind, ResetReason


def skips_a_body_checksum(patch):
    patch.setattr(messages, "check_body_checksum", lambda frame: None)


def skips_a_header_checksum(patch):
    real = header.header_checksum
    patch.setattr(
        header, "header_checksum", lambda data: real(data) if data[6] != 2 else int.from_bytes(data[56:64], "little")
    )


def _sparse_rule(patch, lenient):
    real = rows.sparse_counts_are_canonical
    for module in (rows, encode_rows):
        patch.setattr(module, "sparse_counts_are_canonical", lambda *a: real(*a) or lenient(real, *a))


def accepts_unsorted_ids(patch):
    def lenient(real, ids, counts, entries, tokens, vocab):
        ids, counts = ids.copy(), counts.copy()
        for row, used in enumerate(np.minimum(entries, ids.shape[1]).tolist()):
            order = np.argsort(ids[row, :used], kind="stable")
            ids[row, :used], counts[row, :used] = ids[row, order], counts[row, order]
        return real(ids, counts, entries, tokens, vocab)

    _sparse_rule(patch, lenient)


def accepts_another_mass(patch):
    def lenient(real, ids, counts, entries, tokens, vocab):
        counts = counts.copy()
        counts[:, 0] += Q_TOTAL - counts.sum(axis=1, dtype=np.int64).astype(np.int32)
        return real(ids, counts, entries, tokens, vocab)

    _sparse_rule(patch, lenient)


def accepts_minus_zero(patch):
    real = rows.dense_row_counts
    patch.setattr(rows, "dense_row_counts", lambda q, *rest: real(q + np.float32(0), *rest))
    sparse = rows.counts_from_q
    patch.setattr(rows, "counts_from_q", lambda q: sparse(q + np.float32(0)))


def ignores_padding(patch):
    real = rows.dense_row_counts

    def lenient(q, counts, scratch, token, vocab):
        q = q.copy()
        q[vocab:] = 0
        return real(q, counts, scratch, token, vocab)

    patch.setattr(rows, "dense_row_counts", lenient)


def ignores_reserved_bytes(patch):
    real = messages.check_fixed_fields

    def lenient(frame):
        data = bytearray(frame.data)
        if data[6] == 2:
            data[70:72] = bytes(2)
        return real(type(frame)(frame.header, memoryview(data), frame.offset, frame.source, frame.start))

    patch.setattr(messages, "check_fixed_fields", lenient)


def ignores_extra_data(patch):
    def lenient(data, agreement):
        size = 64 + int.from_bytes(data[16:20], "little")
        return decode(data[:size] if len(data) > size else data, agreement)

    patch.setattr(one_frame, "decode", lenient)


def lets_a_struct_error_out(patch):
    patch.setattr(header, "_check_size", lambda *a: None)


def accepts_a_sequence_number_twice(patch):
    real = frames.check_header
    patch.setattr(frames, "check_header", lambda data, offset, agreement, sequence: real(data, offset, agreement, None))


def waits_for_frames_that_it_will_refuse(patch):
    real = header._check_size

    def late(checked, offset, agreement):
        if agreement is None or checked.body_length < 1 << 16:
            real(checked, offset, agreement)

    patch.setattr(header, "_check_size", late)


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
    (skips_a_body_checksum, "one_frame", 400, "body checksum"),
    (skips_a_header_checksum, "one_frame", 600, "header checksum|second spelling"),
    (accepts_unsorted_ids, "one_frame", 5000, "wrong ids"),
    (accepts_another_mass, "one_frame", 1500, "wrong (mass|q)"),
    (accepts_minus_zero, "one_frame", 1500, "wrong (q|padding)"),
    (ignores_padding, "one_frame", 1500, "wrong padding"),
    (ignores_reserved_bytes, "one_frame", 1500, "reserved_1"),
    (ignores_extra_data, "one_frame", 400, "wrong body_length|second spelling"),
    (lets_a_struct_error_out, "one_frame", 400, "unpack"),
    (accepts_a_sequence_number_twice, "stream_in_chunks", 600, "frames numbered"),
    (waits_for_frames_that_it_will_refuse, "stream_in_chunks", 1500, "bytes are held"),
    (keeps_what_was_consumed, "stream_in_chunks", 100, "bytes are held"),
    (tells_errors_by_chunk, "stream_in_chunks", 200, "differ from one"),
    (skips_the_ticket, "negotiated_session", 2500, "its ticket draws"),
    (takes_stale_for_fresh, "negotiated_session", 2500, "or stale ones"),
    (a_stale_answer_ends_the_connection, "negotiated_session", 100, "left the connection"),
    (a_refused_command_changes_something, "negotiated_session", 1000, "a refused STEP changed"),
    (goes_on_behind_an_error, "negotiated_session", 200, "expected a connection in state|goes on"),
    (a_reset_keeps_the_old_prefix, "negotiated_session", 600, "the worker holds|another prefix"),
    (a_discard_reaches_other_sessions, "negotiated_session", 2500, "changed by messages of others"),
    (a_row_lands_in_another_rows_place, "negotiated_session", 100, "other rows than were received"),
    (accepts_commits_of_other_prefixes, "negotiated_session", 1500, "a COMMIT of"),
    (a_short_packet_block_raises, "capture", 600, "unpack_from"),
    (a_cut_file_is_not_told, "capture", 100, "is truncated at"),
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
