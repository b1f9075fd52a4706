"""Where settings come from: a file, the environment, ``--set``, flags; later ones go before.

A setting is named by its place in the tree: ``mqtt.queue_messages`` of the table ``[broker]`` is
``--set broker.mqtt.queue_messages=1000`` and ``PUBWEAVE_BROKER__MQTT__QUEUE_MESSAGES=1000``. Each
value keeps its origin, and all that is wrong is told at once.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, get_args

import msgspec

from pubweave.model.ids import BrokerId
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.text import (
    Keys,
    SettingsError,
    bare_kinds,
    choices_of,
    dotted,
    hooked,
    is_table,
    item_kind,
    kind_at,
    kinds_in,
)
from pubweave.runtime.settings.tree import BrokerTable, Settings

PREFIX = "PUBWEAVE_"
SEPARATOR = "__"
SHORT_NAMES: Mapping[str, Keys] = {
    "PUBWEAVE_RUN": ("overlay", "run_directory"),
    "PUBWEAVE_SECURITY": ("broker", "security", "directory"),
    "PUBWEAVE_ZOOKEEPER": ("store", "zookeeper"),
}
"""Variables that other verbs know as well."""


@dataclass(frozen=True)
class Given:
    """A value, and who gave it."""

    value: Any
    origin: str
    is_text: bool = False
    """It is text of a type that is still to be found, as options and the environment have it."""


Givens = dict[Keys, Given]


@dataclass(frozen=True)
class Effective:
    """Settings as they hold, and where those come from that are not defaults."""

    settings: Settings
    origins: Mapping[Keys, str]

    def note(self, keys: Keys) -> str:
        return self.origins.get(keys, "default")

    def with_settings(self, settings: Settings) -> Effective:
        return replace(self, settings=settings)


def read_settings(
    file: Path | None,
    environment: Mapping[str, str],
    sets: Iterable[str] = (),
    flags: Givens | None = None,
) -> Effective:
    """The settings from all sources; SettingsError names everything that is wrong with them."""
    givens = {} if file is None else from_file(file)
    givens |= from_environment(environment)
    givens |= from_sets(sets)
    return decode(givens | (flags or {}))


def from_file(path: Path) -> Givens:
    """What a TOML file says."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    return {keys: Given(value, str(path)) for keys, value in _flattened(document, ())}


def from_environment(environment: Mapping[str, str]) -> Givens:
    """The variables PUBWEAVE_TABLE__KEY; others that begin so, without ``__``, are no settings."""
    found = {
        keys: Given(environment[name], name, is_text=True)
        for name, keys in SHORT_NAMES.items()
        if name in environment
    }
    for name, text in sorted(environment.items()):
        if name.startswith(PREFIX) and SEPARATOR in name:
            keys = _in_lower_case(name.removeprefix(PREFIX).split(SEPARATOR))
            found[keys] = Given(text, name, is_text=True)
    return found


def from_sets(sets: Iterable[str]) -> Givens:
    """What ``--set path=value`` says."""
    found: Givens = {}
    for text in sets:
        path, equals, value = text.partition("=")
        try:
            # TOML's own rules for keys: those with dots are written in quotes.
            [(keys, _)] = _flattened(tomllib.loads(f"{path} = 0"), ())
        except ValueError:
            keys = ()
        if not equals or not keys:
            raise SettingsError(f"--set {text}: write path=value, as in broker.tick_s=0.5")
        found[keys] = Given(value, f"--set {path.strip()}", is_text=True)
    return found


def _flattened(document: Mapping[str, Any], keys: Keys) -> Iterator[tuple[Keys, Any]]:
    for name, value in document.items():
        here = (*keys, name)
        if isinstance(value, dict) and value:
            yield from _flattened(value, here)
        else:
            yield here, value


def _in_lower_case(parts: list[str]) -> Keys:
    """Names of the tree in lower case; ids, where the tree has any, as they are."""
    kind: Any = Settings
    keys = []
    for part in parts:
        is_name = item_kind(kind) is None
        keys.append(part.lower() if is_name else part)
        kind = kinds_in(kind).get(keys[-1]) if is_table(kind) else item_kind(kind)
    return tuple(keys)


# --- decoding ----------------------------------------------------------------------------------


