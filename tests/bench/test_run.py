"""The whole of `pp1wire bench` in quick mode: every row is there, plots and tables are written, and nothing else is left."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path

import pytest
import threadpoolctl

from bench import page
from bench.environment import environment, one_thread
from bench.harness import Formats, Growth, Outcome, Timing, race
from bench.steady_rows import peak
from pp1wire import cli
from pp1wire.errors import PP1Error

# One run of everything, on a machine that may be busy with other tests.
pytestmark = pytest.mark.timeout(600)
ROOT = Path(__file__).resolve().parents[2]
GOALS = {
    "sparse decode, 20 rows of k=32, every rule, checksum and ticket": 2.0,
    "sparse encode, 20 rows of k=32 from arrays, every rule checked": 1.0,
    "dense decode, 10.34 MB, every rule, checksum and ticket": 0.6,
    "dense encode, 10.34 MB from counts into a slot, every rule checked": 0.6,
    "exact counts and token, dense, one thread": 1.5,
    "exact counts and token, k=32, one thread": 1.0,
}
TRIPS = {
    "× bare echo": 1.5,
    "× JSON + BF16 logits, k=32, pyzmq": 0.5,
    "× JSON + BF16 logits, whole vocabulary, pyzmq": 0.5,
    "× gRPC + protobuf": 0.5,
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """One run of the command, which leaves no process behind: its folder, and its figures."""
    folder = tmp_path_factory.mktemp("bench")
    copy = folder / "performance.md"
    copy.write_text((ROOT / "docs" / "performance.md").read_text(encoding="utf-8"), encoding="utf-8")
    options = ["--json", str(folder / "figures.json"), "--plot", str(folder / "plots"), "--page", str(copy)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pp1wire.cli_bench._QUICK_SECONDS", 0.02)
        assert cli.main(["bench", "--quick", *options]) == 0
    assert not multiprocessing.active_children()
    return folder, json.loads((folder / "figures.json").read_text(encoding="utf-8"))


def test_every_goal_is_a_row(ran):
    _, figures = ran
    goals = {row["name"]: row["goal"] for row in figures["rows"]}
    assert GOALS.items() <= goals.items()
    trips = [row for row in figures["rows"] if row["name"].startswith("round trip")]
    assert {row["unit"]: row["goal"] for row in trips if row["goal"] is not None} == TRIPS
    assert len(trips) == 1 + len(TRIPS)
    assert sum(row["name"].startswith("steady state") for row in figures["rows"]) == 6
    assert any(row["name"].startswith("residual token") for row in figures["rows"])
    for row in figures["rows"]:
        assert row["ratio"] >= 0
        assert all(0 < t["best"] <= t["median"] for t in row["seconds"].values()), row["name"]


def test_the_machine_is_recorded(ran):
    _, figures = ran
    about = figures["environment"]
    assert about["cpu"]
    assert about["cores"] >= 1
    assert about["threads"] == 1
    assert about["quick"] is True
    assert {"numpy", "xxhash", "msgspec", "protobuf", "pyzmq", "grpcio"} <= set(about["packages"])
    assert {"load_at_start", "loaded", "python", "system"} <= set(about)


def test_formats_and_curves_are_measured(ran):
    _, figures = ran
    assert {len(shape["decode"]) for shape in figures["formats"] if "dense" not in shape["shape"]} == {9}
    labels = {curve["label"] for curve in figures["growth"]}
    assert {
        "entries a row (k)",
        "vocabulary (ids)",
        "requests a round",
        "frames in flight",
        "rows in the capture",
    } == labels
    assert {curve["unit"] for curve in figures["growth"]} == {"s", "B"}
    assert all(len(ys) == len(curve["x"]) for curve in figures["growth"] for ys in curve["series"].values())


def test_plots_are_written_with_axes_that_say_what_they_show(ran):
    folder, figures = ran
    names = sorted(path.name for path in (folder / "plots").iterdir())
    assert {"decode-real.svg", "encode-real.svg", "decode-adversarial.svg", "round-trip.svg"} <= set(names)
    assert sum(name.startswith("growth-") for name in names) == len(figures["growth"])
    text = (folder / "plots" / "decode-real.svg").read_text(encoding="utf-8")
    assert "time to decode a round (µs" in text
    assert "<dc:date>" not in text


def test_tables_stand_between_the_markers_of_the_page_and_nothing_else_changes(ran):
    folder, _ = ran
    before = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    after = (folder / "performance.md").read_text(encoding="utf-8")
    for name in page.NAMES:
        start, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
        assert before.count(start) == before.count(end) == 1
        assert after.partition(start)[2].partition(end)[0].strip(), name
        before = before.partition(start)[0] + before.partition(end)[2]
        after = after.partition(start)[0] + after.partition(end)[2]
    assert before == after
    assert "(plots/round-trip.svg)" in (folder / "performance.md").read_text(encoding="utf-8")


def test_a_page_without_markers_is_refused_and_stays_as_it_is(tmp_path):
    lost = tmp_path / "page.md"
    lost.write_text("no tables here", encoding="utf-8")
    about = {"cpu": "c", "cores": 1, "system": "s", "python": "p", "packages": {}, "loaded": False}
    with pytest.raises(PP1Error, match="bench:machine"):
        page.rewrite(lost, [], about, [])
    assert lost.read_text(encoding="utf-8") == "no tables here"


def test_a_busy_machine_is_marked(tmp_path):
    marked = tmp_path / "page.md"
    marked.write_text("".join(f"<!-- bench:{n} --><!-- /bench:{n} -->\n" for n in page.NAMES), encoding="utf-8")
    about = {"cpu": "c", "cores": 2, "system": "s", "python": "p", "packages": {}, "loaded": True, "load_at_start": 3.5}
    page.rewrite(marked, [Outcome("row", "× x", 2.0, 1.0, True)], about, [])
    text = marked.read_text(encoding="utf-8")
    assert "busy machine" in text
    assert "| row | 2.00 × x | ≤ 1 | **MISSED** |" in text


def test_plots_of_the_same_figures_are_the_same_bytes(tmp_path):
    from bench import plots

    timing = Timing(2e-6, 1e-7, 1.9e-6)
    results = [
        Formats("1×5, k=16, real", {"a": 1}, {"a": timing}, {"a": timing}),
        Growth("g", "g", "size", "s", [1, 2, 4, 8], {"a": [1.0, 2.0, 4.0, 8.0]}),
    ]
    first, second = (plots.write(results, tmp_path / name) for name in "ab")
    assert [path.name for path in first] == ["decode-real.svg", "encode-real.svg", "growth-g.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]


def test_exponents_are_those_of_the_larger_sizes():
    x = [1, 2, 4, 8, 16, 32, 64, 128]
    curve = Growth(
        "g", "g", "size", "s", x, {"square": [n * n for n in x], "step": [5.0] * 4 + [2.0 * n for n in x[4:]]}
    )
    assert curve.exponents() == pytest.approx({"square": 2.0, "step": 1.0})


def test_contestants_take_turns_and_slow_ones_take_few():
    calls: list[str] = []

    def slow() -> None:
        calls.append("slow")
        end = time.perf_counter() + 0.06
        while time.perf_counter() < end:
            pass

    times = race({"fast": lambda: calls.append("fast"), "slow": slow}, seconds=0.1)
    assert times["fast"].best < times["slow"].best
    assert calls.count("slow") <= 4
    assert calls.count("fast") > 100


@pytest.mark.parametrize(("load", "loaded"), [(0.4, False), (0.6, True)])
def test_the_load_at_the_start_decides_whether_a_machine_is_busy(monkeypatch, load, loaded):
    monkeypatch.setattr("bench.environment.os.getloadavg", lambda: (load, 9.0, 9.0))
    monkeypatch.setattr("bench.environment.os.sched_getaffinity", lambda _: {0, 1}, raising=False)
    about = environment()
    assert (about["cores"], about["load_at_start"], about["loaded"]) == (2, load, loaded)


def test_pools_of_threads_have_one_thread_while_rows_run():
    before = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    with one_thread():
        assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} == {1}
    assert [pool["num_threads"] for pool in threadpoolctl.threadpool_info()] == before


def test_new_memory_of_a_call_is_its_peak_and_what_was_there_before_is_not_counted():
    held = bytearray(5_000_000)
    assert 1_000_000 <= peak(lambda: len(bytearray(1_000_000))) < 1_100_000
    assert peak(lambda: held[0]) < 10_000
