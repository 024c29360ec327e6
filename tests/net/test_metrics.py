"""Metrics: OpenMetrics as its own parser reads it, all label values from the start, and counters that never fall."""

from __future__ import annotations

import asyncio
import builtins
import subprocess
import sys
import threading
import urllib.request
from itertools import pairwise

import prometheus_client
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from pp1wire.net import NetError, VerifierClient, WorkerServer, connect
from pp1wire.net.metrics import FAMILIES, register, unregister
from pp1wire.net.stages import BOUNDS, Stages
from pp1wire.net.tally import Books
from pp1wire.protocol import Counters, Proposal
from pp1wire.wire import CommitKind
from tests.net.toys import DraftToy, collect, honest, pair, puppet, run, serving, terms, until
from tests.protocol.util import pair as cores


def scrape(registry):
    """{(sample name, labels): value} of what a scrape gives, through the format's own strict parser."""
    families = list(text_string_to_metric_families(generate_latest(registry).decode()))
    assert [f.name for f in families] == [f.name for f in FAMILIES]
    assert {f.name: f.type for f in families} == {f.name: f.kind for f in FAMILIES}
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for f in families for s in f.samples}


def value(samples, name, **labels):
    found = [v for (n, pairs), v in samples.items() if n == name and labels.items() <= dict(pairs).items()]
    assert found, (name, labels)
    return sum(found)


def counters_of(samples):
    return {key: v for key, v in samples.items() if key[0].endswith(("_total", "_bucket", "_count", "_sum"))}


def check_no_fall(before, after):
    fallen = {key: (v, after.get(key)) for key, v in counters_of(before).items() if after.get(key, -1) < v}
    assert not fallen


def test_every_counter_is_a_metric_and_every_label_value_is_there_at_zero_from_the_start():
    registry, server = CollectorRegistry(), WorkerServer("127.0.0.1:2", DraftToy(), terms())
    client = VerifierClient("127.0.0.1:1", terms())
    register(server, registry)
    register(client, registry)
    samples = scrape(registry)
    run(server.aclose())
    assert {f.counter for f in FAMILIES if f.counter} == set(Counters().as_dict())
    assert {f.name for f in FAMILIES} == {key[0].rsplit("_total")[0].split("_bucket")[0] for key in samples} - {
        "pp1wire_stage_seconds_count", "pp1wire_stage_seconds_sum",
    }  # fmt: skip
    for family in FAMILIES:
        if family.counter == "":
            continue
        empty = Counters().as_dict()[family.counter]
        keys = (
            list(empty)
            if isinstance(empty, dict)
            else [str(i + 1) for i in range(len(empty))]
            if isinstance(empty, list)
            else [None]
        )
        for end in ("worker", "verifier") if family.counter != "accepted" else ("verifier",):
            shown = {
                dict(labels).get(family.label)
                for (name, labels) in samples
                if name == f"{family.name}_total" and dict(labels)["end"] == end
            }
            assert shown == set(keys), family.name
    assert set(counters_of(samples).values()) == {0}
    reasons = {dict(k[1])["reason"] for k in samples if k[0] == "pp1wire_fallbacks_total"}
    assert reasons == set(client.fallbacks)


