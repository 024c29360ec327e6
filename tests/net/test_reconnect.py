"""What ends a series of attempts to connect again, and what a bad network alone must not end."""

from __future__ import annotations

import socket

import pytest

from pp1wire.net import ConnectError, client_tls, connect, parse_address
from pp1wire.net.sockets import connect_error
from tests.chaos.plan import Fault
from tests.chaos.proxy import ChaosProxy
from tests.net.test_tls import Files
from tests.net.toys import collect, run, scripted, serving, terms, tokens, until


class Reconnecting:
    """The first connection is cut when the test says so; each of those after it meets one of the faults, the last none."""

    def __init__(self, faults):
        self._faults = faults

    def faults(self, connection, direction):
        own = self._faults[connection - 1 : connection] if connection else ()
        return iter(fault for way, fault in own if way == direction)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


def comes_back(faults, tls=(None, None)):
    async def main():
        async with (
            serving(tls=tls[0], hello_timeout=0.5) as server,
            ChaosProxy("127.0.0.1:0", server.address, Reconnecting(faults)) as proxy,
            connect(
                proxy.address, terms(), tls=tls[1], reconnect_delay=0.001, connect_timeout=0.5, hello_timeout=0.5
            ) as client,
        ):
            (connection,) = server._connections
            connection.link.abort()
            # No request begins meanwhile, which would be another series.
            await until(lambda: client.events["connected"] == 2)
            assert client.events["connect_failed"] == len(faults) == proxy.faults.total()
            return len(tokens(await collect(client)))

    assert run(main()) == 40


@pytest.mark.parametrize("kind", ["corrupt", "fin", "half_close", "rst"])
@pytest.mark.parametrize("way", ["up", "down"])
def test_an_answer_that_came_damaged_or_cut_is_asked_for_again(way, kind):
    # Magic, version, length, header checksum, body: what tells that it is damaged differs.
    places = (0, 4, 18, 60, 100, 300) if kind == "corrupt" else (0, 30, 300)
    for first in range(0, len(places), 3):  # a series has eight attempts
        comes_back([(way, Fault(kind, at, bit=at % 8)) for at in places[first : first + 3]])


@pytest.mark.parametrize("way", ["up", "down"])
def test_a_damaged_tls_handshake_is_tried_again(files, way):
    contexts = files.server_context(), client_tls(files.ca, *files.client)
    comes_back([(way, Fault("corrupt", at, bit=3)) for at in (0, 3, 80, 700)], contexts)


def test_a_worker_that_is_another_now_ends_the_series(caplog):
    async def main():
        async with serving() as server:
            client = connect(server.address, terms(), reconnect_delay=0.001)
            async with client:
                await server.aclose()
                async with serving(str(server.address), own=terms(draft_revision="r2")):
                    await until(lambda: "gave up connecting again" in caplog.text)
                    return client.events["connect_failed"], client.is_connected

    failed, connected = run(main())
    assert failed <= 8
    assert not connected
    assert "refused the offer for draft" in caplog.text


def test_who_never_spoke_pp1_is_not_asked_again():
    async def main():
        async def serve(reader, writer):
            writer.write(b"SSH-2.0-OpenSSH_9.9\r\n" + bytes(64))
            await reader.read()

        async with scripted(serve) as address:
            with pytest.raises(ConnectError, match="does not speak PP1 v2") as caught:
                await connect(address, terms()).connect()
        return caught.value.retryable

    assert run(main()) is False


def test_a_name_that_was_known_before_may_be_known_again():
    error = socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    where = parse_address("worker.example:1")
    assert [connect_error(where, error, tls=False, accepted_before=b).retryable for b in (False, True)] == [False, True]
