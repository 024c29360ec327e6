"""Writes a file of logits, npz or safetensors by its name, from spooled rows: memory does not grow with it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from pp1wire.audit.errors import AuditError

__all__ = ["SUFFIXES", "Spool", "Spooled", "read_spool", "write_logits"]

SUFFIXES: Final = (".npz", ".safetensors")
_CHUNK: Final = 1 << 20
_MOST_HEADER: Final = 1 << 16


class Spooled(NamedTuple):
    """One call of a model: where its rows lie in a spool."""

    path: Path
    kind: str
    prefix: str
    """Digest of the committed ids, in hexadecimal, as a STEP carries it."""
    drafted: tuple[int, ...]
    rows: int
    width: int
    offset: int


class Spool:
    """A file that grows by one record a call; each is whole or, if the process is killed, the last and cut off.

    What a model computes has no round yet: it is a function of the ids before it, and these are its name.

    Args:
        path: created with mode 600, as it is what users said.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = open_private(path)

    def add(self, kind: str, prefix: bytes, drafted: Sequence[int], rows: npt.NDArray[np.float32]) -> None:
        """Add float32 rows [n, V]."""
        header = {"kind": kind, "prefix": prefix.hex(), "drafted": [int(t) for t in drafted], "shape": list(rows.shape)}
        text = json.dumps(header).encode()
        self._file.write(len(text).to_bytes(4, "little") + text)
        self._file.write(np.ascontiguousarray(rows, "<f4").tobytes())
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_spool(path: Path) -> Iterator[Spooled]:
    """The records of a spool, up to one that is cut off."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        while len(head := file.read(4)) == 4:
            length = int.from_bytes(head, "little")
            text = file.read(length)
            if length > _MOST_HEADER or len(text) < length:
                return
            header = json.loads(text)
            rows, width = header["shape"]
            offset = file.tell()
            if offset + 4 * rows * width > size:
                return
            yield Spooled(path, header["kind"], header["prefix"], tuple(header["drafted"]), rows, width, offset)
            file.seek(offset + 4 * rows * width)


def open_private(path: Path) -> IO[bytes]:
    """A new file that its owner alone can read; what was there is gone."""
    path.unlink(missing_ok=True)
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")


def write_logits(
    path: Path,
    arrays: Mapping[str, Sequence[Spooled]],
    seeds: npt.NDArray[np.uint64],
    metadata: Mapping[str, Any],
) -> None:
    """Write float32 arrays, each the rows of its records one below the other, and the seeds; mode 600.

    The file is there when it is whole, and not before.

    Args:
        path: ends in .npz or .safetensors.
        arrays: by name.
        seeds: [n, 2], proposal and verification seed of each request.
        metadata: for JSON.

    Raises:
        AuditError: another ending.
    """
    if path.suffix not in SUFFIXES:
        raise AuditError(f"{path}: expected a name that ends in {' or '.join(SUFFIXES)}")
    part = path.with_name(path.name + ".part")
    try:
        with open_private(part) as out:
            (_write_npz if path.suffix == ".npz" else _write_safetensors)(out, arrays, seeds.astype("<u8"), metadata)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def _shape(records: Sequence[Spooled]) -> tuple[int, int]:
    return sum(record.rows for record in records), records[0].width


def _copy(records: Sequence[Spooled], out: IO[bytes]) -> None:
    for record in records:
        with record.path.open("rb") as file:
            file.seek(record.offset)
            left = 4 * record.rows * record.width
            while left:
                data = file.read(min(left, _CHUNK))
                if not data:
                    raise AuditError(f"{record.path}: expected {left} more bytes")
                out.write(data)
                left -= len(data)


def _write_npz(
    out: IO[bytes],
    arrays: Mapping[str, Sequence[Spooled]],
    seeds: npt.NDArray[np.uint64],
    metadata: Mapping[str, Any],
) -> None:
    # Stored and not deflated: logits are noise to a compressor.
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as pack:
        pack.writestr("metadata.json", json.dumps(metadata))
        with pack.open("seeds.npy", "w") as member:
            np.lib.format.write_array(member, seeds, allow_pickle=False)
        for name, records in arrays.items():
            with pack.open(f"{name}.npy", "w", force_zip64=True) as member:
                header = {"descr": "<f4", "fortran_order": False, "shape": _shape(records)}
                np.lib.format.write_array_header_1_0(member, header)
                _copy(records, member)


def _write_safetensors(
    out: IO[bytes],
    arrays: Mapping[str, Sequence[Spooled]],
    seeds: npt.NDArray[np.uint64],
    metadata: Mapping[str, Any],
) -> None:
    header: dict[str, Any] = {"__metadata__": {"pp1wire": json.dumps(metadata)}}
    end = seeds.nbytes
    header["seeds"] = {"dtype": "U64", "shape": list(seeds.shape), "data_offsets": [0, end]}
    for name, records in arrays.items():
        shape = _shape(records)
        start, end = end, end + 4 * shape[0] * shape[1]
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    out.write(len(text).to_bytes(8, "little") + text)
    out.write(seeds.tobytes())
    for records in arrays.values():
        _copy(records, out)