def test_a_scrape_says_what_the_ends_say():
    async def main():
        registry = CollectorRegistry()
        async with pair() as (server, client):
            register(server, registry)
            register(client, registry)
            async with client.request([1]) as request:
                assert isinstance(await request.propose(), Proposal)
                held = scrape(registry)
                request.commit(0, CommitKind.CORRECTION, [3])
            await collect(client)
            await until(lambda: server.counters()["commits"] == client.counters()["commits"])
            return held, scrape(registry), client.counters(), client.stages, server.stages, str(server.address)

    held, samples, counters, stages, drafting, address = run(main())
    assert value(held, "pp1wire_rounds", end="verifier", state="ready") == 1
    assert value(held, "pp1wire_rounds", end="verifier", state="drafting") == 0
    for name, number in (("sessions", 1), ("slots", 4), ("held_buffers", 1), ("requests", 1), ("connections", 1)):
        assert value(held, f"pp1wire_{name}", end="verifier", address=address) == number
    assert value(held, "pp1wire_max_connections", end="worker") == 16
    assert value(held, "pp1wire_waiting_requests") == 0
    for metric, counter in (("steps", "steps"), ("tokens", "tokens"), ("commits", "commits"), ("rows", "rows")):
        for end in ("worker", "verifier"):
            assert value(samples, f"pp1wire_{metric}_total", end=end) == counters[counter] > 0
    assert value(samples, "pp1wire_sent_bytes_total", end="verifier") == counters["bytes_sent"]
    for place, number in enumerate(counters["accepted"], 1):
        assert value(samples, "pp1wire_accepted_draft_tokens_total", place=str(place)) == number
    for end, clock in (("verifier", stages), ("worker", drafting)):
        for stage in clock.runs:
            labels = {"end": end, "stage": stage}
            assert value(samples, "pp1wire_stage_seconds_count", **labels) == clock.runs[stage] > 0
            assert value(samples, "pp1wire_stage_seconds_sum", **labels) == pytest.approx(clock.seconds[stage])
            assert value(samples, "pp1wire_stage_seconds_bucket", le="+Inf", **labels) == clock.runs[stage]
    assert value(samples, "pp1wire_connection_events_total", end="worker", event="accepted") == 1


def test_counters_never_fall_while_connections_come_and_go():
    async def dies(core, step, writer):
        dies.steps += 1
        if dies.steps % 4 == 0:
            writer.transport.abort()
        elif dies.steps % 7 == 0:
            data = bytearray(b"\0" * 64)
            writer.write(data)
        else:
            honest(core, step)

    async def main():
        dies.steps = 0
        registry, seen = CollectorRegistry(), []
        async with puppet(dies) as (address, cores), connect(address, terms(), reconnect_delay=0.001) as client:
            register(client, registry)
            seen.append(scrape(registry))
            for n in range(4):
                await collect(client, max_tokens=25, root_seed=n)
                seen.append(scrape(registry))
            counters, events = client.counters(), dict(client.events)
            assert len(client._books._state[1]) <= 1  # what is over is not kept
        seen.append(scrape(registry))
        return seen, counters, events, len(cores)

    seen, counters, events, connections = run(main())
    assert connections > 4
    for before, after in pairwise(seen):
        check_no_fall(before, after)
    assert value(seen[-2], "pp1wire_steps_total") == counters["steps"]
    assert value(seen[-1], "pp1wire_failures_total", code="bad_magic") > 0
    assert value(seen[-2], "pp1wire_connection_events_total", event="connection_lost") == events["connection_lost"]
    assert value(seen[-1], "pp1wire_discards_total", reason="connection_lost") > 0


def test_a_connection_is_never_in_neither_sum_nor_in_both():
    """Scrapes run in threads of their own, so every state that there ever is must give the right sum."""
    seen = []

    class Watched(Books):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            seen.append(self.tally()["bytes_received"])

    books, expected = Watched(), [0]
    for _ in range(3):
        end = cores().verifier
        end.counters.bytes_received += 1000
        books.open(end)
        expected.append(expected[-1] + end.counters.bytes_received)
        books.close(end)
        expected.append(expected[-1])
        books.close(end)
    assert seen == expected


def test_a_scrape_in_another_thread_while_connections_come_and_go():
    books, stop, falls = Books(), threading.Event(), []

    def watch():
        last = 0
        while not stop.is_set():
            now = books.tally()["bytes_received"]
            falls.extend([(last, now)] if now < last else [])
            last = now

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(60):
            end = cores().verifier
            books.open(end)
            end.counters.bytes_received += 1000
            books.close(end)
    finally:
        stop.set()
        watcher.join()
    assert not falls
    assert books.tally()["bytes_received"] >= 60_000


