"""A proxy between two processes that does to their bytes what bad networks do, by plan, and counts it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import Counter
from contextlib import suppress

from pp1wire.demo.frame_cutter import FrameCutter
from pp1wire.net.address import UnixAddress, parse_address
from tests.chaos.plan import KINDS, Calm

_CHUNK = 1 << 16


class _Cut(Exception):
    """Both directions are over."""


class Gate:
    """Holds a direction before (or, with `after`, only tells of) the frame that is the `count`th of its type."""

    def __init__(self, direction, message_type, count=1, *, hold=True):
        self.direction, self._type, self._left, self._hold = direction, message_type, count, hold
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def pass_on(self, message_type, write):
        """Let a frame pass with `write`, in time."""
        self._left -= message_type == self._type
        if self._left or self.reached.is_set():
            await write()
        elif self._hold:
            self.reached.set()
            await self.open.wait()
            await write()
        else:
            await write()
            self.reached.set()


class ChaosProxy:
    """Accepts at `listen`, connects each connection to `to`, and passes bytes on, but for the plan's faults.

    Args:
        listen: `host:port` or a Unix socket's path; port 0 for a free one, which `address` names.
        to: the worker's.
        plan: has `faults(connection, direction)`.
        gate: holds a frame; bytes that are no frames, and faults, do not go together with it.
    """

    def __init__(self, listen, to, plan=None, gate=None):
        self._listen, self._to = parse_address(listen), parse_address(to)
        self.plan, self.gate = plan or Calm(), gate
        self.faults = Counter(dict.fromkeys(KINDS, 0))
        self.connections = 0
        self.calm = False
        """Set, no fault comes any more."""
        self.opened = set()
        self._tasks = set()

    async def __aenter__(self):
        if isinstance(self._listen, UnixAddress):
            self._server = await asyncio.start_unix_server(self._accept, self._listen.path, limit=_CHUNK)
            self.address = f"unix:{self._listen.path}"
        else:
            self._server = await asyncio.start_server(self._accept, self._listen.host, self._listen.port, limit=_CHUNK)
            self.address = "{}:{}".format(*self._server.sockets[0].getsockname()[:2])
        return self

    async def __aexit__(self, *_):
        self._server.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader, writer):
        self._tasks.add(asyncio.current_task())
        number, self.connections = self.connections, self.connections + 1
        streams = [writer]
        try:
            upstream, onward = await self._connect()
            streams.append(onward)
            self.opened.add(number)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._pump(number, "up", reader, onward))
                group.create_task(self._pump(number, "down", upstream, writer))
        except* _Cut as cut:
            await _end(streams, "rst" if "rst" in str(cut.exceptions[0]) else "fin")
        except* (OSError, asyncio.CancelledError):
            await _end(streams, "rst")
        finally:
            await _end(streams, "fin")
            self.opened.discard(number)
            self._tasks.discard(asyncio.current_task())

    async def _connect(self):
        if isinstance(self._to, UnixAddress):
            return await asyncio.open_unix_connection(self._to.path, limit=_CHUNK)
        return await asyncio.open_connection(self._to.host, self._to.port, limit=_CHUNK)

    async def _pump(self, number, direction, reader, writer):
        """One direction until its end, which is passed on."""
        gate = self.gate if self.gate is not None and self.gate.direction == direction else None
        cutter = FrameCutter()
        faults = self.plan.faults(number, direction)
        fault, at = next(faults, None), 0
        while data := await reader.read(_CHUNK):
            if gate is not None:
                for message_type, frame in cutter.feed(data):
                    await gate.pass_on(message_type, lambda frame=frame: _write(writer, frame))
                continue
            while fault is not None and not self.calm and fault.at < at + len(data):
                before, data, at = data[: max(0, fault.at - at)], data[max(0, fault.at - at) :], max(at, fault.at)
                await _write(writer, before)
                data, at = await self._do(fault, data, at, writer)
                if fault.kind == "half_close":
                    return
                fault = next(faults, None)
            at += len(data)
            await _write(writer, data)
        with suppress(OSError, RuntimeError):
            writer.write_eof()

    async def _do(self, fault, data, at, writer):
        """Do `fault` where `data` begins; what is left of it."""
        self.faults[fault.kind] += 1
        if fault.kind in ("rst", "fin"):
            raise _Cut(fault.kind)
        if fault.kind == "half_close":
            with suppress(OSError, RuntimeError):
                writer.write_eof()
        elif fault.kind == "stall":
            await asyncio.sleep(fault.seconds)
        elif fault.kind == "corrupt":
            data = bytes([data[0] ^ 1 << fault.bit]) + data[1:]
        elif fault.kind == "throttle":
            for byte in data[: fault.length]:
                await _write(writer, bytes([byte]))
                await asyncio.sleep(0)
            return data[fault.length :], at + min(fault.length, len(data))
        return data, at


async def _write(writer, data):
    if data:
        writer.write(data)
        await writer.drain()


async def _end(streams, how):
    for writer in streams:
        sock = writer.get_extra_info("socket")
        if how == "rst" and sock is not None and sock.fileno() >= 0:
            if sock.family != socket.AF_UNIX:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        writer.close()
    for writer in streams:
        with suppress(OSError):
            await asyncio.wait_for(writer.wait_closed(), 1.0)
        writer.transport.abort()  # its reader takes nothing
