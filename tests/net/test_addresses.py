"""Where endpoints listen and connect, and what is said when they cannot."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import os
import socket
import stat

import pytest

from pp1wire.net import ConnectError, NetError, TcpAddress, UnixAddress, connect, parse_address, sockets
from tests.net.toys import collect, run, serving, terms, tokens


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost:80", TcpAddress("localhost", 80)),
        ("[::1]:65535", TcpAddress("::1", 65535)),
        ("unix:relative", UnixAddress("relative")),
        ("/run/pp1", UnixAddress("/run/pp1")),
        ("unix:/a:1", UnixAddress("/a:1")),
    ],
)
def test_addresses_are_read_and_shown(text, address):
    assert parse_address(text) == address == parse_address(address)
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text", ["", "host", "host:", ":80", "host:65536", "host:-1", "host:٣", "::1:80", "unix:", "a:b:1"]
)
def test_bad_addresses_are_refused(text):
    with pytest.raises(NetError, match="expected"):
        parse_address(text)


def listen_error(address):
    async def main():
        with pytest.raises(NetError) as caught:
            async with serving(address):
                pass
        return str(caught.value)

    message = run(main())
    assert message.startswith(f"cannot listen at {address}: ")
    assert "\n" not in message
    return message


def connect_error(address):
    async def main():
        with pytest.raises(ConnectError) as caught:
            await connect(address, terms()).connect()
        return caught.value

    error = run(main())
    assert str(error).startswith(f"cannot connect to {address}: ")
    return error


def test_a_busy_port_is_named():
    with socket.create_server(("127.0.0.1", 0)) as busy:
        address = f"127.0.0.1:{busy.getsockname()[1]}"
        assert "the port is in use; stop the other process, or choose another port" in listen_error(address)


def test_hosts_that_are_not_here():
    assert "does not have that address" in listen_error("192.0.2.1:0")
    assert "host 'no.such.host.invalid' is unknown" in listen_error("no.such.host.invalid:0")
    error = connect_error("no.such.host.invalid:1")
    assert "host unknown" in str(error)
    assert not error.retryable
    assert "label" in str(connect_error("a" * 70 + ".x:1"))


def test_nobody_listens():
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    error = connect_error(address)
    assert "nobody listens there; start a worker" in str(error)
    assert error.retryable


def test_unix_sockets_that_cannot_be_used(tmp_path):
    path = tmp_path / "w"
    address = f"unix:{path}"
    assert "no such socket; start a worker there first" in str(connect_error(address))
    path.write_text("mine")
    assert "a file that is no socket is there" in listen_error(address)
    assert path.read_text() == "mine"
    assert f"the directory {tmp_path}/none does not exist; make it first" in listen_error(f"unix:{tmp_path}/none/w")
    assert "choose a shorter path" in listen_error("unix:/tmp/" + "w" * 200)


def leave_over(path):
    with socket.socket(socket.AF_UNIX) as left_over:
        left_over.bind(str(path))


def test_a_socket_file_left_over_by_a_killed_worker_is_replaced(tmp_path):
    path = tmp_path / "w"
    address = f"unix:{path}"
    leave_over(path)
    assert "left over from a process that is gone" in str(connect_error(address))

    async def main():
        async with serving(address) as server, connect(server.address, terms()) as client:
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            return tokens(await collect(client))

    assert len(run(main())) == 40
    assert [*tmp_path.iterdir()] == []


def test_a_socket_file_that_comes_to_life_is_not_replaced(tmp_path, monkeypatch):
    """Another worker was between bind and listen when the file was first looked at."""
    path = tmp_path / "w"
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(path))
        inode = path.stat().st_ino
        monkeypatch.setattr(sockets.time, "sleep", lambda _: other.listen(1))
        assert "another process listens there; stop it" in listen_error(f"unix:{path}")
        assert path.stat().st_ino == inode


def test_only_one_process_replaces_a_socket_file(tmp_path):
    leave_over(tmp_path / "w")
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)
        assert "another process is just about to listen in this directory" in listen_error(f"unix:{tmp_path}/w")
    finally:
        os.close(directory)
    assert stat.S_ISSOCK((tmp_path / "w").stat().st_mode)


def test_a_link_to_a_left_over_socket_is_not_replaced(tmp_path):
    leave_over(tmp_path / "w")
    (tmp_path / "link").symlink_to(tmp_path / "w")
    assert "a file that is no socket is there" in listen_error(f"unix:{tmp_path}/link")
    assert (tmp_path / "link").is_symlink()


def test_a_live_unix_socket_is_not_taken_over_and_is_for_its_owner(tmp_path):
    address = f"unix:{tmp_path}/w"

    async def main():
        async with serving(address) as server:
            mode = (tmp_path / "w").stat().st_mode
            with pytest.raises(NetError, match="another process listens there; stop it"):
                async with serving(address):
                    pass
            async with connect(server.address, terms()) as client:
                assert len(tokens(await collect(client))) == 40
            # Somebody else's socket in its place is left alone.
            (tmp_path / "w").unlink()
            other = socket.socket(socket.AF_UNIX)
            other.bind(f"{tmp_path}/w")
            other.close()
        return mode

    mode = run(main())
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert (tmp_path / "w").exists()


def test_every_address_of_a_host_is_tried(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead = free.getsockname()

    async def two(loop, host, port, **options):
        found = await asyncio.to_thread(socket.getaddrinfo, "127.0.0.1", port, **options)
        return [(*found[0][:4], dead), *found]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", two)

    async def main():
        async with serving("127.0.0.1:0") as server, connect(f"pair:{server.address.port}", terms()) as client:
            return server.address.port, tokens(await collect(client))

    port, text = run(main())
    assert len(text) == 40
    assert "nobody listens there" in str(connect_error(f"pair:{port}"))


def test_ipv6_if_there_is_any():
    async def main():
        async with serving("[::1]:0") as server, connect(server.address, terms()) as client:
            assert str(server.address).startswith("[::1]:")
            return tokens(await collect(client))

    assert len(run(main())) == 40


def test_a_socket_that_accepts_nobody_times_out():
    """A full backlog leaves a connection hanging; the client does not hang with it."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(0)
        address = f"127.0.0.1:{deaf.getsockname()[1]}"

        async def main():
            fillers = [asyncio.create_task(asyncio.open_connection(*deaf.getsockname())) for _ in range(3)]
            await asyncio.sleep(0.05)
            with pytest.raises(ConnectError, match="no answer in time"):
                await connect(address, terms(), connect_timeout=0.1).connect()
            for filler in fillers:
                if filler.done():
                    filler.result()[1].close()
                filler.cancel()
            await asyncio.gather(*fillers, return_exceptions=True)

        run(main())


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.EACCES, "not permitted; choose a port from 1024 on"), (errno.EMFILE, "Too many open files")],
)
def test_other_reasons_are_told(number, said):
    """What a test that may run as root cannot bring about."""
    error = sockets._listen_error(TcpAddress("h", 80), OSError(number, os.strerror(number)))
    assert str(error) == f"cannot listen at h:80: {said}"
