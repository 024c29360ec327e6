"""Logs: a fixed set of events with fields, one for each discard, none with a user's content, and no flood."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pp1wire.net
from pp1wire.net import CapacityError, ConnectError, connect
from pp1wire.net.errors import _SHOWN, summary
from pp1wire.net.logs import EVENTS, FIELDS, KEYS, EventLog, RateLimit
from pp1wire.net.notice_log import NoticeLog
from pp1wire.protocol import Proposal, Role, RoundDiscarded
from pp1wire.sampling import proposal_seed, verification_seed
from pp1wire.wire import CompletionStatus, MessageType, RejectCode, RemoteProtocolError
from pp1wire.wire._schema_v2 import BODY_COLUMNS, BODY_FIELDS, HEADER_FIELDS
from tests.net.toys import (
    DraftToy,
    Markov,
    collect,
    honest,
    pair,
    puppet,
    raw,
    run,
    serving,
    terms,
    until,
)

ORDINARY = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def ours(caplog):
    return [r for r in caplog.records if r.name.startswith("pp1wire.")]


def events(caplog, name):
    return [r for r in ours(caplog) if r.event == name]


def fields(record):
    return {name: value for name, value in vars(record).items() if name not in ORDINARY}


def check_records(records):
    """Every record is what the table of events says, on one line."""
    for record in records:
        event = EVENTS[record.event]
        _, _, end = record.name.rpartition(".")
        assert record.name == f"pp1wire.net.{end}"
        assert end in event.ends.split(), record
        assert record.levelname in event.levels.split(), record
        assert set(fields(record)) - {"event"} <= set(event.fields.split()), record
        assert record.getMessage().isprintable()


# The table.


def test_every_event_of_the_code_is_in_the_table_and_every_one_of_the_table_is_in_the_code():
    told = set()
    for path in Path(pp1wire.net.__file__).parent.glob("*.py"):
        text = path.read_text(encoding="utf-8")
        told |= set(re.findall(r"tell\(\s*logging\.\w+,\s*\"(\w+)\"", text))
        told |= set(re.findall(r"tell\(\s*level,\s*\"(\w+)\"", text))
        assert path.name == "logs.py" or "getLogger" not in text
    assert told | {"suppressed"} == set(EVENTS)


def test_no_field_has_a_name_that_logging_uses_itself():
    assert not set(FIELDS) & ORDINARY
    assert set(FIELDS) == {"event"} | {name for event in EVENTS.values() for name in event.fields.split()}


# Ends that log.


def test_an_ordinary_run_is_told_in_few_lines_and_all_at_debug(caplog):
    async def main():
        async with pair() as (server, client):
            await collect(client)
            address = str(server.address)
        await until(lambda: server.connections == 0)
        return address

    with caplog.at_level(logging.DEBUG, "pp1wire"):
        address = run(main())
    check_records(ours(caplog))
    told = Counter((r.name.rpartition(".")[2], r.event, r.levelname) for r in ours(caplog))
    assert told == {
        ("worker", "serving", "INFO"): 1,
        ("worker", "connection_opened", "DEBUG"): 1,
        ("worker", "agreed", "INFO"): 1,
        ("verifier", "agreed", "INFO"): 1,
        ("worker", "reset", "DEBUG"): 2,
        ("verifier", "reset", "DEBUG"): 2,
        ("verifier", "connection_closed", "DEBUG"): 1,
        ("worker", "connection_closed", "DEBUG"): 1,
        ("worker", "stopped", "INFO"): 1,
    }
    (serving_, *_), (agreed, _) = events(caplog, "serving"), events(caplog, "agreed")
    assert (serving_.address, agreed.representation) == (address, "sparse")
    assert {r.reason for r in events(caplog, "reset")} == {"open", "close"}


class Faulty:
    """A worker in all its faults, one after another; the ninth answer ends the connection."""

    def __init__(self):
        self.steps = 0

    async def __call__(self, core, step, writer):
        self.steps += 1
        kind = self.steps % 9
        if kind == 1:
            core.fail(step, CompletionStatus.CAPACITY)
        elif kind == 2:
            return  # too late, whatever comes
        elif kind == 3:
            honest(core, step)
            data = bytearray(core.data_to_send())
            data[100] ^= 1
            writer.write(data)
        elif kind == 8:
            honest(core, step)
            data = bytearray(core.data_to_send())
            data[8] ^= 1
            writer.write(data)
        elif kind == 0:
            writer.transport.abort()
        else:
            honest(core, step)


def test_each_discard_and_each_drop_is_one_event_with_its_identity_and_reason(caplog):
    async def main():
        async with puppet(Faulty()) as (address, _):
            client = connect(address, terms(), step_timeout=0.1, reconnect_delay=0.001)
            client.log = EventLog("verifier", limit=10**6)
            async with client:
                await collect(client, max_tokens=80)
                async with client.request([1]) as request:
                    while not isinstance(await request.propose(), Proposal):
                        request.target_only(3)
                        await asyncio.sleep(0.005)  # not connected is said at once
            # The request ended with its proposal unused.
        return client.counters(), client.log

    with caplog.at_level(logging.DEBUG, "pp1wire"):
        counters, log = run(main())
    check_records(ours(caplog))
    told = Counter(r.reason for r in events(caplog, "discard"))
    assert told == {reason: n for reason, n in counters["discards"].items() if n}
    assert {"completion_capacity", "deadline", "body_checksum_mismatch", "connection_lost", "cancelled"} == set(told)
    assert log.suppressed == 0
    dropped = Counter(r.reason for r in events(caplog, "dropped"))
    assert dropped == {reason: n for reason, n in counters["dropped"].items() if n}
    assert dropped
    # The first of a connection is a warning; there was one on each.
    assert {r.levelname for r in events(caplog, "discard") if r.reason == "completion_capacity"} == {"WARNING"}
    (reject, *_) = [r for r in events(caplog, "discard") if r.reason == "body_checksum_mismatch"]
    assert (reject.levelname, reject.code, reject.scope) == ("WARNING", reject.reason, "proposal")
    assert (reject.path, reject.rows, reject.depth) == ("header.body_checksum", 0, 5)
    assert reject.offset > 0
    assert reject.generation >= 1
    failed = events(caplog, "connection_failed")
    assert {(r.code, r.scope) for r in failed} == {("header_checksum_mismatch", "connection")}
    # The connection, and what it was lost for.
    lost = events(caplog, "connection_lost")
    assert {r.levelname for r in lost} == {"WARNING"}
    assert any("header_checksum_mismatch" in r.getMessage() for r in lost)


def test_a_worker_tells_of_rounds_that_verifiers_gave_up_and_of_answers_that_came_too_late(caplog):
    class Slow(DraftToy):
        def logits(self, prefix, drafted):
            time.sleep(0.02)
            return super().logits(prefix, drafted)

    async def main():
        async with pair(model=Slow(), step_timeout=0.05) as (server, client):
            await collect(client, max_tokens=3)
            await until(lambda: server.counters()["discards"]["verifier_discarded"] == 3)
        await until(lambda: server.connections == 0)
        return server.counters()

    with caplog.at_level(logging.DEBUG, "pp1wire"):
        counters = run(main())
    check_records(ours(caplog))
    at_worker = [r for r in events(caplog, "discard") if r.name.endswith("worker")]
    assert [(r.reason, r.levelname) for r in at_worker] == [("verifier_discarded", "INFO")] * 3
    assert len(events(caplog, "dropped")) == sum(counters["dropped"].values())
    at_verifier = [r for r in events(caplog, "discard") if r.name.endswith("verifier")]
    assert [(r.generation, r.reason) for r in at_verifier] == [(n, "deadline") for n in (1, 2, 3)]
    assert [(r.session, r.generation) for r in at_worker] == [(r.session, r.generation) for r in at_verifier]


def test_model_errors_are_told_with_their_round_and_counted_once_as_discards(caplog):
    class Full(DraftToy):
        def logits(self, prefix, drafted):
            raise CapacityError("the cache is full\x1b[31m")

    async def main():
        async with pair(model=Full()) as (_, client):
            await collect(client, max_tokens=4)

    with caplog.at_level(logging.DEBUG, "pp1wire"):
        run(main())
    check_records(ours(caplog))
    failed = events(caplog, "draft_failed")
    assert [(r.generation, r.reason, r.levelname) for r in failed] == [(n, "capacity", "WARNING") for n in (1, 2, 3, 4)]
    assert "\x1b" not in failed[0].getMessage()
    assert [r.levelname for r in events(caplog, "discard") if r.name.endswith("worker")] == ["DEBUG"] * 4
    assert [r.exc_info[0] for r in events(caplog, "draft_traceback")] == [CapacityError] * 4


def test_each_connection_that_is_not_taken_is_told_with_its_reason(caplog):
    async def main():
        async with serving(max_connections=1, hello_timeout=0.1) as server:
            async with connect(server.address, terms()):
                with pytest.raises(ConnectError):
                    await connect(server.address, terms()).connect()
                await until(lambda: server.connections == 1)
                _, idle = await asyncio.open_connection(server.address.host, server.address.port)
                await until(lambda: server.connections == 2)
                await raw(server, b"GET")
                await until(lambda: server.connections == 1)
                idle.close()
            await until(lambda: server.connections == 0)
            with pytest.raises(ConnectError):
                await connect(server.address, terms(draft_revision="r2")).connect()
            await raw(server, b"GET / HTTP/1.1\r\n\r\n" * 9)
            await until(lambda: server.connections == 0)

    with caplog.at_level(logging.DEBUG, "pp1wire"):
        run(main())
    check_records(ours(caplog))
    told = [(r.event, getattr(r, "reason", None) or getattr(r, "code", None)) for r in ours(caplog)]
    for expected in (
        ("offer_refused", "capacity"), ("connection_refused", "too_many_connections"), ("connection_closed", "no_hello"),
        ("offer_refused", "draft"), ("connection_failed", "bad_magic"), ("connect_failed", None),
    ):  # fmt: skip
        assert expected in told
    # Each connection that was opened has one end.
    ends = [r for r in ours(caplog) if r.name.endswith("worker") and r.event.startswith("connection_")]
    opened = Counter(r.peer for r in ends if r.event == "connection_opened")
    over = Counter(r.peer for r in ends if r.event not in ("connection_opened", "connection_refused"))
    assert opened == over


# Nothing of a user's.


def test_values_are_told_of_fields_that_are_no_users_content_alone():
    """Every field of the schema is either one whose values may be logged, or one of these."""
    secret = {
        "token", "tokens", "ids", "q", "prefix_ids", "proposal_seed", "prefix_digest", "new_digest", "rows_checksum",
    }  # fmt: skip
    # What stands where magic, a checksum or zeros should is whatever the peer sent there, prompts among it.
    anything = {"magic", "body_checksum", "header_checksum", "reserved_1", "reserved_2"}
    paths = {f"header.{spec.name}" for spec in HEADER_FIELDS}
    for number, specs in BODY_FIELDS.items():
        names = [spec.name for spec in specs] + [column[0] for column in BODY_COLUMNS[number]]
        paths |= {f"{MessageType(number).name.lower()}.{name}" for name in names}
    hidden = {path for path in paths if path.split(".")[1] in secret | anything}
    assert paths - hidden == _SHOWN - {"frame"}
    for path in sorted(paths | {"reply.q[3]", "reset.prefix_ids[7]"}):
        error = RemoteProtocolError(RejectCode.VALUE_OUT_OF_BOUNDS, offset=9, path=path, expected=71717, actual=81818)
        line = summary(error)
        assert ("71717" in line and "81818" in line) == (path in _SHOWN)
        assert line.startswith(f"value_out_of_bounds at byte 9, {path}")


@pytest.mark.parametrize("text", ["a\nb", "a\x1b[31mb", "a\u2028b", "a\rb", "x" * 5000])
def test_whatever_an_error_says_is_one_printable_line(text):
    line = summary(ValueError(text))
    assert line.isprintable()
    assert len(line) < 400


SENTINELS = [70001, 71003, 72005, 73007, 74009, 75011, 76013, 77015]
WIDE = {"vocab_size": 80_000, "max_support": 8}


class Marked(Markov):
    """Draws among a few ids that nothing else would log."""

    def __init__(self, noise):
        super().__init__(noise)
        self.noise = noise

    def row(self, position, last):
        row = np.full(80_000, -np.inf, np.float32)
        row[SENTINELS] = np.arange(8, dtype=np.float32) * 0.1 + self.noise * (position % 5)
        return row

    def logits(self, prefix, drafted):
        if isinstance(drafted, tuple):
            return self.row(len(prefix) + len(drafted), 0)
        return np.stack([self.row(len(prefix) + i, 0) for i in range(len(drafted) + 1)])


def test_no_line_of_a_run_with_faults_holds_a_token_a_seed_or_q(caplog):
    """At level DEBUG, every attribute of every record, from both ends."""

    async def spoils(core, step, writer):
        spoils.steps += 1
        toy, prefix = Marked(0.2), core.prefix_ids(step.session)
        from pp1wire.sampling import Key, draft_chain
        from pp1wire.wire import Completion, ReplyBatch, encode, encode_replies, rows_checksum

        key = Key(step.proposal_seed, step.generation, step.round, step.position)
        chain = draft_chain(
            lambda _, drafted: toy.logits(prefix, drafted), 1.0, key, depth=step.depth, top_k=step.support
        )
        spoils.q |= {float(np.float32(c / 2**24)) for _, counts in chain.rows for c in counts}
        tokens = chain.tokens.tolist()
        if spoils.steps % 4 == 0:
            core.reply(step, chain.tokens, chain.rows)
            return
        # Another token of the support than its ticket draws: checksums are right, so rules of content are reached.
        tokens[0] = next(t for t in SENTINELS if t != tokens[0])
        batch = ReplyBatch.from_rows(
            core.agreement, session=step.session, slot=step.slot, generation=step.generation, round=step.round,
            position=step.position, tokens=tokens, rows=chain.rows,
        )  # fmt: skip
        frames = encode_replies(batch, core.agreement, core._sequence)
        writer.write(frames)
        core._sequence += len(batch)
        sums = [int(s) for s in np.frombuffer(frames, "<u8").reshape(len(batch), -1)[:, 6]]
        completion = Completion(
            session=step.session, slot=step.slot, generation=step.generation, round=step.round, position=step.position,
            context_version=step.context_version, reply_bytes=len(frames), rows_checksum=rows_checksum(sums),
            status=CompletionStatus.OK, rows=step.depth,
        )  # fmt: skip
        writer.write(encode(completion, core.agreement, core._sequence))
        core._sequence += 1
        core._find(step)
        core._live.from_worker.discard(core._session(step.session))

    async def main():
        spoils.steps, spoils.q = 0, set()
        own = terms(**WIDE)
        async with puppet(spoils, own=[own]) as (address, _), connect(address, own) as client:
            await collect(client, (70001, 71003, 76013), target=Marked(0.0), root_seed=99, max_tokens=30)
            spoiled = client.counters()["discards"]["ticket_mismatch"]
        async with pair(model=Marked(0.3)) as (_, _), serving(model=Marked(0.3), own=own) as server:
            async with connect(server.address, own) as client:
                await collect(client, (70001, 71003), target=Marked(0.0), root_seed=99)
                await _breaks_rules_with_content(client)
        return spoiled

    with caplog.at_level(logging.DEBUG):
        assert run(main()) > 3
    check_records(ours(caplog))
    assert {"ticket_mismatch", "proposal_seed_changed"} <= {getattr(r, "code", None) for r in ours(caplog)}
    secrets = {*map(str, SENTINELS), *(repr(q) for q in spoils.q if q not in (0.0, 1.0))}
    for seed in (99, proposal_seed(99), verification_seed(99)):
        secrets |= {str(seed), f"{seed:x}"} if seed > 1000 else set()
    assert len(secrets) == 8 + 8 + 4
    for record in caplog.records:
        text = " ".join([logging.Formatter().format(record), *(str(v) for v in fields(record).values())])
        found = {s for s in secrets if re.search(rf"(?<![\d.]){re.escape(s)}(?!\d)", text)}
        assert not found, (found, text)


async def _breaks_rules_with_content(client):
    """A STEP with another seed: the worker's reject names both."""
    from dataclasses import replace

    from pp1wire.wire import encode

    async with client.request([70001], root_seed=99) as request:
        await request.propose()
        core, link = client._connection.core, client._connection.link
        (session,) = core._live.sessions.open.values()
        step = session.latest.step
        request.commit(0, pp1wire.wire.CommitKind.CORRECTION, [71003])
        client._connection.flush()
        wrong = replace(
            step, round=step.round + 1, position=step.position + 1, prefix_digest=session.prefix.digest(),
            proposal_seed=step.proposal_seed ^ 1,
        )  # fmt: skip
        link.send([encode(wrong, core.agreement, core._sequence)])
        await until(lambda: not client.is_connected)


