"""Settings as text: TOML for people, JSON between processes, JSON Schema for editors."""

from __future__ import annotations

import ast
import difflib
import enum
import functools
import inspect
import json
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.tree import Settings

T = TypeVar("T")
Keys = tuple[str, ...]
"""A place in the tree; `dotted` writes it as people do."""
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class SettingsError(ValueError):
    """Settings that cannot be; the message has a line for each thing that is wrong."""


def dotted(keys: Keys) -> str:
    """A place in the tree as TOML writes it.

    >>> dotted(("broker", "neighbors", "b.2"))
    'broker.neighbors."b.2"'
    """
    return ".".join(key if _BARE.fullmatch(key) else json.dumps(key) for key in keys)


# --- what the tree consists of -----------------------------------------------------------------


@functools.cache
def kinds_in(table: type) -> dict[str, Any]:
    """The type of each field of a table, its own before those that it inherits."""
    hints = get_type_hints(table, include_extras=True)
    own = table.__annotations__
    names = sorted((field.name for field in fields(table)), key=lambda name: name not in own)
    return {name: hints[name] for name in names}


def item_kind(kind: Any) -> Any:
    """What a mapping maps to; None: it is no mapping."""
    return get_args(kind)[1] if get_origin(kind) in (dict, Mapping) else None


