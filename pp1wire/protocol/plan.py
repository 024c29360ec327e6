"""The preflight of a deployment: bytes of every layout for a shape, and what fits where (`pp1wire plan`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pp1wire.wire import Limits, Representation
from pp1wire.wire.limits import wire_seconds

__all__ = ["LayoutPlan", "Plan", "plan"]

_LEAST_MILLISECONDS = 1e-4


@dataclass(frozen=True, slots=True)
class LayoutPlan:
    """One representation of a shape, in bytes; payloads exclude headers."""

    representation: str
    row: int
    """Payload of a position."""
    request: int
    """Payload of a request's proposal."""
    batch: int
    """Payload of one proposal of every request."""
    pool: int
    """Slot buffers of one full copy: two batches in flight."""
    fan_out: int
    """Payload that rank 0 sends to the other ranks for a batch."""
    round: int
    """What a request's proposal takes on the wire, headers and COMPLETION included."""
    request_seconds: float
    """Lower bound on the link of one request's payload."""
    batch_seconds: float
    """Lower bound on the link of a batch's payload."""
    fits: bool | None
    """Whether the slot buffers fit what was said to be there; None if nothing was said."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A shape and its layouts."""

    limits: Limits
    link_gigabits: float
    buffer_bytes: int | None
    layouts: tuple[LayoutPlan, ...]
    shard_request: int
    """Payload of one dense proposal's vocabulary shard, one shard a rank."""
    shard_batch: int
    shard_request_seconds: float
    """Lower bound of that shard, each on a link of its own."""

    @property
    def fits(self) -> bool | None:
        """Whether every layout fits the buffers that were given; None if none were."""
        return None if self.buffer_bytes is None else all(layout.fits for layout in self.layouts)

    def as_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        limits = self.limits
        shape = {
            "vocab": limits.vocab_size, "padded_vocab": limits.padded_ids, "support": limits.support,
            "depth": limits.depth, "requests": limits.slots, "ranks": limits.ranks,
            "link_gigabits": self.link_gigabits, "buffer_bytes": self.buffer_bytes,
        }  # fmt: skip
        layouts = [{name: getattr(layout, name) for name in LayoutPlan.__slots__} for layout in self.layouts]
        shard = {
            "request": self.shard_request,
            "batch": self.shard_batch,
            "request_seconds": self.shard_request_seconds,
        }
        return {"shape": shape, "layouts": layouts, "dense_shard": shard, "fits": self.fits}

    def lines(self) -> list[str]:
        """The plan as a table for people."""
        limits = self.limits
        padding = "" if limits.padded_ids == limits.vocab_size else f" (padded {limits.padded_ids:,})"
        names = [
            f"sparse k={limits.support}" if p.representation == "sparse" else p.representation for p in self.layouts
        ]
        lines = [
            (
                f"vocabulary {limits.vocab_size:,}{padding}, depth {limits.depth}, requests {limits.slots}, "
                f"verifier ranks {limits.ranks}, link {self.link_gigabits:g} Gb/s"
            ),
            "",
            f"{'bytes':<40}" + "".join(f"{name:>16}" for name in names),
        ]
        for text, name in (
            ("a position", "row"),
            ("a request's proposal", "request"),
            ("a proposal of every request", "batch"),
            ("slot buffers, two batches in flight", "pool"),
            ("rank 0 to the other ranks, a batch", "fan_out"),
            ("a request's round with all headers", "round"),
        ):
            lines.append(f"{text:<40}" + "".join(f"{getattr(p, name):>16,}" for p in self.layouts))
        for text, name in (
            ("link, a request, at least", "request_seconds"),
            ("link, a batch, at least", "batch_seconds"),
        ):
            lines.append(f"{text:<40}" + "".join(f"{_time(getattr(p, name)):>16}" for p in self.layouts))
        lines += [
            "",
            (
                f"dense, one vocabulary shard a rank: {self.shard_request:,} B a request, {self.shard_batch:,} B a batch, "
                f"at least {_time(self.shard_request_seconds)} a request on a link of its own"
            ),
            "Payload bytes, but for the rounds. Times are serialisation alone: a lower bound, not a latency.",
        ]
        if self.buffer_bytes is not None:
            lines.append("")
            for layout, name in zip(self.layouts, names, strict=True):
                verdict = "fits" if layout.fits else f"does not fit, short of {layout.pool - self.buffer_bytes:,} B"
                lines.append(f"{name}: {verdict} in {self.buffer_bytes:,} B")
        return lines


def _time(seconds: float) -> str:
    # A sparse proposal takes a fraction of a microsecond, of which milliseconds would show zeros.
    return f"{seconds * 1e3:,.3f} ms" if seconds >= _LEAST_MILLISECONDS else f"{seconds * 1e6:.3f} µs"


def plan(limits: Limits, *, link_gigabits: float = 40.0, buffer_bytes: int | None = None) -> Plan:
    """Compute every layout of a shape; nothing is allocated.

    Args:
        limits: the shape.
        link_gigabits: nominal speed of the link between worker and verifier, Gb/s.
        buffer_bytes: what there is for slot buffers; None to judge nothing.

    Raises:
        LocalProtocolError: the link's speed is not above zero.
    """
    layouts = []
    for representation in (Representation.DENSE, Representation.SPARSE):
        pool = limits.pool_bytes(representation)
        layouts.append(
            LayoutPlan(
                representation=representation.name.lower(),
                row=limits.row_bytes(representation),
                request=limits.request_bytes(representation),
                batch=limits.batch_bytes(representation),
                pool=pool,
                fan_out=limits.fan_out_bytes(representation),
                round=limits.round_bytes(representation),
                request_seconds=wire_seconds(limits.request_bytes(representation), link_gigabits),
                batch_seconds=wire_seconds(limits.batch_bytes(representation), link_gigabits),
                fits=None if buffer_bytes is None else pool <= buffer_bytes,
            )
        )
    return Plan(
        limits=limits,
        link_gigabits=link_gigabits,
        buffer_bytes=buffer_bytes,
        layouts=tuple(layouts),
        shard_request=limits.shard_request_bytes(),
        shard_batch=limits.shard_batch_bytes(),
        shard_request_seconds=wire_seconds(limits.shard_request_bytes(), link_gigabits),
    )