def test_ends_of_one_address_are_added_up_and_those_that_left_stay_in_the_sums():
    async def main():
        registry = CollectorRegistry()
        async with serving() as server:
            for _ in range(2):
                async with connect(server.address, terms()) as client:
                    register(client, registry)
                    register(client, registry)  # twice is once
                    await collect(client)
                    alone = client.counters()["tokens"]
            both = scrape(registry)
            unregister(client, registry)
            unregister(client, registry)
            return alone, both, scrape(registry)

    alone, both, after = run(main())
    assert alone == 40
    assert value(both, "pp1wire_tokens_total") == value(after, "pp1wire_tokens_total") == 80
    check_no_fall(both, after)


def test_two_registries_and_the_default_one_can_collect_the_same_end():
    client = VerifierClient("127.0.0.1:1", terms())
    register(client)
    try:
        assert "pp1wire_steps_total" in prometheus_client.generate_latest().decode()
        registry = CollectorRegistry()
        register(client, registry)
        assert "pp1wire_steps_total" in generate_latest(registry).decode()
    finally:
        unregister(client)


def test_names_that_another_collector_has_are_refused():
    registry = CollectorRegistry()
    prometheus_client.Counter("pp1wire_steps", "Something else", registry=registry)
    with pytest.raises(ValueError, match="pp1wire_steps"):
        register(VerifierClient("127.0.0.1:1", terms()), registry)


def test_only_ends_have_metrics():
    with pytest.raises(NetError, match="has no port yet; register the server after it has started"):
        register(WorkerServer("127.0.0.1:0", DraftToy(), terms()))
    with pytest.raises(NetError, match="expected a WorkerServer or a VerifierClient, got str"):
        register("127.0.0.1:1")


def test_without_prometheus_client_the_error_names_the_extra(monkeypatch):
    real = builtins.__import__

    def missing(name, *rest):
        if name.split(".")[0] == "prometheus_client":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(NetError, match=r"install pp1wire\[metrics\]"):
        register(VerifierClient("127.0.0.1:1", terms()), None)


def test_prometheus_client_is_imported_only_when_metrics_are_asked_for():
    code = "import sys, pp1wire.net.metrics; sys.exit('prometheus_client' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


def test_histograms_count_each_run_once_on_its_bound_or_below():
    stages = Stages("a")
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] * 1.001, BOUNDS[-1], BOUNDS[-1] + 1):
        stages.add("a", seconds)
    assert stages.buckets("a") == [2, 1, *[0] * (len(BOUNDS) - 3), 1, 1]
    assert sum(stages.buckets("a")) == stages.runs["a"]
    assert sorted(BOUNDS) == list(BOUNDS)


def test_an_http_server_in_its_own_thread_scrapes_a_busy_client(unused_tcp_port):
    async def main():
        registry = CollectorRegistry()
        async with pair() as (server, client):
            register(server, registry)
            register(client, registry)
            web, thread = prometheus_client.start_http_server(unused_tcp_port, addr="127.0.0.1", registry=registry)
            try:
                running = asyncio.create_task(collect(client, max_tokens=120))
                url = f"http://127.0.0.1:{unused_tcp_port}/metrics"
                texts = [await asyncio.to_thread(lambda: urllib.request.urlopen(url).read()) for _ in range(4)]
                await running
            finally:
                web.shutdown()
                web.server_close()
                thread.join()
            return [sum(1 for line in text.splitlines() if line.startswith(b"pp1wire_steps_total")) for text in texts]

    assert run(main()) == [2] * 4


def test_a_server_keeps_nothing_of_connections_that_are_over_but_their_counts():
    async def main():
        async with serving() as server:
            for _ in range(3):
                async with connect(server.address, terms()) as client:
                    await collect(client, max_tokens=5)
            await until(lambda: server.connections == 0)
            assert not server._books._state[1]
            return server.counters(), server.levels()

    counters, levels = run(main())
    assert counters["tokens"] >= 5
    assert counters["states"]["connection.open"] == 3
    assert levels == {
        "connections": 0, "max_connections": 16, "sessions": 0, "slots": 0, "drafting": 0, "ready": 0,
    }  # fmt: skip
