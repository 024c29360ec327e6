"""`schemas/generated/pp1_v2.h` is up to date, compiles as C11 and C++11 without a warning, and reads the vectors as they say."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from schemas.generator import c_output, model
from tests.schemas.conftest import run
from tests.schemas.recorded import Recorded, vectors

SCHEMA = model.load()
ROOT = model.SCHEMA_DIR.parent
HEADER = ROOT / c_output.TARGET
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror")
VALID = [r for r in vectors() if r.vector["result"] == "valid" and r.message in ("step", "reply", "commit")]
NUMBERS = {name: {v.name: v.number for v in values} for name, values in SCHEMA.enums.items()}


def test_header_is_up_to_date() -> None:
    assert c_output.render(SCHEMA) == {c_output.TARGET: HEADER.read_text(encoding="utf-8")}, "run `make schemas`"


def test_header_names_every_field_enumeration_and_constant_once() -> None:
    text = HEADER.read_text(encoding="utf-8")
    defined = re.findall(r"^#define (\w+)", text, flags=re.M)
    # One for C and one for C++.
    defined.remove("PP1_ASSERT")
    assert len(defined) == len(set(defined))
    for owner, fields in (("header", SCHEMA.header), *((m.name, m.fields) for m in SCHEMA.messages)):
        for field in fields:
            name = f"PP1_{owner}_{field.name}".upper()
            assert {f"{name}_OFFSET", f"{name}_BYTES"} <= set(defined)
    assert {f"PP1_{name.upper()}" for name in SCHEMA.constants} <= set(defined)
    for name, values in SCHEMA.enums.items():
        for value in values:
            assert text.count(f"    PP1_{name}_{value.name}".upper() + f" = {value.number}") == 1
    assert not re.search(r"#pragma|_Pragma|__attribute__|__packed", text)


@pytest.fixture(scope="session")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The C program that prints fields through the structs."""
    work = tmp_path_factory.mktemp("c")
    source = Path(__file__).parent / "c" / "fields.c"
    run(["gcc", "-std=c11", "-O1", *STRICT, f"-I{HEADER.parent}", str(source), "-o", "fields"], work)
    return work / "fields"


def compiled(compiler: tuple[str, ...], text: str, work: Path) -> subprocess.CompletedProcess[str]:
    (work / "pp1_v2.h").write_text(text)
    (work / "only.c").write_text('#include "pp1_v2.h"\n')
    command = [*compiler, *STRICT, "-fsyntax-only", "only.c"]
    return subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=60, check=False)


C11, CXX11 = ("gcc", "-std=c11"), ("g++", "-std=c++11", "-x", "c++")


@pytest.mark.system
@pytest.mark.parametrize("compiler", [C11, CXX11], ids=["c11", "c++11"])
def test_asserts_hold_under_gcc(compiler: tuple[str, ...], tmp_path: Path) -> None:
    done = compiled(compiler, HEADER.read_text(encoding="utf-8"), tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.system
@pytest.mark.parametrize("compiler", [C11, CXX11], ids=["c11", "c++11"])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("#define PP1_STEP_DEPTH_OFFSET 68", "#define PP1_STEP_DEPTH_OFFSET 69"),
        ("#define PP1_HELLO_NONCE_BYTES 16", "#define PP1_HELLO_NONCE_BYTES 8"),
        ("    uint16_t slot;", "    uint32_t slot;"),
        ("    int32_t tokens[6];", "    int32_t tokens[5];"),
        ("    uint8_t reserved_2[8];\n", ""),
    ],
)
def test_asserts_fail_where_a_struct_is_not_the_wire(
    compiler: tuple[str, ...], right: str, wrong: str, tmp_path: Path
) -> None:
    text = HEADER.read_text(encoding="utf-8")
    assert right in text
    done = compiled(compiler, text.replace(right, wrong, 1), tmp_path)
    assert done.returncode != 0
    assert "assert" in done.stderr


@pytest.mark.system
def test_a_big_endian_host_has_the_offsets_and_no_struct(tmp_path: Path) -> None:
    big = ("-U__BYTE_ORDER__", "-D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__")
    text = HEADER.read_text(encoding="utf-8")
    use = "int depth = PP1_STEP_DEPTH_OFFSET + PP1_REJECT_CODE_BAD_MAGIC;\n"
    assert compiled((*C11, *big), text + use, tmp_path).returncode == 0
    assert compiled((*C11, *big), text + "struct pp1_step step;\n", tmp_path).returncode != 0
    assert compiled(C11, text + "struct pp1_step step;\n", tmp_path).returncode == 0


@pytest.mark.system
def test_reject_codes_in_c_have_the_scope_and_stage_of_the_schema(program: Path) -> None:
    said = subprocess.run([program, "codes"], capture_output=True, text=True, timeout=10, check=True).stdout
    assert said.splitlines() == [f"{c.number} {c.name} {c.scope} {c.stage}" for c in SCHEMA.enums["reject_code"]]


@pytest.mark.system
def test_a_c_program_reads_the_fields_of_every_valid_vector(program: Path) -> None:
    for recorded in VALID:
        assert fields_in_c(program, recorded) == expected(recorded), recorded.name
    assert len(VALID) > 40
    assert {(r.message, r.vector["representation"]) for r in VALID} >= {
        (m, r) for m in ("step", "reply") for r in ("dense", "sparse")
    }


def fields_in_c(program: Path, recorded: Recorded) -> dict[str, str]:
    command = [program, str(recorded.columns[0])]
    done = subprocess.run(command, input=recorded.data.hex(), capture_output=True, text=True, timeout=10, check=True)
    return {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}


def expected(recorded: Recorded) -> dict[str, str]:
    """The listed fields, as the C program writes them."""
    message = next(m for m in SCHEMA.messages if m.name == recorded.message)
    kinds = {f.name: f for f in message.fields}
    found = {}
    for name, value in recorded.vector["fields"].items():
        spec = kinds.get(name)
        if spec is not None and spec.enum is not None:
            value = NUMBERS[spec.enum][value]
        if isinstance(value, list):
            found[name] = " ".join(f"{v:.9g}" if isinstance(v, float) else str(v) for v in value)
        else:
            found[name] = f"{value:.17g}" if isinstance(value, float) else str(value)
    return found
