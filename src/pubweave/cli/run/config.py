"""``pubweave config``: check, show and explain the settings of brokers and overlays."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from pubweave.cli.kinds import FILE
from pubweave.cli.options.settings import set_option
from pubweave.cli.output import json_option, print_json, remark
from pubweave.runtime.settings.check import check as check_settings
from pubweave.runtime.settings.reference import page
from pubweave.runtime.settings.sources import decode, from_file, read_settings
from pubweave.runtime.settings.text import dotted, flat, plain, schema, to_toml


@click.group()
def config() -> None:
    """Check, show and explain the settings of brokers, overlays and the autopilot.

    Settings are one tree, written in TOML. What is said later goes before: defaults, the file of
    --config, variables like PUBWEAVE_BROKER__TICK_S, --set, and the flags of a verb.

    \b
    Example:
      pubweave config show > broker.toml
      pubweave config check broker.toml
    """


@config.command()
@click.argument("file", type=FILE)
def check(file: Path) -> None:
    """Say everything that is wrong with a FILE, with its place; exit code 2 if anything is.

    \b
    Example:
      pubweave config check overlay.toml
    """
    effective = decode(from_file(file))
    check_settings(effective)
    remark(f"{file}: {len(effective.origins)} settings, all right")


@config.command()
@click.argument("file", type=FILE, required=False)
@set_option
@json_option
def show(file: Path | None, sets: tuple[str, ...], as_json: bool) -> None:
    """Print all settings as they hold, as TOML; each comment says where the value comes from.

    \b
    Example:
      pubweave config show
      pubweave config show overlay.toml --set broker.tick_s=0.5
    """
    effective = read_settings(file, os.environ, sets)
    values = flat(effective.settings)
    if as_json:
        for keys, value in values.items():
            setting: dict[str, Any] = {"setting": dotted(keys), "value": plain(value)}
            print_json({**setting, "from": effective.note(keys)})
    else:
        click.echo(to_toml(values, {keys: effective.note(keys) for keys in values}), nl=False)


@config.command("schema")
def print_schema() -> None:
    """Print the JSON Schema of a configuration file, for editors that check while one types.

    \b
    Example:
      pubweave config schema > pubweave.schema.json
    """
    print_json(schema())


@config.command()
def reference() -> None:
    """Print the page of all settings: docs/reference/configuration.md.

    \b
    Example:
      pubweave config reference | less
    """
    click.echo(page(), nl=False)
