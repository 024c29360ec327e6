"""TLS for both ends: each shows a certificate, and refuses a peer that cannot.

Checksums in frames find accidents, not attackers; whoever can reach a worker's port can read prompts and steer output. These
contexts are the ordinary way to close it to others. Any `ssl.SSLContext` can be used in their place.
"""

from __future__ import annotations

import os
import ssl

from pp1wire.net.errors import NetError, summary

__all__ = ["client_tls", "handshake_failure", "is_refusal", "server_tls"]

Path = str | os.PathLike[str]

# In OpenSSL's names of alerts and of its own findings: CERTIFICATE_VERIFY_FAILED, TLSV13_ALERT_CERTIFICATE_REQUIRED, and so on.
_REFUSALS = ("CERTIFICATE", "UNKNOWN_CA", "ACCESS_DENIED")


def server_tls(certificate: Path, key: Path, client_ca: Path) -> ssl.SSLContext:
    """A worker's context: TLS 1.3, and a certificate signed by `client_ca` demanded of every verifier.

    Args:
        certificate: PEM file, the worker's certificate chain.
        key: PEM file, its private key, without a pass phrase.
        client_ca: PEM file, the authorities that sign verifiers' certificates.

    Raises:
        NetError: a file is missing, or is not what it should be.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, certificate, key, client_ca)


def client_tls(server_ca: Path, certificate: Path, key: Path) -> ssl.SSLContext:
    """A verifier's context: TLS 1.3, host names checked, and a certificate to show.

    Args:
        server_ca: PEM file, the authorities that sign workers' certificates; the system's own are not asked.
        certificate: PEM file, the verifier's certificate chain.
        key: PEM file, its private key, without a pass phrase.

    Raises:
        NetError: a file is missing, or is not what it should be.
    """
    return _loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), certificate, key, server_ca)


def is_refusal(error: BaseException | None) -> bool:
    """Whether one end did not take the other's certificate; other failures of TLS can be a network's that damages or cuts."""
    reason = str(getattr(error, "reason", None) or "")
    return isinstance(error, ssl.SSLError) and any(word in reason for word in _REFUSALS)


def handshake_failure(error: BaseException) -> str:
    """Why a handshake failed, in one line: OpenSSL's name of it, and what is wrong with a certificate."""
    reason = getattr(error, "reason", None) or summary(error)
    found = getattr(error, "verify_message", None)
    return f"{reason}: {found}" if found else str(reason)


def _loaded(context: ssl.SSLContext, certificate: Path, key: Path, authorities: Path) -> ssl.SSLContext:
    # Both ends are this package, so nothing older has to be spoken.
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for path, what in ((certificate, "certificate"), (key, "private key"), (authorities, "CA certificates")):
        if not os.path.isfile(path):  # noqa: PTH113 - Path would turn a wrong type into a traceback of its own
            raise NetError(f"TLS {what}: no such file: {os.fspath(path)}")
    try:
        # An empty pass phrase, because OpenSSL would otherwise ask the terminal for one.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise NetError(f"TLS certificate {os.fspath(certificate)} with key {os.fspath(key)}: {reason}") from None
    try:
        context.load_verify_locations(authorities)
    except (OSError, ssl.SSLError) as error:
        raise NetError(
            f"TLS CA certificates {os.fspath(authorities)}: {getattr(error, 'reason', None) or error}"
        ) from None
    return context
