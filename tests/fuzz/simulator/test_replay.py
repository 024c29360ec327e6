"""One seed is one run: the same log, byte for byte, wherever and whenever it runs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.simulator.world import run

ROOT = Path(__file__).parents[3]
SEED = 14


def test_the_same_seed_gives_the_same_log():
    first, second = [], []
    one, other = run(SEED, first.append), run(SEED, second.append)
    assert one.invariant is None, one.detail
    assert first == second
    assert (one.digest, one.texts) == (other.digest, other.texts)
    assert one.rounds > 5
    assert run(SEED + 1).digest != one.digest


@pytest.mark.parametrize("hash_seed", ["1", "77"])
def test_the_same_log_in_another_process_with_another_order_of_hashes(hash_seed):
    command = [sys.executable, "-m", "fuzz.simulator", "--seed", str(SEED), "--json"]
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["digest"] == run(SEED).digest
