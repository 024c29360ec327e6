"""The study behind `packed`: bytes and speed of codes on real rows, as the tables of `docs/packed.md`.

python -m bench.packed_study [--repeat 9]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from bench.packed_codes import CODECS, SIZES
from pp1wire.sampling import dyadic_counts
from pp1wire.wire.packed import packed_bound

ROOT = Path(__file__).parent.parent
COUNTS = ROOT / "tests" / "data" / "full_support.npz"
"""Counts of 12 rows of SmolLM2-135M-Instruct (Apache-2.0) at T = 0.6, 0.8 and 1.0, 49,152 ids wide."""
LOGITS = ROOT / "tests" / "data" / "sampling_golden.npz"
"""Logits of 3 rows of the same model."""
WIDE = 129_280
TEMPERATURES = (0.6, 0.8, 1.0)
TOTAL = 1 << 24

Array = npt.NDArray[np.int64]
Row = tuple[Array, Array, int]
"""(ids, counts, vocabulary)"""


def real_rows(temperature: float) -> Iterator[Row]:
    """The counts of real rows, as the sampler made them."""
    with np.load(COUNTS, allow_pickle=False) as data:
        name = f"T{round(10 * temperature):02}"
        ends = data[f"{name}_indptr"]
        ids, counts = data[f"{name}_ids"].astype(np.int64), data[f"{name}_counts"].astype(np.int64)
        width = int(data["vocabulary"])
    for first, last in pairwise(ends):
        yield ids[first:last], counts[first:last], width


def stretched_rows(temperature: float) -> Iterator[Row]:
    """Real logits stretched along the id axis to 129,280 ids.

    Each new id takes the logit of the old id at the same share of the axis, plus normal noise of a quarter (fixed seed), so that
    neighbours stay alike, but no two are equal.
    """
    noise = np.random.default_rng(7)
    with np.load(LOGITS, allow_pickle=False) as data:
        logits = data["logits"]
    source = np.arange(WIDE) * logits.shape[1] // WIDE
    for row in logits:
        wide = row[source] + noise.normal(0, 0.25, WIDE).astype(np.float32)
        ids, counts = dyadic_counts(wide.astype(np.float32), temperature)
        yield ids.astype(np.int64), counts.astype(np.int64), WIDE


def worst_rows() -> dict[str, Row]:
    """Rows of the vocabulary of 129,280 that try to be long."""
    every = np.arange(WIDE)
    flat = np.full(WIDE, TOTAL // WIDE)
    flat[: TOTAL - int(flat.sum())] += 1
    longest = np.full(WIDE, 128)
    longest[: (TOTAL - 128 * WIDE) // 128] = 256
    longest[-1] += TOTAL - int(longest.sum())
    half = np.arange(1, WIDE, 2)
    other = np.full(len(half), 256)
    other[-1] += TOTAL - int(other.sum())
    ones = np.ones(WIDE, dtype=np.int64)
    ones[-1] = TOTAL - WIDE + 1
    return {
        "one id": (every[-1:], np.array([TOTAL]), WIDE),
        "every id once, the last the rest": (every, ones, WIDE),
        "every second id, 256 and more": (half, other, WIDE),
        "uniform": (every, flat, WIDE),
        "the longest of all": (every, longest, WIDE),
    }


def gaps_of(row: Row) -> Row:
    """(gaps from 1, counts, vocabulary)"""
    return np.diff(row[0], prepend=-1), row[1], row[2]


def best(work: Callable[[], object], repeat: int) -> float:
    """Least seconds of `work`."""
    least = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - start)
    return least


def sizes(sets: dict[str, list[Row]]) -> None:
    """Mean bytes of each code as a share of dense."""
    print("| code | " + " | ".join(sets) + " |\n| --- |" + " ---: |" * len(sets))
    for name, size in SIZES.items():
        cells = []
        for rows in sets.values():
            mean = np.mean([size(gaps_of(row)) for row in rows])
            cells.append(f"{mean:,.0f} ({100 * mean / (4 * rows[0][2]):.2f} %)")
        print(f"| {name} | " + " | ".join(cells) + " |")


def speeds(sets: dict[str, list[Row]], repeat: int) -> None:
    """GB/s of dense-equivalent of each codec, encode and decode."""
    print("\n| code | " + " | ".join(sets) + " |\n| --- |" + " ---: |" * len(sets))
    for name, (encode, decode) in CODECS.items():
        cells = []
        for rows in sets.values():
            put = get = dense = 0.0
            for ids, counts, width in rows:
                narrow, few, n = ids.astype(np.int32), counts.astype(np.int32), len(ids)
                data = encode(narrow, few, width)
                put += best(lambda: encode(narrow, few, width), repeat)  # noqa: B023 - called before the loop goes on
                get += best(lambda: decode(data, n, width), repeat)  # noqa: B023 - called before the loop goes on
                dense += 4 * width
            cells.append(f"{dense / put / 1e9:.2f} / {dense / get / 1e9:.2f}")
        print(f"| {name} | " + " | ".join(cells) + " |")


def worst() -> None:
    """Bytes of rows that try to be long."""
    rows, names = worst_rows(), ("varints (LEB128), gaps and counts", "gaps Rice, counts gamma (chosen)")
    print("\n| row | " + " | ".join(names) + " |\n| --- | ---: | ---: |")
    for title, row in rows.items():
        print(f"| {title} | " + " | ".join(f"{SIZES[name](gaps_of(row)):,}" for name in names) + " |")
    print(f"| bound | | {packed_bound(WIDE):,} |\n| dense | {4 * WIDE:,} | {4 * WIDE:,} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=9, help="runs of which the fastest counts")
    repeat = parser.parse_args().repeat
    sets = {f"real, T = {t}": list(real_rows(t)) for t in TEMPERATURES}
    sets |= {f"stretched, T = {t}": list(stretched_rows(t)) for t in TEMPERATURES}
    print(
        "\n".join(f"{name}: {np.mean([len(row[0]) for row in rows]):,.0f} ids a row" for name, rows in sets.items()),
        "\n",
    )
    sizes(sets)
    speeds(sets, repeat)
    worst()


if __name__ == "__main__":
    main()
