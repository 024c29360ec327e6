"""A recorder whose disk is full, or whose reader leaves or sleeps: rounds go on, it is told once, what there is is readable."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from contextlib import AsyncExitStack, suppress

from pp1wire.capture.findings import ExitStatus
from pp1wire.capture.validate import validate
from tests.chaos.ends import End, until
from tests.chaos.judge import Judge

ROOM = 24_000  # bytes on the disk; a round of five rows takes some two thousand
_RECORD = """
import json, sys
from pp1wire.cli import main
from tests.chaos.telling import limit_files
limit_files(json.loads(sys.argv.pop(1)))
sys.exit(main())
"""
RECORD = [sys.executable, "-c", _RECORD]


class FullDisk:
    """A file that cannot grow beyond a size."""

    said = "File too large"
    largest_file = ROOM

    def __init__(self, folder):
        self.path = self.recorded = folder / "run.pcapng"

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass


class SmallDisk(FullDisk):
    """A file system that is full, on machines that let us make one."""

    said = "No space left on device"
    largest_file = None

    def __init__(self, folder):
        self._disk = folder / "disk"
        self._disk.mkdir()
        self.path = self.recorded = self._disk / "run.pcapng"

    async def __aenter__(self):
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", self._disk], check=True)
        return self

    async def __aexit__(self, *_):
        subprocess.run(["umount", self._disk], check=True)


class Pipe:
    """A pipe whose reader takes so much, and then leaves."""

    said = "Broken pipe"
    largest_file = None

    def __init__(self, folder):
        self.path, self.recorded = folder / "pipe", folder / "taken.pcapng"
        os.mkfifo(self.path)
        self._end = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK)
        self._taken = bytearray()
        self._over = threading.Event()
        # A thread, as the event loop has other things to do, and is not to be the reader that sleeps.
        self._reader = threading.Thread(target=self._take)

    async def __aenter__(self):
        self._reader.start()
        return self

    async def __aexit__(self, *_):
        self._over.set()
        self._reader.join()
        self._close()

    def _take(self):
        while len(self._taken) < ROOM and not self._over.wait(0.002):
            self._read(4096)
        self.leave()

    def _read(self, size):
        with suppress(BlockingIOError):
            part = os.read(self._end, size)
            self._taken += part
            return len(part)
        return 0

    def leave(self):
        self._close()

    def _close(self):
        if self._end is not None:
            os.close(self._end)
            self._end = None

    def finish(self):
        """Everything that came out of it becomes a file."""
        self.recorded.write_bytes(self._taken)


class SleepingPipe(Pipe):
    """A pipe whose reader takes so much, and then nothing, but stays."""

    said = "the pipe is full, and nobody has read from it for 0.5 s"

    def leave(self):
        pass

    def finish(self):
        while self._read(1 << 16):
            pass
        super().finish()


def can_mount(folder):
    """Whether this machine lets us make a small disk."""
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", folder], check=False, capture_output=True).returncode:
        return False
    subprocess.run(["umount", folder], check=True)
    return True


async def run(where, kind, folder):
    """One worker and one verifier, of which the one called `where` records, or a recording proxy between them."""
    folder.mkdir()
    judge = Judge(tokens=24)
    disk = kind(folder)
    async with disk, AsyncExitStack() as stack:
        logs = {name: folder / f"{name}.log" for name in ("worker", "verifier", "proxy")}
        recording = {"record": disk.path, "largest_file": disk.largest_file}
        on = {name: recording if name == where else {} for name in logs}
        worker = await stack.enter_async_context(
            End("worker", logs["worker"], address=f"unix:{folder}/worker", **on["worker"])
        )
        address = await worker.said("listening")
        proxy = None
        if where == "proxy":
            limit = "null" if disk.largest_file is None else str(disk.largest_file)
            command = [*RECORD, limit, "record", str(disk.path)]
            proxy = await stack.enter_async_context(
                End(command, logs["proxy"], listen=f"unix:{folder}/proxy", to=address, hears_json=False)
            )
            address = f"unix:{folder}/proxy"
            await until(lambda: (folder / "proxy").is_socket())
        verifier = await stack.enter_async_context(
            End("verifier", logs["verifier"], judge.hear, address=address, delay=0.06, tokens=24, step_timeout=20,
                **on["verifier"])
        )  # fmt: skip
        await until(lambda: "cannot write" in logs[where].read_text())
        await until(lambda before=judge.verified: judge.verified > before + 5)
        verifier.write("stop")
        ended = await verifier.said("ended")
        assert await verifier.ended() == 0
        worker.signal(signal.SIGTERM)
        assert await worker.ended() == 0
        if proxy is not None:
            proxy.signal(signal.SIGTERM)
            assert await proxy.ended() == 1  # the recording is not whole
        if isinstance(disk, Pipe):
            disk.finish()
        result = await asyncio.to_thread(validate, [disk.recorded])
        size = disk.recorded.stat().st_size
    # Not one round was harmed, nor a connection.
    assert judge.wrong == []
    assert judge.finished == judge.begun > 0
    assert ended["reasons"] == {"none": judge.rounds}
    assert ended["events"]["connected"] == 1
    # It is told once, clearly.
    log = logs[where].read_text()
    told = [line for line in log.splitlines() if "cannot write" in line]
    assert len(told) == 1, told
    assert disk.said in told[0]
    assert "Traceback" not in log
    # And what was recorded is right as far as it goes.
    assert size > ROOM / 2
    assert result.status is ExitStatus.INCOMPLETE, result.findings
    assert result.summary.proposals > 2


def test_a_recorder_that_cannot_go_on_harms_no_round(tmp_path):
    runs = [
        ("worker", FullDisk), ("worker", SleepingPipe), ("verifier", Pipe),
        ("proxy", FullDisk), ("proxy", Pipe), ("proxy", SleepingPipe),
    ]  # fmt: skip
    if can_mount(tmp_path):
        runs += [("verifier", SmallDisk)]

    async def main():
        async with asyncio.timeout(110), asyncio.TaskGroup() as group:
            for where, kind in runs:
                group.create_task(run(where, kind, tmp_path / f"{where}{kind.__name__}"))

    asyncio.run(main())


def test_a_disk_that_is_full_from_the_beginning_is_an_error_at_once(tmp_path):
    done = subprocess.run(
        [*RECORD, "null", "record", "/dev/full", "--listen", f"unix:{tmp_path}/a", "--to", f"unix:{tmp_path}/b"],
        check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == ExitStatus.UNREADABLE
    assert "No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "a").exists()
