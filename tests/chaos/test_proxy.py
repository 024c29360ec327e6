"""The chaos proxy does what its plan says, where it says it, and counts it."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import asynccontextmanager

import pytest

from tests.chaos.plan import CUTS, KINDS, Fault, Once, Plan
from tests.chaos.proxy import ChaosProxy

DATA = bytes(range(256)) * 8


@asynccontextmanager
async def echo():
    """A server that gives everything back, and then ends."""
    tasks = set()

    async def serve(reader, writer):
        tasks.add(asyncio.current_task())
        try:
            while data := await reader.read(4096):
                writer.write(data)
            writer.write_eof()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield "{}:{}".format(*server.sockets[0].getsockname())
    server.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def talk(address):
    """What comes back until the end, and whether it was a reset that ended it."""
    reader, writer = await asyncio.open_connection(*address.split(":"))
    got = bytearray()
    try:
        writer.write(DATA)
        writer.write_eof()
        while data := await reader.read(4096):
            got += data
        return bytes(got), False
    except ConnectionResetError:
        return bytes(got), True
    finally:
        writer.close()


def through(**faults):
    async def main():
        async with echo() as server, ChaosProxy("127.0.0.1:0", server, Once(**faults)) as proxy:
            first = await talk(proxy.address)
            assert await talk(proxy.address) == (DATA, False)  # the plan is for the first connection alone
            assert proxy.connections == 2
            return first, +proxy.faults

    return asyncio.run(asyncio.wait_for(main(), 20))


def test_a_reset_is_one_and_a_fin_is_one():
    (got, reset), faults = through(down=[Fault("rst", 100)])
    assert reset
    assert DATA.startswith(got)
    assert faults == {"rst": 1}
    assert through(down=[Fault("fin", 100)]) == ((DATA[:100], False), {"fin": 1})


@pytest.mark.parametrize("way", ["up", "down"])
def test_half_a_close_lets_what_was_before_it_pass(way):
    assert through(**{way: [Fault("half_close", 100)]}) == ((DATA[:100], False), {"half_close": 1})


@pytest.mark.parametrize("way", ["up", "down"])
def test_bits_are_flipped_where_the_plan_says(way):
    faults = [Fault("corrupt", 0, bit=7), Fault("corrupt", 1000, bit=0), Fault("throttle", 1001, length=50)]
    expected = bytearray(DATA)
    expected[0] ^= 128
    expected[1000] ^= 1
    assert through(**{way: faults}) == ((bytes(expected), False), {"corrupt": 2, "throttle": 1})


def test_stalls_and_throttles_change_nothing_but_the_time():
    faults = [Fault("throttle", 7, length=300), Fault("stall", 400, seconds=0.05), Fault("stall", 400, seconds=0.05)]
    assert through(up=faults, down=faults) == ((DATA, False), {"throttle": 2, "stall": 4})


def test_a_plan_follows_from_its_seed_and_has_every_kind():
    def some(seed, connection=0, direction="up"):
        return list(itertools.islice(Plan(seed).faults(connection, direction), 200))

    assert some(1) == some(1)
    assert len({tuple(some(*which)) for which in [(1,), (2,), (1, 1), (1, 0, "down")]}) == 4
    assert {fault.kind for fault in some(1)} == set(KINDS) > set(CUTS)
    places = [fault.at for fault in some(1)]
    assert places == sorted(places)
