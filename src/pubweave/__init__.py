"""pubweave: a self-optimizing publish/subscribe overlay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pubweave.model.filters import Filter as Filter
    from pubweave.model.publications import Publication as Publication
    from pubweave.runtime.client import Client as Client
    from pubweave.runtime.client import ClientError as ClientError
    from pubweave.runtime.connect import connect as connect
    from pubweave.runtime.credentials import Credentials as Credentials
    from pubweave.runtime.subscription import Subscription as Subscription
    from pubweave.runtime.tls import TlsFiles as TlsFiles

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
    "Client": "pubweave.runtime.client",
    "ClientError": "pubweave.runtime.client",
    "connect": "pubweave.runtime.connect",
    "Credentials": "pubweave.runtime.credentials",
    "TlsFiles": "pubweave.runtime.tls",
    "Filter": "pubweave.model.filters",
    "Publication": "pubweave.model.publications",
    "Subscription": "pubweave.runtime.subscription",
}


def __getattr__(name: str) -> Any:
    """The public API, loaded on first use, so that `pubweave --help` does not wait for it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pubweave' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
