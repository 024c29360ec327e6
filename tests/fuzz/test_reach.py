"""From the valid vectors alone, within a bounded number of inputs, every message type and every reject code is reached."""

from __future__ import annotations

import random

import pytest

from fuzz.engines.own import fuzz
from fuzz.harnesses import HARNESSES
from fuzz.outcome import CODES, MESSAGES
from fuzz.seeds import seeds
from fuzz.tally import Tally, never_reached, table
from pp1wire.wire import RejectCode

MOST = {"one_frame": 4_000, "stream_in_chunks": 600, "negotiated_session": 12_000, "capture": 250}


def test_the_seeds_show_every_message_and_no_fault_of_a_frame():
    outcomes = [HARNESSES["one_frame"].run(data) for data in seeds("one_frame")]
    assert set(outcomes) == set(MESSAGES)


def test_exact_code_every_message_and_every_reject_code_is_reached_from_the_valid_vectors(capsys):
    tallies: list[Tally] = []
    for name, harness in HARNESSES.items():
        before = list(tallies)
        done = (lambda now: not never_reached([*before, now])) if name == "negotiated_session" else None  # noqa: B023
        tally, finding = fuzz(harness, seeds(name), random.Random(1), inputs=MOST[name], until=done)
        assert finding is None, (finding.error, finding.data.hex())
        tallies.append(tally)
    with capsys.disabled():
        print()
        print(*table(tallies), sep="\n")
    assert never_reached(tallies) == [], "never reached"
    # Whole frames reach everything that a frame shows by itself; EXTRA_DATA has no meaning in a stream.
    frame, stream, session, _ = tallies
    assert {"EXTRA_DATA"} == {code for code in CODES if frame.reached[code] and not session.reached[code]} - _RARE
    assert {m for m in MESSAGES if min(t.reached[m] for t in tallies) == 0} == set()
    assert stream.reached["TRUNCATED"]
    assert stream.reached["SEQUENCE_MISMATCH"]


# What one frame shows by itself, and a session therefore need not show within these few inputs.
_RARE = {c.name for c in RejectCode if c.stage in ("structure", "canonical")} | {
    "Q_MASS_MISMATCH", "Q_ZERO_AT_TOKEN", "POSITION_OVERFLOW", "TOKEN_PADDED",
}  # fmt: skip


@pytest.mark.parametrize("name", HARNESSES)
def test_a_run_is_repeated_by_its_seed(name):
    first, second = (
        fuzz(HARNESSES[name], seeds(name), random.Random(3), inputs=len(seeds(name)) + 60)[0] for _ in range(2)
    )
    assert (first.reached, first.smallest) == (second.reached, second.smallest)


def test_a_code_that_is_never_reached_is_listed_by_name():
    tally = Tally("one_frame", "own")
    tally.add(b"", " ".join([*MESSAGES, *CODES[1:]]))
    assert never_reached([tally]) == [CODES[0]]
    assert table([tally])[-1] == f"never reached: {CODES[0]}"
    tally.add(b"x", CODES[0])
    assert never_reached([tally]) == []
    assert table([tally])[-1] == "every message and every reject code was reached"
    assert tally.smallest[CODES[0]] == b"x"
