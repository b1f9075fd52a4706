"""Who may do what: names that certificates certify, users, and the rules that hold for them.

Rights are only ever given: what no rule allows is refused. A right to publish or subscribe is a
set of filters. An advertisement or a subscription must be covered by one of them, so whatever
matches it is allowed, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from pubweave.model.filters.filter import Filter
from pubweave.model.messages.session import Role

ANONYMOUS = "anonymous"
"""The user of a connection that proved no name; its rules say what it may do."""
EVERYBODY = "*"
"""Rules under this name hold for every user besides their own."""
URI_PREFIX = "urn:pubweave:"
_USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@-]{0,63}")
_URI_WORDS = {"broker": Role.BROKER, "user": Role.CLIENT}


@dataclass(frozen=True)
class Certified:
    """What a certificate of ours says of its owner: a broker by its id, or a user by name.

    >>> Certified(Role.BROKER, "b 1").uri
    'urn:pubweave:broker:b%201'
    """

    role: Role
    name: str

    @property
    def uri(self) -> str:
        """How a certificate names its owner (a subject alternative name of type URI)."""
        word = next(word for word, role in _URI_WORDS.items() if role is self.role)
        return f"{URI_PREFIX}{word}:{quote(self.name, safe='')}"

    @classmethod
    def parse(cls, uri: str) -> Certified | None:
        """The owner that a URI names; None if it is none of ours.

        >>> Certified.parse("urn:pubweave:user:alice").name
        'alice'
        """
        if not uri.startswith(URI_PREFIX):
            return None
        word, separator, name = uri.removeprefix(URI_PREFIX).partition(":")
        role = _URI_WORDS.get(word)
        return cls(role, unquote(name)) if role is not None and separator and name else None

    def __str__(self) -> str:
        return f"{'broker' if self.role is Role.BROKER else 'user'} {self.name!r}"


def validate_user_name(name: str) -> str:
    """ValueError for a name that cannot be a user's."""
    if not _USER_NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a user: up to 64 letters, digits, '_', '.', '@' and '-', "
            "a letter or digit first"
        )
    return name


def owns_client(user: str, client: str) -> bool:
    """Whether a client's id is one that a user may take: its name, or what begins with name/.

    So no user can take another's session, and the name of a publisher can be believed.

    >>> owns_client("al", "al/7"), owns_client("al", "alice")
    (True, False)
    """
    return client == user or client.startswith(f"{user}/")


@dataclass(frozen=True)
class UserRules:
    """What one user may do. ``operate``: ask brokers about themselves, move clients, observe."""

    publish: tuple[Filter, ...] = ()
    subscribe: tuple[Filter, ...] = ()
    operate: bool = False

    def plus(self, other: UserRules) -> UserRules:
        """What somebody may do to whom both apply."""
        return UserRules(
            self.publish + other.publish,
            self.subscribe + other.subscribe,
            self.operate or other.operate,
        )


@dataclass(frozen=True)
class AccessRules:
    """The rules of an overlay, the same at every broker.

    ``anonymous``: connections that prove no name may attach, under the rules of `ANONYMOUS`."""

    users: Mapping[str, UserRules] = field(default_factory=dict)
    anonymous: bool = False

    def of(self, user: str) -> UserRules | None:
        """What a user may do; None for a user that no rule names."""
        named = self.users.get(user)
        if named is None:
            return None
        everybody = self.users.get(EVERYBODY)
        return named if everybody is None or user == ANONYMOUS else named.plus(everybody)
