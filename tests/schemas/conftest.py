"""Kaitai Struct's own compiler over the schemas: a third decoder, made by other people's code."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from schemas.generator.model import SCHEMA_DIR

KAITAI = Path(__file__).parent / "kaitai"


@pytest.fixture(scope="session")
def kaitai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, ModuleType]]:
    """Every `.ksy` compiled to Python and imported, by the name of its file."""
    work = tmp_path_factory.mktemp("kaitai")
    for name in ("package.json", "package-lock.json", "compile.js"):
        shutil.copy(KAITAI / name, work)
    out = work / "out"
    out.mkdir()
    npm = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"]
    for command in (npm, ["node", "compile.js", str(SCHEMA_DIR), str(out)]):
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=100, check=False)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stdout}{done.stderr}"
    sys.path.insert(0, str(out))
    try:
        yield {path.stem: importlib.import_module(f"pp1_{path.stem}") for path in sorted(SCHEMA_DIR.glob("*.ksy"))}
    finally:
        sys.path.remove(str(out))
        for path in out.glob("*.py"):
            sys.modules.pop(path.stem, None)
