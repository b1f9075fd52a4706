"""pubweave: a self-optimizing publish/subscribe overlay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pubweave.model.filters.filter import Filter as Filter
    from pubweave.model.publications import Publication as Publication
    from pubweave.runtime.client.client import Client as Client
    from pubweave.runtime.client.client import ClientError as ClientError
    from pubweave.runtime.client.connect import connect as connect
    from pubweave.runtime.client.subscription import Subscription as Subscription
    from pubweave.runtime.net.tls import TlsFiles as TlsFiles
    from pubweave.runtime.security.credentials import Credentials as Credentials

__all__ = [
    "Client",
    "ClientError",
    "Credentials",
    "Filter",
    "Publication",
    "Subscription",
    "TlsFiles",
    "connect",
]

_HOMES = {
    "Client": "pubweave.runtime.client.client",
    "ClientError": "pubweave.runtime.client.client",
    "connect": "pubweave.runtime.client.connect",
    "Credentials": "pubweave.runtime.security.credentials",
    "TlsFiles": "pubweave.runtime.net.tls",
    "Filter": "pubweave.model.filters.filter",
    "Publication": "pubweave.model.publications",
    "Subscription": "pubweave.runtime.client.subscription",
}


def __getattr__(name: str) -> Any:
    """The public API, loaded on first use, so that `pubweave --help` does not wait for it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pubweave' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
