"""Which ZooKeeper to use, and as whom: a value that travels to other processes.

Apart from the store that uses it, so that the command line can read options without kazoo.
"""

from __future__ import annotations

import msgspec

from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError

DEFAULT_PORT = 2181
DEFAULT_SESSION_TIMEOUT_S = 8.0
"""How long a broker may be silent before the store takes it for gone."""


class ZooKeeperTarget(msgspec.Struct, frozen=True):
    """An ensemble: ``host:port,...``, the path below which we keep everything, and a login.

    ``root`` is empty or begins with a slash; ``auth`` is ``user:password`` and is never shown."""

    hosts: str
    root: str = ""
    auth: str | None = None
    session_timeout_s: float = DEFAULT_SESSION_TIMEOUT_S

    def __str__(self) -> str:
        return self.hosts + self.root

    def __repr__(self) -> str:
        return f"ZooKeeperTarget({self!s})"


class Coordination(msgspec.Struct, frozen=True):
    """Where a broker's agent finds what concerns its overlay."""

    overlay: str
    target: ZooKeeperTarget
    security: str | None = None
    """The directory that secures the overlay, for whoever wants to ask its brokers."""


def parse_target(text: str, auth: str | None = None) -> ZooKeeperTarget:
    """Read ``host:port,host:port/root``; OverlayError says what is wrong with it.

    >>> parse_target("10.0.0.1,10.0.0.2:2182/teams/a")
    ZooKeeperTarget(10.0.0.1:2181,10.0.0.2:2182/teams/a)
    """
    listed, slash, root = text.strip().partition("/")
    hosts = []
    for part in listed.split(","):
        written = part.strip()
        if not written:
            raise OverlayError(
                f"{text!r} names no ZooKeeper servers: write host:port, several with commas"
            )
        try:
            has_port = ":" in written.rpartition("]")[2]
            hosts.append(str(Address.parse(written if has_port else f"{written}:{DEFAULT_PORT}")))
        except ValueError as error:
            raise OverlayError(f"ZooKeeper: {error}") from error
    names = [name for name in root.split("/") if name] if slash else []
    if any(name in (".", "..") for name in names):
        raise OverlayError(f"{text!r}: a root path cannot have {'/'.join(names)!r}")
    if auth is not None and (":" not in auth or auth.startswith(":")):
        raise OverlayError("ZooKeeper's login must be user:password")
    return ZooKeeperTarget(",".join(hosts), "".join(f"/{name}" for name in names), auth)
