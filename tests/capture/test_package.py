"""What `pp1wire.capture` offers, and that importing it stays cheap."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import pp1wire.capture as capture


def test_every_public_name_is_there_and_is_no_module() -> None:
    for module in ("show", "validate", "proxy", "report"):
        importlib.import_module(f"pp1wire.capture.{module}")
    for name in capture.__all__:
        assert isinstance(getattr(capture, name), type) or callable(getattr(capture, name)), name
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = capture.nothing_like_this


@pytest.mark.parametrize(
    "statement",
    [
        "import pp1wire.capture.validate, pp1wire.capture.show; from pp1wire.capture import show, validate",
        "from pp1wire.capture import show, validate; import pp1wire.capture.validate, pp1wire.capture.show",
    ],
)
def test_modules_do_not_hide_functions_of_their_name_and_nothing_heavy_comes_along(statement) -> None:
    code = f"""
import sys
{statement}
import pp1wire.capture
if not (callable(show) and callable(validate) and pp1wire.capture.show is show and pp1wire.capture.validate is validate):
    sys.exit("hidden")
if heavy := {{"asyncio", "construct", "ssl"}} & set(sys.modules):
    sys.exit(f"loaded: {{heavy}}")
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
