"""`pp1wire validate`: judges captures, and reports as text, JSON or a page."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pp1wire.cli_arguments import Formatter, integer

if TYPE_CHECKING:
    from pp1wire.capture.observing import Observe, Seen
    from pp1wire.capture.validate import Result

__all__ = ["add", "progress"]

_EXAMPLES = (
    "pp1wire validate run.pcapng",
    "pp1wire validate --port 7000 --json monday.pcapng tuesday.pcapng",
    "pp1wire validate verifier.bin --peer worker.bin",
    "pp1wire validate run.pcapng --html report.html",
    "pp1wire validate --dask tcp://10.0.0.1:8786 s3://bucket/monday.pcapng s3://bucket/tuesday.pcapng",
    "zstdcat run.pcapng.zst | pp1wire validate -",
)


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    text = (
        "judge captures by the functions that judge online; exit status 0 valid, 1 invalid, 2 incomplete, 3 unreadable"
    )
    command = commands.add_parser(
        "validate", help=text, description=f"{text[0].upper()}{text[1:]}.", formatter_class=Formatter,
        epilog="\n".join(["examples:", *(f"    {example}" for example in _EXAMPLES)]),
    )  # fmt: skip
    command.set_defaults(run=_run, usage=command.error)
    command.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="pcapng capture or raw one-way stream, also by URL (extra remote); - for standard input",
    )
    command.add_argument(
        "--port", type=integer(1, 65_535), action="append", default=[], metavar="PORT",
        help="server port that speaks PP1: anything else there is invalid; may be repeated (default: every port is looked at, "
        "and what is not PP1 is skipped)",
    )  # fmt: skip
    command.add_argument(
        "--peer",
        default=None,
        metavar="FILE",
        help="the other direction of a raw stream: its HELLO settles the agreement (default: what one HELLO shows is judged)",
    )
    command.add_argument(
        "--max-findings", type=integer(0, 10**9), default=1000, help="findings printed of each severity"
    )
    command.add_argument(
        "--jobs", type=integer(0, 256), default=1, metavar="N",
        help="processes that judge, each a file, or connections of a large one; 0 for as many as there are cores; not with "
        "--html or -",
    )  # fmt: skip
    command.add_argument(
        "--dask", metavar="ADDRESS", default=None,
        help="have the workers of a Dask cluster judge the files, which they open by these names: the scheduler, as "
        "tcp://10.0.0.1:8786 (extra dask); not with --jobs, --html or -",
    )  # fmt: skip
    command.add_argument(
        "--html", metavar="FILE", type=Path, default=None,
        help="write the report as one HTML page, too, with the bytes around what is wrong; only you can read it (mode 600), as "
        "it holds what users said",
    )  # fmt: skip
    command.add_argument(
        "--rounds", type=integer(1, 10**6), default=None, metavar="N",
        help="with --json: the first N rounds one by one, and N more that were discarded or void; in one process",
    )  # fmt: skip
    command.add_argument(
        "--schema", action="store_true", help="print the JSON Schema of what --json prints, and do nothing else"
    )
    command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")


def _run(arguments: argparse.Namespace) -> int:
    from pp1wire.capture.report import report_lines

    if arguments.schema:
        from pp1wire.capture.report_schema import report_schema

        sys.stdout.write(json.dumps(report_schema(), indent=2, ensure_ascii=False) + "\n")
        return 0
    if not arguments.files:
        arguments.usage("the following arguments are required: FILE")
    watched = arguments.html is not None or arguments.rounds is not None
    if arguments.dask is not None and (arguments.jobs != 1 or watched or "-" in arguments.files):
        arguments.usage("argument --dask: not allowed with --jobs, --html, --rounds or -")
    as_json = getattr(arguments, "json", False)
    if arguments.rounds is not None and not as_json:
        arguments.usage("argument --rounds: only with --json")
    result = _judged(arguments)
    if as_json:
        sys.stdout.write(json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in report_lines(result))
    return int(result.status)


def _judged(arguments: argparse.Namespace) -> Result:
    from pp1wire.capture.validate import validate

    listed = None
    if arguments.rounds is not None:
        from pp1wire.capture.rounds import Rounds

        listed = Rounds(arguments.rounds, arguments.rounds)

    def judge(*observers: Observe) -> Result:
        watching: list[Observe] = [*observers, *([] if listed is None else [listed])]
        result = validate(
            arguments.files,
            ports=arguments.port,
            peer=arguments.peer,
            max_findings=arguments.max_findings,
            progress=progress(),
            observe=_each(watching) if watching else None,
            jobs=arguments.jobs,
            dask=arguments.dask,
        )
        result.rounds = listed
        return result

    if arguments.dask is not None:
        from pp1wire.capture.cluster import ClusterError

        try:
            return judge()
        except ClusterError as error:
            arguments.usage(f"argument --dask: {error}")
    if arguments.html is None:
        return judge()
    from pp1wire.capture.html import PageError, PageFile, render
    from pp1wire.capture.remote import local_path
    from pp1wire.capture.rounds import Rounds

    try:
        # Before anything is read: who waited for the judging of a large file wants its page.
        file = PageFile(arguments.html, [local_path(name) for name in arguments.files])
    except PageError as error:
        arguments.usage(f"argument --html: {error}")
    rounds = Rounds()
    with file:
        result = judge(rounds)
        file.write(render(result, rounds))
    return result


def _each(observers: list[Observe]) -> Observe:
    def observe(seen: Seen) -> None:
        for observer in observers:
            observer(seen)

    return observe


def progress() -> Callable[[str, int], None] | None:
    """Tells on a terminal's standard error how far a file was read; None where nobody looks."""
    if not sys.stderr.isatty():
        return None

    def tell(name: str, count: int) -> None:
        sys.stderr.write(f"\r{name}: {count / 1e6:.0f} MB read\r")
        sys.stderr.flush()

    return tell
