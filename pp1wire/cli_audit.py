"""`pp1wire audit`: recomputes what a capture's rounds were made from."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from pp1wire.cli_arguments import Formatter, integer
from pp1wire.cli_validate import progress

__all__ = ["add"]

_EXAMPLES = (
    "pp1wire demo --capture run.pcapng --logits run.npz && pp1wire audit run.pcapng --logits run.npz",
    "pp1wire audit run.pcapng --logits draft.safetensors target.npz --roots roots.txt",
    "pp1wire audit --schema",
)


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    text = "recompute q, tokens and decisions from logits; exit status 0 all right, 1 wrong, 2 incomplete, 3 unreadable"
    command = commands.add_parser(
        "audit", help=text, formatter_class=Formatter,
        description=f"{text[0].upper()}{text[1:]}. Without logits, tickets and the sum of -ln q(x) - H(q) are looked at.",
        epilog="\n".join(["examples:", *(f"    {example}" for example in _EXAMPLES)]),
    )  # fmt: skip
    command.set_defaults(run=_run, usage=command.error)
    command.add_argument(
        "file", nargs="?", metavar="CAPTURE", help="pcapng capture or raw one-way stream; - for standard input"
    )
    command.add_argument(
        "--logits", nargs="+", action="extend", metavar="FILE", default=[],
        help="npz or safetensors: draft logits, target logits or probabilities, and verification seeds, by round",
    )  # fmt: skip
    command.add_argument(
        "--roots", type=Path, metavar="FILE", default=None,
        help="text file of root seeds, one a line, for verification seeds that are not among the logits",
    )  # fmt: skip
    command.add_argument(
        "--backend", choices=("numpy", "torch", "triton"), default="numpy",
        help="what recomputes, with the same bits; the last two need the extra cuda, and triton a GPU",
    )  # fmt: skip
    command.add_argument(
        "--port", type=integer(1, 65_535), action="append", default=[], metavar="PORT", help="as of pp1wire validate"
    )
    command.add_argument("--max-findings", type=integer(0, 10**9), default=1000, help="findings kept of each severity")
    command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")
    command.add_argument("--schema", action="store_true", help="print the JSON schema of --json, and do nothing else")


def _run(arguments: argparse.Namespace) -> int:
    from pp1wire.audit import AuditError, audit, read_roots, schema

    if arguments.schema:
        sys.stdout.write(json.dumps(schema(), indent=2, ensure_ascii=False) + "\n")
        return 0
    if arguments.file is None:
        arguments.usage("the following arguments are required: CAPTURE")
    try:
        result = audit(
            arguments.file,
            arguments.logits,
            backend=arguments.backend,
            seeds=None if arguments.roots is None else read_roots(arguments.roots),
            ports=arguments.port,
            max_findings=arguments.max_findings,
            progress=progress(),
        )
    except AuditError as error:
        sys.stderr.write(f"pp1wire audit: {error}\n")
        return 3
    if getattr(arguments, "json", False):
        sys.stdout.write(json.dumps(result.to_json(), indent=2, ensure_ascii=False) + "\n")
    else:
        sys.stdout.writelines(f"{line}\n" for line in result.lines())
    return int(result.status)
