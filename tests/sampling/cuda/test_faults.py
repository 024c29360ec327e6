"""An allocation that contradicts itself raises, on the device too: each check is made to fail by planting what it looks for."""

from __future__ import annotations

import pytest
import torch

from pp1wire.sampling import AllocationError, FlushToZeroError, SamplingError
from pp1wire.sampling.cuda import torch_math
from pp1wire.sampling.cuda.backend import _probe_device
from pp1wire.sampling.cuda.state import CODE_SHIFT, FINE, Fault, State, raise_fault
from pp1wire.sampling.cuda.triton_backend import TritonBackend
from pp1wire.sampling.cuda.triton_kernels import dense

from .util import CPU

MASS = 1 << 24
FLOORS = r"floors: expected 0 <= 2\^24 - sum < 2\^24, got sum "
REMAINDERS = "remainders: expected more than 5 positive ones, got 5"
COUNTS = r"counts: expected a sum of 2\^24, got "


def allocate(weights):
    return torch_math.allocate(torch.tensor([weights]), torch.full((1,), FINE), 40)[1].item()


def test_torch_floors_that_do_not_fit():
    with pytest.raises(AllocationError, match=FLOORS + "0$"):
        raise_fault(allocate([2**62, 2**62]), "row", 2)


def test_torch_remainders_that_do_not_suffice(monkeypatch):
    word = allocate([3, 5, 7])
    raise_fault(word, "row", 3)
    monkeypatch.setattr(torch_math.torch, "count_nonzero", lambda tensor, axis: torch.zeros(1, dtype=torch.int64))
    with pytest.raises(AllocationError, match=r"remainders: expected more than \d positive ones, got 0"):
        raise_fault(allocate([3, 5, 7]), "row", 3)


def test_torch_counts_that_do_not_sum(monkeypatch):
    monkeypatch.setattr(torch_math, "_threshold", lambda rest, *_: (rest.amax(1, keepdim=True), torch.zeros(1, 1)))
    with pytest.raises(AllocationError, match=COUNTS + "16777215"):
        raise_fault(allocate([3, 5, 7]), "row", 3)


def choose(floors, positive, fault=FINE):
    backend = TritonBackend(CPU)
    state = torch.zeros((1, int(State.WIDTH)), dtype=torch.int64)
    state[0, State.FAULT], state[0, State.FLOORS], state[0, State.POSITIVE] = fault, floors, positive
    backend._launch(dense.choose, (1,), torch.zeros((1, 1, 2048), dtype=torch.int32), state, 0, 1, FIRST=True)
    return int(state[0, State.FAULT])


def test_triton_floors_and_remainders_that_do_not_fit():
    raise_fault(choose(MASS - 5, 6), "row", 9)
    raise_fault(choose(MASS, 0), "row", 9)
    for floors in (MASS + 1, 0):
        with pytest.raises(AllocationError, match=f"{FLOORS}{floors}$"):
            raise_fault(choose(floors, 6), "row", 9)
    with pytest.raises(AllocationError, match=REMAINDERS):
        raise_fault(choose(MASS - 5, 5), "row", 9)
    earlier = (int(Fault.NAN) << CODE_SHIFT) + 3
    assert choose(MASS + 1, 6, earlier) == earlier


def test_triton_counts_that_do_not_sum():
    state = torch.zeros((1, int(State.WIDTH)), dtype=torch.int64)
    state[0, State.FAULT] = FINE
    counts, sums = torch.tensor([[5, 6]], dtype=torch.int32), torch.tensor([[11]])
    token = torch.zeros(1, dtype=torch.int32)
    keys = torch.zeros((1, 4), dtype=torch.int64)
    TritonBackend(CPU)._launch(
        dense.draw, (1,), counts, 2, sums, keys, 0, keys, token, 1, token, 1, state, 2, 1,
        HAS_WIRE=False, GIVEN=False, BLOCKS=16, BLOCK=16,
    )  # fmt: skip
    with pytest.raises(AllocationError, match=COUNTS + "11"):
        raise_fault(int(state[0, State.FAULT]), "row", 2)


def test_the_first_fault_in_the_order_of_the_checks_is_the_smallest_word():
    words = [(int(fault) << CODE_SHIFT) + 7 for fault in Fault]
    assert words == sorted(words)
    assert max(words) < FINE
    with pytest.raises(SamplingError, match=r"^row: \+inf at id 7$"):
        raise_fault(min(words[1:]), "row", 9)


def test_a_device_that_flushes_is_refused():
    _probe_device("torch", CPU)
    torch.set_flush_denormal(True)
    try:
        with pytest.raises(FlushToZeroError, match="torch: cpu flushes subnormal numbers to zero"):
            _probe_device("torch", CPU)
    finally:
        torch.set_flush_denormal(False)
