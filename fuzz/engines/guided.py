"""The engine `atheris`: libFuzzer with the coverage of the library's code, in a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fuzz.engines.own import Finding
from fuzz.findings import what
from fuzz.outcome import Harness
from fuzz.seeds import corpus, seeds
from fuzz.tally import Tally

__all__ = ["ENGINE", "fuzz", "missing"]

ENGINE: Final = "atheris"
_START_AND_END: Final = 120.0  # seconds beyond the run: instrumenting, the seeds, and one input that hangs


def missing() -> str | None:
    """Why the engine cannot run; None if it can."""
    return None if find_spec("atheris") else "the engine atheris needs the extra: pip install -e '.[fuzz]'"


def fuzz(harness: Harness, *, seconds: float, seed: int) -> tuple[Tally, Finding | None]:
    """Run for so long, from the vectors and the corpus; libFuzzer's own files are thrown away.

    Raises:
        RuntimeError: the process ended otherwise than by its time or by a finding.
    """
    with tempfile.TemporaryDirectory(prefix="pp1-fuzz-") as name:
        folder = Path(name)
        start, report, findings = folder / "corpus", folder / "report.json", folder / "findings"
        start.mkdir()
        for data in [*seeds(harness.name), *corpus(harness.name)]:
            (start / sha256(data).hexdigest()[:16]).write_bytes(data)
        command = [
            sys.executable, "-m", "fuzz.engines.atheris_child",
            harness.name, str(max(1, round(seconds))), str(seed % 2**31 or 1), str(start), str(report), str(findings),
        ]  # fmt: skip
        try:
            ended = subprocess.run(
                command,
                cwd=Path(__file__).parents[2],
                capture_output=True,
                timeout=seconds + _START_AND_END,
                check=False,
            )
            status, output = ended.returncode, ended.stderr.decode(errors="replace")
        except subprocess.TimeoutExpired:
            status, output = -1, "it did not end in time"
        tally = Tally.load(report) if report.is_file() else Tally(harness.name, ENGINE)
        found = _found(harness, [*findings.glob("*/*"), *folder.glob("timeout-*"), *folder.glob("oom-*")])
        shutil.rmtree(start)
    if status != 0 and found is None:
        raise RuntimeError(f"atheris ended with status {status}: {' '.join(output.split()[-60:])}")
    return tally, found


def _found(harness: Harness, paths: list[Path]) -> Finding | None:
    for path in paths:
        data = path.read_bytes()
        slow = path.name.startswith(("timeout-", "oom-"))
        error = TimeoutError(f"libFuzzer: {path.name.split('-')[0]}") if slow else what(harness, data)
        # An error that does not come again depended on what ran before: a finding like any other.
        return Finding(data, error or RuntimeError("raised under atheris, and not again"))
    return None
