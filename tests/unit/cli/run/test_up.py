"""What ``pubweave up`` and ``pubweave broker`` say before anything is started."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pubweave.cli import main
from pubweave.cli.errors import BadInput
from pubweave.cli.run.broker import broker
from pubweave.cli.run.up import spec_of, topology_for, up
from pubweave.core.strategies import strategy_names
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.spec import OverlaySpec
from pubweave.runtime.settings.sources import read_settings
from pubweave.runtime.settings.text import flat, to_toml
from tests.settings_values import changed


def told(folder: Path, capsys: pytest.CaptureFixture[str], *pairs: tuple[str, str]) -> str:
    """What ``up`` says of a topology that it refuses."""
    write_topology(Topology.from_links(pairs), folder / "t.json")
    assert main.run(["up", "t.json"]) == 2
    return capsys.readouterr().err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", [up, broker])
def test_every_registered_strategy_can_be_chosen(command: click.Command) -> None:
    option = next(parameter for parameter in command.params if parameter.name == "strategy")
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == strategy_names()


def test_a_cycle_is_named_with_its_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ring = [("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b1")]
    assert told(folder, capsys, *ring) == (
        "Error: t.json: not a tree: b4-b1 closes a cycle; remove one link of b1-b2-b3-b4\n"
    )


def test_parts_without_a_link_are_named_with_their_file(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(folder, capsys, ("b1", "b2"), ("b3", "b4"))
    assert said.startswith("Error: t.json: not a tree: 2 broker(s) cannot be reached from 'b1'")


def test_without_a_file_one_is_told_how_to_make_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["up", "nothere.json"]) == 2
    assert capsys.readouterr().err == (
        "Error: TOPOLOGY: overlay.topology = nothere.json: No such file or directory; "
        "make one with 'pubweave topology generate'\n"
    )
    (folder / "broken.json").write_text("{")
    assert main.run(["up", "broken.json"]) == 2
    assert "generate" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a TOPOLOGY file, or --subscriptions FILE with --strategy topic_connected"),
        (["--subscriptions", "s.csv"], "subscriptions needs broker.strategy = 'topic_connected'"),
        (
            ["t.json", "--subscriptions", "s.csv", "--strategy", "topic_connected"],
            "makes a topology itself: leave overlay.topology out",
        ),
        (
            ["--subscriptions", "no.csv", "--strategy", "topic_connected"],
            "overlay.subscriptions = no.csv: No such file or directory",
        ),
        (
            ["--subscriptions", "s.csv", "--strategy", "topic_connected"],
            "Error: s.csv: 501 clients; one broker is started for each, at most 500",
        ),
    ],
)
def test_subscriptions_that_cannot_be_started_are_told_why(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    rows = "".join(f"n{number},x\n" for number in range(501))
    (folder / "s.csv").write_text("client,topic\n" + rows)
    assert main.run(["up", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_overlay_made_of_subscriptions_is_connected_by_topic_and_as_a_whole(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ["n1,gold", "n2,gold", "n2,tin", "n3,tin", "n4,lead"]
    (folder / "s.csv").write_text("\n".join(["client,topic", *rows, ""]))
    made = topology_for(folder / "s.csv")
    assert made.is_connected
    assert len(made.brokers) == 4
    assert {Link("n1", "n2"), Link("n2", "n3")} <= made.links
    assert "4 brokers, 3 topics, 3 links" in capsys.readouterr().err


PAIR = Topology.from_links([("b1", "b2"), ("b2", "b3")])


def spec_for(folder: Path, *sets: str) -> OverlaySpec:
    write_topology(PAIR, folder / "my tree.json")
    sets = (f"overlay.topology={folder / 'my tree.json'}", *sets)
    return spec_of(read_settings(None, {}, sets).settings)


def test_users_are_placed_on_rings_only(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_topology(PAIR, folder / "t.json")
    assert main.run(["up", "t.json", "--set", "placement.size=4"]) == 2
    assert "placement.size needs broker.strategy = 'rendezvous'" in capsys.readouterr().err


def test_journals_and_records_are_in_the_run_directory_unless_said_otherwise(folder: Path) -> None:
    spec = spec_for(folder, "broker.durability=journal", "overlay.run_directory=r")
    assert spec.name == "my-tree"
    table = spec.settings_of("b2").broker
    assert table.journal_directory == Path("r/journal/b2")
    assert table.telemetry_directory == Path("r/telemetry")
    elsewhere = ("broker.journal.directory=j", "broker.telemetry.directory=t")
    table = spec_for(folder, "broker.durability=journal", *elsewhere).settings_of("b2").broker
    assert (table.journal_directory, table.telemetry_directory) == (Path("j/b2"), Path("t"))
    none = spec_for(folder, "broker.telemetry.enabled=false").settings_of("b2").broker
    assert (none.journal_directory, none.telemetry_directory) == (None, None)


def test_every_setting_reaches_each_brokers_process(folder: Path) -> None:
    own = {"id", "listen", "advertise", "neighbors", "strategy", "mqtt", "journal", "security"}
    own |= {"rendezvous", "topics", "distances_ms", "telemetry"}
    wanted = {k: v for k, v in changed().items() if k[0] in ("broker", "relocation")}
    wanted = {k: v for k, v in wanted.items() if k[0] != "broker" or k[1] not in own}
    (folder / "all.toml").write_text(to_toml(wanted))
    write_topology(PAIR, folder / "t.json")
    settings = read_settings(folder / "all.toml", {}, ["overlay.topology=t.json"]).settings
    given = flat(spec_of(settings).settings_of("b2"))
    assert {keys: given[keys] for keys in wanted} == wanted


def test_a_price_table_gives_each_broker_its_row(folder: Path) -> None:
    table = Topology(
        PAIR.brokers,
        frozenset({Link("b1", "b2"), Link("b1", "b3"), Link("b2", "b3")}),
        {Link("b1", "b2"): 1.5, Link("b1", "b3"): 9.0},
    )
    write_topology(table, folder / "prices.json")
    spec = spec_for(folder, "self_organizing.prices=prices.json")
    rows = {b: dict(spec.settings_of(b).self_organizing.link_prices) for b in PAIR.brokers}
    assert rows == {"b1": {"b2": 1.5, "b3": 9.0}, "b2": {"b1": 1.5}, "b3": {"b1": 9.0}}


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (Topology.from_links([("b1", "b9")]), "the overlay has no broker 'b9'"),
        (Topology.from_links([("b1", "b2")]), "no link has a latency_ms"),
    ],
)
def test_a_price_table_that_cannot_be_is_refused(folder: Path, table: Topology, told: str) -> None:
    write_topology(table, folder / "prices.json")
    with pytest.raises(BadInput, match=told):
        spec_for(folder, "self_organizing.prices=prices.json")


def test_without_a_store_the_mode_is_refused(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_topology(PAIR, folder / "t.json")
    options = ["--port", "0", "--no-zookeeper", "--no-telemetry", "--self-organize", "ci"]
    assert main.run(["up", "t.json", *options]) == 2
    assert "a self-organizing overlay needs a store" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("key", "value"),
    [("id", "b1"), ("listen", "7001"), ("advertise", "7001"), ("rendezvous.position", "5")],
)
def test_what_is_about_one_broker_is_no_setting_of_all(folder: Path, key: str, value: str) -> None:
    with pytest.raises(OverlayError, match=f"write brokers.ID.{key}"):
        spec_for(folder, f"broker.{key}={value}")
