"""Metrics of the ends for Prometheus, in its own format or in OpenMetrics; needs the extra `metrics` (prometheus-client).

    register(server)        # a WorkerServer, a VerifierClient, or any number of them
    prometheus_client.start_http_server(9411, addr="127.0.0.1")

Nothing is measured twice: a scrape reads the counters that the ends keep anyway. `docs/operations.md` explains each metric.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from pp1wire.net.client import VerifierClient
from pp1wire.net.errors import NetError
from pp1wire.net.server import WorkerServer
from pp1wire.net.stages import BOUNDS, Stages

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    Metric: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily

__all__ = ["FAMILIES", "End", "Family", "register", "unregister"]

End: TypeAlias = WorkerServer | VerifierClient
Values: TypeAlias = dict[tuple[str, tuple[str, ...]], float]
"""(family, label values): value."""

_ENDS: Final = ("end", "address")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric: its name as exposed, without `_total` or `_bucket`; its labels beside `end` and `address`."""

    name: str
    kind: str
    help: str
    label: str = ""
    counter: str = ""
    """The key in `counters()`, if that is where it comes from."""


def _counter(name: str, text: str, label: str = "", counter: str = "") -> Family:
    return Family(f"pp1wire_{name}", "counter", text, label, counter)


def _gauge(name: str, text: str, label: str = "") -> Family:
    return Family(f"pp1wire_{name}", "gauge", text, label)


FAMILIES: Final = (
    _counter("steps", "Rounds asked for", counter="steps"),
    _counter("proposals", "Rounds proposed whole", counter="proposals"),
    _counter("commits", "Proposals of which the outcome was committed", counter="commits"),
    _counter("unused_proposals", "Whole proposals that were discarded", counter="unused"),
    _counter("discards", "Rounds discarded", "reason", "discards"),
    _counter("fallbacks", "Rounds that were never asked for", "reason"),
    _counter("tokens", "Token ids committed", counter="tokens"),
    _counter("target_only_tokens", "Token ids of the target alone committed", counter="target_only"),
    _counter("accepted_draft_tokens", "Drafted tokens that verification accepted", "place", "accepted"),
    _counter("committed_draft_tokens", "Drafted tokens committed", "place", "committed"),
    _counter("rows", "REPLYs that passed every check", counter="rows"),
    _counter("row_bytes", "Bytes of the frames of those REPLYs", counter="row_bytes"),
    _counter("received_bytes", "Bytes received", counter="bytes_received"),
    _counter("sent_bytes", "Bytes sent", counter="bytes_sent"),
    _counter("dropped_messages", "Stale messages dropped, and late answers not sent", "reason", "dropped"),
    _counter("failures", "Connections ended by a broken rule", "code", "failures"),
    _counter("states", "States entered, of connections and sessions", "state", "states"),
    _counter("connection_events", "Connections made, refused, lost or not made", "event"),
    _counter("rounds_without_worker", "Rounds committed while no worker had their session", "kind"),
    _counter("suppressed_log_lines", "Log lines beyond the limit"),
    _gauge("connections", "Connections open now"),
    _gauge("max_connections", "Connections that may be open"),
    _gauge("sessions", "Sessions open now, each in one slot"),
    _gauge("slots", "Slots of the open connections"),
    _gauge("rounds", "Rounds open now", "state"),
    _gauge("held_buffers", "Proposal buffers that a round or a consumer holds"),
    _gauge("requests", "Requests that hold a slot of the client"),
    _gauge("waiting_requests", "Requests that wait for one"),
    Family("pp1wire_stage_seconds", "histogram", "Time of one run of a stage", "stage"),
)
"""Every metric, in the order in which it is exposed."""


def register(end: End, registry: CollectorRegistry | None = None) -> None:
    """Have an end's metrics collected with a registry; what is registered already stays so.

    Ends in one registry are told apart by the labels `end` (worker, verifier) and `address` (where the worker listens), and added
    up where both are equal. A server that has port 0 learns its address when it starts: register it then.

    Args:
        end: a server or a client; it is held until `unregister`.
        registry: prometheus-client's default one unless given.

    Raises:
        NetError: prometheus-client is not installed, `end` is none, or a server that does not know its port yet.
        ValueError: another collector of the registry has metrics of these names.
    """
    if not isinstance(end, WorkerServer | VerifierClient):
        raise NetError(f"metrics: expected a WorkerServer or a VerifierClient, got {type(end).__name__}")
    if isinstance(end, WorkerServer) and str(end.address).endswith(":0"):
        raise NetError(f"metrics: {end.address} has no port yet; register the server after it has started")
    _collector(registry).add(end)


def unregister(end: End, registry: CollectorRegistry | None = None) -> None:
    """Let go of an end; what it counted stays in the sums, so that no counter falls. Raises NetError as `register`."""
    _collector(registry).remove(end)


