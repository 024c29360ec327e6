"""Terms from a file are those of a report, and what is wrong with a file is told in one line."""

from __future__ import annotations

import json

import pytest

from pp1wire.attack import AttackError, terms_of_file
from pp1wire.attack.terms import attack_terms, terms_data, terms_of
from pp1wire.wire import DraftOrigin, HelloRole, Representation
from tests.net.toys import terms

OWN = terms(padded_vocab_size=20, draft_origin=DraftOrigin.ADAPTED, representations=tuple(Representation))


def test_terms_survive_a_hello_and_a_file(tmp_path):
    assert terms_of(OWN.hello(HelloRole.ANSWER)) == OWN
    path = tmp_path / "terms.json"
    path.write_text(json.dumps(terms_data(OWN)))
    assert terms_of_file(path) == OWN


def test_what_has_a_default_can_be_left_out(tmp_path):
    path = tmp_path / "terms.json"
    names = ("vocab_size", "id_map_sha256", "draft_checkpoint_sha256", "draft_revision", "target_sha256")
    path.write_text(json.dumps({name: terms_data(OWN)[name] for name in names}))
    assert terms_of_file(path).max_support == 32


def test_capacities_are_small_enough_to_be_passed_by_one():
    small = attack_terms(terms(max_slots=4, max_depth=5, max_prefix=8192))
    assert (small.max_slots, small.max_depth, small.max_prefix) == (2, 3, 64)
    least = terms(max_slots=1, max_depth=1, max_prefix=20, max_support=1)
    assert attack_terms(least) == least


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("{", "Expecting property name"),
        ("[]", "expected an object"),
        ("{}", "expected 'id_map_sha256' as pp1wire attack --json prints it"),
        ('{"id_map_sha256": "x"}', "non-hexadecimal"),
        (json.dumps(terms_data(OWN) | {"colour": "red"}), "colour"),
        (json.dumps(terms_data(OWN) | {"vocab_size": 0}), "vocab_size"),
        (json.dumps(terms_data(OWN) | {"draft_origin": "stolen"}), "STOLEN"),
    ],
)
def test_what_is_wrong_with_a_file_is_told_in_one_line(tmp_path, text, said):
    path = tmp_path / "terms.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(AttackError) as caught:
        terms_of_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
