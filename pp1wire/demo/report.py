"""What a run of the demo measured, as a table and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pp1wire.capture.validate import Result
from pp1wire.demo.identities import vocab_size
from pp1wire.demo.settings import Settings
from pp1wire.net import Round, VerifierClient
from pp1wire.net.tally import add
from pp1wire.wire import CommitKind, Limits, Representation

__all__ = ["Leg", "Report"]

_SHOWN_FINDINGS = 3


@dataclass(slots=True)
class Leg:
    """One representation's part of a run."""

    representation: Representation
    lanes: list[list[Round]] = field(default_factory=list)
    counters: dict[str, Any] = field(default_factory=dict)
    fallbacks: Counter[str] = field(default_factory=Counter)
    stages: dict[str, float] = field(default_factory=dict)
    """Seconds in all, of the verifier's stages."""
    worker: dict[str, Any] | None = None
    """What the worker measured; None if it was killed."""
    seconds: float = 0.0

    @property
    def rounds(self) -> list[Round]:
        """The rounds of all requests."""
        return [decided for lane in self.lanes for decided in lane]

    def add_clients(self, clients: Sequence[VerifierClient]) -> None:
        """Take over what the verifier's clients counted and timed."""
        self.counters = dict(add(*(client.counters() for client in clients)))
        for client in clients:
            self.fallbacks.update({reason: n for reason, n in client.fallbacks.items() if n})
            for name, seconds in client.stages.seconds.items():
                self.stages[name] = self.stages.get(name, 0.0) + seconds

    def stage_milliseconds(self) -> dict[str, float | None]:
        """Milliseconds a round by stage; None for what a killed worker took with it."""
        proposed = max(1, len([r for r in self.rounds if r.fallback is None]))
        theirs: dict[str, Any] = (self.worker or {}).get("stages", {})
        result: dict[str, float | None] = {}
        for name in ("draft", "encode"):
            result[name] = theirs[name]["seconds"] / max(1, theirs[name]["runs"]) * 1e3 if name in theirs else None
        decode = self.stages["decode"] / proposed * 1e3
        propose = sum(r.propose_s for r in self.rounds if r.fallback is None) / proposed * 1e3
        drafted, encoded = result["draft"], result["encode"]
        wire = None if drafted is None or encoded is None else max(0.0, propose - drafted - encoded - decode)
        result |= {"wire and queue": wire, "decode and validate": decode}
        decided = max(1, len(self.rounds))
        return result | {name: self.stages[name] / decided * 1e3 for name in ("target", "verify")}

    def acceptance(self, depth: int) -> list[float | None]:
        """Share of the tokens verified at each position that were accepted there, given that all before were."""
        verified = [r for r in self.rounds if r.fallback is None]
        shares: list[float | None] = []
        for place in range(depth):
            reached = [r for r in verified if r.raw_accepted >= place and len(r.drafted) > place]
            shares.append(sum(r.raw_accepted > place for r in reached) / len(reached) if reached else None)
        return shares

    def rejects(self) -> dict[str, int]:
        """Every counter of something wrong: discards by reason, stale drops, connection failures, rounds without a worker."""
        counts = {f"discarded: {name}": n for name, n in self.counters["discards"].items()}
        counts |= {f"dropped: {name}": n for name, n in self.counters["dropped"].items()}
        counts |= {f"connection ended: {name}": n for name, n in self.counters["failures"].items()}
        return counts | {f"no proposal: {name}": n for name, n in self.fallbacks.items()}


