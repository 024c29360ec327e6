"""Bugs, each put into the real classes by a switch: what a hurried change could do to them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import xxhash

import pp1wire.protocol.ranks
import pp1wire.protocol.worker_messages
from pp1wire.errors import LocalProtocolError
from pp1wire.protocol import SessionState, Verifier
from pp1wire.protocol.counters import DEADLINE, Counters
from pp1wire.protocol.session import OpenRound, Sessions
from pp1wire.protocol.slots import Lease, _Half
from pp1wire.protocol.verifier_messages import VerifierMessages
from pp1wire.protocol.worker import Worker
from pp1wire.protocol.worker_messages import WorkerMessages
from pp1wire.sampling.rank_group import RankGroup, RanksLost
from pp1wire.wire import MessageType, Reset, ResetReason, decode_frame

__all__ = ["PLANTED", "Planted"]

PLANTED: list[Planted] = []


@dataclass(frozen=True)
class Planted:
    """`plant(monkeypatch)` puts it in; `found_by` are the invariants that it breaks, in whatever order runs meet them."""

    name: str
    plant: Callable
    found_by: frozenset


def planted(name, *found_by):
    def register(plant):
        PLANTED.append(Planted(name, plant, frozenset(found_by)))
        return plant

    return register


@planted("freshness check skipped", "validated", "paired", "blame")
def freshness_skipped(patch):
    fresh = WorkerMessages._fresh

    def any_round(self, frame):
        session = self.sessions.open.get(frame.header.session)
        return session if session and session.state is SessionState.DRAFTING else fresh(self, frame)

    patch.setattr(WorkerMessages, "_fresh", any_round)


@planted("slot returned while a consumer holds it", "slots")
def slot_returned_while_held(patch):
    patch.setattr(_Half, "free", property(lambda self: not self.owned))


@planted("generation not raised on a new connection", "rising")
def generation_not_raised(patch):
    opened = Verifier.open

    def from_one(self, prefix_ids, proposal_seed, context_version=0, *, generation=1):
        return opened(self, prefix_ids, proposal_seed, context_version)

    patch.setattr(Verifier, "open", from_one)


@planted("digests not compared", "committed")
def digests_not_compared(patch):
    checked = VerifierMessages._check_commit

    def trusting(self, place, session, commit):
        own = {"prefix_digest": session.prefix.digest(), "new_digest": session.prefix.digest_after(commit.tokens)}
        checked(self, place, session, replace(commit, **own))

    patch.setattr(VerifierMessages, "_check_commit", trusting)


@planted("tickets not checked", "validated", "paired")
def tickets_not_checked(patch):
    def all_agree(counts, tickets, tokens, ids):
        return np.ones(len(tokens), np.bool_)

    patch.setattr(pp1wire.protocol.worker_messages, "tickets_agree", all_agree)


@planted("a repeated COMMIT is applied again", "committed")
def commit_applied_twice(patch):
    judge = VerifierMessages.judge

    def forgiving(self, frame):
        header, session = frame.header, self.sessions.open.get(frame.header.session)
        again = header.message_type is MessageType.COMMIT and session is not None and header.round == session.round
        if again and session.state is SessionState.IDLE:
            commit = decode_frame(frame, self.sessions.agreement)
            session.prefix.extend(np.asarray(commit.tokens))
            return commit
        return judge(self, frame)

    patch.setattr(VerifierMessages, "judge", forgiving)


@planted("body checksum not seeded with the identity", "validated")
def checksum_not_seeded(patch):
    def unseeded(frame):
        return xxhash.xxh3_64_intdigest(frame[64:])

    # Rows are hashed many at a time, by other code.
    plain = SimpleNamespace(
        **(vars(xxhash) | {"xxh3_64_intdigest": lambda data, seed=0: xxhash.xxh3_64_intdigest(data)})
    )
    for name, module in list(sys.modules.items()):
        if name.startswith(("pp1wire.wire.", "fuzz.simulator.")) and name != "pp1wire.wire.checksums":
            for attribute, value in (("body_checksum", unseeded), ("xxhash", plain)):
                if hasattr(module, attribute) and not (name.startswith("fuzz") and attribute == "xxhash"):
                    patch.setattr(module, attribute, value)


@planted("COMPLETION accepted before all rows", "validated")
def completion_early(patch):
    checked = pp1wire.protocol.worker_messages._check_completion

    def of_any_depth(place, current, completion):
        checked(place, replace_depth(current, completion.rows), completion)

    def replace_depth(current, rows):
        step = replace(current.step, depth=max(rows, 1))
        return OpenRound(step, current.tokens, current.checksums, current.reply_bytes)

    patch.setattr(pp1wire.protocol.worker_messages, "_check_completion", of_any_depth)


@planted("rows of the round before a RESET are kept", "validated", "refused")
def rows_outlive_reset(patch):
    applied = VerifierMessages._apply_step
    left = {}

    def with_leftovers(self, session, step):
        applied(self, session, step)
        old = left.get(id(session))
        if old is not None and old.tokens:
            session.current.tokens += old.tokens
            session.current.checksums += old.checksums
            session.current.reply_bytes = old.reply_bytes

    def reset(self, session, message):
        if session is not None and session.state is SessionState.DRAFTING:
            left[id(session)] = session.current
        resets(self, session, message)

    resets = VerifierMessages._apply_reset
    patch.setattr(VerifierMessages, "_apply_step", with_leftovers)
    patch.setattr(VerifierMessages, "_apply_reset", reset)


@planted("rows written where another row belongs", "paired")
def rows_misplaced(patch):
    write = Lease.write

    def one_by_one_from_the_end(self, first, batch, start, stop):
        write(self, first, batch, start, stop)
        if stop - start > 1:
            write(self, first, batch, stop - 1, stop)
            self._entries.pop()

    patch.setattr(Lease, "write", one_by_one_from_the_end)


@planted("verdicts of ranks not compared", "ranks")
def verdicts_not_compared(patch):
    judge = pp1wire.protocol.ranks._judge

    def only_whether_there_is_one(votes):
        settles = (votes[:, 0] == pp1wire.protocol.ranks._SETTLE).all() and (votes[:, 1] == 0).all()
        return judge(np.repeat(votes[:1], len(votes), axis=0)) if settles else judge(votes)

    patch.setattr(pp1wire.protocol.ranks, "_judge", only_whether_there_is_one)


@planted("a rank decides by what it heard itself", "ranks")
def no_register(patch):
    def alone(self, vote, judge):
        self._number += 1
        try:
            votes = self.words(self._number, *vote)
        except RanksLost:
            return "rank_lost"
        return judge(votes[:, 1:])

    patch.setattr(RankGroup, "agree", alone)


@planted("a discard that is not counted", "counters")
def discard_not_counted(patch):
    count = Sessions.count_discard

    def but_deadlines(self, current, reason, error=None):
        if reason != DEADLINE:
            count(self, current, reason, error)

    patch.setattr(Sessions, "count_discard", but_deadlines)


@planted("accepted tokens counted once too often", "counters")
def accepted_miscounted(patch):
    patch.setattr(Counters, "count_accepted", lambda self, n: [self.accepted.__setitem__(0, self.accepted[0] + 1), n])


@planted("the deadline of a STEP never comes", "ends")
def no_deadline(patch):
    patch.setattr(Verifier, "next_deadline", lambda self: None)
    patch.setattr(Verifier, "check_deadlines", lambda self, now: [])


@planted("an answer for a generation that is gone is sent", "refused")
def late_answer_sent(patch):
    def found(self, step):
        session = self._session(step.session) if step.session in self.open_sessions else None
        return session if session and session.state is SessionState.DRAFTING else None

    patch.setattr(Worker, "_find", found)
    patch.setattr(Worker, "awaits", lambda self, step: step.session in self.open_sessions)


@planted("a worker that keeps closed sessions", "in step", "blame")
def close_ignored(patch):
    frames = Worker._frames

    def but_close(self, given, live, events):
        def closes(frame):
            message = decode_frame(frame, live.agreement)
            return isinstance(message, Reset) and message.reason is ResetReason.CLOSE

        frames(self, [f for f in given if not closes(f)], live, events)

    patch.setattr(Worker, "_frames", but_close)


@planted("a RESET does not begin the worker's rounds again", "in step", "blame")
def rounds_go_on(patch):
    frames = Worker._frames

    def with_old_rounds(self, given, live, events):
        for frame in given:
            session = live.sessions.open.get(frame.header.session)
            last = 0 if session is None else session.round
            frames(self, [frame], live, events)
            if frame.header.message_type is MessageType.RESET and frame.header.session in live.sessions.open:
                live.sessions.open[frame.header.session].round = last

    patch.setattr(Worker, "_frames", with_old_rounds)


@planted("a refused cancel raises the generation all the same", "refused")
def refused_but_changed(patch):
    cancel = Verifier.cancel

    def careless(self, session, **changes):
        try:
            return cancel(self, session, **changes)
        except LocalProtocolError:
            self._session(session).generation += 1
            raise

    patch.setattr(Verifier, "cancel", careless)


@planted("the context of a COMPLETION not compared", "validated")
def context_not_compared(patch):
    checked = pp1wire.protocol.worker_messages._check_completion

    def of_any_context(place, current, completion):
        checked(place, current, replace(completion, context_version=current.step.context_version))

    patch.setattr(pp1wire.protocol.worker_messages, "_check_completion", of_any_context)


@planted("lengths of rows taken from the first rows of a read", "paired")
def lengths_of_other_rows(patch):
    write = Lease.write

    def from_the_front(self, first, batch, start, stop):
        write(self, first, batch, start, stop)
        self._entries[-(stop - start) :] = batch.entry_counts[: stop - start].tolist()

    patch.setattr(Lease, "write", from_the_front)


@planted("a proposal handed to the ranks twice", "ranks")
def handed_twice(patch):
    class Forgetful(dict):
        def __setitem__(self, slot, key):
            """Nothing is kept."""

    made = pp1wire.protocol.ranks.ProposalRanks.__init__

    def without_memory(self, *given, **named):
        made(self, *given, **named)
        self._last = Forgetful()

    patch.setattr(pp1wire.protocol.ranks.ProposalRanks, "__init__", without_memory)
