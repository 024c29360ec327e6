"""`pp1wire attack`: its arguments, and the printing of its report."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pp1wire.cli_arguments import Formatter, address, integer, number
from pp1wire.errors import PP1Error

if TYPE_CHECKING:
    from pp1wire.attack import Report, Settings, Target

__all__ = ["add"]

_SETTLE = 0.25
OK, WRONG, INCOMPLETE, UNREACHABLE, INTERRUPTED = 0, 1, 2, 3, 130

_MORE = (
    "It plays the other end, breaks one rule at a time, and reports what the endpoint did. Exit status: 0 all right, "
    "1 something wrong was accepted, or the endpoint hung or died, 2 not every case was run, 3 no valid conversation was "
    "possible, 64 wrong usage. Attack only what is yours."
)
_DETAILS = {
    "worker": (
        "a worker, on connections that are made to it",
        "pp1wire attack worker 127.0.0.1:7411",
        "pp1wire attack worker unix:/run/pp1/worker --only step --json",
    ),
    "verifier": (
        "verifiers that connect here; point one at the address, which connects again when it is refused",
        "pp1wire attack verifier --listen 127.0.0.1:7412",
        "pp1wire attack verifier --listen 127.0.0.1:7412 --only ticket_mismatch",
    ),
}


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    command = commands.add_parser(
        "attack",
        help="a hostile peer that checks another implementation's answers",
        description=f"A hostile peer for endpoints. {_MORE}",
        formatter_class=Formatter,
    )
    targets = command.add_subparsers(dest="target", required=True, metavar="TARGET")
    for name, (text, *examples) in _DETAILS.items():
        target = targets.add_parser(
            name, help=text, description=f"Attacks {text}. {_MORE}", formatter_class=Formatter,
            epilog="\n".join(["examples:", *(f"    {example}" for example in examples)]),
        )  # fmt: skip
        target.set_defaults(run=_run, usage=target.error)
        if name == "worker":
            target.add_argument("address", nargs="?", type=address, metavar="ADDRESS", help="host:port, or unix:/path")
            target.add_argument(
                "--terms", type=Path, default=None, metavar="FILE",
                help="JSON with what the worker is bound to, as a report's `terms` (default: learned from its refusal)",
            )  # fmt: skip
            target.add_argument(
                "--server-name",
                default=None,
                metavar="NAME",
                help="what the worker's certificate names (default: the host)",
            )
        else:
            target.add_argument(
                "--listen",
                dest="address",
                type=address,
                default=None,
                metavar="ADDRESS",
                help="host:port, or unix:/path",
            )
            target.add_argument(
                "--settle", type=number(0.01, 600), default=_SETTLE,
                help="seconds for a verifier to show that it took an answer that was late; below its own deadline",
            )  # fmt: skip
        _options(target)


def _options(target: argparse.ArgumentParser) -> None:
    for name, text in (
        ("ca", "who signs the other end's certificate"),
        ("cert", "this end's chain"),
        ("key", "its key"),
    ):
        target.add_argument(
            f"--tls-{name}", type=Path, default=None, metavar="FILE", help=f"PEM: {text}; all three or none"
        )
    target.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="a case, a group or a reject code; may be repeated"
    )
    target.add_argument("--list", action="store_true", help="print the cases and end")
    target.add_argument("--seed", type=integer(0, 2**64 - 1), default=0, help="of prompts, proposals and garbage")
    target.add_argument("--rate", type=number(0.1, 1e6), default=50.0, help="most connections a second")
    target.add_argument(
        "--timeout", type=number(0.01, 600), default=2.0, help="seconds for each reaction to what is wrong"
    )
    target.add_argument(
        "--wait",
        type=number(0.1, 3600),
        default=10.0,
        help="seconds for an answer to what is right, or for an endpoint that is gone to come back",
    )
    target.add_argument("--max-seconds", type=number(1, 86_400), default=600.0, help="for everything")
    target.add_argument(
        "--i-own-this-endpoint", action="store_true", help="needed for any address that is not of this machine alone"
    )
    target.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")


def _run(arguments: argparse.Namespace) -> int:
    from pp1wire.attack import AttackError, NotOwned, Report, Target, chosen, verifier_cases, worker_cases

    target = Target(arguments.target)
    every = list(worker_cases() if target is Target.WORKER else verifier_cases())
    try:
        cases = chosen(every, arguments.only)
    except AttackError as error:
        arguments.usage(str(error))
    if arguments.list:
        _print_list(target, cases, as_json=_wants_json(arguments))
        return OK
    if arguments.address is None:
        arguments.usage("the worker's address is missing" if target is Target.WORKER else "--listen is missing")
    tls = [arguments.tls_ca, arguments.tls_cert, arguments.tls_key]
    if any(tls) and not all(tls):
        arguments.usage("--tls-ca, --tls-cert and --tls-key belong together")
    report = Report(target, _text(arguments.address), arguments.seed)
    try:
        asyncio.run(_attack(target, _settings(arguments), report, arguments))
    except NotOwned as error:
        arguments.usage(str(error))
    except PP1Error as error:
        _tell_error(str(error))
        if not report.results:
            return UNREACHABLE
        report.interrupted = True
    except KeyboardInterrupt:
        report.interrupted = True
        _print_report(report, as_json=_wants_json(arguments))
        return INTERRUPTED
    _print_report(report, as_json=_wants_json(arguments))
    if report.wrong:
        return WRONG
    return OK if report.complete else INCOMPLETE


def _settings(arguments: argparse.Namespace) -> Settings:
    from pp1wire.attack import Settings, guarded
    from pp1wire.net import client_tls, parse_address, server_tls

    files = (arguments.tls_ca, arguments.tls_cert, arguments.tls_key)
    ca, certificate, key = files
    tls = None
    if ca is not None:
        worker = arguments.target == "worker"
        tls = client_tls(ca, certificate, key) if worker else server_tls(certificate, key, ca)
    host = arguments.address[0] if isinstance(arguments.address, tuple) else None
    return Settings(
        address=guarded(parse_address(_text(arguments.address)), owned=arguments.i_own_this_endpoint),
        tls=tls, server_hostname=getattr(arguments, "server_name", None) or host, seed=arguments.seed,
        rate=arguments.rate, timeout=arguments.timeout, settle=getattr(arguments, "settle", _SETTLE), wait=arguments.wait,
        max_seconds=arguments.max_seconds, only=tuple(arguments.only),
    )  # fmt: skip


async def _attack(target: Target, settings: Settings, report: Report, arguments: argparse.Namespace) -> None:
    from pp1wire.attack import Target, attack_verifier, attack_worker, terms_of_file

    tell = _progress()
    try:
        if target is Target.WORKER:
            terms = None if arguments.terms is None else terms_of_file(arguments.terms)
            await attack_worker(settings, report, terms, tell)
        else:
            await attack_verifier(settings, report, tell, _tell_listening)
    finally:
        tell("")


def _tell_listening(where: object) -> None:
    _tell_error(f"listening at {where}; point a verifier here, and let it connect again whenever it is refused")


def _tell_error(text: str) -> None:
    sys.stderr.write(f"pp1wire attack: {text}\n")
    sys.stderr.flush()


def _progress() -> Callable[[str], None]:
    """Rewrites one line on a terminal's standard error; tells nothing where nobody looks."""
    if not sys.stderr.isatty():
        return lambda _: None

    def tell(text: str) -> None:
        sys.stderr.write(f"\r{text:<70}\r" + text)
        sys.stderr.flush()

    return tell


