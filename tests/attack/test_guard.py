"""Nobody else's endpoint is attacked by mistake: every address that a host stands for must be of this machine alone."""

from __future__ import annotations

import socket

import pytest

from pp1wire.attack import AttackError, NotOwned, guarded
from pp1wire.net import TcpAddress, UnixAddress, parse_address

OURS = ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1")
EVERYWHERE = "0.0.0.0"  # noqa: S104 - refused, not bound
OTHERS = (EVERYWHERE, "::", "10.0.0.1", "192.0.2.1", "169.254.1.1", "::ffff:10.0.0.1", "2001:db8::1", "224.0.0.1")


@pytest.mark.parametrize("host", OURS)
def test_loopback_addresses_are_of_this_machine(host):
    assert guarded(TcpAddress(host, 7411), owned=False) == TcpAddress(host, 7411)


@pytest.mark.parametrize("host", OTHERS)
def test_other_addresses_need_the_operators_word(host):
    with pytest.raises(NotOwned, match="--i-own-this-endpoint"):
        guarded(TcpAddress(host, 7411), owned=False)
    assert guarded(TcpAddress(host, 7411), owned=True) == TcpAddress(host, 7411)


def test_unix_sockets_are_of_this_machine():
    assert guarded(parse_address("unix:/run/pp1/worker"), owned=False) == UnixAddress("/run/pp1/worker")


def resolving_to(*hosts):
    def getaddrinfo(host, port, **_):
        family = {host: socket.AF_INET6 if ":" in host else socket.AF_INET for host in hosts}
        return [(family[h], socket.SOCK_STREAM, 6, "", (h, port)) for h in hosts]

    return getaddrinfo


def test_a_name_is_resolved_and_what_was_checked_is_what_is_used(monkeypatch):
    monkeypatch.setattr(socket, "getaddrinfo", resolving_to("127.0.0.1", "::1"))
    assert guarded(TcpAddress("worker.test", 7411), owned=False) == TcpAddress("127.0.0.1", 7411)


@pytest.mark.parametrize("hosts", [("127.0.0.1", "192.0.2.7"), ("192.0.2.7", "127.0.0.1"), ("192.0.2.7",)])
def test_a_name_with_one_foreign_address_is_foreign(monkeypatch, hosts):
    monkeypatch.setattr(socket, "getaddrinfo", resolving_to(*hosts))
    with pytest.raises(NotOwned, match=r"192\.0\.2\.7"):
        guarded(TcpAddress("worker.test", 7411), owned=False)


def test_an_unknown_host_is_told(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(AttackError, match=r"worker\.test:7411: host 'worker\.test' is unknown"):
        guarded(TcpAddress("worker.test", 7411), owned=False)