class _Collector:
    """What a registry asks. Scrapes may come in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ends: list[End] = []
        self._past: Values = {}
        self._past_stages: Values = {}

    def add(self, end: End) -> None:
        with self._lock:
            if end not in self._ends:
                self._ends.append(end)

    def remove(self, end: End) -> None:
        with self._lock:
            if end in self._ends:
                self._ends.remove(end)
                self._past = _sum([self._past, _counts(end)])
                self._past_stages = _sum([self._past_stages, _stages(end)])

    def collect(self) -> Iterator[Metric]:
        """Every family, with the samples of every end."""
        with self._lock:
            ends = list(self._ends)
            values = _sum([self._past, *map(_counts, ends), *map(_levels, ends)])
            stages = _sum([self._past_stages, *map(_stages, ends)])
        return iter([_metric(family, values, stages) for family in FAMILIES])

    def describe(self) -> Iterator[Metric]:
        """Every family, without samples."""
        return iter([_metric(family, {}, {}) for family in FAMILIES])


_COLLECTORS: WeakKeyDictionary[CollectorRegistry, _Collector] = WeakKeyDictionary()
_REGISTERING = threading.Lock()


def _collector(registry: CollectorRegistry | None) -> _Collector:
    try:
        from prometheus_client import REGISTRY
    except ImportError:
        raise NetError("metrics: prometheus-client is not installed; install pp1wire[metrics]") from None
    registry = REGISTRY if registry is None else registry
    with _REGISTERING:
        collector = _COLLECTORS.get(registry)
        if collector is None:
            collector = _Collector()
            registry.register(collector)
            _COLLECTORS[registry] = collector
        return collector


def _metric(family: Family, values: Values, stages: Values) -> Metric:
    from prometheus_client import core

    labels = (*_ENDS, family.label) if family.label else _ENDS
    if family.kind == "histogram":
        return _histogram(family, labels, stages)
    unit = next((unit for unit in ("bytes",) if family.name.endswith(f"_{unit}")), "")
    kind = core.CounterMetricFamily if family.kind == "counter" else core.GaugeMetricFamily
    metric = kind(family.name, family.help, labels=labels, unit=unit)
    for (name, label_values), value in values.items():
        if name == family.name:
            metric.add_metric(label_values, value)
    return metric


def _histogram(family: Family, labels: tuple[str, ...], stages: Values) -> HistogramMetricFamily:
    from prometheus_client import core

    metric = core.HistogramMetricFamily(family.name, family.help, labels=labels, unit="seconds")
    for (name, label_values), seconds in stages.items():
        if name != "seconds":
            continue
        buckets, runs = [], 0.0
        for index, bound in enumerate([*map(str, BOUNDS), "+Inf"]):
            runs += stages[str(index), label_values]
            buckets.append((bound, runs))
        metric.add_metric(label_values, buckets, seconds)
    return metric


# What an end has, flat.


def _who(end: End) -> tuple[str, str]:
    return ("worker" if isinstance(end, WorkerServer) else "verifier"), str(end.address)


def _counts(end: End) -> Values:
    who = _who(end)
    values: Values = {}
    tally = end.counters()
    for family in FAMILIES:
        # A worker does not hear what was accepted beyond what was committed.
        if family.counter and (family.counter != "accepted" or isinstance(end, VerifierClient)):
            for label, value in _flat(tally[family.counter]):
                values[family.name, (*who, *label)] = float(value)
    events: Mapping[str, int]
    if isinstance(end, WorkerServer):
        events = {"accepted": end.accepted_connections, "refused": end.refused_connections}
    else:
        events = {name: end.events[name] for name in ("connected", "connection_lost", "connect_failed")}
        for kind, name in (("commit", "commits_without_worker"), ("target_only", "target_only_without_worker")):
            values["pp1wire_rounds_without_worker", (*who, kind)] = float(end.events[name])
        for reason, count in end.fallbacks.items():
            values["pp1wire_fallbacks", (*who, reason)] = float(count)
    for event, count in events.items():
        values["pp1wire_connection_events", (*who, event)] = float(count)
    values["pp1wire_suppressed_log_lines", who] = float(end.log.suppressed)
    return values


def _flat(value: int | dict[str, int] | list[int]) -> Iterable[tuple[tuple[str, ...], int]]:
    if isinstance(value, dict):
        return [((key,), number) for key, number in value.items()]
    if isinstance(value, list):
        return [((str(place),), number) for place, number in enumerate(value, 1)]
    return [((), value)]


def _levels(end: End) -> Values:
    who = _who(end)
    values: Values = {}
    for name, level in end.levels().items():
        if name in ("drafting", "ready"):
            values["pp1wire_rounds", (*who, name)] = float(level)
        else:
            values[f"pp1wire_{name}", who] = float(level)
    return values


def _stages(end: End) -> Values:
    who = _who(end)
    values: Values = {}
    stages: Stages = end.stages
    for stage in stages.runs:
        values["seconds", (*who, stage)] = stages.seconds[stage]
        for index, runs in enumerate(stages.buckets(stage)):
            values[str(index), (*who, stage)] = float(runs)
    return values


def _sum(parts: Iterable[Values]) -> Values:
    total: dict[Any, float] = {}
    for part in parts:
        for key, value in part.items():
            total[key] = total.get(key, 0.0) + value
    return total