def is_table(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


def bare_kinds(kind: Any) -> tuple[Any, ...]:
    """The alternatives of a union, without their bounds."""
    if get_origin(kind) in (types.UnionType, typing.Union):
        return tuple(bare for part in get_args(kind) for bare in bare_kinds(part))
    return (get_args(kind)[0] if hasattr(kind, "__metadata__") else kind,)


def bounds_of(kind: Any) -> tuple[msgspec.Meta, ...]:
    """What is said of a type, or of an alternative of a union, besides what it is."""
    own = getattr(kind, "__metadata__", ())
    parts = get_args(kind) if get_origin(kind) in (types.UnionType, typing.Union) else ()
    return (*own, *(bound for part in parts for bound in bounds_of(part)))


def choices_of(kind: Any) -> tuple[str, ...]:
    """The words that a value has to be one of; none if it can be anything."""
    for bare in bare_kinds(kind):
        if isinstance(bare, type) and issubclass(bare, enum.Enum):
            return tuple(str(member.value) for member in bare)
        if get_origin(bare) is typing.Literal:
            return get_args(bare)
    return ()


def leaves(table: type = Settings, keys: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Every key that can be set, with its type; the tables of single brokers are left out."""
    for name, kind in kinds_in(table).items():
        here = (*keys, name)
        if is_table(kind):
            yield from leaves(kind, here)
        elif here != ("brokers",):
            yield here, kind


@functools.cache
def descriptions(table: type) -> dict[str, str]:
    """What the strings below the fields of a table say."""
    found: dict[str, str] = {}
    for base in reversed(table.__mro__[:-1]):
        [body] = ast.parse(inspect.getsource(base)).body
        assert isinstance(body, ast.ClassDef)
        for before, after in zip(body.body, body.body[1:], strict=False):
            if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                match after:
                    case ast.Expr(ast.Constant(str(text))):
                        found[before.target.id] = " ".join(text.split())
    return found


def kind_at(keys: Keys) -> Any:
    """The type at a place of the tree; SettingsError says what there is instead."""
    kind: Any = Settings
    for depth, key in enumerate(keys):
        if is_table(kind):
            known = kinds_in(kind)
            if key not in known:
                raise SettingsError(_unknown(keys[: depth + 1], list(known)))
            kind = known[key]
        else:
            item = item_kind(kind)
            if item is None:
                raise SettingsError(f"{dotted(keys[:depth])} is a value, not a table")
            kind = item
    return kind


def _unknown(keys: Keys, known: list[str]) -> str:
    near = difflib.get_close_matches(keys[-1], known, n=1)
    if near:
        return f"unknown key {dotted(keys)}: did you mean {dotted((*keys[:-1], near[0]))}?"
    where = f"[{dotted(keys[:-1])}] has" if keys[:-1] else "there are the tables"
    return f"unknown key {dotted(keys)}: {where} {', '.join(sorted(known))}"


# --- TOML --------------------------------------------------------------------------------------


def flat(settings: Settings) -> dict[Keys, Any]:
    """Every value of the tree; None is not said. Of single brokers, what differs from all."""
    found = dict(_flat(settings, ()))
    for broker, table in settings.brokers.items():
        for keys, value in _flat(table, ()):
            if found.get(("broker", *keys)) != value:
                found["brokers", broker, *keys] = value
    return found


def changes(settings: Settings) -> dict[str, Any]:
    """What differs from the defaults, by its path, in the words of a file."""
    usual = flat(Settings())
    return {
        dotted(keys): plain(value)
        for keys, value in flat(settings).items()
        if usual.get(keys) != value
    }


def plain(value: Any) -> Any:
    """A value as a file has it: a number, a string, true or false, or a list of these."""
    return tomllib.loads(f"value = {toml_value(value)}")["value"]


def _flat(table: Any, keys: Keys) -> Iterator[tuple[Keys, Any]]:
    kind: type = type(table)
    for name in kinds_in(kind):
        value, here = getattr(table, name), (*keys, name)
        if here == ("brokers",) or value is None:
            continue
        if is_dataclass(value):
            yield from _flat(value, here)
        elif isinstance(value, Mapping):
            yield from (((*here, key), item) for key, item in value.items())
        else:
            yield here, value


def to_toml(values: Mapping[Keys, Any], notes: Mapping[Keys, str] | None = None) -> str:
    """Values as a TOML document, each with its note as a comment."""
    tables: dict[Keys, list[str]] = {}
    for keys, value in values.items():
        note = "" if notes is None else f"  # {notes[keys]}"
        line = f"{dotted(keys[-1:])} = {toml_value(value)}{note}"
        tables.setdefault(keys[:-1], []).append(line)
    order = list(kinds_in(Settings))
    in_order = sorted(tables.items(), key=lambda table: (order.index(table[0][0]), table[0]))
    return "\n".join("\n".join([f"[{dotted(keys)}]", *lines, ""]) for keys, lines in in_order)


def toml_value(value: Any) -> str:
    """One value as TOML writes it.

    >>> toml_value((1.5, True, Address("b", 7)))
    '[1.5, true, "b:7"]'
    """
    if isinstance(value, bool | int | float):
        return str(value).lower()
    if isinstance(value, enum.Enum):
        return toml_value(value.value)
    if isinstance(value, list | tuple) and not isinstance(value, Address):
        return f"[{', '.join(map(toml_value, value))}]"
    # A basic string of TOML has the escapes of JSON, and wants one more.
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")


# --- between processes -------------------------------------------------------------------------


def hooked(kind: type, value: Any) -> Any:
    """For msgspec: what it does not know by itself."""
    if kind is Path and isinstance(value, str):
        return Path(value)
    raise TypeError(f"{kind} in settings")


def encode(message: Any) -> bytes:
    """Settings, or a message with them, as one line of JSON."""
    return msgspec.json.encode(message, enc_hook=str)


def decode(data: bytes, kind: type[T]) -> T:
    """What `encode` wrote."""
    return msgspec.json.decode(data, type=kind, dec_hook=hooked)


def schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file, for editors that know one."""
    document = msgspec.json.schema(Settings, schema_hook=lambda kind: {"type": "string"})
    tables = {kind.__name__: kind for kind in _tables(Settings)}
    for name, definition in document["$defs"].items():
        if name in tables:
            definition["additionalProperties"] = False
            for key, text in descriptions(tables[name]).items():
                definition["properties"][key]["description"] = text
    document["$defs"]["Address"] = {"type": "string", "description": "host:port"}
    return document


def _tables(table: type) -> Iterator[type]:
    yield table
    for kind in kinds_in(table).values():
        if is_table(kind):
            yield from _tables(kind)
