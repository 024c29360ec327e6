"""Who has no certificate, or a wrong one, or speaks TLS to who does not: refused, told on both ends, and the server goes on."""

from __future__ import annotations

import asyncio
import ssl
from contextlib import AsyncExitStack

import pytest

from pp1wire.net import ConnectError, client_tls, connect
from tests.chaos import models
from tests.chaos.certificates import Certificates
from tests.chaos.ends import End, until
from tests.chaos.judge import Judge


def no_certificate(files):
    context = ssl.create_default_context(cafile=files.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def shows(name):
    return lambda files: client_tls(files.ca, *getattr(files, name))


def old_tls(files):
    context = shows("verifier")(files)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


# What the client shows, the names of worker (by the certificate it serves with), and what each end says of it.
CASES = {
    "no_certificate": (
        no_certificate,
        "worker",
        "does it accept this certificate?",
        "PEER_DID_NOT_RETURN_A_CERTIFICATE",
    ),
    "of_another_ca": (
        shows("strange"),
        "worker",
        "does it accept this certificate?",
        "unable to get local issuer certificate",
    ),
    "expired": (shows("expired"), "worker", "does it accept this certificate?", "certificate has expired"),
    "plain_to_tls": (lambda files: None, "worker", "is it a PP1 v2 worker, without TLS?", "TLS handshake"),
    "tls_to_plain": (shows("verifier"), "plain", "TLS: |closed during the TLS handshake", "bad_magic"),
    "tls_1_2": (old_tls, "worker", "TLS: |closed during the TLS handshake", "UNSUPPORTED_PROTOCOL"),
    "worker_expired": (shows("verifier"), "expired", "TLS: certificate has expired", "TLS handshake"),
    "worker_of_another_ca": (shows("verifier"), "strange", "TLS: unable to get local issuer", "TLS handshake"),
    "worker_misnamed": (shows("verifier"), "misnamed", "TLS: IP address mismatch", "TLS handshake"),
}
PASSING = ("plain_to_tls", "tls_to_plain", "tls_1_2")  # looks like a worker that has just ended


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return Certificates(tmp_path_factory.mktemp("tls"))


def test_wrong_certificates_are_refused_and_told_on_both_ends_and_right_ones_are_served_on(files, tmp_path):
    async def main():
        told = {}
        async with AsyncExitStack() as stack:
            workers = {}
            for name in sorted({worker for _, worker, _, _ in CASES.values()}):
                tls = None if name == "plain" else files.folder
                certificate = None if name == "plain" else name
                log = tmp_path / f"{name}.log"
                end = End("worker", log, address="127.0.0.1:0", tls=tls, certificate=certificate, hello_timeout=2.0)
                workers[name] = await stack.enter_async_context(end)
            addresses = {name: await end.said("listening") for name, end in workers.items()}
            judge = Judge(tokens=24)
            good = await stack.enter_async_context(
                End("verifier", tmp_path / "verifier.log", judge.hear, address=addresses["worker"], tls=files.folder,
                    delay=0.05, tokens=24)
            )  # fmt: skip
            await until(lambda: judge.verified > 3)
            before = {name: await end.stats() for name, end in workers.items()}
            for case, (shown, worker, says, logs) in CASES.items():
                log = workers[worker].log
                seen = len(log.read_text())
                with pytest.raises(ConnectError, match=says) as caught:
                    await connect(addresses[worker], models.terms(16, "sparse"), tls=shown(files)).connect()
                await until(lambda log=log, seen=seen, logs=logs: logs in log.read_text()[seen:])
                told[case] = str(caught.value), caught.value.retryable, log.read_text()[seen:]
            await until(lambda before=judge.verified: judge.verified > before + 3)
            good.write("stop")
            ended = await good.said("ended")
            assert await good.ended() == 0
            for name, end in workers.items():
                after = await end.until(lambda stats: stats["connections"] == 0)
                assert after["sessions"] == after["states"] == 0
                assert after["descriptors"] <= before[name]["descriptors"]
        return told, judge, ended

    told, judge, ended = asyncio.run(asyncio.wait_for(main(), 100))
    assert set(told) == set(CASES)
    for case, (message, retryable, log) in told.items():
        assert "\n" not in message
        assert retryable is (case in PASSING), case
        assert "Traceback" not in log
        assert len(log.splitlines()) == 1, log
    assert judge.wrong == []
    assert judge.finished == judge.begun > 0
    assert ended["events"]["connected"] == 1
