"""Another implementation's decoder as a child process: one line in, one line out, each bounded in length and time."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Sequence
from types import TracebackType
from typing import IO

from pp1wire.errors import PP1Error

__all__ = ["Decoder", "DecoderError"]

_LONGEST_ANSWER = 1 << 20
_KEPT_STDERR = 2000
_READ = 65_536
_MOST_READS = 32


class DecoderError(PP1Error):
    """The other decoder cannot be started, dies, hangs, or says what is no answer."""


class Decoder:
    """A running decoder; leave the `with` block to end it and whatever it started.

    Args:
        command: the program and its arguments; no shell takes part.
        seconds: what one answer may take, and the end of the program once its input has ended.

    Raises:
        DecoderError: the program cannot be started.
    """

    def __init__(self, command: Sequence[str], seconds: float) -> None:
        self._name = command[0]
        self._seconds = seconds
        self._stderr = b""
        self._answers = b""
        self._killed = False
        try:
            self._child = subprocess.Popen(
                list(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                # A group of its own: what hangs may be a grandchild, as under npx.
                start_new_session=True,
            )  # fmt: skip
        except (OSError, ValueError) as error:
            raise DecoderError(f"{self._name}: cannot be started: {error}") from error
        self._in, self._out, self._err = _pipe(self._child.stdin), _pipe(self._child.stdout), _pipe(self._child.stderr)
        for pipe in (self._in, self._out, self._err):
            os.set_blocking(pipe.fileno(), False)

    def __enter__(self) -> Decoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def ask(self, line: str) -> str:
        """The line that answers `line`; both without the line's end.

        Raises:
            DecoderError: it died, took too long, or answered with too much or with what is not UTF-8.
        """
        if self._answers:
            raise self._error(f"said {_shown(self._answers)} without being asked")
        self._exchange(line.encode("utf-8") + b"\n")
        answer, _, self._answers = self._answers.partition(b"\n")
        try:
            return answer.decode("utf-8")
        except UnicodeDecodeError:
            raise self._error(f"answered {_shown(answer)}, which is not UTF-8") from None

    def finish(self) -> None:
        """End its input and wait for its end.

        Raises:
            DecoderError: it says more, does not end, or ends with another status than 0.
        """
        self._in.close()
        deadline = time.monotonic() + self._seconds
        open_pipes = {self._out, self._err}
        while open_pipes and not self._answers:
            for pipe in self._ready(open_pipes, None, deadline, "did not end after its input"):
                if not self._take(pipe):
                    open_pipes.remove(pipe)
        if self._answers:
            raise self._error(f"said {_shown(self._answers)} after the last answer")
        try:
            status = self._child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise self._error(f"did not end after its input in {self._seconds:g} s") from None
        if status != 0:
            raise self._error(f"ended {_how(status)} after the last answer")

    def _exchange(self, data: bytes) -> None:
        """Write `data` and read until a line is whole, at once: a child may answer before it has read all."""
        deadline = time.monotonic() + self._seconds
        reading = {self._out, self._err}
        rest = memoryview(data)
        while b"\n" not in self._answers:
            what = "did not read its input" if rest else "gave no answer (does it flush each line?)"
            for pipe in self._ready(reading, self._in if rest else None, deadline, what):
                if pipe is self._in:
                    rest = rest[self._write(rest) :]
                elif not self._take(pipe):
                    if pipe is self._out:
                        raise self._error(f"ended {self._status(deadline)} before its answer")
                    reading.remove(pipe)
            if len(self._answers) > _LONGEST_ANSWER:
                raise self._error(f"answered with more than {_LONGEST_ANSWER} bytes")
        if rest:
            raise self._error(f"answered {_shown(self._answers)} before it had read the line")

    def _ready(self, reading: set[IO[bytes]], writing: IO[bytes] | None, deadline: float, what: str) -> list[IO[bytes]]:
        with selectors.DefaultSelector() as selector:
            for pipe in reading:
                selector.register(pipe, selectors.EVENT_READ, pipe)
            if writing is not None:
                selector.register(writing, selectors.EVENT_WRITE, writing)
            ready = selector.select(max(0.0, deadline - time.monotonic()))
        if not ready:
            raise self._error(f"{what} in {self._seconds:g} s")
        return [key.data for key, _ in ready]

    def _write(self, data: memoryview) -> int:
        try:
            return os.write(self._in.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError:
            # It ended, or closed its input; the end of its output tells which.
            return len(data)

    def _take(self, pipe: IO[bytes]) -> bool:
        """Read what is there; False at its end."""
        try:
            data = os.read(pipe.fileno(), _READ)
        except BlockingIOError:
            return True
        if pipe is self._out:
            self._answers += data
        else:
            self._stderr = (self._stderr + data)[-_KEPT_STDERR:]
        return bool(data)

    def _status(self, deadline: float) -> str:
        try:
            return _how(self._child.wait(max(0.0, deadline - time.monotonic())))
        except subprocess.TimeoutExpired:
            return "its output"

    def _error(self, what: str) -> DecoderError:
        self._kill()
        said = self._stderr.decode("utf-8", "replace").strip()
        return DecoderError(f"{self._name} {what}" + (f"; its standard error ends:\n{said}" if said else ""))

    def _kill(self) -> None:
        """End the child and all of its group, and take what it still said on standard error."""
        if self._killed:  # once: the number of a group that is gone may be another's by and by
            return
        self._killed = True
        try:
            os.killpg(self._child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        except PermissionError:  # macOS says so of a group whose last process has ended and was not waited for
            self._child.kill()
        self._child.wait()
        for pipe in (self._in, self._out, self._err):
            if pipe is self._err:
                self._take_rest(pipe)
            pipe.close()

    def _take_rest(self, pipe: IO[bytes]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            # As much as a pipe holds is enough: what left the group may go on writing.
            for _ in range(_MOST_READS):
                if not selector.select(0) or not self._take(pipe):
                    return


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise DecoderError("the decoder has no pipe")
    return pipe


def _how(status: int) -> str:
    if status < 0:
        return f"by signal {signal.Signals(-status).name}"
    return f"with status {status}"


def _shown(data: bytes) -> str:
    text = data[:80].decode("utf-8", "replace").rstrip("\n")
    return repr(text + ("…" if len(data) > 80 else ""))