# The limit.

KEY = st.tuples(st.sampled_from(["a", "b"]), st.sampled_from(["", "x", "y"]), st.sampled_from(["", "h1", "h2", "h3"]))


@given(st.lists(st.tuples(KEY, st.floats(0, 3)), max_size=80), st.integers(1, 4), st.integers(1, 6))
def test_what_passes_and_what_is_held_back_adds_up_in_bounded_memory(sequence, limit, keys):
    rate, now, passed, held, told = RateLimit(limit, 5.0, keys), 0.0, [], 0, 0
    for key, pause in sequence:
        now += pause
        told += sum(n for _, n, _ in rate.ended(now))
        if rate.admit(key, now):
            passed.append((key, now))
        else:
            held += 1
        assert len(rate) <= keys + 2
    told += sum(n for _, n, _ in rate.ended(float("inf")))
    assert held == told
    assert len(rate) == 0
    for key in {k for k, _ in passed}:
        times = [t for k, t in passed if k == key]
        # Its own window and the shared one: never more than both let through in any interval.
        for start in times:
            assert sum(start <= t < start + 5.0 for t in times) <= 4 * limit


def test_so_many_pass_in_an_interval_and_then_again():
    rate = RateLimit(2, 10.0, 8)
    key = ("discard", "deadline", "h")

    def at(now):
        return rate.ended(now), rate.admit(key, now, int(now))

    assert [at(n) for n in (0.0, 1.0, 2.0, 9.9)] == [([], True), ([], True), ([], False), ([], False)]
    assert rate.next_end() == 10.0
    assert at(10.0) == ([(key, 2, 9)], True)
    assert rate.next_end() is None
    assert rate.admit(("discard", "cancelled", "h"), 10.0)  # another reason has its own


