"""Fuzz the library: mutated vectors against every harness, and a table of what they reached.

Exit status 0 if no invariant was broken, 1 if one was (the input is kept, with the command that replays it), 64 for wrong usage.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from pathlib import Path

from fuzz.engines import guided, own
from fuzz.engines.limit import limited
from fuzz.findings import FINDINGS, harness_of, keep, smaller, told, what
from fuzz.harnesses import HARNESSES
from fuzz.outcome import Harness
from fuzz.seeds import CORPUS, corpus, seeds
from fuzz.tally import Tally, table

_USAGE = 64
_TELL_EVERY = 10.0


def main(arguments: list[str] | None = None) -> int:
    """The command; its exit status."""
    parser = _parser()
    try:
        options = parser.parse_args(arguments)
    except SystemExit as stop:
        return _USAGE if stop.code else 0
    if not options.seconds > 0 or (options.inputs is not None and options.inputs < 1):
        print("--seconds, --inputs: expected a number above 0", file=sys.stderr)
        return _USAGE
    if options.replay is not None:
        return _replay(options.replay, options.harness)
    if options.engine == guided.ENGINE:
        reason = guided.missing()
        if reason is not None or options.inputs is not None:
            print(reason or "--inputs goes with the engine own", file=sys.stderr)
            return _USAGE
    chosen = [limited(HARNESSES[name]) for name in (options.harness or HARNESSES)]
    tallies: list[Tally] = []
    for harness in chosen:
        print(f"{harness.name}: {harness.invariant}", flush=True)
        tally, finding = _run(harness, options, options.seconds / len(chosen))
        tallies.append(tally)
        if finding is not None:
            data = smaller(harness, finding.data, finding.error)
            print(*told(harness, finding.error, keep(harness.name, data, options.findings)), sep="\n", file=sys.stderr)
            return 1
    print(*table(tallies), sep="\n")
    if options.update_corpus:
        _update(tallies)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="altogether, split over the harnesses (default 60)")
    parser.add_argument(
        "--inputs", type=int, help="for each harness, whichever is over first; repeats exactly (engine own)"
    )
    parser.add_argument("--seed", type=int, default=0, help="repeats a run, input by input (engine own)")
    parser.add_argument("--harness", action="append", choices=[*HARNESSES], help="only this one; again for more")
    parser.add_argument("--engine", choices=(own.ENGINE, guided.ENGINE), default=own.ENGINE, help="what makes inputs")
    parser.add_argument(
        "--replay", type=Path, metavar="FILE", help="run one input, of the harness that its folder names"
    )
    parser.add_argument("--findings", type=Path, default=FINDINGS, metavar="DIR", help="where findings are kept")
    parser.add_argument(
        "--update-corpus", action="store_true", help="keep the smallest input that reaches each message and code"
    )
    return parser


def _run(harness: Harness, options: argparse.Namespace, seconds: float) -> tuple[Tally, own.Finding | None]:
    if options.engine == guided.ENGINE:
        return guided.fuzz(harness, seconds=seconds, seed=options.seed)
    last = time.monotonic()

    def tell(tally: Tally) -> bool:
        nonlocal last
        if time.monotonic() - last > _TELL_EVERY:
            last = time.monotonic()
            print(f"  {tally.inputs} inputs in {tally.seconds:.0f} s, {tally.rate:.0f} a second", flush=True)
        return False

    start = [*seeds(harness.name), *corpus(harness.name)]
    rng = random.Random(f"{options.seed} {harness.name}")
    return own.fuzz(harness, start, rng, seconds=seconds, inputs=options.inputs, until=tell)


def _replay(path: Path, names: list[str] | None) -> int:
    harness = HARNESSES[names[0]] if names else harness_of(path)
    if harness is None or not path.is_file():
        print(f"--replay {path}: expected a file in a folder named after a harness, or --harness", file=sys.stderr)
        return _USAGE
    data, harness = path.read_bytes(), limited(harness)
    error = what(harness, data)
    if error is not None:
        print(*told(harness, error, path), sep="\n", file=sys.stderr)
        return 1
    print(f"{harness.name}: {harness.run(data)}")
    return 0


def _update(tallies: list[Tally]) -> None:
    """The smallest input for each word, of this run and of the corpus before it."""
    for tally in tallies:
        kept = {keep(tally.harness, data, CORPUS).name for data in tally.smallest.values()}
        for path in (CORPUS / tally.harness).iterdir():
            if path.name not in kept:
                path.unlink()


if __name__ == "__main__":
    sys.exit(main())