def _print_report(report: Report, *, as_json: bool) -> None:
    _print(json.dumps(report.to_json(), indent=2, ensure_ascii=False) if as_json else "\n".join(report.lines()))


def _print_list(target: Target, cases: Any, *, as_json: bool) -> None:
    from pp1wire.attack import NOT_APPLICABLE
    from pp1wire.attack.report import table

    never = {code.name.lower(): reason for code, reason in NOT_APPLICABLE[target].items()}
    entries = [
        {
            "case": case.name, "code": None if case.code is None else case.code.name.lower(),
            "expected": sorted(map(str, case.expect)), "comment": case.comment,
        }
        for case in cases
    ]  # fmt: skip
    if as_json:
        _print(json.dumps({"target": str(target), "cases": entries, "not_applicable": never}, indent=2))
        return
    rows = [(e["case"], e["code"] or "-", " or ".join(e["expected"]), e["comment"]) for e in entries]
    _print("\n".join(table(("case", "code", "expected", "what is wrong"), rows)))
    _print(f"\n{len(rows)} cases. Codes that no {target} can give: {', '.join(never)}")


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


def _text(parsed: tuple[str, int] | str) -> str:
    if isinstance(parsed, str):
        return f"unix:{parsed}"
    host, port = parsed
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _wants_json(arguments: argparse.Namespace) -> bool:
    return bool(getattr(arguments, "json", False))
