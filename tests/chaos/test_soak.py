"""The soak, shortened: every fault on real sockets, and every bound that `python -m tests.chaos.soak` keeps for longer."""

from __future__ import annotations

from tests.chaos.plan import KINDS
from tests.chaos.soak import lines, soak


def test_a_short_run_of_every_fault_loses_no_request_and_leaks_nothing():
    told = []
    report = soak(18, seed=2, say=told.append)
    assert report["broken"] == []
    assert report["requests"]["lost"] == 0
    assert report["rounds"] > report["drafted_rounds"] > 100
    assert report["requests"]["finished"] > 10
    assert all(report["faults"][kind] for kind in KINDS), report["faults"]
    signals = ("sigkill_worker", "sigkill_verifier", "sigstop_worker", "sigstop_verifier")
    assert all(report["faults"].get(number) for number in signals), report["faults"]
    assert set(report["memory"]) == set(report["descriptors"])
    assert "every bound was kept" in list(lines(report))
    assert len(told) > 3
