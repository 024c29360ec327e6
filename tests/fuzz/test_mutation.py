"""Mutations are by name, and repairs make right what was not changed on purpose."""

from __future__ import annotations

import random

import pytest

from fuzz import script
from fuzz.agreements import agreements, valid_vectors
from fuzz.harnesses import HARNESSES
from fuzz.harnesses.one_frame import run as one_frame
from fuzz.independent import frame_problem
from fuzz.mutation import mutated
from fuzz.mutation.content import _move_mass, change_frame, count_of
from fuzz.mutation.piece import Piece, blank, fields_of_type, split
from fuzz.mutation.repair import FRESH, Walk, seal
from fuzz.seeds import seeds
from pp1wire.protocol import Direction
from pp1wire.wire import MessageType, ResetReason

SESSIONS = [data for data in seeds("negotiated_session") if len(script.parse(data)[1]) > 3]
FRAMES = [(data[0], split(0, data[1:])[0]) for data in seeds("one_frame")]


def walked(pieces, rng=None, agreement=None):
    walk = Walk(rng or NeverSteers(), agreement)
    for piece in pieces:
        walk.links(piece)
        seal(piece)
        walk.learn(piece)


class NeverSteers(random.Random):
    def random(self):
        return 1.0


def test_a_repair_leaves_a_valid_conversation_as_it_is():
    untouched = 0
    for vector in valid_vectors():
        if all(sent.code is None for sent in vector.conversation):
            turns = [(sent.sender, sent.data) for sent in vector.conversation] + [(vector.sender, vector.data)]
            pieces = [piece for sender, data in turns for piece in split(list(Direction).index(sender), data)]
            walked(pieces)
            assert [bytes(piece.data) for piece in pieces] == [data for _, data in turns], vector.name
            untouched += 1
    assert untouched > 30


@pytest.mark.parametrize("name", ["position", "context_version", "rows", "reply_bytes", "status"])
def test_one_changed_field_of_a_completion_is_the_only_fault(name):
    data = next(d for d in SESSIONS if d[0] == 0 and HARNESSES["negotiated_session"].run(d).endswith("COMPLETION"))
    pieces = [piece for record in script.parse(data)[1] for piece in split(record.who, record.data)]
    pieces[-1].change(name, pieces[-1].get(name) + 1)
    walked(pieces)
    told = HARNESSES["negotiated_session"].run(script.pack(0, [script.Record(p.who, bytes(p.data)) for p in pieces]))
    wanted = {"position": "POSITION", "context_version": "CONTEXT", "rows": "ROWS", "reply_bytes": "BYTES"}
    assert told.split()[-1] == (f"COMPLETION_{wanted[name]}_MISMATCH" if name in wanted else "COMPLETION")


def test_another_law_gets_its_token_its_checksums_and_its_completion():
    """What follows from a row: the token of its ticket, and the list of row checksums that COMPLETION is over."""
    rounds = [d for d in SESSIONS if d[0] == 0 and HARNESSES["negotiated_session"].run(d).endswith("REPLY COMPLETION")]
    talks = [[p for who, sent in script.parse(d)[1] for p in split(who, sent)] for d in rounds]
    data, pieces = next((d, t) for d, t in zip(rounds, talks, strict=True) if t[-2].get("entry_count") > 1)
    row, end = pieces[-2:]
    before = end.get("rows_checksum")
    # Two entries: all the mass but two counts, and those.
    ids, q = row.row()
    row.set("entry_count", 2)
    row.set_words([*ids[:2], *[0] * (len(ids) - 2), 0x3F7FFFFE, 0x34000000, *[0] * (len(q) - 2)])
    walked(pieces)
    assert end.get("rows_checksum") != before
    changed = script.pack(0, [script.Record(p.who, bytes(p.data)) for p in pieces])
    assert HARNESSES["negotiated_session"].run(changed) == HARNESSES["negotiated_session"].run(data)


def test_a_prefix_that_changes_early_is_followed_to_the_end():
    """Another prompt: digests, positions and tokens of all later frames are made right."""
    data = max(SESSIONS, key=lambda d: len(script.parse(d)[1]) * (d[0] == 1))
    pieces = [piece for record in script.parse(data)[1] for piece in split(record.who, record.data)]
    opening = next(p for p in pieces if p.kind == MessageType.RESET)
    opening.set_words([*opening.words(), 3])
    step = next(p for p in pieces if p.kind == MessageType.STEP)
    step.change("proposal_seed", 99)
    before = HARNESSES["negotiated_session"].run(data)
    for later in pieces:
        if later.kind == MessageType.STEP:
            later.change("proposal_seed", 99)
    walked(pieces)
    after = script.pack(1, [script.Record(p.who, bytes(p.data)) for p in pieces])
    assert after != data
    assert HARNESSES["negotiated_session"].run(after) == before


