"""The ranks of one model on torch.distributed: integers combined, bytes handed round, one decision that holds for all.

Exchanges run on a process group of our own (gloo; sums, maxima and merges on NCCL if asked for), so that losing it takes
nothing else down. A decision is a register in the store, written once by whoever comes first and read by all: an exchange
that succeeds on one rank and fails on another still leaves them with one outcome. That is exact as long as the store lives,
so it must live outside the ranks.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from pp1wire.errors import PP1Error
from pp1wire.sampling.collectives import Collective, Combine
from pp1wire.sampling.errors import SamplingError
from pp1wire.sampling.weights import Int64

if TYPE_CHECKING:
    import torch

__all__ = ["BACKENDS", "CONTROL_WORDS", "LOST", "RankGroup", "RanksLost", "Store", "connect_store", "serve_store"]

BACKENDS: Final = ("gloo", "nccl")
CONTROL_WORDS: Final = 8
"""Every exchange of words has this width, so that ranks which ask for different things find out and do not hang."""
LOST: Final = "rank_lost"
"""The decision when a rank failed, stalled or is gone."""


class Store(Protocol):
    """What is used of a torch.distributed.Store; it must be one, such as a TCPStore."""

    def compare_set(self, key: str, expected_value: str, desired_value: str, /) -> bytes:
        """Write if the key holds `expected_value`, or is not there and that is empty; what it holds now."""

    def delete_key(self, key: str, /) -> bool:
        """Remove a key."""


Judge = Callable[[Int64], str]
"""int64 [ranks, CONTROL_WORDS - 1], one vote a row -> the outcome; the same on every rank, as the votes are."""


class RanksLost(PP1Error):
    """A rank failed, stalled or is gone: the group is over on every rank, and a new one must be joined."""


def torch_distributed() -> tuple[ModuleType, ModuleType]:
    """torch and torch.distributed. Raises SamplingError if they are not there."""
    try:
        import torch
        import torch.distributed as dist
    except ImportError:
        raise SamplingError("torch: expected it for ranks, but it is not installed; install pp1wire[cuda]") from None
    if not dist.is_available():
        raise SamplingError("torch.distributed: this build of torch has none; install pp1wire[cuda]")
    return torch, dist


def serve_store(host: str, port: int) -> Store:
    """A store for ranks, served by this process, which must be none of them: the one that starts them, say.

    It lasts as long as the object. `port` must be free. Raises SamplingError if torch is missing (extra `cuda`), RanksLost
    if it cannot listen there.
    """
    return _tcp_store(host, port, True, 60.0)


def connect_store(host: str, port: int, *, timeout: float = 60.0) -> Store:
    """The store that another process serves, waited for `timeout` seconds. Raises SamplingError, RanksLost."""
    return _tcp_store(host, port, False, timeout)


def _tcp_store(host: str, port: int, serve: bool, timeout: float) -> Store:
    _, dist = torch_distributed()
    try:
        store: Store = dist.TCPStore(host, port, None, serve, timedelta(seconds=timeout), wait_for_workers=False)
    except RuntimeError as error:
        raise RanksLost(f"store: expected one at {host}:{port}: {_line(error)}") from None
    return store


class RankGroup:
    """One rank's membership. Every rank calls the same methods in the same order, each within `timeout` of the others.

    Args:
        store: shared by the ranks, and in a process that is none of them: `connect_store`, or torchrun's.
        rank, ranks: this one's place in 0 … ranks − 1; rank 0 is the leader.
        timeout: seconds that one exchange, or one decision, may take.
        join_timeout: seconds for all ranks to join.
        name, epoch: keys of the store begin with both. After a loss, join again with the next epoch.
        backend: of sums, maxima and merges: gloo, or nccl on the current CUDA device. Votes and bytes always use gloo.
        address: host name or address of this rank for gloo; None for torch's choice.

    Raises:
        SamplingError: torch is missing (extra `cuda`), or an argument is out of range.
        RanksLost: not all ranks joined.
    """

    def __init__(
        self,
        store: Store,
        rank: int,
        ranks: int,
        *,
        timeout: float,
        join_timeout: float = 60.0,
        name: str = "pp1wire",
        epoch: int = 0,
        backend: str = "gloo",
        address: str | None = None,
    ) -> None:
        self._torch, self._dist = torch_distributed()
        if not 0 <= rank < ranks:
            raise SamplingError(f"rank: expected 0 <= rank < ranks, got {rank} of {ranks}")
        if not timeout > 0 or not join_timeout > 0:
            raise SamplingError(f"timeout, join_timeout: expected seconds > 0, got {timeout} and {join_timeout}")
        if backend not in BACKENDS:
            raise SamplingError(f"backend: expected one of {', '.join(BACKENDS)}, got {backend!r}")
        self.rank, self.ranks, self.timeout = rank, ranks, float(timeout)
        self._limit = timedelta(seconds=timeout)
        self._device = self._torch.device("cuda" if backend == "nccl" else "cpu")
        own = self._dist.PrefixStore(f"{name}/{epoch}", store)
        try:
            own.set(f"here/{rank}", "1")
            own.wait([f"here/{other}" for other in range(ranks)], timedelta(seconds=join_timeout))
            self._control: Any = self._gloo(self._dist.PrefixStore("control", own), address)
            self._data = self._control if backend == "gloo" else self._nccl(self._dist.PrefixStore("data", own))
        except RuntimeError as error:
            raise RanksLost(f"rank {rank}: not all {ranks} ranks joined: {_line(error)}") from None
        self._register = _Register(self._dist.PrefixStore("decision", own), self.timeout)
        self._number = 0
        self._over = False

    @property
    def lost(self) -> bool:
        """Whether an exchange has failed; then none will succeed again."""
        return self._control is None

    def combine(self, part: Collective) -> Int64:
        """What a rank program is sent for the collective that it yielded. Raises RanksLost."""
        if part.combine is Combine.MERGE:
            return np.sort(self.gather(part.values), axis=None)
        options = self._dist.AllreduceOptions()
        options.reduceOp = self._dist.ReduceOp.SUM if part.combine is Combine.SUM else self._dist.ReduceOp.MAX
        tensor = self._tensor(part.values, self._device)
        self._exchange(lambda: self._require(self._data).allreduce([tensor], options))
        return _array(tensor)

    def gather(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The arrays of all ranks, stacked by rank: [ranks, …]. All must have one shape and dtype. Raises RanksLost."""
        return self._gather(self._data, self._device, values)

    def words(self, *words: int) -> Int64:
        """A few integers (int64, at most CONTROL_WORDS) of every rank, on the control group: [ranks, CONTROL_WORDS].

        Raises RanksLost.
        """
        row = np.zeros(CONTROL_WORDS, np.int64)
        row[: len(words)] = words
        return self._gather(self._control, self._torch.device("cpu"), row)

    def broadcast(self, buffer: npt.NDArray[np.uint8]) -> None:
        """Overwrite `buffer` (uint8 [n], contiguous, writable) with the leader's. Raises RanksLost."""
        options = self._dist.BroadcastOptions()
        options.rootRank = options.rootTensor = 0
        tensor = self._torch.from_numpy(buffer)
        self._exchange(lambda: self._require(self._control).broadcast([tensor], options))

    def agree(self, vote: tuple[int, ...], judge: Judge) -> str:
        """One outcome for all ranks, within 2 · timeout of the call.

        Every rank's vote (at most CONTROL_WORDS − 1 integers) goes to every rank, and `judge` says what they amount to.
        The first outcome written is the one that holds, on whichever rank it was found; a rank that does not hear from all
        others writes LOST. A rank that cannot reach the store returns LOST by itself. After LOST the group is over, and
        every later call returns LOST at once.
        """
        self._number += 1
        if self._over:
            return LOST
        outcome = LOST
        try:
            votes = self.words(self._number, *vote)
            if bool((votes[:, 0] == self._number).all()):  # else a rank has missed an agreement, and none can be told
                outcome = judge(votes[:, 1:])
                # All ranks voted, so all have read the decision before this one.
                self._register.forget(str(self._number - 1))
        except RanksLost:
            pass
        decided = self._register.propose(str(self._number), outcome) or LOST
        if decided == LOST:
            self._over = True
            self.abandon()
        return decided

    def abandon(self) -> None:
        """Leave at once, so that the others find out now and not at their timeout."""
        self._control = self._data = None

    def close(self) -> None:
        """Leave, and end the thread that talks to the store."""
        self._over = True
        self.abandon()
        self._register.close()

    def __enter__(self) -> RankGroup:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _gloo(self, store: Store, address: str | None) -> Any:
        gloo = self._dist.ProcessGroupGloo
        if address is None:
            return gloo(store, self.rank, self.ranks, self._limit)
        options = gloo._Options()
        options._devices = [gloo.create_device(hostname=address)]
        options._timeout = self._limit
        return gloo(store, self.rank, self.ranks, options)

    def _nccl(self, store: Store) -> Any:
        options = self._dist.ProcessGroupNCCL.Options()
        options._timeout = self._limit
        return self._dist.ProcessGroupNCCL(store, self.rank, self.ranks, options)

    def _tensor(self, values: npt.NDArray[Any], device: torch.device) -> torch.Tensor:
        # A copy, so that what the caller does to its array later cannot reach an exchange that is still running.
        tensor: torch.Tensor = self._torch.from_numpy(np.array(values, order="C")).to(device)
        return tensor

    def _gather(self, group: Any, device: torch.device, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        tensor = self._tensor(values, device)
        all_of = [self._torch.empty_like(tensor) for _ in range(self.ranks)]
        self._exchange(lambda: self._require(group).allgather([all_of], [tensor]))
        return np.stack([_array(tensor) for tensor in all_of])

    def _require(self, group: Any) -> Any:
        if group is None or self._over:
            raise RanksLost(f"rank {self.rank} of {self.ranks}: the group is over; join again with the next epoch")
        return group

    def _exchange(self, start: Callable[[], Any]) -> None:
        try:
            start().wait(self._limit)
        except RuntimeError as error:
            self.abandon()
            raise RanksLost(f"rank {self.rank} of {self.ranks}: an exchange failed: {_line(error)}") from None


class _Register:
    """Decisions in the store, first come first served.

    The store's own calls wait without limit for a process that was stopped, so a thread makes them.
    """

    def __init__(self, store: Store, timeout: float) -> None:
        self._store, self._timeout = store, timeout
        self._jobs: queue.SimpleQueue[tuple[str, str | None] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._serve, name="pp1wire-decisions", daemon=True).start()

    def propose(self, key: str, value: str) -> str | None:
        """The value that holds: this one if it is the first. None if the store did not say so in time."""
        self._jobs.put((key, value))
        try:
            return self._answers.get(timeout=self._timeout)
        except queue.Empty:
            return None

    def forget(self, key: str) -> None:
        """Drop a decision that everybody has read."""
        self._jobs.put((key, None))

    def close(self) -> None:
        self._jobs.put(None)

    def _serve(self) -> None:
        for key, value in iter(self._jobs.get, None):
            try:
                if value is None:
                    self._store.delete_key(key)
                else:
                    self._answers.put(self._store.compare_set(key, "", value).decode())
            except RuntimeError:
                if value is not None:
                    self._answers.put(None)


def _array(tensor: torch.Tensor) -> npt.NDArray[Any]:
    array: npt.NDArray[Any] = tensor.cpu().numpy()
    return array


def _line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
