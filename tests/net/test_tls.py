"""TLS with certificates on both ends."""

from __future__ import annotations

import asyncio
import logging
import re
import socket
import ssl

import pytest
import trustme

from pp1wire.net import ConnectError, NetError, client_tls, connect, server_tls
from tests.net.toys import collect, raw, run, serving, terms, tokens, until


class Files:
    def __init__(self, folder):
        self.ours, self.theirs = trustme.CA(), trustme.CA()
        self.ca, self.other_ca = folder / "ca.pem", folder / "other.pem"
        self.ours.cert_pem.write_to_path(self.ca)
        self.theirs.cert_pem.write_to_path(self.other_ca)
        self.server = self.write(folder / "server", self.ours.issue_cert("127.0.0.1", "localhost"))
        self.client = self.write(folder / "client", self.ours.issue_cert("verifier"))
        self.stranger = self.write(folder / "stranger", self.theirs.issue_cert("verifier"))

    def write(self, path, certificate):
        chain, key = path.with_suffix(".pem"), path.with_suffix(".key")
        chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(key)
        return chain, key

    def server_context(self):
        return server_tls(*self.server, self.ca)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Files(tmp_path_factory.mktemp("tls"))


@pytest.mark.parametrize("unix", [False, True])
def test_both_ends_show_certificates(files, tmp_path, unix):
    address = f"unix:{tmp_path}/w" if unix else "127.0.0.1:0"

    async def main():
        async with (
            serving(address, tls=files.server_context()) as server,
            connect(server.address, terms(), tls=client_tls(files.ca, *files.client)) as client,
        ):
            return tokens(await collect(client)), tokens(await collect(client))

    first, second = run(main())
    assert len(first) == 40
    assert first == second


def without_certificate(files):
    context = ssl.create_default_context(cafile=files.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@pytest.mark.parametrize(
    ("client", "said", "logged"),
    [
        (without_certificate, "does it accept this certificate?", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
        (
            lambda f: client_tls(f.ca, *f.stranger),
            "does it accept this certificate?",
            "CERTIFICATE_VERIFY_FAILED: .*issuer",
        ),
        (lambda f: client_tls(f.other_ca, *f.client), "TLS: ", "UNKNOWN_CA|ConnectionResetError"),
        (lambda f: None, "is it a PP1 v2 worker, without TLS?", "WRONG_VERSION_NUMBER"),
    ],
)
def test_a_peer_without_the_right_certificate_is_refused(files, client, said, logged, caplog):
    async def main():
        async with serving(tls=files.server_context()) as server:
            with pytest.raises(ConnectError) as caught:
                await connect(server.address, terms(), tls=client(files)).connect()
            await until(lambda: server.connections == 0)
            await until(lambda: "TLS handshake" in caplog.text)
            async with connect(server.address, terms(), tls=client_tls(files.ca, *files.client)) as good:
                assert len(tokens(await collect(good))) == 40
            return str(caught.value), caught.value.retryable

    with caplog.at_level(logging.WARNING, "pp1wire.net"):
        message, retryable = run(main())
    assert said in message
    # A plain connection to a worker with TLS looks like one to a worker that just ended.
    assert retryable is ("without TLS" in said)
    assert "\n" not in message
    (record,) = caplog.records
    assert re.fullmatch(rf"127\.0\.0\.1:\d+: closed: TLS handshake: .*({logged}).*", record.getMessage())


class Alerting:
    """A TLS server that demands a certificate and says so in an alert, which asyncio's own does not get to."""

    def __init__(self, context):
        self._context = context
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"

    def __call__(self):
        raw, _ = self._socket.accept()
        with self._socket, raw:
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            tls = self._context.wrap_bio(incoming, outgoing, server_side=True)
            while True:
                try:
                    tls.do_handshake()
                except ssl.SSLWantReadError:
                    raw.sendall(outgoing.read())
                    incoming.write(raw.recv(65536))
                except ssl.SSLError:
                    raw.sendall(outgoing.read())
                    break
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65536):  # to the end, lest a reset overtakes the alert
                pass


@pytest.mark.parametrize("accepted_before", [0, 1])
def test_an_alert_about_a_certificate_is_no_reason_to_try_again(files, accepted_before):
    alerting = Alerting(files.server_context())

    async def main():
        serving = asyncio.create_task(asyncio.to_thread(alerting))
        client = connect(alerting.address, terms(), tls=without_certificate(files))
        client.events["connected"] = accepted_before
        with pytest.raises(ConnectError, match="CERTIFICATE_REQUIRED; does it accept this certificate") as caught:
            await client.connect()
        await serving
        return caught.value.retryable

    assert run(main()) is False


def test_a_certificate_that_was_accepted_before_is_tried_again(files):
    """A worker that restarts can take a connection and end before it answers: that is not about certificates."""
    refuse = set()

    class Silent(asyncio.Protocol):
        def connection_made(self, transport):
            refuse.add(transport)
            transport.close()

    async def main():
        async with serving(tls=files.server_context()) as server:
            address = server.address
            client = connect(address, terms(), tls=client_tls(files.ca, *files.client), reconnect_delay=0.01)
            async with client:
                await server.aclose()
                loop = asyncio.get_running_loop()
                silent = await loop.create_server(Silent, address.host, address.port, ssl=files.server_context())
                await until(lambda: len(refuse) >= 2)
                silent.close()
                await silent.wait_closed()
                async with serving(str(address), tls=files.server_context()):
                    await until(lambda: client.is_connected)
                    return len(tokens(await collect(client)))

    assert run(main()) == 40


def test_a_certificate_for_another_host_is_refused(files):
    async def main():
        async with serving(tls=files.server_context()) as server:
            client = connect(
                server.address, terms(), tls=client_tls(files.ca, *files.client), server_hostname="other.example"
            )
            with pytest.raises(ConnectError, match="TLS: Hostname mismatch") as caught:
                await client.connect()
            return caught.value.retryable

    assert run(main()) is False


def test_a_plain_worker_is_named_by_a_client_with_tls(files):
    async def main():
        async with serving() as server:
            with pytest.raises(ConnectError, match=r"cannot connect to 127\.0\.0\.1:\d+: "):
                await connect(server.address, terms(), tls=client_tls(files.ca, *files.client)).connect()

    run(main())


def test_silence_instead_of_a_handshake_is_closed(files, caplog):
    async def main():
        async with serving(tls=files.server_context(), hello_timeout=0.05) as server:
            assert await raw(server, b"\x16\x03") == b""
            await until(lambda: server.connections == 0)

    run(main())
    assert "TLS handshake" in caplog.text


def test_an_ending_server_lets_no_handshake_hang(files):
    async def main():
        async with serving(tls=files.server_context()) as server:
            _, writer = await asyncio.open_connection(server.address.host, server.address.port)
            await until(lambda: server.connections == 1)
            await server.aclose()
            assert server.connections == 0
            writer.close()

    run(main())


def test_bad_files_are_named(files, tmp_path):
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    chain, key = files.server
    for arguments, message in [
        ((tmp_path / "none", key, files.ca), "TLS certificate: no such file"),
        ((chain, tmp_path / "none", files.ca), "TLS private key: no such file"),
        ((chain, key, tmp_path / "none"), "TLS CA certificates: no such file"),
        ((empty, key, files.ca), "TLS certificate"),
        ((chain, files.client[1], files.ca), "KEY_VALUES_MISMATCH"),
        ((chain, key, empty), "TLS CA certificates"),
    ]:
        with pytest.raises(NetError, match=message) as caught:
            server_tls(*arguments)
        assert "\n" not in str(caught.value)
