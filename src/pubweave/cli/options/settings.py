"""Options of the verbs that read the tree of settings: ``--config``, ``--set``, and flags.

A flag is a short name for a place in the tree; it takes what the tree takes there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import FILE, packed
from pubweave.runtime.settings.check import check
from pubweave.runtime.settings.sources import Effective, Given, Givens, read_settings
from pubweave.runtime.settings.text import choices_of, flat, kind_at, toml_value
from pubweave.runtime.settings.tree import Settings

_DEFAULTS = flat(Settings())

config_option = click.option(
    "--config", type=FILE, help="A TOML file with settings; see 'pubweave config show'."
)
set_option = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="PATH=VALUE",
    help="Any setting, as in broker.tick_s=0.5; may be repeated. PUBWEAVE_BROKER__TICK_S=0.5 in "
    "the environment does the same.",
)


@dataclass(frozen=True)
class Flag:
    """An option for a place in the tree."""

    option: str
    path: str
    help: str
    metavar: str | None = None
    value: str | None = None
    """Of a flag without an argument: what it sets."""
    choices: Collection[str] = ()
    """Where the tree does not say what a value can be."""
    implies: tuple[str, str] | None = None
    """Another place that it sets, and to what."""
    is_keyed: bool = False
    """Its argument is ID=VALUE; may be repeated."""
    is_argument: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(self.path.split("."))

    @property
    def name(self) -> str:
        """Of the parameter that it is to click."""
        return self.option.split()[-1].strip("-").replace("-", "_").lower()

    def decorate(self, command: Callable[..., Any]) -> Callable[..., Any]:
        if self.is_argument:
            return click.argument(self.name, required=False, metavar=self.option)(command)
        choices = self.choices or choices_of(kind_at(self.keys))
        is_switch = self.value is not None
        default = _DEFAULTS.get(self.keys)
        about = (
            self.path if default in (None, "") or is_switch else f"{self.path}: {_plain(default)}"
        )
        kind = click.Choice(list(choices)) if choices and not is_switch else None
        return click.option(
            *self.option.split(),
            self.name,
            type=kind,
            is_flag=is_switch,
            flag_value=self.value,
            default=None,
            multiple=self.is_keyed,
            metavar=self.metavar,
            help=f"{self.help} [{about}]",
        )(command)

    def given(self, value: Any) -> Givens:
        """What the settings are given by an argument."""
        if self.is_keyed:
            return dict(self._of_key(text) for text in value)
        origin = self.option.split()[-1]
        found = {self.keys: Given(value, origin, is_text=True)}
        if self.implies is not None:
            path, implied = self.implies
            found[tuple(path.split("."))] = Given(implied, origin, is_text=True)
        return found

    def _of_key(self, text: str) -> tuple[tuple[str, ...], Given]:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise BadInput(f"{self.option} {text!r}: write id=host:port, as in b2=10.0.0.2:7001")
        return (*self.keys, key), Given(value, f"{self.option} {key}", is_text=True)


def _plain(value: Any) -> str:
    return toml_value(value).strip('"')


def settings_options(*flags: Flag) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """``--config``, ``--set`` and these flags; the command gets ``effective``, an `Effective`."""

    def read(config: Path | None, sets: tuple[str, ...], **values: Any) -> Effective:
        given: Givens = {}
        for flag in flags:
            value = values[flag.name]
            if value not in (None, ()):
                given |= flag.given(value)
        effective = read_settings(config, os.environ, sets, given)
        check(effective)
        return effective

    return packed("effective", read, *(f.decorate for f in flags), config_option, set_option)


# --- flags that several verbs have --------------------------------------------------------------

JSON = Flag("--json", "output.json", "Print JSON, one object per line.", value="true")
SECURITY = Flag(
    "--security",
    "broker.security.directory",
    "Certificates, users and rules, as 'pubweave security init' makes them; or PUBWEAVE_SECURITY.",
    metavar="DIR",
)
ZOOKEEPER = Flag(
    "--zookeeper",
    "store.zookeeper",
    "An existing ZooKeeper ensemble; /path at the end keeps everything below it; or "
    "PUBWEAVE_ZOOKEEPER.",
    metavar="HOST:PORT,...",
)
ZOOKEEPER_AUTH = Flag(
    "--zookeeper-auth-file",
    "store.auth_file",
    "A file with the login there, USER:PASSWORD (digest); without one PUBWEAVE_ZOOKEEPER_AUTH "
    "says it.",
    metavar="FILE",
)
MQTT = Flag(
    "--mqtt",
    "broker.mqtt.listen",
    "Let MQTT clients in, at this address; of several brokers, at this port and those behind.",
    metavar="HOST:PORT",
)
DURABILITY = Flag(
    "--durability",
    "broker.durability",
    "With 'journal' a killed broker comes back with all that it had acknowledged.",
)
