"""What figures depend on: the machine, the versions, how busy it was, and one thread for whatever would take more."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import threadpoolctl

PACKAGES = (
    "numpy", "xxhash", "numba", "torch", "msgspec", "protobuf", "flatbuffers", "construct", "kaitaistruct", "pyzmq", "grpcio",
    "matplotlib",
)  # fmt: skip
BUSY = 0.25
"""Share of the cores that others may use before figures are marked."""


def environment() -> dict[str, Any]:
    """Everything that a figure depends on, as plain values; the load is that of the moment, so ask before measuring."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "cpu": _cpu(),
        "cores": cores,
        "load_at_start": None if load is None else round(load, 2),
        "loaded": load is not None and load > BUSY * cores,
        "system": f"{platform.system()} {platform.machine()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "packages": {name: found for name in PACKAGES if (found := _version(name))},
        "threads": 1,
    }


@contextmanager
def one_thread() -> Iterator[None]:
    """Every pool of BLAS and OpenMP that is loaded has one thread inside; torch has a setting of its own (`torch_rows`)."""
    with threadpoolctl.threadpool_limits(limits=1):
        yield


def _cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    names = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
