"""docs/security.md: its limits are those of the code, and its code sees a worker that steers."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pp1wire.net import VerifierClient, WorkerServer, link, logs, sockets, worker_connection
from pp1wire.protocol import Proposal
from pp1wire.sampling import dyadic_counts, sample
from pp1wire.wire import CommitKind, _schema_v2
from tests.net.toys import pair, run

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")


def rows():
    section = PAGE.split("## Resources\n", 1)[1].split("\n## ", 1)[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][2:]
    return [[c.strip() for c in line.strip("|").split(" | ")] for line in lines]


def default(cls, name):
    return inspect.signature(cls).parameters[name].default


def test_the_limits_are_those_of_the_code():
    server, client = WorkerServer, VerifierClient
    known = {
        "hello_timeout": f"{default(server, 'hello_timeout'):g} s each",
        "max_connections": f"{default(server, 'max_connections')}",
        "twice `max_connections`": f"{2 * default(server, 'max_connections')}",
        "BACKLOG": f"{sockets.BACKLOG}",
        "MAX_SLOTS": f"{_schema_v2.MAX_SLOTS}",
        "MAX_DEPTH": f"{_schema_v2.MAX_DEPTH}",
        "MAX_VOCAB": f"{_schema_v2.MAX_VOCAB:,}",
        "MAX_PREFIX": f"{_schema_v2.MAX_PREFIX:,}",
        "MAX_DISCARDS_IN_A_ROW": f"{_schema_v2.MAX_DISCARDS_IN_A_ROW}",
        "_MOST_JOBS": f"{worker_connection._MOST_JOBS}",
        "threads": f"{default(server, 'threads')}",
        "_RECEIVE_BYTES": f"{worker_connection._RECEIVE_BYTES:,} bytes",
        "_WRITE_HIGH_WATER": f"{link._WRITE_HIGH_WATER >> 20} MiB",
        "write_timeout": f"{default(server, 'write_timeout'):g} s",
        "step_timeout": f"{default(client, 'step_timeout'):g} s",
        "_LINGER": f"{link._LINGER:g} s",
        "reconnect_attempts": f"{default(client, 'reconnect_attempts')}",
        "LIMIT`, `INTERVAL": f"{logs.LIMIT} in {logs.INTERVAL:g} s",
        "KEYS": f"{logs.KEYS}",
    }
    assert {where.removeprefix("`").removesuffix("`"): value for _, value, where, _ in rows()} == {
        name.removesuffix("`"): value for name, value in known.items()
    }
    assert default(client, "hello_timeout") == default(server, "hello_timeout")
    assert link._RECEIVE_BYTES == 1 << 20


def surprise():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names = {}
    exec(compile(code, "security.md", "exec"), names)  # noqa: S102 - our own text
    return names["Surprise"]()


LOGITS = np.log(np.array([0.55, 0.2, 0.15, 0.1], np.float32))


def proposal(ticket, *, steer=False, dense=False):
    ids, counts = dyadic_counts(LOGITS, 1.0, None if dense else 4)
    if steer:
        # q chosen after the ticket: the wanted token gets the largest share wherever the ticket falls.
        wanted = 3
        for shift in range(4):
            turned = np.roll(counts, shift)
            if sample(ids, turned, ticket) == wanted and turned[wanted] == counts.max():
                counts = turned
                break
    return SimpleNamespace(
        tokens=np.array([sample(ids, counts, ticket)]), rows=lambda: [(None if dense else ids, counts)]
    )


@pytest.mark.parametrize("dense", [False, True])
def test_the_sum_stays_near_zero_for_honest_draws_and_leaves_it_for_a_worker_that_steers(dense):
    rng = np.random.default_rng(5)
    honest, steered = surprise(), surprise()
    assert honest.deviations == 0.0
    for ticket in rng.integers(0, 2**24, 2000).tolist():
        honest.add(proposal(ticket, dense=dense))
        steered.add(proposal(ticket, steer=True, dense=dense))
    assert abs(honest.deviations) < 4
    assert steered.deviations < -5


def test_it_takes_what_propose_returns():
    watch = surprise()

    async def main():
        async with pair() as (_, client), client.request([1], root_seed=3) as request:
            for _ in range(30):
                proposal = await request.propose()
                assert isinstance(proposal, Proposal)
                watch.add(proposal)
                request.commit(0, CommitKind.CORRECTION, [3])

    run(main())
    assert watch.variance > 1
    assert abs(watch.deviations) < 5


def test_the_policy_at_the_root_points_to_the_page():
    assert "(docs/security.md)" in (ROOT / "SECURITY.md").read_text(encoding="utf-8")
