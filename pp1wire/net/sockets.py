"""Sockets that listen or are connected, and what their errors mean in words."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import time
from contextlib import closing, suppress
from typing import Any

from pp1wire.net.address import Address, TcpAddress, UnixAddress
from pp1wire.net.errors import ConnectError, NetError
from pp1wire.net.tls import is_refusal

__all__ = ["BACKLOG", "bound_address", "connect_error", "connected_socket", "listen", "unlink_if_ours"]

BACKLOG = 64
"""Connections that the system queues until they are accepted."""
_BETWEEN_PROBES = 0.05  # seconds; bind and listen are microseconds apart
_BETWEEN_TRIES = 0.02  # seconds


def listen(address: Address) -> socket.socket:
    """A listening socket. A socket file that a process left over when it was killed is replaced.

    Raises:
        NetError: the port or path is in use, or cannot be used; the message says what to do.
    """
    return _listen_unix(address) if isinstance(address, UnixAddress) else _listen_tcp(address)


def bound_address(sock: socket.socket, address: Address) -> Address:
    """Where `sock` really listens: with the port that the system chose."""
    return address if isinstance(address, UnixAddress) else TcpAddress(address.host, int(sock.getsockname()[1]))


async def connected_socket(address: Address) -> socket.socket:
    """A socket connected to `address`, by the first of its host's addresses where somebody listens. Raises OSError."""
    loop = asyncio.get_running_loop()
    if isinstance(address, UnixAddress):
        return await _connected_unix(address.path)
    # One at a time: asyncio's own search tells of all failures at once, and no longer what kind they were.
    *others, last = await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    for family, _, protocol, _, name in others:
        with suppress(OSError):
            return await _connected(family, protocol, name)
    return await _connected(last[0], last[2], last[4])


async def _connected_unix(path: str) -> socket.socket:
    while True:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            sock.connect(path)
        except BlockingIOError:
            # More wait to be accepted than the system queues. Nothing tells when that changes, and asyncio would take the socket
            # for connected.
            sock.close()
            await asyncio.sleep(_BETWEEN_TRIES)
        except BaseException:
            sock.close()
            raise
        else:
            return sock


async def _connected(family: int, protocol: int, name: Any) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM, protocol)
    try:
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, name)
    except BaseException:
        sock.close()
        raise
    return sock


def unlink_if_ours(address: Address, inode: int | None) -> None:
    """Remove a Unix socket's file, unless somebody has put another in its place."""
    if isinstance(address, UnixAddress) and inode is not None:
        with suppress(OSError):
            if os.stat(address.path).st_ino == inode:  # noqa: PTH116 - one call, no Path needed
                os.unlink(address.path)  # noqa: PTH108


def _listen_tcp(address: TcpAddress) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise NetError(f"cannot listen at {address}: host {address.host!r} is unknown ({error.strerror})") from None
    family, kind, protocol, _, name = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        # So that a restart need not wait until the connections of the last run have timed out.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(name)
        sock.listen(BACKLOG)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _listen_error(address, error) from None
    return sock


def _listen_unix(address: UnixAddress) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        try:
            _bind_unix(sock, address.path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not _is_left_over(address.path):
                raise
            _take_over_unix(sock, address.path)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        raise _listen_error(address, error) from None
    return sock


def _bind_unix(sock: socket.socket, path: str) -> None:
    sock.bind(path)
    # Before listen(), so that nobody else can have connected.
    os.chmod(path, 0o600)  # noqa: PTH101
    sock.listen(BACKLOG)


def _take_over_unix(sock: socket.socket, path: str) -> None:
    """Put `sock` in the place of a file that was left over."""
    import fcntl  # it is there where Unix sockets are

    # One process at a time, or two that start together would remove each other's sockets. The directory itself is locked, so
    # that no lock file is left over in turn.
    directory = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # noqa: PTH120
    try:
        fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Asked again: somebody may have taken it over meanwhile, or may have been between bind and listen.
        time.sleep(_BETWEEN_PROBES)
        if _is_left_over(path):
            os.unlink(path)  # noqa: PTH108
        _bind_unix(sock, path)
    finally:
        os.close(directory)


def _is_left_over(path: str) -> bool:
    """Whether `path` is a socket at which nobody accepts connections."""
    try:
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return False
        with closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as probe:
            probe.settimeout(1.0)
            probe.connect(path)
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False


def _listen_error(address: Address, error: OSError) -> NetError:
    if isinstance(address, UnixAddress):
        return NetError(f"cannot listen at {address}: {_unix_reason(address, error)}")
    if error.errno == errno.EADDRINUSE:
        reason = "the port is in use; stop the other process, or choose another port (0 picks a free one)"
    elif error.errno == errno.EACCES:
        reason = "not permitted; choose a port from 1024 on"
    elif error.errno == errno.EADDRNOTAVAIL:
        reason = "this machine does not have that address; use one of its own, or 0.0.0.0 for all"
    else:
        reason = error.strerror or str(error)
    return NetError(f"cannot listen at {address}: {reason}")


def _unix_reason(address: UnixAddress, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return _occupied(address.path)
    if error.errno == errno.EWOULDBLOCK:
        return "another process is just about to listen in this directory; try again, or choose another path"
    if error.errno == errno.ENOENT:
        parent = os.path.dirname(address.path) or "."  # noqa: PTH120
        return f"the directory {parent} does not exist; make it first"
    # "AF_UNIX path too long" comes without an errno.
    return error.strerror or f"{error}; choose a shorter path"


def _occupied(path: str) -> str:
    with suppress(OSError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return "a file that is no socket is there; choose another path"
    return "another process listens there; stop it, or choose another path"


def connect_error(address: Address, error: BaseException, *, tls: bool, accepted_before: bool = False) -> ConnectError:
    """What it means that a socket could not be connected.

    Args:
        address: the worker's.
        error: of the system, or of TLS.
        tls: whether it was to be spoken.
        accepted_before: whether a worker was there, and took this end's certificate; then more may pass.
    """
    if isinstance(error, TimeoutError):
        return ConnectError(f"cannot connect to {address}: no answer in time", retryable=True)
    if isinstance(error, ConnectionRefusedError):
        left_over = " (the socket file is left over from a process that is gone)"
        hint = left_over if isinstance(address, UnixAddress) else ""
        return ConnectError(f"cannot connect to {address}: nobody listens there{hint}; start a worker", retryable=True)
    if isinstance(error, FileNotFoundError):
        return ConnectError(f"cannot connect to {address}: no such socket; start a worker there first", retryable=True)
    if isinstance(error, socket.gaierror):
        return ConnectError(f"cannot connect to {address}: host unknown ({error.strerror})", retryable=accepted_before)
    if tls and isinstance(error, ConnectionError):
        return ConnectError(
            f"cannot connect to {address}: closed during the TLS handshake; does the worker speak TLS?", retryable=True
        )
    text = getattr(error, "verify_message", None) or getattr(error, "reason", None) or getattr(error, "strerror", None)
    what = "TLS: " if type(error).__module__ == "ssl" else ""
    return ConnectError(
        f"cannot connect to {address}: {what}{text or error}",
        retryable=not what or (accepted_before and not is_refusal(error)),
    )
