"""The command line: parses arguments, calls the room that does the work, prints what it returns.

Exit status: 0 fine; 1 something was found wrong, or failed; 2 incomplete (validate); 3 unreadable; 64 wrong usage;
130 interrupted; 141 whoever read the output closed it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pp1wire
from pp1wire import cli_attack, cli_audit, cli_bench, cli_dissector, cli_validate, cli_vectors
from pp1wire.cli_arguments import Formatter, Parser, address, byte_count, integer, number
from pp1wire.cli_validate import progress
from pp1wire.errors import PP1Error

__all__ = ["main"]

OK, FAILED, UNREADABLE, INTERRUPTED, CLOSED_PIPE = 0, 1, 3, 130, 141
_REPRESENTATIONS = ("sparse", "dense")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status (see the module's text)."""
    arguments = _parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
        if sys.stdout is not None:  # it is, where a program was started with it closed
            sys.stdout.flush()
    except PP1Error as error:
        _complain(arguments.command, error)
        from pp1wire.capture import CaptureError  # here: most commands need none of that room
        from pp1wire.capture.decoder import DecoderError

        return UNREADABLE if isinstance(error, (CaptureError, DecoderError)) else FAILED
    except BrokenPipeError:
        # Whoever read the output has enough; keep the interpreter from complaining about it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return CLOSED_PIPE
    except OSError as error:
        _complain(arguments.command, f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _complain(command: str, what: object) -> None:
    print(f"pp1wire {command}: {what}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="pp1wire",
        description="PP1 v2: exact draft distributions for speculative decoding across machines.",
        epilog="Each command explains itself: pp1wire COMMAND --help. "
        "Exit status: 0 fine, 1 wrong or failed, 2 incomplete, 3 unreadable, 64 wrong usage.",
    )
    parser.add_argument("--version", action="version", version=f"pp1wire {pp1wire.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=Parser)
    for add in (
        _demo,
        cli_validate.add,
        cli_audit.add,
        _show,
        _plan,
        _record,
        cli_attack.add,
        cli_dissector.add,
        _vectors,
        cli_bench.add,
    ):
        add(commands)
    return parser


def _command(
    commands: Any,
    name: str,
    run: Callable[[argparse.Namespace], int],
    text: str,
    *,
    json_option: bool = True,
    more: str = "",
    examples: Sequence[str] = (),
) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=text,
        description=f"{text[0].upper()}{text[1:]}. {more}".rstrip(),
        epilog="\n".join(["examples:", *(f"    {example}" for example in examples)]) if examples else None,
        formatter_class=Formatter,
    )
    command.set_defaults(run=run)
    if json_option:
        command.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for programs")
    return command


def _wants_json(arguments: argparse.Namespace) -> bool:
    return bool(getattr(arguments, "json", False))


def _print_json(value: object) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False))


# demo ---------------------------------------------------------------------------------------------------------------------


def _demo(commands: Any) -> None:
    command = _command(commands, "demo", _run_demo, "a draft worker and a verifier decode together, as two processes")
    # What is not given is left to the settings, whose defaults depend on the model.
    given: dict[str, Any] = {"default": argparse.SUPPRESS}
    command.add_argument("--model", choices=("synthetic", "smollm2"), default="synthetic", help="whose logits")
    command.add_argument(
        "--representation", choices=_REPRESENTATIONS, **given,
        help="how q travels (default: sparse; the synthetic model then shows dense, too)",
    )  # fmt: skip
    command.add_argument(
        "--rounds", type=integer(1, 10_000), **given, help="rounds a request (default: 10; smollm2 24)"
    )
    command.add_argument("--requests", type=integer(1, 4), **given, help="requests in flight (default: 4; smollm2 2)")
    command.add_argument(
        "--temperature", "-T", type=number(0.01, 100), default=1.0, help="of the draft and of the target"
    )
    command.add_argument("--support", "-k", type=integer(1, 4096), default=32, help="entries of a sparse row")
    command.add_argument("--depth", type=integer(1, 5), default=5, help="drafted positions a round")
    command.add_argument(
        "--sockets", type=integer(1, 4), default=1, help="connections that the requests are spread over"
    )
    command.add_argument("--seed", type=integer(0, 2**64 - 1), default=1, help="of every request; repeats a run")
    command.add_argument(
        "--backend", choices=("numpy", "torch", "triton"), default="numpy",
        help="what draws and verifies, with the same tokens; the last two need the extra cuda, and triton a GPU",
    )  # fmt: skip
    command.add_argument(
        "--fault", choices=("corrupt", "truncate", "late", "kill"), **given,
        help="inject one fault after a few rounds, and watch the target go on alone",
    )  # fmt: skip
    command.add_argument(
        "--capture",
        type=Path,
        **given,
        help="where the recording goes (default: a file of its own among the temporary ones)",
    )
    command.add_argument(
        "--logits", type=Path, metavar="FILE", **given,
        help="write what the models computed to FILE, .npz or .safetensors, for pp1wire audit; it holds the verifier's seeds",
    )  # fmt: skip


def _run_demo(arguments: argparse.Namespace) -> int:
    from pp1wire.demo import run
    from pp1wire.demo.settings import Settings

    given = {name: value for name, value in vars(arguments).items() if name not in ("command", "run", "json")}
    settings = Settings(**given)
    as_json = _wants_json(arguments)
    # A service manager's way to end it leaves as little behind as ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = run.demo(settings, say=(lambda _: None) if as_json else (lambda line: print(line, flush=True)))
    except KeyboardInterrupt:
        _complain("demo", f"interrupted; what was decided until then is in {settings.capture}")
        raise
    if as_json:
        _print_json(report.as_data())
    return OK if report.as_expected else FAILED


