"""`import pp1wire` stays light: no heavy library, and nothing that only one command needs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = {"torch", "triton", "construct", "yaml", "gguf", "msgspec", "asyncio", "ssl", "hypothesis"}


def modules_after(statement):
    code = f"import sys, json\n{statement}\nprint(json.dumps(sorted(sys.modules)))"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout
    return set(json.loads(output))


def test_import_brings_nothing_heavy():
    loaded = modules_after("import pp1wire")
    assert "numpy" in loaded
    assert not loaded & HEAVY
    assert not {name for name in loaded if name.startswith(("pp1wire.net", "pp1wire.capture", "pp1wire.demo"))}


@pytest.mark.parametrize("room", ["wire", "sampling", "protocol"])
def test_rooms_without_io_bring_no_sockets(room):
    before = modules_after("import numpy, hashlib, struct, dataclasses, xxhash")
    loaded = modules_after(f"import pp1wire.{room}") - before
    assert not loaded & {"socket", "asyncio", "ssl", "selectors", "multiprocessing"}


def test_every_public_name_is_there():
    import pp1wire

    for name in pp1wire.__all__:
        assert getattr(pp1wire, name) is not None
    with pytest.raises(AttributeError, match="nothing_like_this"):
        _ = pp1wire.nothing_like_this


def test_wire_and_sampling_agree_on_the_names_of_what_they_share():
    import pp1wire.sampling as sampling
    from pp1wire.wire import _schema_v2 as schema

    assert sampling.SEMANTIC_ID == schema.Q_SEMANTIC
    assert sampling.VERIFIER_ID == schema.VERIFIER_SEMANTIC
    assert sampling.RNG_ABI == schema.RNG_ABI
    assert sampling.MASS == schema.Q_TOTAL
