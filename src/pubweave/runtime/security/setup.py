"""Making what secures an overlay: an authority, certificates, passwords, rules, a login.

Nothing that exists is ever overwritten, except that a password file is written anew with one more
line: keys that are in use somewhere must not vanish by a second run of a command.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Role
from pubweave.model.records.access import ANONYMOUS, EVERYBODY, Certified, validate_user_name
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import TlsFiles
from pubweave.runtime.security.certificates import (
    Authority,
    CertificatePair,
    revoked_serials,
    serial_of_file,
)
from pubweave.runtime.security.directory import (
    DIRECTORY_MODE,
    OPERATOR,
    SecurityDirectory,
    write_private,
)
from pubweave.runtime.security.passwords import HashedPassword, read_passwords
from pubweave.runtime.security.scram import ScramKeys

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
PASSWORD_BYTES = 18

_RULES = """\
# Who may do what in this overlay. What no rule allows is refused. Brokers read it at their start,
# and again after 'pubweave security reload' (SIGHUP).
# A right is a list of filters: an advertisement or subscription must be covered by one of them.

anonymous = false

[users.{operator}]
publish = ["*"]
subscribe = ["*"]
operate = true    # may ask brokers for their status, and move clients
"""
_USER_RULES = """
[users."{user}"]
publish = ["*"]
subscribe = ["*"]
"""
_LIMITS = """
[limits]          # see docs/security.md; these are some of the defaults
# connections = 12_000
# connections_per_address = 4_000
# entries_per_client = 100_000
"""


class SecuritySetup:
    """Fills a security directory. ``now`` is when certificates begin to be valid."""

    def __init__(self, directory: SecurityDirectory, now: datetime.datetime) -> None:
        self.directory = directory
        self._now = now

    def create(
        self, brokers: Iterable[BrokerId], users: Iterable[str], days: int = CERTIFICATE_DAYS
    ) -> Iterator[str]:
        """Everything at once, the operator besides the users named; what is made, as it is made.

        OverlayError if there is an authority already."""
        directory = self.directory
        if directory.ca.exists():
            raise OverlayError(
                f"{directory.ca} exists already: use 'pubweave security add' for more brokers "
                "and users, or choose another directory"
            )
        named = [user for user in dict.fromkeys(users) if user != OPERATOR]
        for user in named:
            _validate(user)
        directory.path.mkdir(mode=DIRECTORY_MODE, parents=True, exist_ok=True)
        pair = Authority.create(max(AUTHORITY_DAYS, days), self._now).pair
        write_private(directory.ca_key, pair.key)
        directory.ca.write_bytes(pair.certificate)
        self._write_list(())
        yield "authority"
        login = f"pubweave:{secrets.token_urlsafe(PASSWORD_BYTES)}"
        write_private(directory.zookeeper_auth, f"{login}\n")
        rules = _RULES.format(operator=OPERATOR)
        rules += "".join(_USER_RULES.format(user=user) for user in named) + _LIMITS
        write_private(directory.access, rules)
        for broker in brokers:
            self.add_broker(broker, days)
            yield f"broker {broker}"
        for user in (OPERATOR, *named):
            self.add_user(user, days)
            yield f"user {user}"

    def add_broker(self, broker: BrokerId, days: int = CERTIFICATE_DAYS) -> None:
        """A certificate for one more broker."""
        owner = Certified(Role.BROKER, broker)
        self._write(self.directory.broker_files(broker), self._certify(owner, days))

    def add_user(
        self,
        user: str,
        days: int = CERTIFICATE_DAYS,
        password: str | None = None,
        *,
        is_scram: bool = False,
    ) -> None:
        """A certificate and a password for one more user; a random password unless given.
        ``is_scram``: kept so that it can be proven without being sent."""
        _validate(user)
        directory = self.directory
        self._write(directory.user_files(user), self._certify(Certified(Role.CLIENT, user), days))
        chosen = password or secrets.token_urlsafe(PASSWORD_BYTES)
        if password is None:
            write_private(directory.user_password(user), f"{chosen}\n")
        known = read_passwords(directory.passwords) if directory.passwords.exists() else {}
        known[user] = ScramKeys.of(chosen) if is_scram else HashedPassword.of(chosen)
        lines = [hashed.line(name) for name, hashed in known.items()]
        write_private(directory.passwords, "".join(f"{line}\n" for line in lines))

    def revoke(self, certificates: Iterable[Path]) -> None:
        """From the brokers' next look at their files on, these certificates do not count."""
        known = revoked_serials(self.directory.crl) if self.directory.crl.exists() else frozenset()
        self._write_list(known.union([serial_of_file(path) for path in certificates]))

    def _write_list(self, serials: Iterable[int]) -> None:
        authority = Authority.load(self.directory.ca, self.directory.ca_key)
        write_private(self.directory.crl, authority.revoke(serials, AUTHORITY_DAYS, self._now))

    def _certify(self, owner: Certified, days: int) -> CertificatePair:
        authority = Authority.load(self.directory.ca, self.directory.ca_key)
        return authority.certify(owner, days, self._now)

    def _write(self, files: TlsFiles, pair: CertificatePair) -> None:
        assert files.cert is not None
        assert files.key is not None
        certificate = Path(files.cert)
        if certificate.exists():
            raise OverlayError(
                f"{certificate} exists already: remove it and its key first to make another"
            )
        write_private(Path(files.key), pair.key)
        certificate.write_bytes(pair.certificate)


def _validate(user: str) -> None:
    try:
        validate_user_name(user)
    except ValueError as error:
        raise OverlayError(str(error)) from error
    if user in (ANONYMOUS, EVERYBODY):
        raise OverlayError(f"{user!r} cannot have a certificate: it stands for those without one")


@contextlib.contextmanager
def made_whole(directory: Path) -> Iterator[Path]:
    """A directory beside the wanted one that becomes it at the end: half of an authority is
    worse than none. OverlayError if there is something already."""
    if directory.exists() and any(directory.iterdir()):
        raise OverlayError(
            f"{directory} exists already: use 'pubweave security add' for more brokers and users, "
            "or choose another directory"
        )
    directory = directory.absolute()
    scratch = directory.with_name(f".{directory.name}.{os.getpid()}.tmp")
    try:
        yield scratch
        if directory.exists():
            directory.rmdir()
        scratch.rename(directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
