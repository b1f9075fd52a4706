"""Every setting can be said in a file, in the environment and with ``--set``, and arrives."""

from __future__ import annotations

import functools
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pubweave.core.config.broker import BrokerBehavior, BrokerConfig
from pubweave.runtime.settings.sources import read_settings
from pubweave.runtime.settings.text import (
    Keys,
    choices_of,
    decode,
    dotted,
    encode,
    flat,
    item_kind,
    kinds_in,
    leaves,
    plain,
    to_toml,
    toml_value,
)
from pubweave.runtime.settings.tree import Settings
from tests.settings_values import DEFAULTS, changed, with_companions

LEAVES = list(changed())


def at(settings: Settings, keys: Keys) -> Any:
    return flat(settings).get(keys)


def test_the_walk_meets_every_setting_once_with_another_value() -> None:
    assert len(LEAVES) == len(set(LEAVES)) == len(list(leaves())) > 180
    assert not [keys for keys, value in changed().items() if DEFAULTS.get(keys) == value]


@pytest.mark.parametrize("keys", LEAVES, ids=dotted)
def test_a_setting_comes_back_from_a_file(keys: Keys, tmp_path: Path) -> None:
    file, values = tmp_path / "broker.toml", with_companions(keys)
    file.write_text(to_toml(values))
    first = read_settings(file, {}).settings
    assert at(first, keys) == values[keys]
    file.write_text(to_toml(flat(first)))
    assert read_settings(file, {}).settings == first


@pytest.mark.parametrize("keys", LEAVES, ids=dotted)
def test_a_setting_comes_from_the_environment_and_from_set(keys: Keys) -> None:
    values = with_companions(keys)
    variables, sets = {}, []
    for each, value in values.items():
        written = toml_value(value) if isinstance(plain(value), list) else str(plain(value)).strip()
        written = written.lower() if isinstance(value, bool) else written
        parts = [*map(str.upper, each[:-1]), each[-1] if each[-1] == "b.9" else each[-1].upper()]
        variables["PUBWEAVE_" + "__".join(parts)] = written
        sets.append(f"{dotted(each)}={written}")
    assert at(read_settings(None, variables).settings, keys) == values[keys]
    assert at(read_settings(None, {}, sets).settings, keys) == values[keys]


def everything(tmp_path: Path) -> Settings:
    values = changed()
    values.pop(("broker", "security", "directory"))
    (tmp_path / "all.toml").write_text(to_toml(values))
    settings = read_settings(tmp_path / "all.toml", {}).settings
    assert {keys: at(settings, keys) for keys in values} == values
    return settings


def test_all_settings_together_travel_to_another_process(tmp_path: Path) -> None:
    settings = everything(tmp_path)
    assert b"\n" not in encode(settings)
    assert decode(encode(settings), Settings) == settings


def test_what_the_core_is_told_has_every_setting_of_its_own(tmp_path: Path) -> None:
    settings = everything(tmp_path)
    told = settings.core_config()
    assert type(told) is BrokerConfig
    for field in fields(BrokerBehavior):
        assert getattr(told, field.name) == getattr(settings.broker, field.name), field.name
    tables = {
        "mqtt": settings.broker.mqtt,
        "organize": settings.self_organizing,
        "placement": settings.placement,
        "relocation": settings.relocation,
    }
    for name, table in tables.items():
        part = getattr(told, name)
        assert [getattr(part, f.name) for f in fields(part)] == [
            getattr(table, f.name) for f in fields(part)
        ], name
    assert (told.id, told.strategy) == ("word", "rendezvous")


def test_one_broker_of_an_overlay_can_differ_in_every_key(tmp_path: Path) -> None:
    own = {("brokers", "b3", *k[1:]): v for k, v in changed().items() if k[0] == "broker"}
    own.pop(("brokers", "b3", "security", "directory"))
    file = tmp_path / "overlay.toml"
    file.write_text("[broker]\ntick_s = 9\nping_every_s = 8\n" + to_toml(own))
    settings = read_settings(file, {}).settings
    assert settings.broker.tick_s == 9
    assert settings.of("b1") is settings.broker
    kept = flat(settings)
    assert {keys: kept[keys] for keys in own} == own
    file.write_text(to_toml(kept))
    assert read_settings(file, {}).settings == settings


@functools.cache
def _kind(keys: Keys) -> Any:
    kind: Any = Settings
    for key in keys:
        kind = item_kind(kind) or kinds_in(kind)[key]
    return kind


def test_a_word_of_several_is_written_as_it_is_read() -> None:
    chosen = [keys for keys in LEAVES if choices_of(_kind(keys))]
    assert ("relocation", "mode") in chosen
    assert ("broker", "durability") in chosen
    for keys in chosen:
        for choice in choices_of(_kind(keys)):
            found = read_settings(None, {}, [f"{dotted(keys)}={choice}"]).settings
            assert plain(at(found, keys)) == choice
