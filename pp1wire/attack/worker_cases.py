"""What a verifier can do wrong to a worker, as a table. All of it costs the connection, so `closed` is right unless said.

States are those of `asking.STATES`, frames those of `asking.FRAMES`: what would be legal there, before the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from pp1wire.attack.case import CLOSES, Case
from pp1wire.attack.crafting import HashedFor, Value, plus
from pp1wire.attack.hello_cases import hello_cases
from pp1wire.attack.outcomes import Outcome, Target
from pp1wire.attack.worker_faults import worker_faults
from pp1wire.wire import RefusalReason, RejectCode, Representation

__all__ = ["worker_cases"]

C = RejectCode
_SPARSE, _DENSE = Representation.SPARSE, Representation.DENSE
_CONTROL = frozenset({Outcome.ACCEPTED})
# The protocol has a status for a STEP whose prefix is not the worker's, so giving the round up by it is right, too.
_CLOSES_OR_DECLINES = CLOSES | {Outcome.DISCARDED}
Row = tuple[str, str, RejectCode, str, str, Mapping[str, Value]]

_FRAMING: tuple[Row, ...] = (
    ("frame/magic", "Another protocol in mid-stream.", C.BAD_MAGIC, "agreed", "open", {"header.magic": b"HTTP"}),
    ("frame/version", "Another version in mid-stream.", C.UNSUPPORTED_VERSION, "agreed", "open", {"header.wire_version": 1}),
    ("frame/header-checksum", "One bit of the header's checksum.", C.HEADER_CHECKSUM_MISMATCH, "agreed", "open",
     {"header.header_checksum": lambda old, _: int(old) ^ 1}),
    ("frame/type-0", "No message has type 0.", C.UNKNOWN_MESSAGE_TYPE, "agreed", "open", {"header.message_type": 0}),
    ("frame/type-7", "No message has type 7.", C.UNKNOWN_MESSAGE_TYPE, "agreed", "open", {"header.message_type": 7}),
    ("frame/reserved-1", "Reserved byte 7.", C.HEADER_RESERVED_NOT_ZERO, "opened", "step", {"header.reserved_1": b"\1"}),
    ("frame/reserved-2", "Reserved byte 22.", C.HEADER_RESERVED_NOT_ZERO, "opened", "step",
     {"header.reserved_2": b"\1\0"}),
    ("frame/sequence-repeated", "The number of the frame before.", C.SEQUENCE_MISMATCH, "opened", "step",
     {"header.sequence": plus(-1)}),
    ("frame/sequence-skipped", "A frame is missing.", C.SEQUENCE_MISMATCH, "opened", "step", {"header.sequence": plus(1)}),
    ("frame/sequence-zero", "Numbered from 0 again.", C.SEQUENCE_MISMATCH, "opened", "step", {"header.sequence": 0}),
    ("frame/agreement-zero", "No agreement.", C.AGREEMENT_MISMATCH, "opened", "step", {"header.agreement_id": 0}),
    ("frame/agreement-other", "A frame of another connection, as a replay would bring it.", C.AGREEMENT_MISMATCH, "opened",
     "step", {"header.agreement_id": lambda old, _: int(old) ^ 1}),
    ("frame/session-zero", "Sessions count from 1.", C.HEADER_OUT_OF_BOUNDS, "agreed", "open", {"header.session": 0}),
    ("frame/generation-zero", "Generations count from 1.", C.HEADER_OUT_OF_BOUNDS, "agreed", "open",
     {"header.generation": 0}),
    ("frame/reset-round", "A RESET has no round.", C.HEADER_OUT_OF_BOUNDS, "agreed", "open", {"header.round": 1}),
    ("frame/step-round-zero", "Rounds count from 1.", C.HEADER_OUT_OF_BOUNDS, "opened", "step", {"header.round": 0}),
    ("frame/second-hello", "A HELLO after the HELLOs.", C.UNEXPECTED_MESSAGE, "agreed", "hello-again", {}),
    ("frame/reset-before-hello", "Only a HELLO may come first.", C.UNEXPECTED_MESSAGE, "connected", "open-unagreed", {}),
    ("frame/reply-from-verifier", "A REPLY from the end that receives them.", C.WRONG_DIRECTION, "asked", "reply", {}),
    ("frame/completion-from-verifier", "A COMPLETION from the end that receives them.", C.WRONG_DIRECTION, "asked",
     "completion", {}),
)  # fmt: skip

_RESET: tuple[Row, ...] = (
    ("reset/body-checksum", "The body is not what was hashed.", C.BODY_CHECKSUM_MISMATCH, "agreed", "open",
     {"header.body_checksum": lambda old, _: int(old) ^ 1}),
    ("reset/moved", "A whole body, hashed for another session.", C.BODY_CHECKSUM_MISMATCH, "agreed", "open",
     {"header.body_checksum": HashedFor({"header.session": 9})}),
    ("reset/reserved-1", "A reserved byte.", C.RESERVED_NOT_ZERO, "agreed", "open", {"reserved_1": b"\0\1\0"}),
    ("reset/reserved-2", "A reserved byte.", C.RESERVED_NOT_ZERO, "agreed", "open", {"reserved_2": b"\0\0\0\1"}),
    ("reset/reason-0", "No reason has number 0.", C.UNKNOWN_VALUE, "agreed", "open", {"reason": 0}),
    ("reset/reason-5", "No reason has number 5.", C.UNKNOWN_VALUE, "agreed", "open", {"reason": 5}),
    ("reset/position-beyond", "Longer than any prefix.", C.VALUE_OUT_OF_BOUNDS, "agreed", "open", {"position": 2**20 + 1}),
    ("reset/count", "An id fewer is announced than is there.", C.PREFIX_COUNT_MISMATCH, "agreed", "open",
     {"prefix_count": plus(-1)}),
    ("reset/count-over", "More ids are announced than are there.", C.PREFIX_COUNT_MISMATCH, "agreed", "open",
     {"prefix_count": 2**20}),
    ("reset/count-position", "The position is not the number of ids.", C.PREFIX_COUNT_MISMATCH, "agreed", "open",
     {"position": plus(-1)}),
    ("reset/id-negative", "Id -1.", C.TOKEN_OUT_OF_RANGE, "agreed", "open", {"prefix_ids[1]": -1}),
    ("reset/id-beyond", "The first id behind the padding.", C.TOKEN_OUT_OF_RANGE, "agreed", "open",
     {"prefix_ids[2]": lambda _, f: f.agreed.padded_vocab_size}),
    ("reset/digest", "Not the digest of these ids.", C.PREFIX_DIGEST_MISMATCH, "agreed", "open",
     {"prefix_digest": bytes(16)}),
    ("reset/generation-repeated", "The generation that is over.", C.GENERATION_NOT_NEXT, "opened", "cancel",
     {"header.generation": plus(-1)}),
    ("reset/generation-skipped", "A generation is missing.", C.GENERATION_NOT_NEXT, "opened", "cancel",
     {"header.generation": plus(1)}),
    ("reset/generation-falls", "Back to the first generation.", C.GENERATION_NOT_NEXT, "cancelled", "cancel",
     {"header.generation": 1}),
    ("reset/generation-wraps-to-0", "Behind the last of 32 bits comes none.", C.HEADER_OUT_OF_BOUNDS, "opened at the last",
     "open", {"header.generation": 0, "reason": 3}),
    ("reset/generation-wraps-to-1", "Behind the last of 32 bits comes none.", C.GENERATION_NOT_NEXT, "opened at the last",
     "open", {"header.generation": 1, "reason": 3}),
    ("reset/session-not-open", "Resumes what was never opened.", C.SESSION_NOT_OPEN, "opened", "fault",
     {"header.session": plus(1)}),
    ("reset/session-closed", "Resumes what was closed.", C.SESSION_NOT_OPEN, "closed", "open",
     {"header.generation": 3, "reason": 2}),
    ("reset/fault-opens", "Begins a session, but not with reason open.", C.RESET_REASON_MISMATCH, "opened", "fault",
     {"header.session": plus(1), "header.generation": 1}),
    ("reset/open-again", "Opens a session that is open.", C.RESET_REASON_MISMATCH, "opened", "cancel", {"reason": 1}),
    ("reset/slot-occupied", "Another session holds the slot.", C.SLOT_OCCUPIED, "opened", "open-second",
     {"header.slot": 0}),
    ("reset/session-repeated", "Opens a number that was closed.", C.SESSION_NOT_RISING, "closed", "open", {}),
    ("reset/session-falls", "Session 4 after session 5.", C.SESSION_NOT_RISING, "opened as the fifth", "open-second",
     {"header.session": 4}),
    ("reset/close-position", "Closes at another position.", C.POSITION_MISMATCH, "opened", "close", {"position": plus(1)}),
    ("reset/close-digest", "Closes with another prefix.", C.PREFIX_DIGEST_MISMATCH, "opened", "close",
     {"prefix_digest": bytes(16)}),
)  # fmt: skip

_STEP: tuple[Row, ...] = (
    ("step/body-checksum", "The body is not what was hashed.", C.BODY_CHECKSUM_MISMATCH, "opened", "step",
     {"header.body_checksum": lambda old, _: int(old) ^ 1}),
    ("step/moved", "A whole body, hashed for another round.", C.BODY_CHECKSUM_MISMATCH, "opened", "step",
     {"header.body_checksum": HashedFor({"header.round": 9})}),
    ("step/reserved", "A reserved byte.", C.RESERVED_NOT_ZERO, "opened", "step", {"reserved_1": b"\1\0"}),
    ("step/depth-0", "Nothing to draft.", C.VALUE_OUT_OF_BOUNDS, "opened", "step", {"depth": 0}),
    ("step/depth-6", "Deeper than any agreement.", C.VALUE_OUT_OF_BOUNDS, "opened", "step", {"depth": 6}),
    ("step/support-huge", "More candidates than any vocabulary.", C.VALUE_OUT_OF_BOUNDS, "opened", "step",
     {"support": 2**32 - 1}),
    ("step/policy-0", "No policy has number 0.", C.UNKNOWN_VALUE, "opened", "step", {"support_policy": 0}),
    ("step/policy-other", "The policy of the other representation.", C.SUPPORT_MISMATCH, "opened", "step",
     {"support_policy": lambda old, _: 3 - int(old)}),
    ("step/temperature-zero", "Temperature 0.", C.TEMPERATURE_NOT_POSITIVE, "opened", "step", {"temperature": 0.0}),
    ("step/temperature-minus-zero", "Temperature -0.", C.TEMPERATURE_NOT_POSITIVE, "opened", "step", {"temperature": -0.0}),
    ("step/temperature-negative", "Temperature -1.", C.TEMPERATURE_NOT_POSITIVE, "opened", "step", {"temperature": -1.0}),
    ("step/temperature-nan", "No number.", C.TEMPERATURE_NOT_POSITIVE, "opened", "step", {"temperature": math.nan}),
    ("step/temperature-infinite", "Without end.", C.TEMPERATURE_NOT_POSITIVE, "opened", "step", {"temperature": math.inf}),
    ("step/position-overflow", "Random counters would wrap.", C.POSITION_OVERFLOW, "opened", "step",
     {"position": 2**32 - 1}),
    ("step/session-not-open", "A session that was never opened.", C.SESSION_NOT_OPEN, "opened", "step",
     {"header.session": plus(1)}),
    ("step/session-closed", "A session that was closed.", C.SESSION_NOT_OPEN, "closed", "step", {}),
    ("step/before-open", "Nothing was opened.", C.SESSION_NOT_OPEN, "agreed", "step", {}),
    ("step/generation-stale", "The generation that a RESET ended.", C.GENERATION_NOT_NEXT, "cancelled", "step",
     {"header.generation": plus(-1)}),
    ("step/generation-ahead", "A generation that no RESET began.", C.GENERATION_NOT_NEXT, "opened", "step",
     {"header.generation": plus(1)}),
    ("step/round-skipped", "A round is missing.", C.ROUND_NOT_NEXT, "opened", "step", {"header.round": plus(1)}),
    ("step/round-repeated", "A round that was committed.", C.ROUND_NOT_NEXT, "committed", "step",
     {"header.round": plus(-1)}),
    ("step/duplicate", "The same STEP twice, while it is drafted.", C.ROUND_NOT_NEXT, "asked", "step-again", {}),
    ("step/round-still-open", "The next round before this one was committed.", C.ROUND_STILL_OPEN, "asked", "step", {}),
    ("step/uncommitted", "The next round, and the proposal was never committed.", C.ROUND_STILL_OPEN, "proposed", "step", {}),
    ("step/after-the-end", "A round behind a COMMIT that ended the request.", C.UNEXPECTED_MESSAGE, "stopped", "step", {}),
    ("step/seed-changed", "Another seed in the generation.", C.PROPOSAL_SEED_CHANGED, "committed", "step",
     {"proposal_seed": plus(1)}),
    ("step/context-changed", "Another context version in the generation.", C.CONTEXT_CHANGED, "committed", "step",
     {"context_version": plus(1)}),
)  # fmt: skip

_COMMIT: tuple[Row, ...] = (
    ("commit/body-checksum", "The body is not what was hashed.", C.BODY_CHECKSUM_MISMATCH, "proposed", "correction",
     {"header.body_checksum": lambda old, _: int(old) ^ 1}),
    ("commit/reserved", "A reserved byte.", C.RESERVED_NOT_ZERO, "proposed", "correction", {"reserved_1": b"\0\0\0\0\1"}),
    ("commit/accepted-6", "More than any depth.", C.VALUE_OUT_OF_BOUNDS, "proposed", "correction", {"accepted": 6}),
    ("commit/kind-4", "No kind has number 4.", C.UNKNOWN_VALUE, "proposed", "correction", {"kind": 4}),
    ("commit/count-0", "No ids.", C.VALUE_OUT_OF_BOUNDS, "proposed", "correction", {"token_count": 0}),
    ("commit/count-7", "More ids than fit.", C.VALUE_OUT_OF_BOUNDS, "proposed", "correction", {"token_count": 7}),
    ("commit/count", "More ids than accepted and corrected.", C.COMMIT_COUNT_MISMATCH, "proposed", "correction",
     {"token_count": plus(1)}),
    ("commit/target-only-accepts", "Accepted, but of what?", C.COMMIT_COUNT_MISMATCH, "opened", "target-only",
     {"accepted": 1}),
    ("commit/padding", "An id behind the last.", C.COMMIT_PADDING_NOT_ZERO, "proposed", "correction", {"tokens[5]": 1}),
    ("commit/token-negative", "Id -1.", C.TOKEN_OUT_OF_RANGE, "opened", "target-only", {"tokens[0]": -1}),
    ("commit/token-beyond", "The first id behind the padding.", C.TOKEN_OUT_OF_RANGE, "opened", "target-only",
     {"tokens[0]": lambda _, f: f.agreed.padded_vocab_size}),
    ("commit/new-position", "Not the old one and the ids.", C.COMMIT_POSITION_MISMATCH, "proposed", "correction",
     {"new_position": plus(1)}),
    ("commit/position", "Not the STEP's position.", C.POSITION_MISMATCH, "proposed", "correction",
     {"position": plus(1), "new_position": plus(1)}),
    ("commit/digest", "Not the STEP's prefix.", C.PREFIX_DIGEST_MISMATCH, "proposed", "correction",
     {"prefix_digest": bytes(16)}),
    ("commit/new-digest", "Not the new prefix.", C.COMMIT_DIGEST_MISMATCH, "proposed", "correction",
     {"new_digest": bytes(16)}),
    ("commit/target-only-digest", "Not the new prefix.", C.COMMIT_DIGEST_MISMATCH, "opened", "target-only",
     {"new_digest": bytes(16)}),
    ("commit/correction-behind-all", "Nothing was rejected.", C.COMMIT_OVER_DEPTH, "proposed", "correction-of-none", {}),
    ("commit/bonus-early", "Not all were accepted.", C.COMMIT_OVER_DEPTH, "proposed", "early-bonus", {}),
    ("commit/token", "Accepted, but never proposed.", C.COMMIT_TOKEN_MISMATCH, "proposed", "other-tokens", {}),
    ("commit/session-not-open", "A session that was never opened.", C.SESSION_NOT_OPEN, "proposed", "correction",
     {"header.session": plus(1)}),
    ("commit/generation-stale", "The generation that a RESET ended.", C.GENERATION_NOT_NEXT, "cancelled", "target-only",
     {"header.generation": plus(-1)}),
    ("commit/generation-ahead", "A generation that no RESET began.", C.GENERATION_NOT_NEXT, "proposed", "correction",
     {"header.generation": plus(1)}),
    ("commit/round-ahead", "The round after the one proposed.", C.ROUND_NOT_NEXT, "proposed", "correction",
     {"header.round": plus(1)}),
    ("commit/duplicate", "The same COMMIT twice.", C.ROUND_NOT_NEXT, "committed", "commit-again", {}),
    ("commit/prefix-over-agreement", "An id more than the agreed prefix.", C.VALUE_OUT_OF_BOUNDS, "opened in full",
     "target-only", {}),
    ("commit/before-completion", "Nothing was proposed yet.", C.UNEXPECTED_MESSAGE, "asked", "guess", {}),
    ("commit/correction-without-step", "Nothing was proposed that could be corrected.", C.UNEXPECTED_MESSAGE, "opened",
     "correction", {}),
    ("commit/target-only-of-a-proposal", "A token of the target alone, in a round that was drafted.", C.UNEXPECTED_MESSAGE,
     "proposed", "target-only", {}),
    ("commit/after-the-end", "A token behind a COMMIT that ended the request.", C.UNEXPECTED_MESSAGE, "stopped",
     "target-only", {"header.round": plus(-1)}),
)  # fmt: skip

_CONTROLS: tuple[tuple[str, str, str, str], ...] = (
    ("valid/round", "A STEP of a session that was just opened.", "opened", "step"),
    ("valid/second-round", "A STEP behind a COMMIT.", "committed", "step"),
    ("valid/after-cancel", "A STEP of the second generation.", "cancelled", "step"),
    ("valid/after-abandoned-round", "A STEP where the one before was cancelled unanswered.", "abandoned", "step"),
    ("valid/last-generation", "A session whose generation is the last of 32 bits.", "opened at the last", "step"),
    ("valid/fifth-session", "A first session with number 5.", "opened as the fifth", "step"),
    ("valid/after-the-end", "RESET behind a COMMIT that ended the request, and on.", "stopped", "cancel"),
    ("valid/after-close", "A new session where one was closed.", "closed", "open-second"),
    ("valid/longest-prefix", "RESET with a prefix as long as was agreed.", "agreed", "open-full"),
)


def worker_cases() -> Iterator[Case]:
    """Every case for a worker, controls first."""
    for name, comment, state, frame in _CONTROLS:
        yield Case(name=name, comment=comment, code=None, state=state, frame=frame, expect=_CONTROL)
    yield from hello_cases(Target.WORKER)
    yield Case(name="hello/refused-offer", comment="Only an answer can refuse.", code=C.REFUSAL_MISMATCH,
               state="connected", frame="hello", fields={"status": 1, "refusal": 12})  # fmt: skip
    yield Case(name="hello/data-behind", comment="The first byte of the next frame, before there is an answer.",
               code=C.DATA_BEFORE_AGREEMENT, state="connected", frame="hello", extra=b"P")  # fmt: skip
    for representation in (_SPARSE, _DENSE):
        name = representation.name.lower()
        yield Case(
            name=f"hello/{name}-not-served", comment=f"Only {name} rows are offered, which this worker does not make.",
            code=C.REPRESENTATION_NOT_OFFERED, state="connected", frame="hello", expect=frozenset({Outcome.REFUSED}),
            fields={"representations": int(representation)}, refusal=RefusalReason.REPRESENTATION,
            needs=(f"no {name}",),
        )  # fmt: skip
    for name, comment, code, state, frame, fields in (*_FRAMING, *_RESET, *_STEP, *_COMMIT):
        yield Case(
            name=name, comment=comment, code=code, state=state, frame=frame, fields=fields, needs=_NEEDS.get(name, ())
        )
    yield from _special()
    yield from worker_faults()


_NEEDS: Mapping[str, tuple[str, ...]] = {"commit/bonus-early": ("two deep",)}


def _special() -> Iterator[Case]:
    """Cases that need more than a changed field, or something of the agreement."""
    yield from (
        Case(name="frame/oversized", comment="A body of 4 GiB is announced, and a megabyte of it sent.",
             code=C.OVERSIZED_BODY, state="agreed", frame="open", fields={"header.body_length": 2**32 - 1},
             extra=bytes(1 << 20)),
        Case(name="frame/oversized-by-one-id", comment="A RESET with an id more than the agreed prefix.",
             code=C.OVERSIZED_BODY, also=(C.WRONG_BODY_LENGTH,), state="agreed", frame="open-full", grow=bytes(4),
             fields={"prefix_count": plus(1), "position": plus(1)}),
        Case(name="frame/length-uneven", comment="A body that cuts an id.", code=C.WRONG_BODY_LENGTH, state="agreed",
             frame="open", grow=bytes(2)),
        Case(name="frame/step-longer", comment="Four bytes behind a STEP's body.", code=C.WRONG_BODY_LENGTH,
             state="opened", frame="step", grow=bytes(4)),
        Case(name="frame/commit-shorter", comment="An id too few in a COMMIT's column.", code=C.WRONG_BODY_LENGTH,
             state="proposed", frame="correction", shrink=4),
        Case(name="frame/slot-beyond", comment="A slot behind the agreed ones.", code=C.HEADER_OUT_OF_BOUNDS,
             state="agreed", frame="open", fields={"header.slot": lambda _, f: f.agreed.max_slots}),
        Case(name="reset/slot", comment="Not the slot that the session holds.", code=C.SLOT_MISMATCH, state="opened",
             frame="cancel", fields={"header.slot": 1}, needs=("two slots",)),
        Case(name="reset/id-padded", comment="The first id of the padding.", code=C.TOKEN_PADDED, state="agreed",
             frame="open", fields={"prefix_ids[0]": lambda _, f: f.agreed.vocab_size}, needs=("padding",)),
        Case(name="reset/close-with-ids", comment="Closing needs no ids.", code=C.PREFIX_COUNT_MISMATCH, state="opened",
             frame="cancel", fields={"reason": 4}),
        Case(name="step/slot", comment="Not the slot that the session holds.", code=C.SLOT_MISMATCH, state="opened",
             frame="step", fields={"header.slot": 1}, needs=("two slots",)),
        Case(name="step/depth-over-agreement", comment="Deeper than agreed.", code=C.DEPTH_OVER_AGREEMENT, state="opened",
             frame="step", fields={"depth": lambda _, f: f.agreed.max_depth + 1}, needs=("depth to spare",)),
        Case(name="step/support-0", comment="No candidates.", code=C.SUPPORT_MISMATCH, state="opened", frame="step",
             fields={"support": 0}, representation=_SPARSE),
        Case(name="step/support-over", comment="More candidates than a row holds.", code=C.SUPPORT_MISMATCH,
             state="opened", frame="step", fields={"support": lambda _, f: f.agreed.max_support + 1},
             representation=_SPARSE),
        Case(name="step/dense-support", comment="Full support has no k.", code=C.SUPPORT_MISMATCH, state="opened",
             frame="step", fields={"support": 1}, representation=_DENSE),
        Case(name="step/position", comment="Not the length of the prefix.", code=C.POSITION_MISMATCH, state="opened",
             frame="step", fields={"position": plus(1)}, expect=_CLOSES_OR_DECLINES),
        Case(name="step/digest", comment="Another prefix.", code=C.PREFIX_DIGEST_MISMATCH, state="opened", frame="step",
             fields={"prefix_digest": bytes(16)}, expect=_CLOSES_OR_DECLINES),
        Case(name="commit/slot", comment="Not the slot that the session holds.", code=C.SLOT_MISMATCH, state="proposed",
             frame="correction", fields={"header.slot": 1}, needs=("two slots",)),
        Case(name="commit/token-padded", comment="The first id of the padding.", code=C.TOKEN_PADDED, state="opened",
             frame="target-only", fields={"tokens[0]": lambda _, f: f.agreed.vocab_size}, needs=("padding",)),
        Case(name="commit/over-depth", comment="One accepted more than was drafted.", code=C.COMMIT_OVER_DEPTH,
             state="proposed", frame="over-depth", needs=("depth to spare",)),
    )  # fmt: skip