def test_beyond_the_keys_told_apart_events_share_one_each():
    rate = RateLimit(1, 10.0, 2)
    assert rate.admit(("e", "", "a"), 0.0)
    assert rate.admit(("e", "", "b"), 0.0)
    assert rate.admit(("e", "", "c"), 0.0)
    assert not rate.admit(("e", "", "d"), 0.0)
    assert rate.admit(("f", "", "d"), 0.0)
    assert len(rate) == 4
    assert rate.ended(10.0) == [(("e", "", ""), 1, 0)]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_summary_says_how_many_were_not_told(caplog):
    clock = Clock()
    log = EventLog("worker", clock=clock, limit=2, interval=10.0)
    with caplog.at_level(logging.INFO, "pp1wire"):
        for n in range(5):
            log.tell(logging.INFO, "connection_lost", "connection lost", peer=f"10.0.0.1:{n}")
        log.tell(logging.DEBUG, "dropped", "not even counted at this level", peer="10.0.0.1:1")
        log.tell(logging.INFO, "connection_lost", "connection lost", peer="[::1]:7")
        clock.now = 10.0
        log.tell(logging.INFO, "connection_lost", "connection lost", peer="10.0.0.1:9")
        log.flush()
    check_records(ours(caplog))
    assert [r.getMessage() for r in ours(caplog)] == [
        "10.0.0.1:0: connection lost",
        "10.0.0.1:1: connection lost",
        "[::1]:7: connection lost",
        "10.0.0.1: connection_lost: suppressed=3 more lines of the last 10 s",
        "10.0.0.1:9: connection lost",
    ]
    (told,) = events(caplog, "suppressed")
    assert fields(told) == {
        "event": "suppressed", "peer": "10.0.0.1", "suppressed": 3, "suppressed_event": "connection_lost", "seconds": 10.0,
    }  # fmt: skip
    assert told.levelname == "INFO"
    assert log.suppressed == 3


