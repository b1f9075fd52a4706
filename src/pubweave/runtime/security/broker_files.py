"""Which files make a broker secure: a value that travels to the broker's process.

Only names of files; the broker itself reads what is in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import msgspec

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.entry_limits import EntryLimits
from pubweave.model.files.access import AccessFileError, read_access_file
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.tls import TlsFiles


class BrokerSecurity(msgspec.Struct, frozen=True):
    """A broker's certificate, and where passwords and rules are, if there are any."""

    tls: TlsFiles
    passwords: str | None = None
    access: str | None = None


def secured(config: BrokerConfig, security: BrokerSecurity | None) -> BrokerConfig:
    """The settings of a broker with these files; OverlayError if one of them cannot be used."""
    if security is None:
        return config
    config = replace(config, certified=True)
    if security.access is None:
        return config
    try:
        rules, limits = read_access_file(Path(security.access))
    except AccessFileError as error:
        raise OverlayError(str(error)) from error
    return replace(
        config, access=rules, entry=limits_with(config.entry, limits, f"{security.access}: limits")
    )


def read_revoked(files: TlsFiles) -> frozenset[int]:
    """The numbers of revoked certificates; TlsError if the list cannot be read."""
    if files.crl is None:
        return frozenset()
    # Imported late: brokers start without this package.
    from pubweave.runtime.security.certificates import revoked_serials

    return revoked_serials(Path(files.crl))


def limits_with(
    limits: EntryLimits, changes: Mapping[str, int | float], subject: str
) -> EntryLimits:
    """Limits with some of them changed; OverlayError names what cannot be.

    >>> limits_with(EntryLimits(), {"connections": 5}, "limits").connections
    5
    """
    known = {field.name: field.type for field in fields(EntryLimits)}
    for name, value in changes.items():
        if name not in known:
            raise OverlayError(f"{subject}: unknown limit {name!r}: there are {', '.join(known)}")
        if known[name] == "int" and not isinstance(value, int):
            raise OverlayError(f"{subject}: {name} must be a whole number, got {value}")
    try:
        return replace(limits, **changes)  # type: ignore[arg-type]
    except ValueError as error:
        raise OverlayError(f"{subject}: {error}") from error
