"""The demo end to end: two processes, every fault, and the same tokens however the requests are arranged."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from pp1wire.demo.run import demo
from pp1wire.demo.settings import Settings
from pp1wire.demo.worker_handle import WorkerHandle
from pp1wire.errors import PP1Error
from pp1wire.wire import Representation


def run(tmp_path, **settings):
    said = []
    report = demo(Settings(capture=tmp_path / "demo.pcapng", **settings), said.append)
    return report, said


def tokens(report, leg=0):
    return [[t for decided in lane for t in decided.tokens] for lane in report.legs[leg].lanes]


def test_both_representations_decode_and_their_recording_is_valid(tmp_path):
    report, said = run(tmp_path, rounds=4)
    assert report.as_expected
    assert [leg.representation for leg in report.legs] == [Representation.SPARSE, Representation.DENSE]
    for leg in report.legs:
        assert [len(lane) for lane in leg.lanes] == [4] * 4
        # Evidence that speculation happened: drafts accepted, and drafts rejected.
        assert sum(r.accepted for r in leg.rounds) > 0
        assert any(r.kind.name == "CORRECTION" for r in leg.rounds)
        assert not any(n for n in leg.rejects().values())
        assert all(ms is not None and ms >= 0 for ms in leg.stage_milliseconds().values())
    text = "\n".join(said)
    for words in (
        "tokens a round",
        "acceptance",
        "bytes a round",
        "ms a round by stage",
        "reject counters",
        "validate: valid",
    ):
        assert words in text
    data = report.as_data()
    assert data["legs"][0]["bytes_a_round"] == 5 * 352 + 104
    assert data["legs"][0]["dense_bytes_a_round"] == 5 * (96 + 517_120) + 104


def test_same_seed_same_tokens_whatever_the_sockets_and_the_requests_in_flight(tmp_path):
    usual = {"rounds": 3, "representation": "sparse", "seed": 7}
    base = tokens(run(tmp_path, requests=3, **usual)[0])
    assert tokens(run(tmp_path, requests=3, sockets=3, **usual)[0]) == base
    assert tokens(run(tmp_path, requests=1, **usual)[0]) == base[:1]
    assert tokens(run(tmp_path, requests=3, rounds=3, representation="sparse", seed=8)[0]) != base


def test_same_seed_same_tokens_with_torch(tmp_path):
    usual = {"rounds": 2, "requests": 2, "seed": 7}
    base, torch = run(tmp_path, **usual)[0], run(tmp_path, backend="torch", **usual)[0]
    assert torch.as_expected
    for leg in (0, 1):
        assert tokens(torch, leg) == tokens(base, leg)


def child(tmp_path, *arguments, **variables):
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"} | variables
    command = [sys.executable, "-m", "pp1wire.cli", "demo", "--capture", str(tmp_path / "demo.pcapng"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, env=environment)


def test_interpreted_triton_draws_the_same_tokens_and_says_that_it_is_slow(tmp_path):
    few = ("--rounds", "1", "--requests", "1", "--depth", "2", "--representation", "sparse")
    done = child(tmp_path, "--backend", "triton", *few, TRITON_INTERPRET="1")
    assert done.returncode == 0, done.stderr
    first, *rest = done.stdout.splitlines()
    assert first.startswith("backend triton: its kernels are interpreted on the CPU, which is slow")
    said = [line for line in rest if line.startswith("[")]
    assert said == [line for line in child(tmp_path, *few).stdout.splitlines() if line.startswith("[")]
    assert len(said) == 2


def test_triton_without_gpu_and_interpreter_says_what_is_missing(tmp_path):
    done = child(tmp_path, "--backend", "triton", "--rounds", "1", "--requests", "1", CUDA_VISIBLE_DEVICES="")
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("pp1wire demo: backend 'triton': expected tensors on a CUDA device, got cpu")
    assert not (tmp_path / "demo.pcapng").exists()


def test_worker_is_told_the_backend(tmp_path, capfd):
    """Tokens cannot tell: a name that only the worker refuses does."""
    settings = Settings()
    object.__setattr__(settings, "backend", "cupy")

    async def main():
        async with WorkerHandle(settings, Representation.SPARSE, tmp_path / "worker") as worker:
            await worker.listening()

    with pytest.raises(PP1Error, match="the draft worker did not start"):
        asyncio.run(main())
    assert "draft worker: backend: expected one of numpy, torch, triton, got 'cupy'" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("fault", "counted", "verdict"),
    [
        ("corrupt", "discarded: body_checksum_mismatch", "invalid"),
        ("truncate", "discarded: connection_lost", "invalid"),
        ("late", "discarded: deadline", "valid"),
        ("kill", "discarded: connection_lost", "valid"),
    ],
)
def test_fault_falls_back_to_the_target_and_is_counted(tmp_path, fault, counted, verdict):
    report, said = run(tmp_path, rounds=4, requests=2, fault=fault)
    assert report.as_expected
    (leg,) = report.legs
    assert [len(lane) for lane in leg.lanes] == [4, 4]
    assert leg.rejects()[counted] > 0
    assert any(r.kind.name == "TARGET_ONLY" for r in leg.rounds)
    assert any("target only" in line for line in said)
    assert report.validation.status.name.lower() == verdict


@pytest.mark.parametrize("fault", ["corrupt", "truncate", "kill"])
def test_fault_finds_a_round_however_short_the_run_is(tmp_path, fault):
    report, said = run(tmp_path, rounds=1, requests=1, fault=fault)
    assert report.as_expected, said
    assert report.legs[0].rounds[0].fallback is not None


def test_what_is_not_as_expected_is_said(tmp_path):
    report, _ = run(tmp_path, rounds=2, requests=1, representation="sparse")
    assert report.surprise is None
    for lane in report.legs[0].lanes:
        lane[0] = replace(lane[0], fallback="deadline")
    assert "deadline" in report.surprise
    assert report.lines()[-1] == f"not as expected: {report.surprise}"


def test_a_run_that_never_begins_leaves_no_recording(tmp_path, monkeypatch):
    def missing(*_):
        raise PP1Error("no model")

    monkeypatch.setattr("pp1wire.demo.run.target_model", missing)
    with pytest.raises(PP1Error, match="no model"):
        run(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_recordings_of_two_runs_are_two_files():
    assert Settings().capture.name.startswith("pp1wire-demo-")
    assert str(os.getpid()) in Settings().capture.name


def test_fault_that_is_no_fault_of_a_proposal_lets_drafting_go_on(tmp_path):
    report, _ = run(tmp_path, rounds=6, requests=2, fault="corrupt")
    lanes = report.legs[0].lanes
    assert sum(r.fallback is not None for lane in lanes for r in lane) == 1
    assert all(lane[-1].fallback is None for lane in lanes)


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"model": "gpt"}, "gpt"),
        ({"backend": "cupy"}, "cupy"),
        ({"fault": "fire"}, "fire"),
        ({"temperature": 0.0}, "temperature"),
    ],
)
def test_settings_that_no_run_can_have(tmp_path, settings, named):
    with pytest.raises(PP1Error, match=named):
        run(tmp_path, **settings)


def test_real_model_decodes_text(tmp_path):
    report, said = run(tmp_path, model="smollm2", rounds=3, requests=2)
    assert report.as_expected
    assert sum(r.accepted for r in report.legs[0].rounds) > 0
    text = " ".join(line for line in said if line.startswith("["))
    assert any(word in text for word in (" the", " of", " a"))
