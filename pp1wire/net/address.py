"""Where an endpoint listens or connects to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pp1wire.net.errors import NetError

__all__ = ["Address", "TcpAddress", "UnixAddress", "parse_address"]

_FORMS = "host:port, [ipv6]:port, or unix:/path"


@dataclass(frozen=True, slots=True)
class TcpAddress:
    """A TCP port. Port 0 asks the system for a free one when listening."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixAddress:
    """A Unix stream socket in the file system."""

    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address: TypeAlias = TcpAddress | UnixAddress


def parse_address(text: str | Address) -> Address:
    """`host:port`, `[ipv6]:port`, `unix:/path`, or any text with a slash, as an address.

    Raises:
        NetError: none of these forms, or the port is not 0 to 65535.
    """
    if isinstance(text, TcpAddress | UnixAddress):
        return text
    if text.startswith("unix:") or "/" in text:
        path = text.removeprefix("unix:")
        if not path or "\0" in path:
            raise NetError(f"address {text!r}: expected a socket path after unix:")
        return UnixAddress(path)
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        host = ""  # an IPv6 address without brackets: which colon begins the port is a guess
    if not colon or not host or not (port.isascii() and port.isdigit()) or int(port) > 0xFFFF:
        raise NetError(f"address {text!r}: expected {_FORMS}")
    return TcpAddress(host, int(port))
