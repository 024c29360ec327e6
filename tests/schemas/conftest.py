"""Kaitai Struct's own compiler over the schemas: decoders made by other people's code."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest

from schemas.generator.model import SCHEMA_DIR

KAITAI = Path(__file__).parent / "kaitai"


def run(command: Sequence[str], work: Path) -> None:
    done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="session")
def kaitai_output(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A function that compiles every `.ksy` to a language and returns the directory, beside npm's packages."""
    work = tmp_path_factory.mktemp("kaitai")
    for name in ("package.json", "package-lock.json", "compile.js"):
        shutil.copy(KAITAI / name, work)
    run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"], work)

    def compile_to(language: str) -> Path:
        out = work / language
        if not out.exists():
            out.mkdir()
            run(["node", "compile.js", language, str(SCHEMA_DIR), str(out)], work)
        return out

    return compile_to


@pytest.fixture(scope="session")
def kaitai(kaitai_output: Callable[[str], Path]) -> Iterator[dict[str, ModuleType]]:
    """Every `.ksy` compiled to Python and imported, by the name of its file."""
    out = kaitai_output("python")
    sys.path.insert(0, str(out))
    try:
        yield {path.stem: importlib.import_module(f"pp1_{path.stem}") for path in sorted(SCHEMA_DIR.glob("*.ksy"))}
    finally:
        sys.path.remove(str(out))
        for path in out.glob("*.py"):
            sys.modules.pop(path.stem, None)