@dataclass
class _Decoder:
    problems: dict[str, None] = field(default_factory=dict)
    """In the order in which they were found, each once."""
    origins: dict[Keys, str] = field(default_factory=dict)

    def take(self, givens: Givens) -> dict[str, Any]:
        """Values that fit their types, as nested tables."""
        tables: dict[str, Any] = {}
        for keys, given in givens.items():
            try:
                for place, value in self._converted(keys, given):
                    inner = tables
                    for key in place[:-1]:
                        inner = inner.setdefault(key, {})
                    inner[place[-1]] = value
                    self.origins[place] = given.origin
            except ValueError as error:
                self.problems[f"{given.origin}: {error}"] = None
        return tables

    def _converted(self, keys: Keys, given: Given) -> Iterator[tuple[Keys, Any]]:
        kind = kind_at(keys)
        item = item_kind(kind)
        if item is None and not is_table(kind):
            yield keys, _value(keys, given, kind)
            return
        value = _as_toml(given.value) if given.is_text else given.value
        if not isinstance(value, dict):
            raise ValueError(f"{dotted(keys)} is a table, not a value")
        for place, inner in _flattened(value, keys):
            yield place, _value(place, replace(given, value=inner, is_text=False), kind_at(place))

    def made(self, table: type, values: Mapping[str, Any], keys: Keys) -> Any:
        """A table with these values; what contradicts itself is told, and the defaults hold."""
        whole = {
            name: self.made(kind, values.get(name, {}), (*keys, name))
            if is_table(kind)
            else values[name]
            for name, kind in kinds_in(table).items()
            if is_table(kind) or name in values
        }
        try:
            return table(**whole)
        except ValueError as error:
            self._refuse(table, values, keys, str(error))
            return table()

    def _refuse(self, table: type, values: Mapping[str, Any], keys: Keys, text: str) -> None:
        named = next((name for name in values if name in text.split()), None)
        given = [self.origins[(*keys, name)] for name in values if (*keys, name) in self.origins]
        origin = given[0] if given else dotted(keys)
        if named is not None:
            origin = self.origins.get((*keys, named), origin)
        self.problems[f"{origin}: {dotted(keys)}: {text}"] = None


def decode(givens: Givens) -> Effective:
    """Settings with these values; SettingsError names everything that is wrong."""
    decoder = _Decoder()
    tables = decoder.take(givens)
    brokers: dict[BrokerId, dict[str, Any]] = tables.pop("brokers", {})
    settings: Settings = decoder.made(Settings, tables, ())
    for broker, table in brokers.items():
        own = decoder.made(
            BrokerTable, _merged(tables.get("broker", {}), table), ("brokers", broker)
        )
        settings = replace(settings, brokers={**settings.brokers, broker: own})
    if decoder.problems:
        raise SettingsError("\n".join(decoder.problems))
    return Effective(settings, decoder.origins)


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: _merged(base[key], value) if isinstance(base.get(key), dict) else value
        for key, value in over.items()
    }
    return {**base, **both}


def _value(keys: Keys, given: Given, kind: Any) -> Any:
    """A value of the type that its place has; ValueError in words."""
    values = [given.value]
    if given.is_text:
        values = [given.value, _as_toml(given.value)]
        if not any(bare in (str, Path, Address) for bare in bare_kinds(kind)):
            values.reverse()
    problem = ""
    for value in values:
        try:
            return _fitting(value, kind)
        except ValueError as error:
            problem = problem or _in_words(str(error), kind)
    got = repr(given.value)
    is_told = problem.startswith(got)
    raise ValueError(f"{dotted(keys)}: {problem}" + ("" if is_told else f", got {got}"))


def _fitting(value: Any, kind: Any) -> Any:
    if Address in bare_kinds(kind) and isinstance(value, str):
        return Address.parse(value)
    found = msgspec.convert(value, kind, dec_hook=hooked)
    if isinstance(found, float) and not math.isfinite(found):
        raise ValueError("expected a finite number")
    return found


def _as_toml(text: str) -> Any:
    """What a text would be in a file; itself if it would be nothing there."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _in_words(problem: str, kind: Any) -> str:
    """What msgspec says of a value, in the words of who wrote it."""
    if choices := choices_of(kind):
        return f"expected one of {', '.join(choices)}"
    problem = problem.partition(", got `")[0].partition(" - at ")[0]
    if any(get_args(bare) for bare in bare_kinds(kind)):
        problem = problem.replace("`array`", "a list")
    for theirs, ours in _WORDS.items():
        problem = problem.replace(theirs, ours)
    return problem


_WORDS = {
    "Expected ": "expected ",
    "`int | null`": "a whole number",
    "`int`": "a whole number",
    "`float | null`": "a number",
    "`float`": "a number",
    "`str | null`": "a string",
    "`str`": "a string",
    "`bool`": "true or false",
    "`array | null`": "host:port",
    "`array`": "host:port",
}
