"""`pp1wire dissector`: prints the Wireshark dissector that comes with this installation."""

from __future__ import annotations

import argparse
import sys
from importlib.resources import files
from typing import Any

from pp1wire.cli_arguments import Formatter

__all__ = ["add", "dissector"]


def dissector() -> str:
    """The text of `pp1.lua`."""
    return files("pp1wire.capture").joinpath("pp1.lua").read_text(encoding="utf-8")


def add(commands: Any) -> None:
    """Add the command to the command line's."""
    command = commands.add_parser(
        "dissector",
        help="print the Wireshark dissector of this wire version",
        description="Prints a Lua dissector for Wireshark and tshark: every field by name, requests linked to responses, and "
        "expert information on what is wrong.",
        epilog="\n".join(
            [
                "examples:",
                '    pp1wire dissector > "$HOME/.local/lib/wireshark/plugins/pp1.lua"',
                "    pp1wire dissector > pp1.lua && tshark -X lua_script:pp1.lua -r run.pcapng",
            ]
        ),
        formatter_class=Formatter,
    )
    command.set_defaults(run=_run)


def _run(_: argparse.Namespace) -> int:
    sys.stdout.write(dissector())
    return 0
