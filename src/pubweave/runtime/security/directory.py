"""A directory with all that secures one overlay: ``pubweave security init`` makes it.

    ca.crt  ca.key              the authority; the key is only needed to certify more
    brokers/ID.crt  ID.key      one of each per broker
    users/NAME.crt  NAME.key    one of each per user
    users/NAME.password         the user's password, to be handed over
    revoked.crl                 certificates that do not count any more
    passwords                   the hashed passwords, for brokers
    access.toml                 who may do what, and the limits
    zookeeper-auth              the login of the overlay at ZooKeeper

What others must not read is readable by its owner only.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

from pubweave.model.files.atomic import replace_file
from pubweave.model.ids import BrokerId
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import TlsFiles
from pubweave.runtime.security.broker_files import BrokerSecurity
from pubweave.runtime.security.credentials import Credentials, read_secret
from pubweave.runtime.settings.tree import SecurityTable

OPERATOR = "operator"
"""The user that verbs are unless they are told otherwise."""
PRIVATE_MODE = 0o600
DIRECTORY_MODE = 0o700


class SecurityDirectory:
    """Knows the names of the files; reads none before it is asked."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ca = path / "ca.crt"
        self.ca_key = path / "ca.key"
        self.crl = path / "revoked.crl"
        self.passwords = path / "passwords"
        self.access = path / "access.toml"
        self.zookeeper_auth = path / "zookeeper-auth"

    def broker_files(self, broker: BrokerId) -> TlsFiles:
        return self._files("brokers", broker)

    def user_files(self, user: str) -> TlsFiles:
        return self._files("users", user)

    def user_password(self, user: str) -> Path:
        return self.path / "users" / f"{_file_name(user)}.password"

    def _files(self, kind: str, name: str) -> TlsFiles:
        stem = self.path / kind / _file_name(name)
        stem = stem.absolute()
        return TlsFiles(str(self.ca.absolute()), f"{stem}.crt", f"{stem}.key", self._crl())

    def _crl(self) -> str | None:
        """Directories of earlier versions have none."""
        return str(self.crl.absolute()) if self.crl.exists() else None

    def authority_files(self) -> TlsFiles:
        """What a client without a certificate needs."""
        return TlsFiles(str(self.ca.absolute()), crl=self._crl())

    def broker_security(self, broker: BrokerId) -> BrokerSecurity:
        """What a broker needs; OverlayError says which file is missing, and how to make it."""
        files = self.broker_files(broker)
        self._check(files, f"--broker {broker}")
        if not self.access.exists():
            raise OverlayError(f"{self.access}: it is missing; {_INIT}")
        has_passwords = self.passwords.exists()
        return BrokerSecurity(
            files,
            str(self.passwords.absolute()) if has_passwords else None,
            str(self.access.absolute()),
        )

    def credentials(self, user: str = OPERATOR) -> Credentials:
        """A user by its certificate; OverlayError if there is none here."""
        files = self.user_files(user)
        self._check(files, f"--user {user}")
        return Credentials(files, user)

    def store_login(self) -> str | None:
        """``user:password`` of the overlay at ZooKeeper; None if there is none."""
        return read_secret(self.zookeeper_auth) if self.zookeeper_auth.exists() else None

    def _check(self, files: TlsFiles, whose: str) -> None:
        if not self.ca.exists():
            raise OverlayError(f"{self.path}: there is no ca.crt; {_INIT}")
        for name in (files.cert, files.key):
            if name is not None and not Path(name).exists():
                advice = f"make it with 'pubweave security add {self.path} {whose}'"
                raise OverlayError(f"{name}: it is missing; {advice}")


def broker_security(table: SecurityTable, broker: BrokerId) -> BrokerSecurity | None:
    """The files that secure a broker; None: it is open. OverlayError if one is missing."""
    if table.directory is not None:
        return SecurityDirectory(table.directory).broker_security(broker)
    if table.ca is None:
        return None
    files = TlsFiles(str(table.ca), _text(table.cert), _text(table.key), _text(table.crl))
    return BrokerSecurity(files, _text(table.passwords), _text(table.access))


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


_INIT = "make a security directory with 'pubweave security init'"


def operator_credentials(security: str | None) -> Credentials | None:
    """Of whoever asks the brokers of an overlay about themselves; None where nobody is asked."""
    return None if security is None else SecurityDirectory(Path(security)).credentials()


def write_private(path: Path, content: bytes | str) -> None:
    """A file that only its owner can read, from its first byte on; what was there is replaced."""
    path.parent.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    replace_file(path, data, PRIVATE_MODE)


def is_private(path: Path) -> bool:
    """Whether nobody but its owner can read or change a file."""
    return not path.stat().st_mode & 0o077


def _file_name(name: str) -> str:
    # Ids are free text; a leading dot would hide the file, or lead out of the directory.
    written = quote(name, safe=" @+=,")
    return "%2E" + written[1:] if written.startswith(".") else written
