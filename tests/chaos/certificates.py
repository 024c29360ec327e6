"""Certificates for both ends, and wrong ones of every kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import trustme


class Certificates:
    """PEM files in a folder: what `--tls` of both processes reads, and strangers' files beside them.

    Args:
        folder: made if it is not there.
    """

    def __init__(self, folder):
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self._ours, self._theirs = trustme.CA(), trustme.CA()
        self.ca = folder / "ca.pem"
        self._ours.cert_pem.write_to_path(self.ca)
        self.worker = self._write("worker", self._ours.issue_cert("127.0.0.1", "localhost"))
        self.verifier = self._write("verifier", self._ours.issue_cert("verifier"))
        long_ago = datetime.now(UTC) - timedelta(days=1)
        self.strange = self._write("strange", self._theirs.issue_cert("verifier", "127.0.0.1"))
        self.expired = self._write("expired", self._ours.issue_cert("verifier", "127.0.0.1", not_after=long_ago))
        self.misnamed = self._write("misnamed", self._ours.issue_cert("elsewhere.example"))

    def _write(self, name, certificate):
        chain, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        chain.write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
        certificate.private_key_pem.write_to_path(key)
        return chain, key
