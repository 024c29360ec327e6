"""Reads arrays one at a time from npz and safetensors files, which may come from anyone.

Nothing is unpickled, no more is read of an array than its checked shape allows, and the names alone are held. bfloat16 is
widened to float32; numpy lacks it, which is why safetensors files are read here and not by their own package. docs/audit.md has
the layout; safetensors: https://huggingface.co/docs/safetensors.
"""

from __future__ import annotations

import json
import math
import os
import zipfile
import zlib
from collections.abc import Container, Iterator
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt

from pp1wire.audit.errors import AuditError

__all__ = ["TensorFile", "open_tensors"]

Array = npt.NDArray[Any]

_DTYPES: Final = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "U64": "<u8"}
_METADATA: Final = "metadata.json"
_MOST_METADATA: Final = 1 << 20
_MOST_HEADER: Final = 100_000_000  # bytes, as the format's own reader has it
_ZIP_ERRORS: Final = (
    zipfile.BadZipFile,
    zlib.error,
    ValueError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    SyntaxError,
)


class TensorFile(Protocol):
    """An open file of named arrays."""

    name: str
    metadata: dict[str, Any]
    """Empty where the file has none."""

    def names(self) -> Iterator[str]:
        """Of all arrays."""
        ...

    def read(self, name: str, shapes: Container[tuple[int, ...]]) -> Array:
        """One array, refused before its data are read unless its shape is in `shapes`. Raises AuditError."""
        ...

    def close(self) -> None:
        """Close the file."""
        ...


def open_tensors(path: str | os.PathLike[str]) -> TensorFile:
    """Open a file by what it is, npz or safetensors. Raises AuditError."""
    name = os.fspath(path)
    try:
        file = Path(path).open("rb")  # noqa: SIM115 - the reader closes it
    except OSError as error:
        raise AuditError(f"{name}: cannot open: {error.strerror}") from error
    try:
        zipped = zipfile.is_zipfile(file)
        file.seek(0)
        return _Npz(file, name) if zipped else _Safetensors(file, name)
    except BaseException:
        file.close()
        raise


class _Npz:
    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self._file = file
        try:
            self._zip = zipfile.ZipFile(file)
            members = self._zip.infolist()
        except (*_ZIP_ERRORS, OSError) as error:
            raise AuditError(f"{name}: not a readable npz file: {error}") from error
        self._members = {m.filename.removesuffix(".npy"): m for m in members if m.filename.endswith(".npy")}
        self.metadata = self._metadata() if any(m.filename == _METADATA for m in members) else {}

    def _metadata(self) -> dict[str, Any]:
        try:
            with self._zip.open(_METADATA) as member:
                text = member.read(_MOST_METADATA + 1)
        except (*_ZIP_ERRORS, OSError) as error:
            raise AuditError(f"{self.name}: {_METADATA}: {error}") from error
        if len(text) > _MOST_METADATA:
            raise AuditError(f"{self.name}: {_METADATA}: expected at most {_MOST_METADATA} bytes, got more")
        return _object(text, f"{self.name}: {_METADATA}")

    def names(self) -> Iterator[str]:
        return iter(self._members)

    def read(self, name: str, shapes: Container[tuple[int, ...]]) -> Array:
        try:
            with self._zip.open(self._members[name]) as member:
                return self._array(member, name, shapes)
        except (*_ZIP_ERRORS, OSError) as error:
            raise AuditError(f"{self.name}: {name}: damaged: {error}") from error

    def _array(self, member: IO[bytes], name: str, shapes: Container[tuple[int, ...]]) -> Array:
        version = np.lib.format.read_magic(member)
        if version not in ((1, 0), (2, 0)):
            raise ValueError(f"npy version {version}")
        read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read_header(member)
        _check(self.name, name, dtype.newbyteorder("<").str, str(dtype), shape, shapes)
        size = math.prod(shape) * dtype.itemsize
        data = member.read(size)
        if len(data) != size or member.read(1):  # reading to the end verifies the member's CRC
            raise ValueError(f"expected {size} bytes of data, got {len(data) if len(data) < size else 'more'}")
        array: Array = np.frombuffer(data, dtype).reshape(shape, order="F" if fortran else "C")
        return array.astype(dtype.newbyteorder("="), copy=False)

    def close(self) -> None:
        self._zip.close()
        self._file.close()


