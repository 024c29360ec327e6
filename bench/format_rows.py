"""The same rounds in every format, encoded from arrays and decoded to arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from . import data
from .formats import Codec, codecs
from .formats.pp1 import NAME as OURS
from .harness import QUICK, Formats, race

_QUICK_SHAPES = [data.Shape(4, 32), data.Shape(4, 32, "adversarial"), data.Shape(4, 0)]


def formats(seconds: float) -> Iterator[Formats]:
    """All shapes; a few of them when there is little time."""
    quick = seconds < QUICK
    for shape in _QUICK_SHAPES if quick else data.shapes():
        yield compare(shape, seconds / 4 if quick else seconds / 5)


def compare(shape: data.Shape, seconds: float) -> Formats:
    agreed, frames = data.shape_frames(shape)
    found = codecs(agreed)
    batch = found[OURS].decode(frames)
    sent = {
        name: bytes(codec.encode(batch)) if codec.encode else frames
        for name, codec in found.items()
        if fits(codec, shape)
    }
    writers: dict[str, Callable[[], object]] = {
        name: partial(codec.encode, batch) for name, codec in found.items() if codec.encode and name in sent
    }
    return Formats(
        shape.name,
        {name: len(encoded) for name, encoded in sent.items()},
        race(writers, seconds=seconds),
        race({name: partial(found[name].decode, encoded) for name, encoded in sent.items()}, seconds=seconds),
    )


def fits(codec: Codec, shape: data.Shape) -> bool:
    """Whether the format is measured in this shape: an object a number makes a second of four dense requests."""
    return bool(shape.support) or shape.requests == 1 or not codec.per_value
