"""The draft worker's process as its parent sees it."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pp1wire.demo.settings import Settings
from pp1wire.errors import PP1Error
from pp1wire.wire import Representation

__all__ = ["WorkerHandle"]

_START_SECONDS = 120.0
_END_SECONDS = 10.0


class WorkerHandle:
    """Starts the worker, waits until it listens, and ends it; `async with` never leaves a process behind."""

    def __init__(
        self, settings: Settings, representation: Representation, socket: Path, spool: Path | None = None
    ) -> None:
        self._arguments = [
            "--model", settings.model,
            "--representation", representation.name.lower(),
            "--support", str(settings.support),
            "--depth", str(settings.depth),
            "--socket", str(socket),
            "--backend", settings.backend,
        ]  # fmt: skip
        if spool is not None:
            self._arguments += ["--spool", str(spool)]
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pp1wire.demo.worker_process", *self._arguments,
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        return self

    async def listening(self) -> None:
        """Return once the worker listens.

        Raises:
            PP1Error: it ended instead (what it said is on standard error), or took too long.
        """
        line = await self._line(_START_SECONDS)
        if line is None:
            raise PP1Error(
                f"the draft worker did not start within {_START_SECONDS:.0f} s, or ended; see the line above"
            )

    async def measurements(self) -> dict[str, Any] | None:
        """End the worker; what it measured, or None if it was killed."""
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        return await self._line(_END_SECONDS)

    def kill(self) -> None:
        """End the worker as a crash would."""
        with suppress(ProcessLookupError):
            self._running().kill()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._running()
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _END_SECONDS if error is None else 0.1)
        except TimeoutError:
            self.kill()
            await process.wait()

    async def _line(self, seconds: float) -> dict[str, Any] | None:
        output = self._running().stdout
        if output is None:
            return None
        try:
            line = await asyncio.wait_for(output.readline(), seconds)
        except TimeoutError:
            return None
        return dict(json.loads(line)) if line else None

    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise PP1Error("the draft worker was not started")
        return self._process
