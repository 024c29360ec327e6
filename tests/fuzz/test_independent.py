"""The second reading agrees with the first, and with what is published; it shares no code with it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest

from fuzz import independent
from fuzz.agreements import agreement_of
from fuzz.independent import draw, fields_of, frame_problem, row_of, ticket
from pp1wire.capture.vectors import load_vectors
from pp1wire.sampling import proposal_tickets, sample, words
from pp1wire.wire import RejectCode

VECTORS = load_vectors()
# What one frame shows by itself; the rest needs its session.
ALONE = {
    c.name.lower() for c in RejectCode
    if c.stage in ("header_checksum", "body_checksum", "structure", "canonical") or c.name.startswith(("Q_", "TOKEN_", "TEMP"))
} - {"q_semantic_mismatch"}  # fmt: skip


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.reject is None], ids=lambda v: v.name)
def test_valid_vectors_are_right(vector):
    assert frame_problem(vector.data, agreement_of(vector) if vector.conversation else None) is None


@pytest.mark.parametrize("vector", [v for v in VECTORS if v.reject and v.reject[0] in ALONE], ids=lambda v: v.name)
def test_exact_code_what_a_frame_shows_by_itself_is_wrong(vector):
    if (
        len(vector.data) < 64 + int.from_bytes(vector.data[16:20], "little")
        and vector.reject[0] != "header_checksum_mismatch"
    ):
        return
    if vector.reject[3] == "commit.new_position" and vector.reject[0] == "value_out_of_bounds":
        return  # a matter of the session: the frame alone says nothing of the agreed prefix
    agreement = agreement_of(vector) if vector.conversation and vector.data[6] != 1 else None
    assert frame_problem(vector.data, agreement) is not None


def test_tickets_and_draws_are_those_of_the_sampler():
    for seed, generation, round_, position in [
        (0, 1, 1, 0),
        (2**64 - 1, 2**32 - 1, 2**32 - 1, 2**32 - 1),
        (77, 3, 2, 9),
    ]:
        assert ticket(seed, generation, round_, position) == proposal_tickets(seed, generation, round_, position)
        assert ticket(seed, generation, round_, position) == words(seed, generation, round_, position, 1, 0)[0] >> 8
    ids, counts = [2, 5, 9], [2**23, 1, 2**23 - 1]
    for number in (0, 2**23 - 1, 2**23, 2**23 + 1, 2**24 - 1):
        assert draw(ids, counts, number) == sample(np.array(ids), np.array(counts), number)
    assert draw(ids, counts, 2**24) == -1


def test_rows_are_read_as_counts():
    vector = next(v for v in VECTORS if v.name == "reply/sparse-first")
    agreement = agreement_of(vector)
    ids, counts = row_of(fields_of(vector.data), agreement)
    assert ids == [1, 4, 9]
    assert sum(counts) == 2**24


def test_no_line_of_what_it_checks_takes_part():
    tree = ast.parse(Path(independent.__file__).read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module.startswith("pp1wire")]
    names = {(node.module, alias.name) for node in found for alias in node.names}
    assert {module for module, _ in names} == {"pp1wire.wire", "pp1wire.wire._schema_v2", "pp1wire.wire.fields"}
    assert {name for module, name in names if module == "pp1wire.wire"} == {"Agreement", "MessageType"}
