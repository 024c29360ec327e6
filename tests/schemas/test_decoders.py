"""Two decoders of other people's making answer the vectors: Kaitai's JavaScript output, and its C++ output under g++.

They check layout only. What they miss is listed name by name, and the lists must be exact.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from pp1wire import cli
from schemas.generator import model
from tests.schemas.conftest import KAITAI, run

pytestmark = pytest.mark.system

SCHEMA = model.load()
PAGE = model.SCHEMA_DIR.parent / "docs" / "vectors.md"
FAILURES = KAITAI / "expected-failures"
GENERAL = {"zeros": "reserved_not_zero", "int": "value_out_of_bounds", "enum": "unknown_value"}
CXX = ("g++", "-std=c++11", "-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror")


@pytest.fixture(scope="session")
def layout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What generated code does not say: the schemas' spelling of each field, and the code of an illegal value."""
    path = tmp_path_factory.mktemp("layout") / "layout.txt"
    owners = [("header", SCHEMA.header, 0), *((m.name, m.fields, 64) for m in SCHEMA.messages)]
    lines = [
        f"{owner} {f.name} {f.kind} {base + f.offset + f.size if f.kind != 'column' else 0} "
        f"{f.reject or GENERAL.get(f.kind, 'none')}\n"
        for owner, fields, base in owners
        for f in fields
    ]
    path.write_text("".join(lines))
    return path


@pytest.fixture(scope="session")
def javascript(kaitai_output: Callable[[str], Path], layout: Path) -> list[str]:
    out = kaitai_output("javascript")
    driver = out.parent / "driver.js"
    driver.write_text((KAITAI / "driver.js").read_text())
    return ["node", str(driver), str(out), str(layout)]


@pytest.fixture(scope="session")
def cpp(kaitai_output: Callable[[str], Path], layout: Path) -> list[str]:
    out = kaitai_output("cpp_stl")
    sources = [KAITAI / "driver.cpp", *sorted(out.glob("*.cpp"))]
    run([*CXX, f"-I{KAITAI / 'cpp'}", f"-I{out}", *map(str, sources), "-o", "decoder"], out)
    return [str(out / "decoder"), str(layout)]


def ask(command: Sequence[str], lists: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    options = [word for name in lists for word in ("--expected-failures", str(FAILURES / f"{name}.txt"))]
    status = cli.main(["vectors", "--against", shlex.join(command), *options, "--json"])
    report: dict[str, Any] = json.loads(capsys.readouterr().out)
    return status, report


def check(command: Sequence[str], lists: Sequence[str], capsys: pytest.CaptureFixture[str]) -> None:
    status, report = ask(command, lists, capsys)
    wrong = (
        [f for f in report["failed"] if not f["expected"]],
        report["passed_unexpectedly"],
        report["unknown_expected"],
    )
    assert wrong == ([], [], []), (
        "the list of expected failures is out of date; docs/vectors.md says how to write it anew"
    )
    assert status == 0
    seen = {code: f"{c['passed']} of {c['vectors']}" for code, c in report["codes"].items() if c["passed"]}
    assert documented() == seen
    assert f"of {len(SCHEMA.enums['reject_code'])} reject codes it shows {len(seen)}." in PAGE.read_text(
        encoding="utf-8"
    )
    assert report["vectors"] - len(report["failed"]) > 150
    status, report = ask(command, [], capsys)
    assert (status, report["ok"]) == (1, False)


def documented() -> dict[str, str]:
    """The table of `docs/vectors.md`: code → how many of its vectors a layout shows."""
    return dict(re.findall(r"^\| `(\w+)` \| (\d+ of \d+) \|", PAGE.read_text(encoding="utf-8"), flags=re.M))


def test_javascript_of_kaitai_under_node_fails_exactly_what_is_listed(
    javascript: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    check(javascript, ["layout", "javascript"], capsys)


def test_cpp_of_kaitai_under_gcc_fails_exactly_what_is_listed(
    cpp: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    check(cpp, ["layout"], capsys)
