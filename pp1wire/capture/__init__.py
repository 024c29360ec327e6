"""Reading captures, TCP reassembly, recording, and judging what was recorded (`docs/captures.md`).

The names here are the public ones; those that need asyncio, or that few need, are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from pp1wire.capture.findings import ExitStatus, Finding, Severity
from pp1wire.capture.pcapng import CaptureError
from pp1wire.capture.recorder import RecordedConnection, Recorder

# Not lazily: these modules have the names of their functions, so importing a module later would hide its function.
from pp1wire.capture.show import Shown, show
from pp1wire.capture.validate import FileResult, Result, validate

if TYPE_CHECKING:
    from pp1wire.capture.proxy import ProxyError, RecordingProxy, record
    from pp1wire.capture.report import finding_line, report_lines

__all__ = [
    "CaptureError",
    "ExitStatus",
    "FileResult",
    "Finding",
    "ProxyError",
    "RecordedConnection",
    "Recorder",
    "RecordingProxy",
    "Result",
    "Severity",
    "Shown",
    "finding_line",
    "record",
    "report_lines",
    "show",
    "validate",
]

_LAZY: Final = {
    "ProxyError": "proxy",
    "RecordingProxy": "proxy",
    "record": "proxy",
    "finding_line": "report",
    "report_lines": "report",
}


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{module}"), name)
    globals()[name] = value
    return value
