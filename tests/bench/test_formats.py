"""Every format that speeds are compared with carries the same rows: numbers, ids and q, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

from bench import data, formats
from bench.formats import pp1
from bench.formats.protobuf_messages import BACKEND
from pp1wire.protocol.session import step_tickets
from pp1wire.sampling import tickets_agree
from pp1wire.wire import ReplyBatch, decode_replies

SHAPES = [
    data.Shape(requests, support, rows)
    for rows in ("real", "adversarial")
    for requests, support in ((1, 16), (4, 32), (1, 256), (1, 0))
]


def batch_of(shape: data.Shape) -> tuple[dict[str, formats.Codec], bytes, ReplyBatch]:
    agreed, frames = data.shape_frames(shape)
    return formats.codecs(agreed), frames, decode_replies(frames, agreed)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_every_format_gives_the_same_rows_back(shape):
    codecs, frames, batch = batch_of(shape)
    assert len(codecs) == len(formats.MODULES) == 9
    wanted = pp1.rows(batch)
    assert len(wanted) == shape.requests * data.DEPTH
    for name, codec in codecs.items():
        sent = bytes(codec.encode(batch)) if codec.encode else frames
        found = codec.rows(codec.decode(sent))
        assert len(found) == len(wanted), name
        for (numbers, ids, q), (own_numbers, own_ids, own_q) in zip(found, wanted, strict=True):
            assert tuple(numbers) == tuple(own_numbers), name
            assert (ids.dtype, q.dtype) == (np.int32, np.float32), name
            np.testing.assert_array_equal(ids, own_ids, err_msg=name)
            np.testing.assert_array_equal(q.view(np.uint32), own_q.view(np.uint32), err_msg=name)


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_rows_of_every_shape_are_legal_and_drawn_with_their_tickets(shape):
    _, _, batch = batch_of(shape)
    tickets = np.concatenate(step_tickets(data.steps(shape.requests)))
    drawn = tickets_agree(batch.counts, tickets, batch.tokens, batch.ids if shape.support else None)
    assert drawn.all()


def test_a_token_that_its_ticket_does_not_draw_is_found_in_the_timed_part():
    codecs, frames, _ = batch_of(data.Shape(1, 32))
    agreed = data.agreement(data.Shape(1, 32).representation)
    assert len(codecs[pp1.NAME].decode(frames)) == 5
    other = data.steps(2)[1:]
    with pytest.raises(RuntimeError, match="tickets"):
        pp1.validated(frames, agreed, other)


def test_protobuf_is_the_fast_one():
    assert BACKEND == "upb"
