"""Invariant: any file is judged and shown to its end, twice the same, with `CaptureError` as the only error; what a cut
file shows is what the whole file shows up to there, and memory is bounded by the file.

Input: the bytes of a file.
"""

from __future__ import annotations

import io
import json
import tracemalloc
from contextlib import suppress
from typing import Any
from zlib import crc32

from fuzz.outcome import CODES, MESSAGES, Violation, outcome
from pp1wire.capture import CaptureError, ExitStatus, Result
from pp1wire.capture.pcapng import SECTION_HEADER
from pp1wire.capture.show import Shown, show_file
from pp1wire.capture.validate import Validator

__all__ = ["run"]

_MEASURED = 64  # one input of so many, as measuring makes everything slower
_FIXED, _A_BYTE = 8 << 20, 64
_LACKING = frozenset({"gap", "cut", "mid_stream", "conflict", "one_way"})


def run(data: bytes) -> str:
    """One input."""
    key = crc32(data)
    result = _bounded(data) if key % _MEASURED == 0 else _judged(data)
    told = _json(result)
    if _json(_judged(data)) != told:
        raise Violation("judged twice, the file gives two reports")
    if result.status not in ExitStatus or sum(result.counts.values()) != len(result.findings) + result.left_out:
        raise Violation(f"{result.counts} do not add up to status {result.status}")
    shown = _shown(data)
    if data[:4] == SECTION_HEADER and len(data) > 4:
        _check_cut(data, 4 + key % (len(data) - 4), result)
    found = {f.code.upper() if f.path is not None else f.code for f in result.findings}
    messages = {item.fields["message"].upper() for item in shown if item.fields is not None}
    words = [name for name in (*MESSAGES, *CODES) if name in found | messages]
    return outcome(words + sorted(code for code in found if code.islower()))


def _judged(data: bytes) -> Result:
    validator = Validator()
    validator.add(io.BytesIO(data), "input")
    return validator.result


def _json(result: Result) -> str:
    return json.dumps(result.to_json(), allow_nan=False)


def _bounded(data: bytes) -> Result:
    tracemalloc.start()
    try:
        result = _judged(data)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > _FIXED + _A_BYTE * len(data):
        raise Violation(f"judging {len(data)} bytes took {peak} bytes of memory")
    return result


def _shown(data: bytes) -> list[Shown]:
    shown: list[Shown] = []
    with suppress(CaptureError):
        for item in show_file(io.BytesIO(data), "input"):
            json.dumps(item.to_json())
            if not all(line.isprintable() for line in item.lines()):
                raise Violation(f"a line of {item.kind} is not printable")
            shown.append(item)
    return shown


def _check_cut(data: bytes, cut: int, whole: Result) -> None:
    """The part of a file has the findings of its whole blocks, one `truncated`, and no fault that the file has not."""
    start = _block_start(data, cut)
    if start is None:
        return
    part = _judged(data[:cut])
    cuts = [f for f in part.findings if f.code == "truncated" and f.connection is None]
    rest = [_said(f) for f in part.findings if f not in cuts and f.code != "no_pp1"]
    if len(cuts) != (cut != start) or any(f.offset != start for f in cuts):
        raise Violation(
            f"cut at byte {cut}, in the block at {start}, the file is truncated at {[f.offset for f in cuts]}"
        )
    if start and rest != [_said(f) for f in _judged(data[:start]).findings if f.code != "no_pp1"]:
        raise Violation(f"cut at byte {cut}, the file has other findings than its whole blocks")
    if _LACKING & {f.code for f in part.findings}:
        return  # what fills the gap, or the other side, may explain a fault
    faults = [_said(f) for f in whole.findings]
    for finding in part.findings:
        if finding.severity == "invalid" and not finding.uncertain and _said(finding) not in faults:
            raise Violation(f"cut at byte {cut}, the file has a fault that the whole does not have: {finding}")


def _said(finding: Any) -> tuple[Any, ...]:
    return (
        finding.severity, finding.code, finding.packet, finding.connection, finding.direction, finding.offset,
        finding.path, finding.expected, finding.actual, finding.uncertain,
    )  # fmt: skip


def _block_start(data: bytes, cut: int) -> int | None:
    """Where the block at byte `cut` begins, if all blocks before can be walked over and nothing was unreadable."""
    at, order = 0, "little"
    while at < cut:
        head = data[at : at + 12]
        if head[:4] == SECTION_HEADER and len(head) == 12:
            order = "little" if head[8:12] == b"\x4d\x3c\x2b\x1a" else "big"
        size = int.from_bytes(head[4:8], "little" if order == "little" else "big")
        if len(head) < 12 or size < 12 or at + size > cut:
            break
        at += size
    unreadable = [f for f in _judged(data[:cut]).findings if f.severity == "unreadable"]
    return None if unreadable else at
