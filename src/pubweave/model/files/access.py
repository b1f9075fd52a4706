"""The rules of an overlay as a TOML or JSON file, written by people.

anonymous = false

[users.alice] publish = ["class = 'STOCK'"] subscribe = ["class = 'STOCK' and volume > 1000", "class
prefix 'news/'"]

[users.operator] publish = ["*"] subscribe = ["*"] operate = true
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import FilterSyntaxError, parse_filter
from pubweave.model.records.access import (
    ANONYMOUS,
    EVERYBODY,
    AccessRules,
    UserRules,
    validate_user_name,
)


class AccessFileError(ValueError):
    """A file of rules that cannot be used; names the file, the user and the field."""


class _User(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    publish: list[str] = []
    subscribe: list[str] = []
    operate: bool = False


class _Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    users: dict[str, _User] = {}
    anonymous: bool = False
    limits: dict[str, int | float] = {}


def read_access_file(path: Path) -> tuple[AccessRules, Mapping[str, int | float]]:
    """The rules in a file, and the limits it sets; AccessFileError says what is wrong with it."""
    try:
        text = path.read_text()
    except OSError as error:
        raise AccessFileError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise AccessFileError(f"{path}: not a text file") from None
    try:
        return parse_access(text, is_json=path.suffix == ".json")
    except ValueError as error:
        raise AccessFileError(f"{path}: {error}") from None


def parse_access(
    text: str, *, is_json: bool = False
) -> tuple[AccessRules, Mapping[str, int | float]]:
    """The same for a text; ValueError says what is wrong.

    >>> rules, _ = parse_access("[users.al]\\npublish = ['*']")
    >>> sorted(rules.users), rules.anonymous
    (['al'], False)
    """
    raw = msgspec.json.decode(text) if is_json else tomllib.loads(text)
    document = msgspec.convert(raw, _Document)
    users = {name: _user(name, user) for name, user in document.users.items()}
    if document.anonymous and ANONYMOUS not in users:
        raise ValueError(f"anonymous = true needs [users.{ANONYMOUS}]: what may they do?")
    return AccessRules(users, document.anonymous), document.limits


def _user(name: str, written: _User) -> UserRules:
    if name != EVERYBODY:
        validate_user_name(name)
    publish = _filters(f"users.{name}.publish", written.publish)
    subscribe = _filters(f"users.{name}.subscribe", written.subscribe)
    return UserRules(publish, subscribe, written.operate)


def _filters(field: str, texts: list[str]) -> tuple[Filter, ...]:
    filters = []
    for text in texts:
        try:
            filters.append(parse_filter(text))
        except FilterSyntaxError as error:
            raise ValueError(f"{field}: {error}") from error
    return tuple(filters)
