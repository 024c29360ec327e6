"""Feed mutated vectors to every harness for a while; a violation prints the bytes that show it."""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter

from fuzz.harness import HARNESSES
from fuzz.mutate import mutated
from fuzz.seeds import seeds


def main() -> int:
    """Exit status 1 at the first violation."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0, help="repeats a run, input by input")
    arguments = parser.parse_args()
    rng, corpus = random.Random(arguments.seed), seeds()
    outcomes: Counter[str] = Counter()
    start = told = time.monotonic()
    inputs = 0
    while (now := time.monotonic()) - start < arguments.seconds:
        data, agreement = rng.choice(corpus)
        data = mutated(data, rng)
        for name, harness in HARNESSES.items():
            try:
                outcomes[harness(data, agreement).split(" ")[0]] += 1
            except Exception as error:
                print(f"violation in {name} after {inputs} inputs, --seed {arguments.seed}: {error!r}", file=sys.stderr)
                print(data.hex(), file=sys.stderr)
                return 1
        inputs += 1
        if now - told > 10:
            told = now
            print(f"{inputs} inputs in {now - start:.0f} s, {len(outcomes)} outcomes", flush=True)
    print(f"{inputs} inputs, no violation; outcomes: " + ", ".join(f"{n} {c}" for n, c in outcomes.most_common()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
