"""The benchmarks keep the reader that Kaitai's compiler makes, so that they need no node: it must be what it makes today."""

from __future__ import annotations

import filecmp
from pathlib import Path

import pytest

from bench.formats import kaitai_reader


@pytest.mark.system
def test_the_kaitai_reader_that_is_kept_is_what_the_compiler_makes_of_the_schemas(kaitai_output):
    made = kaitai_output("python")
    names = [path.name for path in sorted(kaitai_reader.FOLDER.glob("*.py"))]
    assert names == ["pp1_common.py", "pp1_reply.py"]
    for name in names:
        assert filecmp.cmp(Path(made) / name, kaitai_reader.FOLDER / name, shallow=False), f"{name}: compile it again"
