"""Vectors of STEP. Whatever is wrong in one costs the connection."""

from __future__ import annotations

import math

from schemas.generator.vectors.build import Value
from schemas.generator.vectors.cases import Collection
from schemas.generator.vectors.conversation import (
    CONTEXT,
    SEED,
    SUPPORT,
    digest,
)
from schemas.generator.vectors.requests import general, identity


def add(vectors: Collection) -> None:
    """Valid STEPs, and every code that one can get."""
    talk = vectors.talk("opened").opened()
    dense = vectors.talk("opened", "dense").opened()
    step = talk.step()
    vectors.valid("step", "sparse", talk, step, "A round of depth 2.")
    vectors.valid("step", "dense", dense, dense.step(), "Full support.")
    vectors.valid("step", "deepest", talk, talk.step(3).but(support=1), "The agreed depth, of one candidate each.")

    def bad(name: str, comment: str, code: str, path: str, **body: Value) -> None:
        vectors.invalid("step", name, talk, step.but(**body), code, f"step.{path}", comment)

    general(vectors, talk, step, "reserved_1")
    bad("depth-0", "Nothing to draft.", "value_out_of_bounds", "depth", depth=0)
    bad("depth-6", "Deeper than any agreement.", "value_out_of_bounds", "depth", depth=6)
    bad("depth-4", "Deeper than this agreement.", "depth_over_agreement", "depth", depth=4)
    bad("policy-0", "No policy has number 0.", "unknown_value", "support_policy", support_policy=0)
    for name, value in {
        "zero": 0.0,
        "minus-zero": -0.0,
        "negative": -1.0,
        "nan": math.nan,
        "infinite": math.inf,
    }.items():
        comment = f"A temperature of {value}."
        bad(f"temperature-{name}", comment, "temperature_not_positive", "temperature", temperature=value)
    bad("policy-full", "Full support over sparse rows.", "support_mismatch", "support_policy", support_policy=1)
    bad("support-0", "No candidates.", "support_mismatch", "support", support=0)
    bad("support-over", "More candidates than a row holds.", "support_mismatch", "support", support=SUPPORT + 1)
    vectors.invalid(
        "step", "dense-support", dense, dense.step().but(support=1), "support_mismatch", "step.support",
        "Full support has no k.",
    )  # fmt: skip
    bad("position-overflow", "Counters would wrap.", "position_overflow", "position", position=2**32 - 2)
    bad("position", "Not the length of the prefix.", "position_mismatch", "position", position=4)
    bad("digest", "Another prefix.", "prefix_digest_mismatch", "prefix_digest", prefix_digest=digest((7, 0, 10)))
    identity(
        vectors, talk, step,
        {
            "session-not-open": ("session", 2, "session_not_open"),
            "slot": ("slot", 1, "slot_mismatch"),
            "generation-not-current": ("generation", 2, "generation_not_next"),
            "round-skipped": ("round", 2, "round_not_next"),
        },
    )  # fmt: skip
    drafting = vectors.talk("opened, asked").opened().asked()
    vectors.invalid(
        "step", "round-open", drafting, drafting.step(), "round_still_open", "header.round",
        "Round 2 before round 1 was committed.",
    )  # fmt: skip
    void = vectors.talk("opened, asked, given up").opened().asked()
    void.send(void.completion("model_error"))
    vectors.invalid(
        "step", "after-failure", void, void.step(), "round_still_open", "header.round",
        "After a failed round only a RESET goes on.",
    )  # fmt: skip
    second = vectors.talk("opened, one round").opened().asked().drafted().completed()
    second.send(second.commit(1, "correction", 5))
    vectors.valid("step", "second-round", second, second.step(), "The next round.")
    for name, field, value in (("seed", "proposal_seed", SEED + 1), ("context", "context_version", CONTEXT + 1)):
        code = {"seed": "proposal_seed_changed", "context": "context_changed"}[name]
        vectors.invalid(
            "step", f"{name}-changed", second, second.step().but(**{field: value}), code, f"step.{field}",
            "It is constant in a generation.",
        )  # fmt: skip
    vectors.invalid(
        "step",
        "round-repeated",
        second,
        second.step().under(round=1),
        "round_not_next",
        "header.round",
        "Round 1 again.",
    )
