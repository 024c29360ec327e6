"""`pp1wire bench`: races this package against its peers."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path
from typing import Any

from pp1wire.cli_arguments import Formatter
from pp1wire.errors import PP1Error

__all__ = ["add"]

_SECONDS, _QUICK_SECONDS = 4.0, 0.1
_EXAMPLES = (
    "pp1wire bench --quick",
    "pp1wire bench --check --json figures.json --plot plots",
    "pp1wire bench --plot docs/performance --page docs/performance.md      # in a checkout, as make bench does",
)


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    text = "race this package against its peers, side by side; rows are ratios"
    command = commands.add_parser(
        "bench", help=text, formatter_class=Formatter,
        description=f"{text[0].upper()}{text[1:]}. Takes some minutes, on one thread; docs/performance.md explains the rows.",
        epilog="\n".join(["examples:", *(f"    {example}" for example in _EXAMPLES)]),
    )  # fmt: skip
    command.set_defaults(run=_run)
    command.add_argument(
        "--json", metavar="FILE", type=Path, default=None, help="write figures and environment as JSON, too"
    )
    command.add_argument("--plot", metavar="DIR", type=Path, default=None, help="write plots as SVG into DIR")
    command.add_argument(
        "--page",
        metavar="FILE",
        type=Path,
        default=None,
        help="write the tables between the markers of a Markdown file",
    )
    command.add_argument("--quick", action="store_true", help="a moment a row, to see that it runs; figures are rough")
    command.add_argument("--check", action="store_true", help="exit status 1 if a goal is missed; for a quiet machine")


def _run(arguments: argparse.Namespace) -> int:
    bench = _room("")
    about = _room(".environment").environment() | {"quick": arguments.quick}
    plots = _room(".plots") if arguments.plot is not None else None  # before the minutes that it takes to have figures
    if about["loaded"]:
        _tell(f"the machine is busy (load {about['load_at_start']}): ratios may hold, times do not")
    results = []
    for result in bench.run(_QUICK_SECONDS if arguments.quick else _SECONDS):
        results.append(result)
        for line in bench.lines(result):
            _tell(line)
    if arguments.json is not None:
        text = json.dumps(bench.as_data(results, about), indent=2) + "\n"
        arguments.json.write_text(text, encoding="utf-8")
    written = [] if plots is None else plots.write(results, arguments.plot)
    if arguments.page is not None:
        _room(".page").rewrite(arguments.page, results, about, written)
    if arguments.quick:
        _tell("--quick: a moment a row; these figures are rough, run without it for figures to go by")
    missed = [result for result in results if result.met is False]
    return 1 if arguments.check and missed else 0


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()  # a row takes seconds


def _room(module: str) -> Any:
    """A module of the benchmarks: inside an installed wheel, or beside the package in a checkout."""
    for name in ("pp1wire._bench", "bench"):
        try:
            return importlib.import_module(name + module)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise PP1Error(
                    f"the benchmarks need {error.name}; run: pip install 'pp1wire[bench]' (or {error.name} alone)"
                ) from None
    raise PP1Error("the benchmarks are not installed; reinstall pp1wire, or run from a checkout")
