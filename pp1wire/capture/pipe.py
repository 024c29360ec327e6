"""A pipe to write into from an event loop: its reader may come and go, and may not stop the loop by reading nothing."""

from __future__ import annotations

import io
import os
import select
import time
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

__all__ = ["PATIENCE", "Pipe"]

PATIENCE: Final = 0.5
"""Seconds for which a write waits, and its caller with it, while the reader takes nothing."""


class Pipe(io.RawIOBase):
    """The writing end of a pipe, a terminal or another device without a size. Closing it closes the descriptor.

    Args:
        descriptor: open for writing; it is made non-blocking.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._room = select.poll()
        self._room.register(descriptor, select.POLLOUT)

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, data: ReadableBuffer) -> int:
        """Write what there is room for; how many bytes that were.

        Raises:
            OSError: the reader is gone, or has taken nothing for `PATIENCE` seconds.
        """
        end = time.monotonic() + PATIENCE
        while True:
            try:
                return os.write(self._descriptor, data)
            except BlockingIOError:
                left = end - time.monotonic()
                if left <= 0:
                    raise OSError(f"the pipe is full, and nobody has read from it for {PATIENCE:g} s") from None
                self._room.poll(left * 1000)

    def close(self) -> None:
        """Close the descriptor."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()
