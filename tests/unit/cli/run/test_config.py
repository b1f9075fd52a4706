"""``pubweave config``, the flags of the verbs that read settings, and the page of all settings."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import click
import msgspec
import pytest

from pubweave.cli import main
from pubweave.cli.options.settings import Flag
from pubweave.cli.run import broker, up
from pubweave.runtime.settings.reference import page
from pubweave.runtime.settings.text import kind_at, leaves, schema
from pubweave.runtime.settings.tree import Settings
from tests.settings_values import DEFAULTS

ROOT = Path(__file__).parents[4]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "overlay.toml"
    path.write_text("[broker]\ntick_s = 0.5\n[relocation]\nmode = 'grape'\n")
    return path


def test_show_says_what_holds_and_where_it_comes_from(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBWEAVE_OVERLAY__PORT", "7100")
    assert main.run(["config", "show", str(file), "--set", "broker.id=b1"]) == 0
    shown = capsys.readouterr().out
    assert f"tick_s = 0.5  # {file}" in shown
    assert "port = 7100  # PUBWEAVE_OVERLAY__PORT" in shown
    assert 'id = "b1"  # --set broker.id' in shown
    assert "ack_delay_s = 0.01  # default" in shown
    again = tomllib.loads(shown)
    assert again["relocation"]["mode"] == "grape"
    assert main.run(["config", "show", str(file), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {"setting": "relocation.mode", "value": "grape", "from": str(file)} in lines
    assert len(lines) == len(DEFAULTS)


def test_check_tells_everything_and_fails_with_2(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["config", "check", str(file)]) == 0
    assert capsys.readouterr().err == f"{file}: 2 settings, all right\n"
    file.write_text("[broker]\ntik_s = 1\ntick_s = -1\n[placement]\nsize = 4\n")
    assert main.run(["config", "check", str(file)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        f"Error: {file}: unknown key broker.tik_s: did you mean broker.tick_s?",
        f"{file}: broker.tick_s: expected a number > 0.0, got -1",
    ]
    file.write_text("[placement]\nsize = 4\n")
    assert main.run(["config", "check", str(file)]) == 2
    assert "placement.size needs broker.strategy = 'rendezvous'" in capsys.readouterr().err


def test_the_schema_knows_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["config", "schema"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document == msgspec.json.decode(msgspec.json.encode(schema()))
    tables = document["$defs"]
    for keys, _ in leaves():
        table = tables["Settings"]
        for key in keys[:-1]:
            table = tables[table["properties"][key]["$ref"].rpartition("/")[2]]
        assert keys[-1] in table["properties"], keys
        assert table["additionalProperties"] is False
    assert tables["BrokerTable"]["properties"]["tick_s"]["exclusiveMinimum"] == 0


def test_the_page_of_all_settings_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    """If it is not: pubweave config reference > docs/reference/configuration.md"""
    assert main.run(["config", "reference"]) == 0
    shown = capsys.readouterr().out
    assert shown == page() == (ROOT / "docs/reference/configuration.md").read_text()


def test_every_setting_says_what_it_means() -> None:
    rows = [line for line in page().splitlines() if line.startswith("| `")]
    assert len(rows) == len(list(leaves()))
    assert not [row for row in rows if row.endswith("|  |")]


@pytest.mark.parametrize("verb", [up, broker])
def test_every_option_of_a_verb_is_a_place_in_the_tree(verb: object) -> None:
    command = getattr(verb, verb.__name__.rpartition(".")[2])  # type: ignore[attr-defined]
    flags: tuple[Flag, ...] = verb._FLAGS  # type: ignore[attr-defined]
    assert isinstance(command, click.Command)
    assert {p.name for p in command.params} == {f.name for f in flags} | {"config", "sets"}
    for flag in flags:
        assert kind_at(flag.keys) is not None
    assert len(flags) <= 20


def test_a_flag_goes_before_set_and_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[Settings] = []
    monkeypatch.setattr(broker, "_check_complete", lambda table: seen.append(table))
    monkeypatch.setattr(broker, "run_async", lambda coroutine: coroutine.close() or 0)
    monkeypatch.setenv("PUBWEAVE_BROKER__STRATEGY", "topic_connected")
    monkeypatch.setenv("PUBWEAVE_BROKER__ID", "b0")
    sets = ["--set", "broker.id=b1", "--set", "broker.listen=1"]
    assert main.run(["broker", *sets, "--listen", "7001", "--neighbor", "b2=7002"]) == 0
    [table] = seen
    assert (table.id, table.strategy) == ("b1", "topic_connected")  # type: ignore[attr-defined]
    assert str(table.listen) == "127.0.0.1:7001"  # type: ignore[attr-defined]
    assert str(table.neighbors["b2"]) == "127.0.0.1:7002"  # type: ignore[attr-defined]
