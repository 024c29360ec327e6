"""Without any engine: every input of the corpus and every vector, valid or not, holds in every harness."""

from __future__ import annotations

import pytest

from fuzz.agreements import hellos
from fuzz.ends.under_test import MAX_HELLO_IDS
from fuzz.harnesses import HARNESSES
from fuzz.outcome import CODES, MESSAGES
from fuzz.seeds import CORPUS, corpus, inputs_of
from pp1wire.capture.vectors import load_vectors

VECTORS = load_vectors()


@pytest.mark.parametrize("name", HARNESSES)
@pytest.mark.parametrize("kept", HARNESSES)
def test_every_input_of_the_corpus_holds_in_every_harness(name, kept):
    inputs = corpus(kept)
    assert len(inputs) > 20
    for data in inputs:
        assert HARNESSES[name].run(data)


def test_the_corpus_shows_every_message_and_every_reject_code():
    shown = {word for name, harness in HARNESSES.items() for data in corpus(name) for word in harness.run(data).split()}
    assert [word for word in (*MESSAGES, *CODES) if word not in shown] == []


def test_the_corpus_is_small():
    sizes = [path.stat().st_size for path in CORPUS.glob("*/*")]
    assert max(sizes) <= 20_000
    assert sum(sizes) < 400_000
    assert {path.name for path in CORPUS.iterdir()} == set(HARNESSES)


@pytest.mark.parametrize("name", HARNESSES)
def test_every_vector_holds_in_every_harness(name):
    for vector in VECTORS:
        inputs = list(inputs_of(name, vector))
        # One capture a vector: both of its streams alone are those of other vectors, too.
        told = {
            word for data in inputs[: 1 if name == "capture" else None] for word in HARNESSES[name].run(data).split()
        }
        if name == "negotiated_session" and vector.reject is not None and _is_told(vector):
            assert vector.reject[0].upper() in told, vector.name


def _is_told(vector):
    """Whether the end that a vector is sent to says what the vector says."""
    both = hellos(vector)
    small = both is None or max(h.padded_vocab_size for h in both) <= MAX_HELLO_IDS
    return small and not vector.whole and vector.reject[0] != "data_before_agreement"


@pytest.mark.parametrize("name", HARNESSES)
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 3, b"PP1W", bytes(400), b"\n\r\r\n" + bytes(60)])
def test_any_bytes_are_an_input(name, data):
    assert HARNESSES[name].run(data)


def test_each_harness_states_its_invariant():
    assert all(h.invariant.endswith(".") and "\n" not in h.invariant for h in HARNESSES.values())
