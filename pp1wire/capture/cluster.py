"""Files judged by the workers of a Dask cluster, with the report that one process gives; needs the extra `dask` (distributed).

A file is handed to a worker whole, by name, and its result comes back; both are pickled, so client, scheduler and workers have to
trust each other.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any, Final

import pp1wire
from pp1wire.capture.parallel import Merged, lost
from pp1wire.capture.remote import reason_of, shown_name
from pp1wire.capture.sources import Progress
from pp1wire.capture.validate import Result, Validator
from pp1wire.errors import PP1Error
from pp1wire.wire import Hello

__all__ = ["ClusterError", "validate_on_cluster"]

_CONNECT_S: Final = 10
_LOOK_S: Final = 2.0
_PATIENCE_S: Final = 60.0


class ClusterError(PP1Error):
    """The cluster cannot be used."""


@dataclass(frozen=True)
class _Task:
    """What a worker is to do. Its repr, which workers write into their logs, names only what may be shown."""

    name: str = field(repr=False)
    shown: str
    ports: Collection[int]
    peer: Hello | None
    max_findings: int
    version: str = pp1wire.__version__


def validate_on_cluster(
    names: Sequence[str],
    address: str,
    *,
    ports: Collection[int] = (),
    peer: Hello | None = None,
    max_findings: int = 1000,
    progress: Progress | None = None,
    patience_s: float = _PATIENCE_S,
) -> Result:
    """Judge files on a cluster; arguments otherwise as of `validate`.

    The cluster has as many files at a time as its workers have threads: one that waited behind another on a worker would
    share its blame if that worker dies. A file is unreadable, with the reason, where every worker that took it has died
    (Dask tries four by default), where no worker is there, and where the scheduler goes.

    Args:
        names: as the workers are to open them: on a file system that they share, or URLs.
        address: of the scheduler, as `tcp://10.0.0.1:8786`.
        progress: told when a file is over.
        patience_s: how long to wait, without any worker, for one to come.

    Raises:
        ClusterError: distributed is not installed, nothing answers at the address, or a worker has another version of pp1wire.
    """
    try:
        import distributed
    except ImportError:
        raise ClusterError("dask: distributed is not installed; install pp1wire[dask]") from None
    connect: Any = distributed.Client
    try:
        client = connect(address, timeout=_CONNECT_S, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(f"dask: nothing answers at {address}: {error}") from error
    with client:
        tasks = [_Task(name, shown_name(name), tuple(ports), peer, max_findings) for name in names]
        return _Run(client, tasks, progress, patience_s).result()


class _Run:
    def __init__(self, client: Any, tasks: Sequence[_Task], progress: Progress | None, patience_s: float) -> None:
        self._client = client
        self._tasks = tasks
        self._progress = progress
        self._patience_s = patience_s
        self._merged = Merged(tasks[0].max_findings if tasks else 0)
        self._places: dict[Any, int] = {}  # of what is with the cluster
        self._over: SimpleQueue[Any] = SimpleQueue()

    def result(self) -> Result:
        waiting = list(reversed(range(len(self._tasks))))
        seen = time.monotonic()
        while waiting or self._places:
            threads = self._threads()
            while threads is not None and waiting and len(self._places) < max(threads, 1):
                self._submit(waiting.pop())
            try:
                future = self._over.get(timeout=_LOOK_S)
            except Empty:
                seen = time.monotonic() if threads else seen
                if threads is None or time.monotonic() - seen > self._patience_s:
                    why = "the scheduler has gone" if threads is None else "the cluster has no workers"
                    self._give_up([*self._places.values(), *waiting], why)
                    break
            else:
                seen = time.monotonic()
                self._take(future, self._places.pop(future))
        return self._merged.total

    def _threads(self) -> int | None:
        """Of all workers; None where the scheduler does not say."""
        try:
            threads: dict[str, int] = self._client.nthreads()
        except (OSError, ValueError):
            return None
        return sum(threads.values())

    def _submit(self, place: int) -> None:
        future = self._client.submit(_judge, self._tasks[place], pure=False)
        self._places[future] = place
        future.add_done_callback(self._over.put)

    def _take(self, future: Any, place: int) -> None:
        task = self._tasks[place]
        if future.status == "finished":
            one: Result = future.result()
        elif future.status == "error":
            error = future.exception()
            if isinstance(error, ClusterError):
                raise error
            one = lost(task.name, _why(error, task.name))
        else:
            one = lost(task.name, "the scheduler has gone, or gave it up")
        if self._progress is not None:
            self._progress(task.shown, one.files[0].size)
        self._merged.add(place, one)

    def _give_up(self, places: Sequence[int], why: str) -> None:
        for place in places:
            self._merged.add(place, lost(self._tasks[place].name, why))


def _why(error: BaseException, name: str) -> str:
    if type(error).__name__ == "KilledWorker":  # its text has places and names that differ from run to run
        return "every worker that judged it has died; their logs say more"
    return f"the worker failed: {reason_of(error, name)}"


def _judge(task: _Task) -> Result:
    """On a worker."""
    if task.version != pp1wire.__version__:
        raise ClusterError(f"dask: this is pp1wire {task.version}, but a worker has {pp1wire.__version__}")
    validator = Validator(ports=task.ports, peer=task.peer, max_findings=task.max_findings)
    validator.add_path(task.name)
    return validator.result
