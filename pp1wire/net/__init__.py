"""Both ends of PP1 v2 over TCP and Unix sockets, with asyncio: a worker's server and a verifier's client.

A worker serves a `DraftModel` with `WorkerServer`; a verifier calls `connect` and decodes with its `TargetModel` by `decode`, or
drives `Request` itself. Everything is logged under the name `pp1wire.net`, one line each with fields (`pp1wire.net.logs`), and
`pp1wire.net.metrics` shows the counters to Prometheus. How to serve, step by step: `docs/deployment.md` of the source; what logs
and counters mean: `docs/operations.md`.
"""

from __future__ import annotations

from pp1wire.net.address import Address, TcpAddress, UnixAddress, parse_address
from pp1wire.net.client import VerifierClient, connect
from pp1wire.net.decoding import Round, decode
from pp1wire.net.digests import id_map_sha256
from pp1wire.net.errors import CapacityError, ConnectError, NetError, TargetModelError
from pp1wire.net.models import DraftModel, DraftState, LogitTarget, ProbabilityTarget, TargetModel, TargetState, Tokens
from pp1wire.net.request import Request
from pp1wire.net.server import WorkerServer
from pp1wire.net.stages import Stages
from pp1wire.net.tap import Tap, TapConnection
from pp1wire.net.terms import Terms
from pp1wire.net.tls import client_tls, server_tls

__all__ = [
    "Address",
    "CapacityError",
    "ConnectError",
    "DraftModel",
    "DraftState",
    "LogitTarget",
    "NetError",
    "ProbabilityTarget",
    "Request",
    "Round",
    "Stages",
    "Tap",
    "TapConnection",
    "TargetModel",
    "TargetModelError",
    "TargetState",
    "TcpAddress",
    "Terms",
    "Tokens",
    "UnixAddress",
    "VerifierClient",
    "WorkerServer",
    "client_tls",
    "connect",
    "decode",
    "id_map_sha256",
    "parse_address",
    "server_tls",
]
