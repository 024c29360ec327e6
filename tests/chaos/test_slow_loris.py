"""A thousand connections that say nothing, little, or too much, while a verifier is being served."""

from __future__ import annotations

import asyncio
import resource
import socket
from contextlib import AsyncExitStack, contextmanager, suppress

import pytest

from pp1wire.net.address import parse_address
from pp1wire.wire import HelloRole, encode
from pp1wire.wire.checksums import header_checksum
from tests.chaos import models
from tests.chaos.certificates import Certificates
from tests.chaos.ends import End, until
from tests.chaos.judge import Judge

CONNECTIONS, WAVE = 1000, 50
LIMIT = 8  # max_connections of the worker; it holds twice as many, to refuse them with a reason
SPARE = 8  # descriptors that are open for a moment: of a connection that is being refused, of who looks


def oversized():
    """A header that is right but for its length: 4 GiB are to follow."""
    header = bytearray(encode(models.terms(16, "sparse").hello(HelloRole.OFFER), None, 0)[:64])
    header[16:20] = b"\xff" * 4
    header[56:64] = header_checksum(header).to_bytes(8, "little")
    return bytes(header)


SAYINGS = [b"", b"P", oversized(), oversized()[:40]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls"))


@contextmanager
def descriptors(count):
    """So many for this process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(count, hard)), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Loris:
    """One connection: it says its part, and then waits for the other side to hang up."""

    def __init__(self, address, says):
        self._address, self._says = address, says
        self.connected = self.dropped = False

    async def run(self):
        loop = asyncio.get_running_loop()
        with socket.socket() as sock:
            sock.setblocking(False)
            with suppress(ConnectionError):
                await loop.sock_connect(sock, (self._address.host, self._address.port))
                self.connected = True
                await loop.sock_sendall(sock, self._says)
                while await loop.sock_recv(sock, 4096):
                    pass
            self.dropped = True


class Scene:
    """A worker, a verifier that decodes from it all the time, and a flood of connections."""

    def __init__(self, stack, folder, **worker_options):
        self._stack, self._folder, self._options = stack, folder, worker_options
        self.judge = Judge(tokens=24)
        self._flood = []

    async def __aenter__(self):
        log = self._folder / "worker.log"
        self.worker = await self._stack.enter_async_context(
            End("worker", log, address="127.0.0.1:0", hello_timeout=1.0, **self._options)
        )
        self.address = await self.worker.said("listening")
        self.verifier = await self.start_verifier(self.judge)
        await until(lambda: self.judge.verified > 5)
        self.before = await self.worker.stats()
        self.memory = self.worker.memory()
        return self

    async def __aexit__(self, *_):
        for task in self._flood:
            task.cancel()
        await asyncio.gather(*self._flood, return_exceptions=True)

    async def start_verifier(self, judge, **options):
        end = End(
            "verifier", self._folder / "verifier.log", judge.hear, address=self.address, delay=0.05, tokens=24,
            tls=self._options.get("tls"), **options,
        )  # fmt: skip
        return await self._stack.enter_async_context(end)

    def flood(self, count):
        crowd = [Loris(parse_address(self.address), SAYINGS[n % len(SAYINGS)]) for n in range(count)]
        self._flood += [asyncio.create_task(one.run()) for one in crowd]
        return crowd

    async def finish(self):
        """The verifier has had one connection all the time, and every request is whole."""
        self.verifier.write("stop")
        ended = await self.verifier.said("ended")
        assert await self.verifier.ended() == 0
        assert self.judge.wrong == []
        assert self.judge.finished == self.judge.begun > 0
        assert (ended["events"]["connected"], ended["events"]["connection_lost"]) == (1, 0)
        assert await self.worker.until(lambda stats: stats["connections"] == 0)


@pytest.mark.parametrize("speaks_tls", [False, True])
def test_a_thousand_slow_connections_leave_the_real_one_alone(speaks_tls, certificates, tmp_path):
    tls = certificates.folder if speaks_tls else None

    async def main():
        async with AsyncExitStack() as stack, Scene(stack, tmp_path, max_connections=LIMIT, tls=tls) as scene:
            verified = scene.judge.verified
            crowd, most, memory = [], scene.before, 0
            while not (len(crowd) == CONNECTIONS and all(one.dropped for one in crowd)):
                stats = await scene.worker.stats()
                most = {name: max(most[name], stats[name]) for name in ("connections", "descriptors")}
                memory = max(memory, scene.worker.memory())
                # In waves, or the system would drop most of them before the worker sees any.
                if len(crowd) < CONNECTIONS and stats["accepted"] + stats["refused"] == 1 + len(crowd):
                    crowd += scene.flood(WAVE)
                await asyncio.sleep(0.02)
            await until(lambda: scene.judge.verified > verified + 5)
            after = await scene.worker.until(lambda stats: stats["connections"] == 1)
            await scene.finish()
            return scene, crowd, most, memory, after

    with descriptors(CONNECTIONS + 200):
        scene, crowd, most, memory, after = asyncio.run(asyncio.wait_for(main(), 100))
    assert all(one.connected for one in crowd)
    # As many as it holds to refuse them with a reason, and the one that is served.
    assert most["connections"] <= 2 * LIMIT
    assert most["descriptors"] <= scene.before["descriptors"] + 2 * LIMIT + SPARE
    assert after["descriptors"] == scene.before["descriptors"]
    assert after["accepted"] + after["refused"] == 1 + CONNECTIONS
    assert after["refused"] >= CONNECTIONS / 3  # those that are wrong at once leave room for the next
    # 2 LIMIT receive buffers of 64 KiB, and 512 KiB for each TLS handshake; not a thousand.
    assert memory - scene.memory < 24 << 20
    log = (tmp_path / "worker.log").read_text()
    assert "Traceback" not in log
    assert len(log.splitlines()) < 100  # a flood of connections is no flood of lines


def test_without_descriptors_the_real_one_goes_on_and_the_next_gets_in(tmp_path):
    async def main():
        async with AsyncExitStack() as stack, Scene(stack, tmp_path, max_connections=64, descriptors=6) as scene:
            verified = scene.judge.verified
            crowd = scene.flood(100)
            await until(lambda: sum(one.dropped for one in crowd) > 6)  # more than there is room for at a time
            await until(lambda: scene.judge.verified > verified + 5)
            during = await scene.worker.stats()
            await scene.__aexit__()
            judge = Judge(tokens=24)
            other = await scene.start_verifier(judge, first_seed=1000)
            await until(lambda: judge.verified > 5)
            other.write("stop")
            assert await other.ended() == 0
            assert judge.wrong == []
            await scene.finish()
            return scene.before, during

    before, during = asyncio.run(asyncio.wait_for(main(), 100))
    assert during["descriptors"] <= before["descriptors"] + 6
    log = (tmp_path / "worker.log").read_text()
    told = log.count("socket.accept() out of system resource")
    assert 1 <= told <= 20  # once a second, not as often as the loop turns
