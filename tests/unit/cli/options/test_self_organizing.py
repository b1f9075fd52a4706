"""``pubweave up --self-organize``: what is asked for arrives, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from pubweave.cli import main
from pubweave.cli.errors import BadInput
from pubweave.cli.options.self_organizing import OrganizeChoice, organize_options
from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.runtime.overlay.spec import make_spec

TREE = Topology.from_links([("b1", "b2"), ("b2", "b3")])


def chosen(*arguments: str) -> OrganizeChoice | None:
    found: list[Any] = []

    @click.command()
    @organize_options
    def command(organize: OrganizeChoice | None) -> None:
        found.append(organize)

    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise click.UsageError(result.output)
    choice: OrganizeChoice | None = found[0]
    return choice


def test_an_overlay_does_not_organize_itself_unless_asked_to() -> None:
    assert chosen() is None


def test_every_option_arrives() -> None:
    choice = chosen(
        "--self-organize", "mit", "--eta", "3", "--organize-every", "2.5", "--link-price", "hops",
        "--broker-price", "0.5", "--estimate", "conjunction", "--adapt-bloom", "--damping",
    )  # fmt: skip
    assert choice is not None
    assert choice.config == OrganizeConfig(
        heuristic=Heuristic.MIT,
        eta=3,
        interval_s=2.5,
        link_price=LinkPrice.HOPS,
        broker_price=0.5,
        estimate=Estimate.CONJUNCTION,
        adapt_bloom=True,
        damping=True,
    )


def test_a_price_of_nothing_is_a_price() -> None:
    choice = chosen("--self-organize", "ci", "--broker-price", "0")
    assert choice is not None
    assert choice.config.broker_price == 0.0


def test_settings_without_the_mode_are_refused_by_name() -> None:
    with pytest.raises(click.UsageError, match="--organize-every is for overlays with"):
        chosen("--organize-every", "3")


def test_a_price_table_gives_each_broker_its_row(tmp_path: Path) -> None:
    table = Topology(
        TREE.brokers,
        frozenset({Link("b1", "b2"), Link("b1", "b3"), Link("b2", "b3")}),
        {Link("b1", "b2"): 1.5, Link("b1", "b3"): 9.0},
    )
    write_topology(table, tmp_path / "prices.json")
    choice = chosen("--self-organize", "ci", "--prices", str(tmp_path / "prices.json"))
    assert choice is not None
    spec = replace(make_spec(TREE), organize=choice.config, link_prices=choice.read_prices(TREE))
    rows = {b: spec.organize_of(b) for b in TREE.brokers}
    assert {b: dict(row.link_prices) for b, row in rows.items() if row is not None} == {
        "b1": {"b2": 1.5, "b3": 9.0},
        "b2": {"b1": 1.5},
        "b3": {"b1": 9.0},
    }


@pytest.mark.parametrize(
    ("table", "told"),
    [
        (Topology.from_links([("b1", "b9")]), "the overlay has no broker 'b9'"),
        (Topology.from_links([("b1", "b2")]), "no link has a latency_ms"),
    ],
)
def test_a_price_table_that_cannot_be_is_refused(
    tmp_path: Path, table: Topology, told: str
) -> None:
    write_topology(table, tmp_path / "prices.json")
    choice = OrganizeChoice(OrganizeConfig(), tmp_path / "prices.json")
    with pytest.raises(BadInput, match=told):
        choice.read_prices(TREE)


def test_without_a_store_the_mode_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_topology(TREE, tmp_path / "t.json")
    options = ["--port", "0", "--no-zookeeper", "--no-telemetry", "--self-organize", "ci"]
    assert main.run(["up", "t.json", *options]) == 2
    assert "a self-organizing overlay needs a store" in capsys.readouterr().err
