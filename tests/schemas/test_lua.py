"""The generated Lua: up to date, complete, and what the command prints; its hashes against the reference ones."""

from __future__ import annotations

import hashlib
import random
import re
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import pytest
import xxhash

from pp1wire.capture.scanner import LONGEST_BODY
from pp1wire.capture.vectors import load_vectors
from pp1wire.cli import main
from pp1wire.wire import RejectCode
from schemas.generator import lua_output, model

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = model.load()
((TARGET, TEXT),) = lua_output.render(SCHEMA).items()
TEMPLATES = {path.stem: path.read_text(encoding="utf-8") for path in lua_output.TEMPLATES.glob("*.lua")}
TABLES = lua_output.tables(SCHEMA, lua_output.codes_of(SCHEMA, list(TEMPLATES.values())))


def test_it_is_up_to_date_and_what_the_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    assert (ROOT / TARGET).read_text(encoding="utf-8") == TEXT, "run `make schemas` and commit what it writes"
    assert main(["dissector"]) == 0
    assert capsys.readouterr().out == TEXT
    # Inside the package, so that the wheel carries it.
    assert Path(str(files("pp1wire.capture"))) / "pp1.lua" == ROOT / TARGET


def test_every_template_and_every_field_is_in_it() -> None:
    assert {file for _, file in lua_output.MODULES} | {lua_output.LAST} == TEMPLATES.keys()
    assert all(text.strip() in TEXT for text in TEMPLATES.values())
    for message in SCHEMA.messages:
        table = TABLES["messages"][message.number]
        assert [f["name"] for f in table["fields"]] + [c["name"] for c in table["columns"]] == [
            f.name for f in message.fields
        ]
        assert table["size"] == message.fixed_size
    assert [f["name"] for f in TABLES["header"]] == [f.name for f in SCHEMA.header]


def test_bounds_are_those_of_the_schemas() -> None:
    assert TABLES["longest_body"] == LONGEST_BODY
    steps = {m["name"]: (m["size"], m["fixed_columns"], m["step"]) for m in TABLES["messages"].values()}
    assert steps == {
        "hello": (312, 0, 0), "step": (48, 0, 0), "reply": (32, 0, 4), "completion": (40, 0, 0), "commit": (48, 24, 0),
        "reset": (32, 0, 4),
    }  # fmt: skip
    slots = next(f for f in TABLES["messages"][1]["fields"] if f["name"] == "max_slots")
    assert (slots["minimum"], slots["maximum"]) == (1, 4)
    seed = next(f for f in TABLES["messages"][2]["fields"] if f["name"] == "proposal_seed")
    assert "minimum" not in seed
    # Doubles hold every bound exactly.
    assert all(int(number) <= 2**53 for number in re.findall(r"m(?:in|ax)imum = (\d+)", TEXT))


def test_codes_and_severities_follow_the_schemas() -> None:
    codes = {code.name.lower() for code in RejectCode}
    own = TABLES["severity"].keys() - codes
    assert own == {"undecoded", "cut", "mid_stream", "round_failed"}
    left = {"ticket_mismatch", "truncated", "extra_data", "data_before_agreement"}
    assert codes - TABLES["severity"].keys() == left
    mild = {code for code, severity in TABLES["severity"].items() if severity != "ERROR"}
    assert mild == own | {"hello_refused", "sequence_mismatch", "stale_session", "stale_generation", "stale_round"}
    assert TABLES["said"].keys() == TABLES["severity"].keys()
    # Every code that a template names is declared, or Wireshark would find nothing to show.
    for text in TEMPLATES.values():
        for name in re.findall(r'(?:expected|out)\("([a-z_]+)"', text):
            assert name in TABLES["severity"], name


def test_a_note_may_not_have_the_name_of_a_code() -> None:
    taken = replace(SCHEMA.enums["reject_code"][0], name="undecoded")
    enums = SCHEMA.enums | {"reject_code": (taken, *SCHEMA.enums["reject_code"][1:])}
    with pytest.raises(model.SchemaError, match="undecoded"):
        lua_output.tables(replace(SCHEMA, enums=enums), [])


def test_values_are_written_as_lua() -> None:
    lua = lua_output._lua
    assert lua({"a": 1, "b": 'say "\\"'}) == '{ a = 1, b = "say \\"\\\\\\"" }'
    assert lua({1: "x", 2: []}) == '{ [1] = "x", [2] = {} }'
    long = lua({"list": ["word" * 10] * 4})
    assert long.count("\n") == 7
    assert max(map(len, long.splitlines())) < 100


# With Lua

INTERPRETERS = ["tshark", *(name for name in ("lua5.3", "lua5.4") if shutil.which(name))]
COMPILERS = [name for name in ("luac5.2", "luac5.3", "luac5.4") if shutil.which(name)]
LENGTHS = (*range(260), 511, 512, 513, 1023, 1024, 1025, 1087, 1088, 1089, 2048, 2049, 4097, 70_001)
HELPERS = """
local function bytes(hex)
    return (hex:gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end))
end
local function hex(text)
    return (text:gsub(".", function(c) return string.format("%02x", c:byte()) end))
end
"""
PROGRAM = """
-- Carries that random numbers all but never have.
local function is(expected, h, l)
    local found = string.format("%.0f %.0f", h, l)
    if found ~= expected then print("expected " .. expected .. ", got " .. found) end
end
is("1 0", words.add(0, 4294967295, 0, 1))
is("0 0", words.add(4294967295, 4294967295, 0, 1))
is("4294967295 4294967295", words.subtract(0, 0, 0, 1))
is("0 0", words.subtract(7, 9, 7, 9))
is("4294967294 1", words.multiply32(4294967295, 4294967295))
is("0 1", words.shift_right(1, 0, 32))
is("2147483648 0", words.rotate_left(0, 1, 63))
for line in io.lines(INPUT) do
    local high, low, data = line:match("^(%x+) (%x+) (%x*)$")
    local h, l = xxh3.hash64(bytes(data), tonumber(high, 16), tonumber(low, 16))
    print(string.format("%08x%08x", h, l), hex(xxh3.hash128(bytes(data))), hex(blake2b.hash8(bytes(data))))
end
"""


