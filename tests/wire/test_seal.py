"""Rows that lie in their places already: sealed, they are byte for byte what encoding gives."""

from __future__ import annotations

import numpy as np
import pytest

from pp1wire.errors import LocalProtocolError
from pp1wire.wire import Agreement, decode_replies, encode_replies, seal_replies
from pp1wire.wire._schema_v2 import reply_frame_dtype
from tests.wire.frames import DENSE, SPARSE, encode_all, reply

IDENTITY = {"session": 7, "slot": 2, "generation": 3, "round": 5, "position": 3}
both = pytest.mark.parametrize("agreement", [SPARSE, DENSE], ids=["sparse", "dense"])


def rows_in_place(agreement: Agreement, n: int = 3) -> tuple[bytes, bytearray]:
    """What encoding gives, and a buffer with the rows alone, and noise everywhere else."""
    encoded = encode_all([reply(agreement, position=3 + i) for i in range(n)], agreement, 9)
    noise = bytearray(b"\xa5" * len(encoded))
    source, target = (
        np.frombuffer(b, reply_frame_dtype(agreement.id_entries, agreement.q_entries)) for b in (encoded, noise)
    )
    for name in ("token", "entry_count", "ids", "q"):
        target[name] = source[name]
    return encoded, noise


@both
def test_bijection_sealing_gives_the_bytes_of_encoding(agreement: Agreement) -> None:
    encoded, buffer = rows_in_place(agreement)
    sealed = seal_replies(buffer, agreement, 9, **IDENTITY)
    assert bytes(sealed) == encoded == encode_replies(decode_replies(encoded, agreement), agreement, 9)
    assert bytes(buffer) == encoded
    array = np.frombuffer(rows_in_place(agreement)[1], np.uint8).copy()
    assert bytes(seal_replies(array, agreement, 9, **IDENTITY)) == encoded
    assert bytes(seal_replies(bytearray(), agreement, 9, **IDENTITY)) == b""


@both
@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"session": 0}, "session"),
        ({"slot": 3}, "slot"),
        ({"generation": 0}, "generation"),
        ({"round": 2**32}, "round"),
        ({"session": 1.5}, "session"),
        ({"position": 2**32 - 2}, "position"),
        ({"sequence": -1}, "sequence"),
        ({"sequence": 2**64 - 2}, "sequence"),
    ],
    ids=str,
)
def test_numbers_that_do_not_fit_are_refused(agreement: Agreement, changes: dict[str, object], named: str) -> None:
    _, buffer = rows_in_place(agreement)
    arguments = {"sequence": 9} | IDENTITY | changes
    with pytest.raises(LocalProtocolError, match=named):
        seal_replies(buffer, agreement, arguments.pop("sequence"), **arguments)


@both
@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        ("token", None, "q_zero_at_token"),
        ("token", -1, "token_out_of_range"),
        ("entry_count", 0, "missing_q"),
        ("q", 0, "q_"),
    ],
)
def test_rows_that_are_not_legal_are_refused(agreement: Agreement, name: str, value: int | None, code: str) -> None:
    encoded, buffer = rows_in_place(agreement)
    rows = np.frombuffer(buffer, reply_frame_dtype(agreement.id_entries, agreement.q_entries))
    without_mass = set(range(agreement.vocab_size)) - set(decode_replies(encoded, agreement).row(1)[0].tolist())
    rows[name][1] = min(without_mass) if value is None else value
    with pytest.raises(LocalProtocolError, match=f"row 1.*{code}"):
        seal_replies(buffer, agreement, 9, **IDENTITY)


def test_buffers_that_hold_no_whole_number_of_frames_or_are_read_only_are_refused() -> None:
    encoded, buffer = rows_in_place(SPARSE)
    with pytest.raises(LocalProtocolError, match="multiple"):
        seal_replies(buffer[:-1], SPARSE, 9, **IDENTITY)
    with pytest.raises(LocalProtocolError, match="read-only"):
        seal_replies(memoryview(encoded), SPARSE, 9, **IDENTITY)
