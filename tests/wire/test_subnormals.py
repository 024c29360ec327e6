"""A thread that takes subnormal numbers for zero judges rows as any other: by their bits."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest

from pp1wire.wire import RejectCode, RemoteProtocolError, canonical, decode_replies
from tests.wire.frames import DENSE, SPARSE, encode_all, reply, sealed

# The rows are built before the flag is set; offsets as in tests/sampling/test_environment.py.
CHILD = """
import ctypes, sys
import numpy as np
from pp1wire.wire import FrameReader, RemoteProtocolError, decode_replies
from tests.wire.test_subnormals import AGREEMENTS, with_subnormals
frames = {name: with_subnormals(name) for name in AGREEMENTS}
offset, flag = (28, 0x8040) if sys.argv[1] == "x86_64" else (0, 1 << 24)
libm = ctypes.CDLL("libm.so.6")
buffer = ctypes.create_string_buffer(64)
libm.fegetenv(buffer)
ctypes.c_uint32.from_buffer(buffer, offset).value |= flag
libm.fesetenv(buffer)
print("zero:", float(np.array([1e-45], np.float32)[0] * np.float32(2**100)))
for name, rows in frames.items():
    for row in rows:
        for judge in (decode_replies, lambda data, agreement: FrameReader(agreement).feed(data)):
            try:
                judge(row, AGREEMENTS[name])
                print("accepted")
            except RemoteProtocolError as error:
                print(error.code.name)
"""

AGREEMENTS = {"sparse": SPARSE, "dense": DENSE}


def with_subnormals(name):
    """Rows with a subnormal where a zero, or a sparse row's padding, belongs."""
    agreement = AGREEMENTS[name]
    frame = encode_all([reply(agreement)], agreement)
    rows = []
    for at in {len(frame) - 4, 64 + 32 + 4 * agreement.id_entries + 4 * 3}:
        changed = bytearray(frame)
        assert changed[at : at + 4] == bytes(4)
        changed[at : at + 4] = (1).to_bytes(4, "little")
        rows.append(bytes(sealed(changed)))
    return rows


@pytest.mark.parametrize("name", AGREEMENTS)
def test_a_subnormal_is_a_second_spelling_of_nothing(name):
    for row in with_subnormals(name):
        with pytest.raises(RemoteProtocolError) as caught:
            decode_replies(row, AGREEMENTS[name])
        assert caught.value.code in (
            RejectCode.Q_NOT_DYADIC, RejectCode.SPARSE_PADDING_NOT_ZERO, RejectCode.DENSE_PADDING_NOT_ZERO,
        )  # fmt: skip


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64") or platform.libc_ver()[0] != "glibc",
    reason="sets the flag through glibc's fesetenv",
)
def test_flush_to_zero_hides_no_subnormal():
    child = subprocess.run(
        [sys.executable, "-c", CHILD, platform.machine()], capture_output=True, text=True, timeout=60, check=False
    )
    assert child.returncode == 0, child.stderr
    first, *codes = child.stdout.splitlines()
    assert first == "zero: 0.0"
    assert codes
    assert set(codes) <= {"Q_NOT_DYADIC", "SPARSE_PADDING_NOT_ZERO", "DENSE_PADDING_NOT_ZERO"}


def test_counts_from_q_compares_bits_with_counts(monkeypatch):
    """What the flag does, planted: the product of a subnormal is zero."""
    monkeypatch.setattr(canonical, "_SCALE", np.float32(0))
    assert canonical.counts_from_q(np.array([[2**-24]], np.float32)) is None
    assert canonical.counts_from_q(np.array([[0.0]], np.float32)) is not None
