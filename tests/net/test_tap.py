"""What a recorder hears, and what becomes of one that fails."""

from __future__ import annotations

import io

import pytest

from pp1wire.capture.recorder import Recorder
from pp1wire.errors import PP1Error
from pp1wire.net import connect
from pp1wire.wire import Commit, Completion, FrameReader, Hello, Reply, Reset, Step
from tests.net.toys import collect, pair, run, serving, terms, tokens, until


class Heard:
    def __init__(self, fail_at=None):
        self.client, self.server, self.ends, self.calls = bytearray(), bytearray(), [], []
        self.fail_at = fail_at

    def open(self, client, server, time_ns):
        self.ends.append((client, server))
        self.hear("open")
        return self

    def client_sent(self, data, time_ns):
        self.client += data
        self.hear("client_sent")

    def server_sent(self, data, time_ns):
        self.server += data
        self.hear("server_sent")

    def client_closed(self, time_ns):
        self.hear("client_closed")

    def server_closed(self, time_ns):
        self.hear("server_closed")

    def hear(self, what):
        self.calls.append(what)
        if what == self.fail_at:
            raise PP1Error("disk full")


def test_both_ends_hear_the_same_bytes():
    at_server, at_client = Heard(), Heard()

    async def main():
        async with (
            serving(tap=at_server) as server,
            connect(server.address, terms(), tap=at_client) as client,
        ):
            await collect(client)
            return client.counters

    counters = run(main())()
    assert at_server.client == at_client.client
    assert at_server.server == at_client.server
    assert at_server.ends == at_client.ends
    assert (len(at_client.client), len(at_client.server)) == (counters["bytes_sent"], counters["bytes_received"])
    assert {*at_client.calls[-2:]} == {*at_server.calls[-2:]} == {"client_closed", "server_closed"}
    agreement = _messages(at_client)
    kinds = {type(m) for m in agreement}
    assert kinds == {Hello, Reset, Step, Reply, Completion, Commit}


def _messages(heard):
    from pp1wire import agree

    readers = [FrameReader(), FrameReader()]
    streams = [bytes(heard.client), bytes(heard.server)]
    hellos = [reader.feed(stream)[0] for reader, stream in zip(readers, streams, strict=True)]
    agreement = agree(*hellos)
    messages = list(hellos)
    for reader in readers:
        reader.agreement = agreement
        messages += reader.feed(b"")
        reader.close()
    return messages


@pytest.mark.parametrize("moment", ["open", "client_sent", "server_sent", "server_closed"])
def test_a_tap_that_fails_is_dropped_and_nothing_else(moment, caplog):
    heard = Heard(moment)

    async def main():
        async with pair(tap=heard) as (_, client):
            return tokens(await collect(client))

    assert len(run(main())) == 40
    assert heard.calls.count(moment) == 1
    assert "recording: disk full; this connection is not recorded" in caplog.text


def test_the_recorder_is_a_tap(tmp_path):
    file = io.BytesIO()
    recorder = Recorder(file)

    async def main():
        async with pair(tmp_path, tap=recorder) as (server, client):
            rounds = await collect(client)
        await until(lambda: server.connections == 0)
        return rounds, client.counters()

    _, counters = run(main())
    assert recorder.size > counters["bytes_sent"] + counters["bytes_received"]
    assert recorder.packets > 10
