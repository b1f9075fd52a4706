"""What ``pubweave up`` and ``pubweave broker`` say before anything is started."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from pubweave.cli import main
from pubweave.cli.run.broker import broker
from pubweave.cli.run.up import topology_for, up
from pubweave.core.strategies import STRATEGIES
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology


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
    assert list(option.type.choices) == sorted(STRATEGIES)


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
        "Error: nothere.json: No such file or directory; "
        "make one with 'pubweave topology generate'\n"
    )
    (folder / "broken.json").write_text("{")
    assert main.run(["up", "broken.json"]) == 2
    assert "generate" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "give a TOPOLOGY file, or --subscriptions FILE with --strategy topic_connected"),
        (["--subscriptions", "s.csv"], "--subscriptions needs --strategy topic_connected"),
        (
            ["t.json", "--subscriptions", "s.csv", "--strategy", "topic_connected"],
            "give either TOPOLOGY or --subscriptions, not both",
        ),
        (
            ["--subscriptions", "no.csv", "--strategy", "topic_connected"],
            "Error: no.csv: there is no such file",
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


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--placement", "4"], "--placement is for --strategy rendezvous"),
        (
            ["--strategy", "rendezvous", "--placement-rest", "4"],
            "--placement-rest needs --placement",
        ),
    ],
)
def test_users_are_placed_on_rings_only(
    options: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "tree.json"
    assert main.run(["topology", "generate", "chain", "-n", "2", "-o", str(file)]) == 0
    assert main.run(["up", str(file), *options]) == 2
    assert said in capsys.readouterr().err