@pytest.mark.parametrize("kind", [t for t in MessageType if t is not MessageType.HELLO])
def test_a_frame_from_nothing_is_well_formed(kind):
    data = next(d for d in SESSIONS if d[0] == 1)
    pieces = [piece for record in script.parse(data)[1] for piece in split(record.who, record.data)]
    made = blank(pieces[2], kind)
    made.set("header.round", 0 if kind is MessageType.RESET else 1)
    if kind is MessageType.RESET:
        made.set("reason", ResetReason.FAULT)
    made.kept.add(FRESH)
    walked([*pieces, made])
    assert len(made.data) == 64 + made.get("header.body_length")
    problem = frame_problem(bytes(made.data), agreements()[1])
    assert problem not in ("body_length", "header checksum", "body checksum")


def test_moving_mass_keeps_the_mass():
    rng, moved = random.Random(1), 0
    for place, piece in FRAMES * 30:
        if piece.kind == MessageType.REPLY:
            changed = piece.copy()
            before = changed.row()
            _move_mass(changed, rng)
            seal(changed)
            counts = [count_of(word) for word in changed.row()[1]]
            assert None not in counts
            assert sum(counts) == 2**24
            moved += changed.row() != before
            assert one_frame(bytes([place]) + bytes(changed.data)) in ("REPLY", "Q_ZERO_AT_TOKEN", "Q_ZERO_ENTRY")
    assert moved > 50


def test_every_field_of_every_message_is_changed_by_name():
    rng, changed = random.Random(2), {}
    for _ in range(400):
        for _, piece in FRAMES:
            other = piece.copy()
            change_frame(other, rng)
            changed.setdefault(piece.kind, set()).update(other.kept)
    for kind in MessageType:
        assert set(fields_of_type(kind)) <= changed[kind]


@pytest.mark.parametrize("name", HARNESSES)
def test_the_mutator_takes_any_bytes_and_is_repeated_by_its_seed(name):
    rng = random.Random(4)
    for data in [b"", b"\0", *(rng.randbytes(rng.randrange(300)) for _ in range(40)), *seeds(name)[:40]]:
        seed = rng.random()
        first = mutated(name, data, seeds(name)[0], random.Random(seed))
        assert first == mutated(name, data, seeds(name)[0], random.Random(seed))
        assert len(first) <= 20_000


def test_most_session_inputs_are_right_up_to_what_was_changed():
    """The fuzzer would reach nothing if its inputs failed at the first checksum."""
    rng, told = random.Random(5), []
    for _ in range(300):
        data = mutated("negotiated_session", rng.choice(SESSIONS), rng.choice(SESSIONS), rng)
        told.append(HARNESSES["negotiated_session"].run(data).split())
    early = {
        "BAD_MAGIC",
        "HEADER_CHECKSUM_MISMATCH",
        "BODY_CHECKSUM_MISMATCH",
        "SEQUENCE_MISMATCH",
        "AGREEMENT_MISMATCH",
    }
    assert sum(bool(early & set(words)) for words in told) < 90
    assert sum("RESET" in words for words in told) > 150


def test_split_takes_frames_apart_and_keeps_what_is_none():
    (_, piece), (_, other) = FRAMES[0], FRAMES[-1]
    pieces = split(1, bytes(piece.data + other.data) + b"rest")
    assert [bytes(p.data) for p in pieces] == [bytes(piece.data), bytes(other.data), b"rest"]
    assert [(p.who, p.kind, p.joined) for p in pieces] == [(1, piece.kind, False), (1, other.kind, True), (1, 0, True)]
    assert split(0, b"") == [Piece(0, bytearray())]


def test_scripts_are_packed_and_parsed():
    records = [script.Record(0, b"a"), script.Record(1, b""), script.Record(2, b"xyz")]
    assert script.parse(script.pack(5, records)) == (5, records)
    assert script.parse(b"") == (0, [])
    assert script.parse(b"\1\4\5\0ab") == (1, [script.Record(1, b"ab")])
