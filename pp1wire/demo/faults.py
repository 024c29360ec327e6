"""A relay between verifier and worker that does one thing wrong to the worker's bytes, once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

from pp1wire.demo.frame_cutter import FrameCutter
from pp1wire.wire import MessageType

__all__ = ["FaultyRelay"]

_CHUNK_BYTES = 1 << 16
_FLIPPED_BYTE = 96 + 4 * 3  # the fourth support id of a sparse row, or the fourth q of a dense one


class FaultyRelay:
    """Relays one Unix socket to another and injects `fault` into the first REPLY after `after` proposals.

    Args:
        fault: corrupt (a bit of a row is flipped), truncate (the connection is cut in a row), late (a row is held back
            for `delay` seconds) or kill (`kill` is called when a row passes).
        listen: path of the socket that the verifier connects to.
        worker: path of the worker's socket.
        after: proposals that pass unharmed.
        delay: seconds.
        kill: ends the worker process.
    """

    def __init__(
        self, fault: str, *, listen: Path, worker: Path, after: int, delay: float, kill: Callable[[], None]
    ) -> None:
        self._fault, self._listen, self._worker = fault, listen, worker
        self._after, self._delay, self._kill = after, delay, kill
        self._server: asyncio.Server | None = None
        self._done = False

    async def __aenter__(self) -> FaultyRelay:
        self._server = await asyncio.start_unix_server(self._serve, str(self._listen))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            upstream_reader, upstream_writer = await asyncio.open_unix_connection(str(self._worker))
        except OSError:
            writer.close()
            return
        upward = asyncio.create_task(_pump(reader, upstream_writer, _write))
        cutter = FrameCutter()
        completions = 0

        async def downward(to: asyncio.StreamWriter, data: bytes) -> None:
            nonlocal completions
            for message_type, frame in cutter.feed(data):
                if message_type == MessageType.REPLY and completions >= self._after and not self._done:
                    self._done = True
                    frame = await self._harm(to, frame)
                completions += message_type == MessageType.COMPLETION
                await _write(to, frame)

        await _pump(upstream_reader, writer, downward)
        upward.cancel()
        with suppress(asyncio.CancelledError):
            await upward
        for stream in (writer, upstream_writer):
            stream.close()

    async def _harm(self, to: asyncio.StreamWriter, frame: bytes) -> bytes:
        if self._fault == "corrupt":
            return frame[:_FLIPPED_BYTE] + bytes([frame[_FLIPPED_BYTE] ^ 1]) + frame[_FLIPPED_BYTE + 1 :]
        if self._fault == "truncate":
            await _write(to, frame[: len(frame) // 2])
            raise ConnectionAbortedError
        if self._fault == "late":
            await asyncio.sleep(self._delay)
        if self._fault == "kill":
            self._kill()
            raise ConnectionAbortedError
        return frame


async def _write(to: asyncio.StreamWriter, data: bytes) -> None:
    to.write(data)
    await to.drain()


async def _pump(
    source: asyncio.StreamReader,
    to: asyncio.StreamWriter,
    pass_on: Callable[[asyncio.StreamWriter, bytes], Awaitable[None]],
) -> None:
    with suppress(ConnectionError):
        while data := await source.read(_CHUNK_BYTES):
            await pass_on(to, data)
    with suppress(OSError, RuntimeError):
        to.close()
