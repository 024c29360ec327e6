"""Whose endpoint may be attacked: one on this machine, or one of which the operator says that it is his."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import replace

from pp1wire.attack.crafting import AttackError
from pp1wire.net import Address, TcpAddress

__all__ = ["NotOwned", "guarded"]


class NotOwned(AttackError):
    """The address may be somebody else's."""


def guarded(address: Address, *, owned: bool) -> Address:
    """`address` if it may be attacked, or listened at: with its host resolved, so that what was checked is what is used.

    Args:
        address: a Unix socket is always of this machine.
        owned: whether the operator said that the endpoint is his.

    Raises:
        NotOwned: an address of the host is not a loopback address, and `owned` is False.
        AttackError: the host is unknown.
    """
    if not isinstance(address, TcpAddress):
        return address
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise AttackError(f"{address}: host {address.host!r} is unknown ({error})") from None
    if owned:
        return address
    hosts = [str(entry[4][0]) for entry in found]
    foreign = [host for host in hosts if not _is_loopback(host)]
    if foreign:
        raise NotOwned(
            f"{address} is not a loopback address ({foreign[0]}); attack only what is yours, "
            "and say so with --i-own-this-endpoint"
        )
    return replace(address, host=hosts[0])


def _is_loopback(host: str) -> bool:
    ip = ipaddress.ip_address(host)
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return (mapped or ip).is_loopback
