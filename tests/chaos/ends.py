"""The processes of a test, as the test sees them: started, asked, killed, halted, and never left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).parents[2]
SECONDS = 60.0
"""That anything may take; a bound for hangs, not an expectation."""


class End:
    """One process in a process group of its own.

    Args:
        module: `worker` or `verifier`, or what stands for the whole command line but for the options.
        log: file that takes its standard error; more than one process may write to it.
        on_line: told each JSON object that it says.
        hears_json: whether what it says is JSON.
        options: of its command line.
    """

    def __init__(self, module, log, on_line=None, *, hears_json=True, **options):
        self._command = [sys.executable, "-m", f"tests.chaos.{module}"] if isinstance(module, str) else [*module]
        for name, value in options.items():
            if value is not None:
                self._command += [f"--{name.replace('_', '-')}", str(value)]
        self.log = log
        self._hears_json = hears_json
        self._on_line = on_line or (lambda said: None)
        self._process = None
        self._heard = []
        self._news = asyncio.Event()

    async def __aenter__(self):
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=log, cwd=ROOT,
                start_new_session=True, limit=1 << 22,
            )  # fmt: skip
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_):
        for number in (signal.SIGCONT, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)
        await self._process.wait()
        await self._listening
        # close() would leave the pipe to a later turn of the loop.
        self._process._transport.close()

    @property
    def pid(self):
        return self._process.pid

    @property
    def returncode(self):
        return self._process.returncode

    async def said(self, key, since=0, seconds=SECONDS):
        """The first line with `key` from number `since` on, waiting for it."""
        async with asyncio.timeout(seconds):
            while True:
                for what in self._heard[since:]:
                    if key in what:
                        return what[key]
                if self._listening.done():
                    raise AssertionError(f"ended without {key!r}:\n{self.log.read_text()[-3000:]}")
                self._news.clear()
                await self._news.wait()

    async def stats(self):
        since = len(self._heard)
        self.write("stats")
        return await self.said("stats", since)

    async def until(self, condition, seconds=SECONDS):
        """Its stats, once they are as wanted."""
        end = time.monotonic() + seconds
        while True:
            stats = await self.stats()
            if condition(stats):
                return stats
            assert time.monotonic() < end, f"never came: {stats}\n{self.log.read_text()[-3000:]}"
            await asyncio.sleep(0.05)

    def write(self, line):
        self._process.stdin.write(line.encode() + b"\n")

    def signal(self, number):
        os.kill(self.pid, number)

    async def ended(self, seconds=SECONDS):
        """Its exit status, once it has ended."""
        async with asyncio.timeout(seconds):
            status = await self._process.wait()
            await self._listening
        return status

    def is_gone(self):
        """Whether neither it nor a process that it started is left, not even as a zombie."""
        try:
            os.killpg(self.pid, 0)
        except ProcessLookupError:
            return True
        return False

    def memory(self):
        """Bytes that it holds for itself: pages of files are shared and come and go as the system likes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no RssAnon")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))  # noqa: PTH208

    async def _listen(self):
        while line := await self._process.stdout.readline():
            if not line.endswith(b"\n"):
                break  # it was killed while it wrote
            if not self._hears_json:
                continue
            said = json.loads(line)
            self._on_line(said)
            if "round" not in said and "request" not in said and "finished" not in said:
                self._heard.append(said)
            self._news.set()
        self._news.set()


async def until(condition, seconds=SECONDS):
    """Wait for something that a process or a task is about to do."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def free_port():
    """A TCP port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