def test_the_summary_comes_when_the_interval_ends_and_at_the_latest_with_the_end(caplog):
    async def main():
        log = EventLog("verifier", limit=1, interval=0.05)
        for _ in range(3):
            log.tell(logging.INFO, "discard", "x", peer="unix:/w", reason="deadline")
        await until(lambda: events(caplog, "suppressed"))
        for _ in range(2):
            log.tell(logging.INFO, "discard", "x", peer="unix:/w", reason="deadline")
        log.flush()
        assert log._timer is None

    with caplog.at_level(logging.INFO, "pp1wire"):
        run(main())
    assert [(r.suppressed, r.reason, r.peer) for r in events(caplog, "suppressed")] == [
        (2, "deadline", "unix:/w"), (1, "deadline", "unix:/w"),
    ]  # fmt: skip


def test_a_host_that_connects_over_and_over_does_not_flood_the_log_and_is_still_counted(caplog):
    async def main():
        async with serving(max_connections=64) as server:
            for _ in range(15):
                await asyncio.gather(*(raw(server, b"\0" * 64, shut=True) for _ in range(10)))
                await until(lambda: server.connections == 0)
        return server.counters()["failures"]["bad_magic"], server.log.suppressed

    with caplog.at_level(logging.DEBUG, "pp1wire"):
        failures, suppressed = run(main())
    assert failures == 150
    assert len(events(caplog, "connection_failed")) == 10
    assert len(ours(caplog)) < 40
    held = {r.suppressed_event: r.suppressed for r in events(caplog, "suppressed")}
    assert held["connection_failed"] == 140
    assert sum(held.values()) == suppressed


