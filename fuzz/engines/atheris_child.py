"""Run by `fuzz.engines.guided` in a process of its own, because libFuzzer ends the process that it runs in.

python -m fuzz.engines.atheris_child HARNESS SECONDS SEED CORPUS REPORT FINDINGS
"""

from __future__ import annotations

import atexit
import random
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Final

import atheris

# The library is instrumented, and nothing of the fuzzer, whose own branches would be taken for progress.
with atheris.instrument_imports(include=["pp1wire"]):
    for _module in ("pp1wire.capture.validate", "pp1wire.capture.show", "pp1wire.capture.vectors", "pp1wire.protocol"):
        import_module(_module)

from fuzz.findings import keep
from fuzz.harnesses import HARNESSES
from fuzz.mutation import mutated
from fuzz.seeds import seeds
from fuzz.tally import Tally

_EVERY: Final = 2.0  # seconds between reports
_LONGEST: Final = 20_000


def main(arguments: list[str]) -> None:
    """Fuzz until the time is over; never returns."""
    name, seconds, seed, corpus, report, findings = arguments
    harness, tally = HARNESSES[name], Tally(name, "atheris")
    start, begin = seeds(name), time.monotonic()
    saved = begin

    def one_input(data: bytes) -> None:
        nonlocal saved
        try:
            tally.add(data, harness.run(data))
        except Exception:
            keep(name, data, Path(findings))
            raise
        now = time.monotonic()
        tally.seconds = now - begin
        if now - saved > _EVERY:
            saved = now
            tally.save(Path(report))

    def mutate(data: bytes, max_size: int, number: int) -> bytes:
        rng = random.Random(number)
        # Most by the schemas, some by libFuzzer, whose table of recent comparisons knows magic numbers.
        if rng.random() < 0.15:
            return bytes(atheris.Mutate(data, max_size))
        return mutated(name, data, rng.choice(start), rng)[:max_size]

    atexit.register(lambda: tally.save(Path(report)))
    limits = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        f"-max_len={_LONGEST}",
        "-timeout=60",
        "-rss_limit_mb=2048",
    ]
    quiet = ["-verbosity=0", "-print_final_stats=0", f"-artifact_prefix={corpus}/../"]
    atheris.Setup([sys.argv[0], *limits, *quiet, corpus], one_input, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
