"""The parts of the simulator do what they are said to do: a fault that never happened would prove nothing."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.simulator.network import Link
from fuzz.simulator.outbox import Outbox
from fuzz.simulator.scenario import FAMILIES, draw
from fuzz.simulator.toys import toys
from fuzz.simulator.violation import INVARIANTS
from fuzz.simulator.world import World, run
from pp1wire.protocol import agree, answer_to
from pp1wire.sampling import Key, draft_chain
from pp1wire.wire import Commit, CommitKind, FrameReader, RemoteProtocolError, encode, prefix_digest
from tests.protocol.util import answer, offer


@pytest.fixture
def world():
    """A world in which nothing happens by itself, and faults happen always or never."""
    world = World(replace(draw(random.Random(1)), rates={}, calm_at=1e9, requests=0, vocab=48), random.Random(1))
    world.clock._queue.clear()
    return world


def agreement():
    first = offer()
    return agree(first, answer_to(first, answer()))


def commits(terms, count=4):
    """COMMITs of one target-only token each, as a verifier would number them."""
    empty = prefix_digest([])
    return [
        encode(
            Commit(session=1, slot=0, generation=1, round=i + 1, position=i, new_position=i + 1, prefix_digest=empty,
                   new_digest=empty, accepted=0, kind=CommitKind.TARGET_ONLY, tokens=[i]),
            terms, i,
        )
        for i in range(count)
    ]  # fmt: skip


def through(world, kind):
    """What comes out of an outbox behind four COMMITs, if `kind` happens to every message."""
    terms, link = agreement(), Link(world, 1)
    seen, heard = [], bytearray()
    link.down.connect(heard.extend, lambda: None)
    outbox = Outbox(world, link, link.down, seen.append)
    outbox._greeted = True
    if kind is not None:
        world.scenario = replace(world.scenario, rates={kind: 1.0})
    outbox.put(b"".join(commits(terms)), terms)
    while world.clock.step():
        pass
    assert [frame.header.round for frame in seen] == [1, 2, 3, 4]
    reader = FrameReader(terms, 0)
    return [message.round for message in reader.feed(bytes(heard))], link


@pytest.mark.parametrize(
    ("kind", "rounds"),
    [(None, [1, 2, 3, 4]), ("lost", []), ("twice", [1, 1, 2, 2, 3, 3, 4, 4]), ("swapped", [1, 2, 3, 4])],
)
def test_messages_are_lost_and_repeated_before_they_are_numbered(world, kind, rounds):
    """The reader demands consecutive numbers and right checksums, and reads everything."""
    came, link = through(world, kind)
    assert came == rounds
    assert link.clean is (kind is None)


def test_a_message_that_is_held_back_lets_the_next_one_pass(world):
    terms, link = agreement(), Link(world, 1)
    heard = bytearray()
    link.down.connect(heard.extend, lambda: None)
    outbox = Outbox(world, link, link.down, lambda frame: None)
    outbox._greeted = True
    first, second, *_ = commits(terms)
    world.scenario = replace(world.scenario, rates={"swapped": 1.0})
    outbox.put(first, terms)
    world.scenario = replace(world.scenario, rates={})
    outbox.put(second, terms)
    while world.clock.step():
        pass
    assert [message.round for message in FrameReader(terms, 0).feed(bytes(heard))] == [2, 1]


def test_another_agreement_is_refused(world):
    with pytest.raises(RemoteProtocolError, match="agreement_mismatch"):
        through(world, "other_agreement")


@pytest.mark.parametrize(
    ("kind", "same_length", "whole"),
    [("flip", True, True), ("bytes_lost", False, True), ("bytes_twice", False, True), ("truncate", False, False),
     ("delay", True, True)],
)  # fmt: skip
def test_the_network_does_to_bytes_what_its_faults_say(world, kind, same_length, whole):
    link, heard, ended = Link(world, 1), bytearray(), []
    link.down.connect(heard.extend, lambda: ended.append(world.clock.now))
    data = bytes(range(200))
    world.scenario = replace(world.scenario, rates={kind: 1.0})
    link.down.send(data)
    while world.clock.step():
        pass
    assert (len(heard) == len(data)) is same_length
    assert (bytes(heard) == data) is (kind == "delay")
    assert link.clean is (kind == "delay")
    assert (not ended) is whole
    assert (world.clock.now > 0.02) is (kind == "delay")


def test_each_direction_keeps_its_order_and_connections_do_not(world):
    one, other, heard = Link(world, 1), Link(world, 2), []
    one.down.connect(lambda data: heard.extend(("one", b) for b in data), lambda: None)
    other.down.connect(lambda data: heard.extend(("other", b) for b in data), lambda: None)
    for i in range(60):
        one.down.send(bytes([i]))
        other.down.send(bytes([i]))
    while world.clock.step():
        pass
    for name in ("one", "other"):
        assert [b for link, b in heard if link == name] == list(range(60))
    assert [b for _, b in heard] != sorted(b for _, b in heard)


def test_a_cut_loses_what_is_on_its_way_and_tells_both(world):
    link, heard, ended = Link(world, 1), bytearray(), []
    link.down.connect(heard.extend, lambda: ended.append("down"))
    link.up.connect(heard.extend, lambda: ended.append("up"))
    link.down.send(b"something")
    link.cut()
    while world.clock.step():
        pass
    assert not heard
    assert sorted(ended) == ["down", "up"]


@pytest.mark.parametrize("support", [0, 4])
def test_what_a_proposal_must_be_is_what_the_sampler_draws(support):
    """Made by other code (scalar tickets, running sums): the two agree."""
    models, key = toys(16, 0), Key(1234567890123456789, 3, 5, 7)
    expected = models.expected(2, 7, 5, 0.7, support, key.seed, key.generation, key.round)

    def logits(i, drawn):
        return models._draft[(7 + i) % 3, drawn[-1] if drawn else 2]

    chain = draft_chain(logits, 0.7, key, depth=5, top_k=support or None)
    assert chain.tokens.tolist() == list(expected.tokens)
    for (ids, counts), row in zip(chain.rows, expected.rows, strict=True):
        assert ids.tolist() == row.ids.tolist()
        assert counts.tolist() == row.counts.tolist()


def test_a_scenario_without_faults_has_none_and_no_discards():
    for seed in range(8):
        outcome = run(seed, scenario=replace(draw(random.Random(seed)), rates={}, step_timeout=5.0))
        assert outcome.invariant is None, outcome.detail
        assert not outcome.faults
        assert not outcome.rejects
        assert not outcome.discards
        assert outcome.stats["requests ended: abandoned"] == 0


def test_families_cover_the_faults_that_are_drawn():
    kinds = {kind for family in FAMILIES.values() for kind in family}
    drawn = {kind for seed in range(200) for kind in draw(random.Random(seed)).rates}
    assert drawn == kinds


def test_the_page_names_every_invariant_and_family():
    page = (Path(__file__).parents[3] / "docs" / "simulator.md").read_text(encoding="utf-8")
    checked, _, injected = page.partition("## What goes wrong")
    assert set(re.findall(r"^\| `([^`]+)` \|", checked, flags=re.MULTILINE)) == set(INVARIANTS)
    assert set(re.findall(r"^\| (\w+) \|", injected.partition("##")[0], flags=re.MULTILINE)) - {"family"} == set(
        FAMILIES
    )
