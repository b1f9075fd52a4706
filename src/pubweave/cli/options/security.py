"""Options that say how a verb gets into a secured overlay, and as whom.

A secret is never an option itself, only the name of a file it is in: command lines are public.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import DIRECTORY, FILE, packed
from pubweave.model.messages.session import Role
from pubweave.runtime.net.tls import TlsFiles
from pubweave.runtime.overlay.run_directory import read_live_state
from pubweave.runtime.security.certificates import facts_of
from pubweave.runtime.security.credentials import Credentials, read_secret
from pubweave.runtime.security.directory import OPERATOR, SecurityDirectory

SECURITY_VARIABLE = "PUBWEAVE_SECURITY"
USER_VARIABLE = "PUBWEAVE_USER"

security_option = click.option(
    "--security",
    "security_dir",
    envvar=SECURITY_VARIABLE,
    show_envvar=True,
    type=DIRECTORY,
    metavar="DIR",
    help="Certificates, users and rules, as 'pubweave security init' makes them.",
)
_TLS_OPTIONS = (
    click.option(
        "--tls-ca", "ca", type=FILE, help="The certificate of the authority; or --security."
    ),
    click.option("--tls-cert", "cert", type=FILE, help="The own certificate."),
    click.option("--tls-key", "key", type=FILE, help="Its private key."),
    click.option(
        "--tls-crl", "crl", type=FILE, help="Certificates that the authority has revoked."
    ),
)
_USER_OPTIONS = (
    click.option(
        "--user",
        envvar=USER_VARIABLE,
        show_envvar=True,
        help="Whom to be. [default: operator of --security]",
    ),
    click.option(
        "--password-file", type=FILE, help="The user's password, instead of a certificate."
    ),
)


@dataclass(frozen=True)
class SecurityChoice:
    """What the options say; files are read when credentials are asked for."""

    directory: Path | None = None
    user: str | None = None
    password_file: Path | None = None
    ca: Path | None = None
    cert: Path | None = None
    key: Path | None = None
    crl: Path | None = None

    def credentials(self, run_dir: Path | None = None) -> Credentials | None:
        """Who to be; None for an overlay that asks nobody. An overlay in ``run_dir`` says itself
        where its security directory is. BadInput if the options do not fit together."""
        directory = self.directory or (None if run_dir is None else _directory_of(run_dir))
        password = None if self.password_file is None else read_secret(self.password_file)
        if password is not None and self.user is None:
            raise BadInput("--password-file needs --user: whose password is it?")
        if self.ca is not None:
            cert, key = self._pair() or (None, None)
            files = TlsFiles(str(self.ca), cert, key, _text(self.crl))
            return Credentials(files, self.user or _named_by(files), password)
        if self.cert is not None or self.key is not None or self.crl is not None:
            raise BadInput(
                "--tls-cert, --tls-key and --tls-crl need --tls-ca: whom does this side trust?"
            )
        if directory is None:
            return None if password is None else Credentials(None, self.user, password)
        known = SecurityDirectory(directory)
        if password is not None:
            return Credentials(known.authority_files(), self.user, password)
        return known.credentials(self.user or OPERATOR)

    def _pair(self) -> tuple[str, str] | None:
        if (self.cert is None) != (self.key is None):
            raise BadInput("--tls-cert and --tls-key go together")
        return None if self.cert is None else (str(self.cert), str(self.key))


def _named_by(files: Any) -> str | None:
    """The user that the own certificate names."""
    if files.cert is None:
        return None
    owner = facts_of(Path(files.cert)).owner
    return owner.name if owner is not None and owner.role is Role.CLIENT else None


def _directory_of(run_dir: Path) -> Path | None:
    stated = read_live_state(run_dir).security
    return None if stated is None else Path(stated)


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path)


client_security_options = packed(
    "security",
    lambda security_dir, **given: SecurityChoice(security_dir, **given),
    security_option,
    *_USER_OPTIONS,
    *_TLS_OPTIONS,
)
"""For verbs that attach to brokers; the command gets ``security``, a `SecurityChoice`."""
