"""TLS for clients and links: which files, which contexts, and whom a certificate names.

A certificate of ours names its owner in a URI (`model.records.access.Certified`), a broker by its
id or a user by name, and not by a host name: brokers move between hosts, and a client is sent from
one broker to the next. So nobody's host name is checked; instead a link's far end must be certified
as the very broker, and a client's as a broker.
"""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import msgspec

from pubweave.model.records.access import URI_PREFIX
from pubweave.runtime.net.errors import OverlayError

HANDSHAKE_LIMIT_S = 5.0
"""How long whoever dials waits for the far end's part of a handshake."""
_IN_WORDS = {
    "CERTIFICATE_EXPIRED": "the certificate has expired",
    "CERTIFICATE_REVOKED": "the certificate was revoked",
    "UNKNOWN_CA": "the certificate is of an authority that the broker does not know",
    "BAD_CERTIFICATE": "the broker does not take the certificate",
    "CERTIFICATE_REQUIRED": "the broker wants a certificate",
    "CERTIFICATE_VERIFY_FAILED": "the broker's certificate cannot be trusted",
    "WRONG_VERSION_NUMBER": "the broker does not speak TLS: leave the certificates out",
}


class TlsError(OverlayError):
    """Certificate files that cannot be used; names the file."""


class TlsFiles(msgspec.Struct, frozen=True):
    """The authority that certifies everybody, and one's own certificate with its key.

    A client that proves its name by a password needs only the authority. ``crl`` is the
    authority's list of revoked certificates; with one, a far end that is on it is not trusted."""

    ca: str
    cert: str | None = None
    key: str | None = None
    crl: str | None = None


def server_context(files: TlsFiles) -> ssl.SSLContext:
    """What a broker listens with; clients may, but need not, show a certificate.

    TlsError if a file cannot be used."""
    if files.cert is None or files.key is None:
        raise TlsError(
            "a broker needs a certificate and its key (cert and key in [broker.security])"
        )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Which certificates are needed depends on who comes; the core decides at Hello.
    context.verify_mode = ssl.CERT_OPTIONAL
    context.num_tickets = 0  # connections last: nothing is to be gained by resuming them
    return _loaded(context, files)


def client_context(files: TlsFiles) -> ssl.SSLContext:
    """What a client, or a broker that dials a neighbor, connects with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # see above: the URI says who it is
    context.verify_mode = ssl.CERT_REQUIRED
    return _loaded(context, files)


def _loaded(context: ssl.SSLContext, files: TlsFiles) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    for name in (files.ca, files.cert, files.key, files.crl):
        if name is not None:
            _check_readable(name)
    try:
        context.load_verify_locations(cafile=files.ca)
    except ssl.SSLError as error:
        raise TlsError(f"{files.ca}: no certificate of an authority: {_reason(error)}") from error
    if files.crl is not None:
        try:
            context.load_verify_locations(cafile=files.crl)
        except ssl.SSLError as error:
            raise TlsError(f"{files.crl}: no list of revoked certificates") from error
        context.verify_flags |= ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF
    if files.cert is not None:
        try:
            context.load_cert_chain(files.cert, files.key)
        except ssl.SSLError as error:
            text = f"{files.cert} and {files.key}: no certificate and its key: {_reason(error)}"
            raise TlsError(text) from error
    return context


def _check_readable(name: str) -> None:
    try:
        with Path(name).open("rb"):
            pass
    except OSError as error:
        raise TlsError(f"{name}: {error.strerror or error}") from error


def owner_uri(transport: asyncio.BaseTransport) -> str:
    """Whom the far end's certificate names; empty without one, or one that names nobody."""
    shown: dict[str, Any] | None = transport.get_extra_info("peercert")
    names = () if not shown else shown.get("subjectAltName", ())
    found = [text for kind, text in names if kind == "URI" and text.startswith(URI_PREFIX)]
    # One that names several could be taken for either.
    return found[0] if len(found) == 1 else ""


def serial_of(transport: asyncio.BaseTransport) -> int | None:
    """The number of the far end's certificate; None without one."""
    shown: dict[str, Any] | None = transport.get_extra_info("peercert")
    return int(shown["serialNumber"], 16) if shown else None


def in_words(error: BaseException) -> str:
    """What went wrong with a handshake.

    >>> in_words(TimeoutError())
    'TimeoutError'
    """
    if isinstance(error, ssl.SSLError):
        name = (error.reason or "").upper()
        for word, text in _IN_WORDS.items():
            if word in name:
                return text
        return _reason(error)
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__


def _reason(error: ssl.SSLError) -> str:
    return (error.reason or str(error)).lower().replace("_", " ")
