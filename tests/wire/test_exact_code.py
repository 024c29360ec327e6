"""[exact code] One field wrong, checksums repaired: exactly the code, offset and path of that rule."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import pp1wire.wire
from pp1wire.wire import Agreement, FrameReader, RejectCode, RemoteProtocolError, decode, decode_replies
from tests.wire.frames import DENSE, SPARSE, completion, drain, frame_of, header_resealed, q_of, reply
from tests.wire.wrong_fields import CASES, Case

C = RejectCode


def assert_is(case: Case, error: RemoteProtocolError) -> None:
    assert (error.code, error.offset, error.path) == (case.code, case.offset, case.path)
    assert error.expected
    assert error.actual
    assert "\n" not in str(error)
    assert case.code.name.lower() in str(error)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_exact_code_of_decode(case: Case) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        decode(case.data, case.agreement)
    assert_is(case, caught.value)


def test_exact_code_of_a_stream() -> None:
    for case in CASES:
        if case.code in (C.EXTRA_DATA,) or not case.data:
            continue
        errors = [o for o in drain(FrameReader(case.agreement), [case.data]) if isinstance(o, RemoteProtocolError)]
        assert_is(case, errors[0])


def test_exact_code_of_a_batch_behind_a_good_row() -> None:
    """The same fault in the second row of a batch: the same code, one frame further on."""
    seen = 0
    for case in CASES:
        if case.agreement is None or case.data[6:7] != b"\x03" or case.code in (C.EXTRA_DATA, C.TRUNCATED):
            continue
        good = frame_of(reply(case.agreement), case.agreement, 4)
        number = int.from_bytes(case.data[8:16], "little")
        second = case.data
        if case.code is not C.HEADER_CHECKSUM_MISMATCH:
            second = header_resealed(second[:8] + (5).to_bytes(8, "little") + second[16:])
        elif number != 5:
            continue
        with pytest.raises(RemoteProtocolError) as caught:
            decode_replies(bytes(good) + second, case.agreement, 4)
        error = caught.value
        assert (error.code, error.offset - len(good), error.path) == (case.code, case.offset, case.path)
        seen += 1
    assert seen > 150


def test_exact_code_of_a_sequence_gap() -> None:
    for a in (SPARSE, DENSE):
        first = bytes(frame_of(reply(a), a, 8))
        for number in (8, 10, 7, 0, 2**64 - 1):
            second = bytes(frame_of(completion(a), a, number))
            errors = drain(FrameReader(a, 8), [first + second])
            assert errors[0] == reply(a)
            assert isinstance(errors[1], RemoteProtocolError)
            assert (errors[1].code, errors[1].offset, errors[1].path) == (
                C.SEQUENCE_MISMATCH, len(first) + 8, "header.sequence",
            )  # fmt: skip
            with pytest.raises(RemoteProtocolError) as caught:
                decode_replies(first + bytes(frame_of(reply(a), a, number)), a)
            assert (caught.value.code, caught.value.offset) == (C.SEQUENCE_MISMATCH, len(first) + 8)
        for wrong in (7, 9, 0):
            for judge in (decode, decode_replies):
                with pytest.raises(RemoteProtocolError) as caught:
                    judge(first, a, wrong)
                assert (caught.value.code, caught.value.offset) == (C.SEQUENCE_MISMATCH, 8)


def test_exact_code_of_a_batch_that_ends_in_another_message() -> None:
    """COMPLETION is shorter than a row here and longer there; either way it is no REPLY, and never decoded as one."""
    for a in (SPARSE, DENSE, Agreement(1, SPARSE.representation, 3, 3, 1, 1, 1, 1)):
        token = 0 if a.vocab_size == 3 else 2
        columns = {"ids": [0], "q": q_of(2**24)} if a.vocab_size == 3 else {}
        rows = bytes(frame_of(reply(a, slot=0, token=token, **columns), a, 0))
        with pytest.raises(RemoteProtocolError) as caught:
            decode_replies(rows + bytes(frame_of(completion(a, slot=0), a, 1)), a)
        error = caught.value
        assert (error.code, error.offset, error.path) == (C.UNEXPECTED_MESSAGE, len(rows) + 6, "header.message_type")


def test_exact_code_covers_every_code_that_the_wire_raises() -> None:
    raised: set[str] = set()
    for file in Path(pp1wire.wire.__file__).parent.glob("*.py"):
        if file.name != "_schema_v2.py":
            raised |= set(re.findall(r"RejectCode\.([A-Z][A-Z_]+)\b", file.read_text()))
    tested = {case.code.name for case in CASES} | {"SEQUENCE_MISMATCH"}
    assert raised - tested == set()
    assert tested - raised == set()


def test_exact_code_never_changes_number() -> None:
    """Codes are stable: the numbers of the first and last of each block stand in captures already written."""
    assert (C.BAD_MAGIC, C.BODY_CHECKSUM_MISMATCH, C.Q_MASS_MISMATCH, C.COMMIT_DIGEST_MISMATCH) == (1, 30, 95, 125)


def test_every_case_has_its_own_name() -> None:
    names = [case.name for case in CASES]
    assert len(set(names)) == len(names)