@dataclass(slots=True)
class Report:
    """A whole run."""

    settings: Settings
    legs: list[Leg]
    validation: Result

    @property
    def surprise(self) -> str | None:
        """What a run must not do: without a fault, leave a round unverified or record something invalid; with one, hide it."""
        fallen = [r for leg in self.legs for r in leg.rounds if r.fallback is not None]
        if self.settings.fault is not None:
            return None if fallen else f"the fault {self.settings.fault} cost no round a proposal"
        if fallen:
            return f"{len(fallen)} rounds had no proposal, the first for {fallen[0].fallback}, though no fault was injected"
        return None if self.validation.status == 0 else "the recording is not valid"

    @property
    def as_expected(self) -> bool:
        """Whether nothing surprising happened."""
        return self.surprise is None

    def as_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {
            "model": self.settings.model,
            "fault": self.settings.fault,
            "seed": self.settings.seed,
            "as_expected": self.as_expected,
            "surprise": self.surprise,
            "capture": str(self.settings.capture),
            "logits": None if self.settings.logits is None else str(self.settings.logits),
            "validation": self.validation.to_json(),
            "legs": [self._leg_data(leg) for leg in self.legs],
        }

    def lines(self) -> list[str]:
        """The table at the end of a run."""
        lines = []
        for leg in self.legs:
            lines += ["", *self._leg_lines(leg)]
        size = self.settings.capture.stat().st_size / 1e6
        lines += [
            "",
            f"recording: {self.settings.capture}, {size:.1f} MB; it holds the prompts, the tokens and the proposal seeds",
        ]
        if self.settings.logits is not None:
            size = self.settings.logits.stat().st_size / 1e6
            lines.append(
                f"logits: {self.settings.logits}, {size:.1f} MB; secret, as it holds the verifier's seeds; "
                f"run: pp1wire audit {self.settings.capture} --logits {self.settings.logits}"
            )
        lines += self._verdict_lines()
        return [*lines, "", f"not as expected: {self.surprise}"] if self.surprise else lines

    def _verdict_lines(self) -> list[str]:
        seen = self.validation.summary
        frames = ", ".join(f"{n} {name}" for name, n in seen.frames.items() if n)
        lines = [f"  validate: {self.validation.status.name.lower()} ({frames})"]
        lines += [f"    {f.severity} {f.code}: {f.message}" for f in self.validation.findings[:_SHOWN_FINDINGS]]
        rest = sum(self.validation.counts.values()) - _SHOWN_FINDINGS
        return lines + ([f"    and {rest} more; run: pp1wire validate {self.settings.capture}"] if rest > 0 else [])

    def _leg_lines(self, leg: Leg) -> list[str]:
        data = self._leg_data(leg)
        sparse = leg.representation is Representation.SPARSE
        rejects = {name: n for name, n in data["rejects"].items() if n}
        shares = " ".join("   –" if s is None else f"{s:.2f}" for s in data["acceptance_by_position"])
        stages = ", ".join(f"{n} {'–' if ms is None else f'{ms:.2f}'}" for n, ms in data["stage_milliseconds"].items())
        kinds = ", ".join(f"{n} {name}" for name, n in data["kinds"].items())
        lines = [
            f"{leg.representation.name.lower()}{f' k={self.settings.support}' if sparse else ''}",
            f"  rounds                {data['rounds']} ({kinds}) in {leg.seconds:.1f} s",
            f"  tokens a round        {data['tokens_a_round']:.2f}",
            f"  acceptance            {shares}   by position, given that all before were accepted",
        ]
        if data["bytes_a_round"] is not None:
            lines.append(
                f"  bytes a round         {data['bytes_a_round']:,}"
                + (f"; dense {data['dense_bytes_a_round']:,} ({data['dense_bytes_a_round'] / data['bytes_a_round']:.0f}×)"
                   if sparse else "")
            )  # fmt: skip
        lines += [
            f"  ms a round by stage   {stages}",
            (
                f"  reject counters       {', '.join(f'{name} {n}' for name, n in rejects.items()) or 'all 0'}"
                f" (of {len(data['rejects'])} counters)"
            ),
        ]
        return lines

    def _leg_data(self, leg: Leg) -> dict[str, Any]:
        rounds, vocab = leg.rounds, vocab_size(self.settings.model)
        limits = Limits(vocab_size=vocab, support=self.settings.support, depth=self.settings.depth)
        proposed = any(r.fallback is None for r in rounds)
        return {
            "representation": leg.representation.name.lower(),
            "requests": len(leg.lanes),
            "rounds": len(rounds),
            "seconds": leg.seconds,
            "tokens_a_round": sum(len(r.tokens) for r in rounds) / max(1, len(rounds)),
            "kinds": {k.name.lower(): sum(r.kind is k for r in rounds) for k in CommitKind},
            "acceptance_by_position": leg.acceptance(self.settings.depth),
            "bytes_a_round": limits.round_bytes(leg.representation) if proposed else None,
            "dense_bytes_a_round": limits.round_bytes(Representation.DENSE),
            "stage_milliseconds": leg.stage_milliseconds(),
            "rejects": leg.rejects(),
            "counters": leg.counters,
            "tokens": [[token for decided in lane for token in decided.tokens] for lane in leg.lanes],
        }
