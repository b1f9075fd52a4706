"""Who a client is and whom it trusts: what `connect` needs to reach a secured broker."""

from __future__ import annotations

import datetime
import secrets
import ssl
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from pubweave.model.messages.session import Login, Role
from pubweave.model.records.access import Certified
from pubweave.runtime.net.addresses import Address, is_loopback
from pubweave.runtime.net.connection import Connection
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import TlsFiles, client_context

_OVER_TLS = "a password is sent over TLS only"


@dataclass(frozen=True)
class Credentials:
    """Certificates, and a user with a password where no certificate names the user.

    >>> Credentials(TlsFiles("ca.crt"), "alice", "secret")
    Credentials(tls=TlsFiles(ca='ca.crt', cert=None, key=None, crl=None), user='alice')
    """

    tls: TlsFiles | None = None
    user: str | None = None
    password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.password is not None and self.user is None:
            raise OverlayError("a password needs a user")

    def context(self, addresses: Iterable[Address]) -> ssl.SSLContext | None:
        """What to connect with to these addresses; None: without TLS. OverlayError if files
        cannot be used, or others could read the password on its way."""
        if self.tls is not None:
            return client_context(self.tls)
        if self.password is not None and not all(is_loopback(a.host) for a in addresses):
            raise OverlayError(f"{_OVER_TLS}: give the authority's certificate (--tls-ca)")
        return None

    def introduce(self, connection: Connection) -> str:
        """Say what goes before Hello; why the far end cannot be trusted, empty if it can."""
        if self.tls is not None and (problem := distrust(connection.certified)):
            return problem
        if self.user is not None and self.password is not None:
            address = connection.address
            # A client may be redirected to a broker that is farther away than its first.
            if self.tls is None and (address is None or not is_loopback(address.host)):
                return _OVER_TLS
            connection.write((Login(self.user, self.password),))
        return ""

    def fault(self) -> str:
        """What is wrong with the certificate, for whoever got no answer with it: the far end of
        a failed handshake hangs up without a word. Empty if nothing is."""
        if self.tls is None or self.tls.cert is None:
            return ""
        # Imported late: only this and 'pubweave security' look into certificates.
        from pubweave.runtime.security.certificates import facts_of

        facts = facts_of(Path(self.tls.cert))
        if facts.expires_at < datetime.datetime.now(datetime.UTC):
            return f"the certificate {self.tls.cert} expired on {facts.expires_at:%Y-%m-%d}"
        return ""

    def client_id(self) -> str:
        """A fresh name for a client of this user."""
        number = secrets.token_hex(6)
        return f"client-{number}" if self.user is None else f"{self.user}/{number}"


def distrust(certified: str) -> str:
    """Why the far end of a TLS connection is no broker; empty if it is one."""
    owner = Certified.parse(certified)
    if owner is not None and owner.role is Role.BROKER:
        return ""
    shown = "names nobody" if owner is None else f"is that of {owner}"
    return f"the certificate at the far end {shown}: a broker's is needed"


def read_secret(path: Path) -> str:
    """The first line of a file, which holds a password or a login; OverlayError without one."""
    try:
        lines = path.read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise OverlayError(f"{path}: {reason}") from None
    if not lines or not lines[0].strip():
        raise OverlayError(f"{path}: its first line must be the secret, and it is empty")
    return lines[0].strip()
