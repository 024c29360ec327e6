"""`pp1wire vectors`: its arguments, and the report that they ask for."""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pp1wire.cli_arguments import number

if TYPE_CHECKING:
    from pp1wire.capture.vectors import VectorReport
    from pp1wire.capture.vectors_against import AgainstReport

__all__ = ["add_arguments", "report"]

_SECONDS = 10.0


def add_arguments(command: argparse.ArgumentParser) -> None:
    """The options of `pp1wire vectors`."""
    command.add_argument(
        "--against", type=_words, default=None, metavar="CMD",
        help="a program that decodes: it reads a line a vector and answers with a line of JSON, as schemas/vectors/README.md "
        "says; exit status 3 if it dies, hangs or says what is no answer",
    )  # fmt: skip
    command.add_argument(
        "--expected-failures", type=Path, action="append", default=[], metavar="FILE",
        help="with --against: names of the vectors that it is known to fail, one a line; exit status 1 unless exactly these "
        "fail; may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--timeout", type=number(0.1, 600), default=_SECONDS, metavar="SECONDS",
        help="with --against: what one answer may take",
    )  # fmt: skip
    command.set_defaults(wrong_usage=command.error)


def _words(text: str) -> list[str]:
    """The type of a command: split as a shell would, but no shell runs it."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a command, got {text!r}: {str(error).lower()}") from None
    if not words:
        raise argparse.ArgumentTypeError("expected a command, got nothing")
    return words


def report(arguments: argparse.Namespace) -> VectorReport | AgainstReport:
    """Run what is asked for."""
    from pp1wire.capture.vectors import run_vectors
    from pp1wire.capture.vectors_against import read_expected_failures, run_against

    if arguments.against is None:
        if arguments.expected_failures:
            arguments.wrong_usage("--expected-failures goes with --against")
        return run_vectors()
    expected = read_expected_failures(arguments.expected_failures)
    return run_against(
        arguments.against, expected=expected, seconds=arguments.timeout,
        progress=_tell if sys.stderr is not None and sys.stderr.isatty() else None,
    )  # fmt: skip


def _tell(done: int, total: int) -> None:
    """On a terminal: how far it is, and then nothing."""
    line = f"{done} of {total} vectors"
    sys.stderr.write(f"\r{line}" if done < total else f"\r{' ' * len(line)}\r")
    sys.stderr.flush()