class _Entry(NamedTuple):
    dtype: str
    shape: tuple[int, ...]
    start: int
    size: int


class _Safetensors:
    def __init__(self, file: IO[bytes], name: str) -> None:
        self.name = name
        self._file = file
        total = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if total < 8 or not 2 <= length <= min(_MOST_HEADER, total - 8):
            raise AuditError(f"{name}: neither npz nor safetensors: header of {length} bytes in a file of {total}")
        header = _object(file.read(length), f"{name}: header")
        words = header.pop("__metadata__", {})
        text = words.get("pp1wire") if isinstance(words, dict) else None
        self.metadata = _object(text, f"{name}: __metadata__.pp1wire") if isinstance(text, str) else {}
        self._entries = {key: self._entry(key, value, 8 + length, total) for key, value in header.items()}

    def _entry(self, key: str, value: Any, base: int, total: int) -> _Entry:
        fields = value if isinstance(value, dict) else {}
        dtype, shape, offsets = (fields.get(field) for field in ("dtype", "shape", "data_offsets"))
        if not (isinstance(dtype, str) and _is_whole(shape) and _is_whole(offsets) and len(offsets) == 2):
            raise AuditError(f"{self.name}: {key[:80]}: expected dtype, shape and data_offsets, got {str(value)[:80]}")
        start, end = offsets
        if not start <= end <= total - base:
            raise AuditError(f"{self.name}: {key}: data {start} to {end} lie outside the {total - base} bytes of data")
        return _Entry(dtype, tuple(shape), base + start, end - start)

    def names(self) -> Iterator[str]:
        return iter(self._entries)

    def read(self, name: str, shapes: Container[tuple[int, ...]]) -> Array:
        entry = self._entries[name]
        code = _DTYPES.get(entry.dtype, "")
        _check(self.name, name, "BF16" if entry.dtype == "BF16" else code, entry.dtype, entry.shape, shapes)
        size = math.prod(entry.shape) * np.dtype(code).itemsize
        if entry.size != size:
            raise AuditError(
                f"{self.name}: {name}: expected {size} bytes for {entry.dtype} {entry.shape}, got {entry.size}"
            )
        try:
            self._file.seek(entry.start)
            data = self._file.read(size)
        except OSError as error:
            raise AuditError(f"{self.name}: {name}: {error.strerror}") from error
        if len(data) != size:
            raise AuditError(f"{self.name}: {name}: expected {size} bytes of data, got {len(data)}")
        array = np.frombuffer(data, code).reshape(entry.shape)
        if entry.dtype == "BF16":  # the upper half of a float32
            return (array.astype("<u4") << np.uint32(16)).view("<f4")
        return array

    def close(self) -> None:
        self._file.close()


def _check(file: str, name: str, code: str, dtype: str, shape: Any, shapes: Container[tuple[int, ...]]) -> None:
    if tuple(shape) not in shapes:
        raise AuditError(f"{file}: {name}: expected shape {shapes}, got {tuple(shape)}")
    if code not in (*_DTYPES.values(), "BF16") or dtype == "uint16":
        raise AuditError(f"{file}: {name}: expected float32, float16, bfloat16, float64 or uint64, got {dtype}")


def _is_whole(value: Any) -> TypeGuard[list[int]]:
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 2**63 for n in value)


def _object(text: str | bytes, what: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise AuditError(f"{what}: not JSON: {error}") from error
    if not isinstance(value, dict):
        raise AuditError(f"{what}: expected a JSON object, got {type(value).__name__}")
    return value
