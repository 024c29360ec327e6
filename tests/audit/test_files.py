"""Files of logits may come from anyone: what is wrong with them is named, and nothing of it is run or held."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from pp1wire.audit import AuditError, Kind, LogitFiles, RoundKey, audit, read_roots
from pp1wire.audit.logit_writer import Spool, read_spool, write_logits
from pp1wire.sampling import proposal_seed, verification_seed
from tests.audit.runs import Run, write

KEY = RoundKey(1, 1, 1, 1)
NAME = "draft/1/1/1/1"
ROWS = np.arange(12, dtype=np.float32).reshape(2, 6)


def read(path, kind=Kind.DRAFT, rows=3, width=6):
    with LogitFiles([path]) as files:
        return files.read(kind, KEY, rows, width)


def header_only(path, text: bytes, data=b""):
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_arrays_are_read_by_round_and_widened(tmp_path, suffix, dtype):
    path = write(tmp_path / f"a.{suffix}", {NAME: ROWS.astype(dtype)})
    array = read(path)
    assert array.dtype == np.float32
    assert np.array_equal(array, ROWS)
    with LogitFiles([path]) as files:
        assert files.read(Kind.TARGET, KEY, 3, 6) is None
        assert files.unused == [NAME]


def test_bfloat16_is_widened_bit_for_bit(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file as save

    rows = torch.randn(2, 6, generator=torch.Generator().manual_seed(1)).bfloat16()
    save({NAME: rows}, tmp_path / "a.safetensors")
    assert np.array_equal(read(tmp_path / "a.safetensors"), rows.float().numpy())


@pytest.mark.parametrize("array", [np.asfortranarray(ROWS), ROWS.astype(">f4")])
def test_npy_orders_are_read_alike(tmp_path, array):
    np.savez(tmp_path / "a.npz", **{NAME: array})
    assert np.array_equal(read(tmp_path / "a.npz"), ROWS)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((4, 6), np.float32), r"expected shape \[1 to 3, 6\], got \(4, 6\)"),
        (np.zeros((2, 5), np.float32), r"got \(2, 5\)"),
        (np.zeros(6, np.float32), r"got \(6,\)"),
        (np.zeros((0, 6), np.float32), r"got \(0, 6\)"),
        (np.zeros((2, 6), np.float64), "expected float32 or narrower floats, got float64"),
        (np.zeros((2, 6), np.uint64), "expected float32 or narrower floats, got uint64"),
        (np.zeros((2, 6), np.int32), "expected float32, float16, bfloat16, float64 or uint64, got"),
        (np.zeros((2, 6), np.uint16), "expected float32, float16, bfloat16, float64 or uint64, got"),
    ],
)
def test_wrong_shapes_and_types_are_named(tmp_path, suffix, array, words):
    with pytest.raises(AuditError, match=words):
        read(write(tmp_path / f"a.{suffix}", {NAME: array}))


def test_nothing_is_unpickled(tmp_path):
    np.savez(tmp_path / "a.npz", **{NAME: np.array([[{"a": 1}] * 6] * 2, dtype=object)})
    with pytest.raises(AuditError, match="got object"):
        read(tmp_path / "a.npz")


def test_a_bomb_is_refused_by_its_shape_before_it_is_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "a.npz", **{NAME: np.zeros((1 << 10, 1 << 12), np.float32)})
    with pytest.raises(AuditError, match=r"got \(1024, 4096\)"):
        read(tmp_path / "a.npz")
    # One that claims a fitting shape and goes on behind it.
    np.savez_compressed(tmp_path / "b.npz", **{NAME: ROWS})
    with zipfile.ZipFile(tmp_path / "b.npz") as pack:
        data = pack.read(f"{NAME}.npy")
    with zipfile.ZipFile(tmp_path / "c.npz", "w", zipfile.ZIP_DEFLATED) as pack:
        pack.writestr(f"{NAME}.npy", data + bytes(1 << 22))
    with pytest.raises(AuditError, match="expected 48 bytes of data, got more"):
        read(tmp_path / "c.npz")


@pytest.mark.parametrize(
    "text",
    [
        b"[1]",
        b"{" * 3000,
        b'{"draft/1/1/1/1": 3}',
        b'{"draft/1/1/1/1": {"dtype": "F32", "shape": [2, 6], "data_offsets": [0, 4000]}}',
        b'{"draft/1/1/1/1": {"dtype": "F32", "shape": [2, 6], "data_offsets": [8, 0]}}',
        b'{"draft/1/1/1/1": {"dtype": "F32", "shape": [2, -6], "data_offsets": [0, 48]}}',
        b'{"draft/1/1/1/1": {"dtype": "F32", "shape": [2, true], "data_offsets": [0, 48]}}',
        b'{"draft/1/1/1/1": {"dtype": "F32", "shape": [2, 6], "data_offsets": [0, 44]}}',
        b'{"draft/1/1/1/1": {"dtype": ["F32"], "shape": [2, 6], "data_offsets": [0, 48]}}',
        b'{"draft/x/1/1/1": {"dtype": "F32", "shape": [2, 6], "data_offsets": [0, 48]}}',
    ],
)
def test_hostile_safetensors_headers_are_refused(tmp_path, text):
    with pytest.raises(AuditError):
        read(header_only(tmp_path / "a.safetensors", text, bytes(48)))


@pytest.mark.parametrize("data", [b"", b"PK", b"\xff" * 64, (1 << 60).to_bytes(8, "little") + b"{}"])
def test_what_is_no_file_of_arrays_is_refused(tmp_path, data):
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(AuditError, match=r"a\.npz"):
        read(tmp_path / "a.npz")
    with pytest.raises(AuditError, match="cannot open"):
        read(tmp_path / "none.npz")


def test_damage_is_found_by_the_checksum_of_the_archive(tmp_path):
    np.savez(tmp_path / "a.npz", **{NAME: ROWS})
    data = bytearray((tmp_path / "a.npz").read_bytes())
    place = data.find(ROWS.tobytes())
    data[place + 5] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    with pytest.raises(AuditError, match="damaged"):
        read(tmp_path / "a.npz")


def test_an_array_twice_and_other_rules_are_refused(tmp_path):
    one, two = write(tmp_path / "a.npz", {NAME: ROWS}), write(tmp_path / "b.safetensors", {NAME: ROWS})
    with pytest.raises(AuditError, match=r"there already, in .*a\.npz"):
        LogitFiles([one, two])
    save_file({NAME: ROWS}, tmp_path / "c.safetensors", {"pp1wire": json.dumps({"draft_law": "softmax"})})
    with pytest.raises(AuditError, match="metadata draft_law: expected 'dyadic24-standard-v1', got 'softmax'"):
        LogitFiles([tmp_path / "c.safetensors"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_logits_that_are_no_law_are_told_by_array_and_row(tmp_path, value):
    run = Run().connection(rounds=1, sessions=1)
    run.arrays["draft/1/1/1/1"][1, 7] = value
    capture, logits = run.write(tmp_path)
    result = audit(capture, [logits])
    assert result.status == 3
    (finding,) = result.findings
    assert finding.code == "unusable_array"
    assert "draft/1/1/1/1[1]" in finding.message
    assert "at id 7" in finding.message
    assert (result.rows_recomputed, result.commits_replayed) == (2, 2)


def test_root_seeds_are_read_and_never_shown(tmp_path):
    (tmp_path / "roots").write_text("5\n18446744073709551615\n")
    assert read_roots(tmp_path / "roots")[proposal_seed(5)] == verification_seed(5)
    (tmp_path / "roots").write_text("5\n99887766x")
    with pytest.raises(AuditError, match="entry 2") as error:
        read_roots(tmp_path / "roots")
    assert "99887766" not in str(error.value)


@pytest.mark.parametrize("suffix", ["npz", "safetensors"])
def test_what_is_spooled_is_what_other_readers_read(tmp_path, suffix):
    spool = Spool(tmp_path / "spool")
    spool.add("draft", b"\x01" * 16, [], ROWS[:1])
    spool.add("draft", b"\x01" * 16, [4], ROWS[1:])
    spool.close()
    with (tmp_path / "spool").open("ab") as file:
        file.write((20).to_bytes(4, "little") + b'{"kind"')  # a process that was killed
    records = list(read_spool(tmp_path / "spool"))
    assert [record.drafted for record in records] == [(), (4,)]
    path = tmp_path / f"a.{suffix}"
    write_logits(path, {NAME: records}, np.array([[1, 2]], np.uint64), {})
    loaded = load_file(path) if suffix == "safetensors" else np.load(path)
    assert np.array_equal(loaded[NAME], ROWS)
    assert np.array_equal(loaded["seeds"], [[1, 2]])
    assert np.array_equal(read(path), ROWS)
    assert path.stat().st_mode & 0o777 == 0o600
    assert {file.name for file in tmp_path.iterdir()} == {"spool", path.name}