def run_lua(interpreter: str, script: Path) -> str:
    command = [interpreter, str(script)]
    if interpreter == "tshark":  # it runs scripts before it finds that there is nothing to read
        command = ["tshark", "-X", f"lua_script:{script}", "-r", str(script.parent / "none")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "Lua" not in done.stderr
    return done.stdout


@pytest.mark.system
@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_hashes_are_the_reference_ones_at_every_length(interpreter: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    lines, expected = [], []
    for length in LENGTHS:
        data = rng.randbytes(length)
        for seed in (0, 2**64 - 1, rng.getrandbits(64)):
            lines.append(f"{seed >> 32:08x} {seed & 0xFFFFFFFF:08x} {data.hex()}\n")
            blake = hashlib.blake2b(data, digest_size=8).hexdigest()
            expected.append([f"{xxhash.xxh3_64_intdigest(data, seed):016x}", xxhash.xxh3_128_hexdigest(data), blake])
    (tmp_path / "input").write_text("".join(lines))
    wrapped = [lua_output.wrapped(name, TEMPLATES[file]) for name, file in lua_output.MODULES[:3]]
    script = tmp_path / "hashes.lua"
    script.write_text("\n".join([*wrapped, HELPERS, f'local INPUT = "{tmp_path / "input"}"', PROGRAM]))
    found = [line.split("\t") for line in run_lua(interpreter, script).splitlines()]
    assert len(found) == len(expected)
    wrong = {len(line.split()[-1]) // 2 for line, a, b in zip(lines, found, expected, strict=True) if a != b}
    assert wrong == set()


@pytest.mark.system
def test_every_lua_version_compiles_it(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000"))
    script = ROOT / TARGET
    done = subprocess.run(
        ["tshark", "-X", f"lua_script:{script}", "-r", str(empty), "-Y", "pp1.reply.q"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "")
    assert "Lua" not in done.stderr
    for compiler in COMPILERS:
        done = subprocess.run([compiler, "-p", str(script)], capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode, done.stderr) == (0, "")


JUDGE = """
local conn
for line in io.lines(INPUT) do
    local who, data = line:match("^(%l+) (%x*)$")
    if not who then
        conn = { ways = {}, terms = {}, sessions = {}, last_session = 0, whole = false, frames = 0, discards = 0 }
    else
        local frame = bytes(data)
        local header = frames.parse(frame)
        local rec = { header = header, faults = {}, place = { number = 1, time = 0 } }
        local code = frames.distrust(frame, header)
        if code then
            rec.faults = { { code, "header" } }
        elseif #frame < schema.header_bytes + header.message.size then
            rec.faults = messages.header_faults(header, conn.terms)
        else
            rec.values = messages.values(frame, header.message)
            rounds.judge(conn, who, rec, frame)
        end
        local told = {}
        for _, fault in ipairs(rec.faults) do told[#told + 1] = fault[1] .. "@" .. fault[2] .. "@" .. (fault[3] or "") end
        print(table.concat(told, ";"))
    end
end
"""


@pytest.mark.system
@pytest.mark.parametrize("interpreter", INTERPRETERS)
def test_frames_are_judged_alike_in_every_lua_version(interpreter: str, tmp_path: Path) -> None:
    """What is no Wireshark interface, without Wireshark: each vector's frame gets its code, at its path, in whole numbers."""
    chosen = []
    lines = []
    for vector in load_vectors():
        size = 64 + int.from_bytes(vector.data[16:20], "little")
        code = None if vector.reject is None else vector.reject[0]
        if len(vector.data) != size or code in ("ticket_mismatch", "bad_magic") or vector.name == "hello/answer-first":
            continue
        sent = [*((s.sender, s.data) for s in vector.conversation), (vector.sender, vector.data)]
        if any(len(data) != 64 + int.from_bytes(data[16:20], "little") for _, data in sent):
            continue
        lines += ["-\n", *(f"{who} {data.hex()}\n" for who, data in sent)]
        chosen.append((vector, len(sent)))
    (tmp_path / "input").write_text("".join(lines))
    text = TEXT[: TEXT.index("local declarations = ")]
    script = tmp_path / "judge.lua"
    script.write_text("\n".join([text, HELPERS, f'local INPUT = "{tmp_path / "input"}"', JUDGE]))
    found = run_lua(interpreter, script).split("\n")
    assert len(chosen) > 250
    paths = []
    for vector, count in chosen:
        told = [fault.split("@") for fault in found[count - 1].split(";") if fault]
        del found[:count]
        if vector.reject is None:
            assert [code for code, *_ in told if code != "round_failed"] == [], vector.name
            continue
        assert vector.reject[0] in [code for code, *_ in told], vector.name
        if len(told) == 1 and told[0][1] != "header":
            paths.append((vector.name, told[0][1], vector.reject[3]))
        assert not re.search(r"\d\.0\b", " ".join(text for *_, text in told)), told
    assert found == [""]
    assert [entry for entry in paths if entry[1] != entry[2]] == []
    assert len(paths) > 200
