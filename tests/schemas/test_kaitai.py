"""Kaitai Struct's compiler accepts every schema, and what it makes of them agrees with this package."""

from __future__ import annotations

from types import ModuleType

import pytest

from schemas.generator import model

SCHEMA = model.load()

pytestmark = pytest.mark.system


def test_compiles_every_schema(kaitai: dict[str, ModuleType]) -> None:
    assert set(kaitai) == {"common", *model.MESSAGE_FILES}
    for name, module in kaitai.items():
        assert hasattr(module, f"Pp1{name.capitalize()}")


def test_enumerations_agree(kaitai: dict[str, ModuleType]) -> None:
    for name, values in SCHEMA.enums.items():
        theirs = getattr(kaitai["common"].Pp1Common, name.title().replace("_", ""))
        assert {v.name: v.value for v in theirs} == {v.name: v.number for v in values}
