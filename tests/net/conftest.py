"""Fixtures of the endpoints' tests."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture
def unused_tcp_port():
    """A port that was free a moment ago."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]