def test_a_peer_of_many_addresses_meets_the_bound_of_keys(caplog):
    log = EventLog("worker", clock=Clock())
    with caplog.at_level(logging.INFO, "pp1wire"):
        for n in range(4000):
            log.tell(
                logging.WARNING, "connection_failed", "closed", peer=f"10.{n >> 8}.{n & 255}.1:5", code="bad_magic"
            )
    assert len(ours(caplog)) == KEYS + 10
    assert log.suppressed == 4000 - KEYS - 10


def test_a_reject_of_a_completion_is_told_as_the_broken_rule_that_it_is(caplog):
    """Its code begins like the reasons of workers that give up, which are told differently."""
    code = RejectCode.COMPLETION_ROWS_MISMATCH
    error = RemoteProtocolError(code, offset=9, path="completion.rows", expected=5, actual=4)
    watch = NoticeLog(EventLog("verifier"), Role.VERIFIER, lambda: "h:1")
    with caplog.at_level(logging.DEBUG, "pp1wire"):
        for _ in range(2):
            watch(RoundDiscarded(1, 0, 1, 1, 3, 5, 4, code.name.lower(), error))
    check_records(ours(caplog))
    text = "round discarded: completion_rows_mismatch at byte 9, completion.rows: expected 5, got 4 (proposal scope)"
    expected = ("WARNING", f"h:1: session 1 generation 1 round 1: {text}")
    assert [(r.levelname, r.getMessage()) for r in ours(caplog)] == [expected] * 2