# plan ---------------------------------------------------------------------------------------------------------------------


def _plan(commands: Any) -> None:
    command = _command(
        commands, "plan", _run_plan, "bytes of every layout for a shape, and whether they fit",
        examples=("pp1wire plan --vocab 151936 --padded-vocab 152064 -k 64", "pp1wire plan --link 100 --buffer 16MiB"),
    )  # fmt: skip
    command.add_argument("--vocab", type=integer(1, 262_144), default=129_280, help="token ids")
    command.add_argument(
        "--padded-vocab",
        type=integer(1, 262_144),
        default=None,
        help="entries of a dense row, with padding (default: as --vocab)",
    )
    command.add_argument("--support", "-k", type=integer(1, 262_144), default=32, help="entries of a sparse row")
    command.add_argument("--depth", type=integer(1, 5), default=5, help="drafted positions a round")
    command.add_argument("--requests", type=integer(1, 4), default=4, help="requests in flight")
    command.add_argument("--ranks", type=integer(1, 1024), default=2, help="tensor-parallel ranks of the verifier")
    command.add_argument(
        "--link", type=number(1e-6, 1e6), default=40.0, metavar="GBPS", help="nominal speed of the link in Gb/s"
    )
    command.add_argument(
        "--buffer", type=byte_count, default=None, metavar="BYTES",
        help="what you have for slot buffers, as bytes or with kB, MB, GB, KiB, MiB or GiB; exit status 1 if a layout does not "
        "fit (default: nothing is compared)",
    )  # fmt: skip


def _run_plan(arguments: argparse.Namespace) -> int:
    from pp1wire.protocol.plan import plan

    limits = pp1wire.Limits(
        vocab_size=arguments.vocab,
        padded_vocab_size=arguments.padded_vocab,
        support=arguments.support,
        depth=arguments.depth,
        slots=arguments.requests,
        ranks=arguments.ranks,
    )
    result = plan(limits, link_gigabits=arguments.link, buffer_bytes=arguments.buffer)
    if _wants_json(arguments):
        _print_json(result.as_data())
    else:
        print("\n".join(result.lines()))
    return FAILED if result.fits is False else OK


# vectors ------------------------------------------------------------------------------------------------------------------


def _vectors(commands: Any) -> None:
    command = _command(
        commands, "vectors", _run_vectors, "run the test vectors against this installation, or another decoder",
        examples=("pp1wire vectors --against './decoder --stdin' --expected-failures known.txt",),
    )  # fmt: skip
    cli_vectors.add_arguments(command)


def _run_vectors(arguments: argparse.Namespace) -> int:
    report = cli_vectors.report(arguments)
    if _wants_json(arguments):
        _print_json(report.to_json())
    else:
        print("\n".join(report.lines()))
    return OK if report.ok else FAILED


# captures -----------------------------------------------------------------------------------------------------------------


def _show(commands: Any) -> None:
    command = _command(
        commands, "show", _run_show, "dissect every frame of a capture, field by field",
        examples=("pp1wire show run.pcapng | less", "pp1wire show --json run.pcapng | jq 'select(.body_checksum_ok == false)'"),
    )  # fmt: skip
    command.add_argument("file", metavar="FILE", help="pcapng capture or raw one-way stream; - for standard input")
    command.add_argument("--rows", action="store_true", help="print whole columns instead of their first entries")


def _run_show(arguments: argparse.Namespace) -> int:
    from pp1wire.capture.show import show

    for item in show(arguments.file, rows=arguments.rows, progress=progress()):
        if _wants_json(arguments):
            print(json.dumps(item.to_json(), ensure_ascii=False))
        else:
            print("\n".join(item.lines()))
    return OK


def _record(commands: Any) -> None:
    command = _command(
        commands, "record", _run_record,
        "pass connections on unchanged and record them, until SIGINT or SIGTERM",
        json_option=False,
        more="Of TLS only ciphertext passes here: record inside it with tap= of a pp1wire.net endpoint (docs/deployment.md).",
        examples=(
            "pp1wire record run.pcapng --listen 127.0.0.1:7000 --to 10.0.0.2:7000",
            "pp1wire record run.pcapng --listen unix:/run/pp1/recorded --to unix:/run/pp1/worker",
        ),
    )  # fmt: skip
    command.add_argument(
        "file", metavar="FILE", type=Path, help="the capture, a pcapng file; what was there is replaced"
    )
    command.add_argument("--listen", required=True, type=address, metavar="ADDRESS", help="host:port, or unix:/path")
    command.add_argument("--to", required=True, type=address, metavar="ADDRESS", help="where each connection goes on")


def _run_record(arguments: argparse.Namespace) -> int:
    from pp1wire.capture.proxy import address_text, record

    proxy = record(
        arguments.listen,
        arguments.to,
        arguments.file,
        on_ready=lambda address: print(f"recording {address_text(address)} → {address_text(arguments.to)}", flush=True),
        on_fault=lambda fault: _complain("record", f"{fault}; traffic goes on unrecorded"),
        on_notice=lambda line: _complain("record", line),
    )
    if proxy.unreachable > 1:
        _complain("record", f"{proxy.unreachable} connections could not be passed on to {address_text(arguments.to)}")
    print(f"recorded {proxy.connections} connection{'' if proxy.connections == 1 else 's'} in {arguments.file}")
    return OK if proxy.fault is None else FAILED


if __name__ == "__main__":
    sys.exit(main())
