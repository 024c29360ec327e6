"""Frozen array fields of messages: one dtype, one dimension, and no way to write into them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from pp1wire.errors import LocalProtocolError

__all__ = ["IdArray", "QArray", "as_array", "frozen_ids", "frozen_q"]

_Array = TypeVar("_Array", bound=npt.NDArray[np.generic])

IdArray = npt.NDArray[np.int32]
QArray = npt.NDArray[np.float32]


def frozen_ids(values: npt.ArrayLike) -> IdArray:
    """`values` as a read-only int32 [n]; a copy unless it is one already.

    Raises:
        LocalProtocolError: not one-dimensional, not integers, or outside int32.
    """
    if type(values) is np.ndarray and values.dtype == np.int32 and values.ndim == 1 and _immutable(values):
        return values
    array = as_array(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise LocalProtocolError(f"ids must be one-dimensional integers, not {array.dtype} of shape {array.shape}")
    if array.size and (int(array.min()) < -(2**31) or int(array.max()) >= 2**31):
        raise LocalProtocolError("ids must fit int32")
    return _frozen(array.astype(np.int32))


def frozen_q(values: npt.ArrayLike) -> QArray:
    """`values` as a read-only float32 [n]; a copy unless it is one already.

    Raises:
        LocalProtocolError: not one-dimensional, not floats, or not exactly representable as float32.
    """
    if type(values) is np.ndarray and values.dtype == np.float32 and values.ndim == 1 and _immutable(values):
        return values
    array = as_array(values)
    if array.ndim == 1 and array.dtype == np.float32:
        return _frozen(array.astype(np.float32))
    if array.ndim != 1 or (array.size and array.dtype.kind != "f"):
        raise LocalProtocolError(f"q must be one-dimensional floats, not {array.dtype} of shape {array.shape}")
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        narrow = array.astype(np.float32)
        if not np.array_equal(narrow.astype(array.dtype), array, equal_nan=True):
            raise LocalProtocolError("q must be exactly representable as float32")
    return _frozen(narrow)


def _immutable(array: npt.NDArray[np.generic]) -> bool:
    # A read-only view of a writable array still changes under its holder, so follow the views to whoever owns the bytes.
    owner: object = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    # An array that owns its bytes may have lent a writable view before it was made read-only; bytes never do.
    return isinstance(owner, bytes)


def as_array(values: npt.ArrayLike) -> npt.NDArray[np.generic]:
    """`values` as an array.

    Raises:
        LocalProtocolError: no array can be made of them.
    """
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError) as error:
        raise LocalProtocolError(f"a column must be one-dimensional numbers: {error}") from error


def _frozen(array: _Array) -> _Array:
    array.flags.writeable = False
    return array
