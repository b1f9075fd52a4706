"""``pubweave up --relocation``: what is asked for arrives, and what cannot be is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from pubweave.cli.errors import BadInput
from pubweave.cli.options.relocation import relocation_options
from pubweave.cli.run.broker import BrokerFile, make_host_config
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.model.topology import Topology
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.overlay.broker_process import BrokerOrder
from pubweave.runtime.overlay.spec import make_spec


def chosen(*arguments: str) -> RelocationConfig:
    found: list[Any] = []

    @click.command()
    @relocation_options
    def command(relocation: RelocationConfig) -> None:
        found.append(relocation)

    result = CliRunner().invoke(command, arguments)
    if result.exit_code:
        raise click.UsageError(result.output)
    config: RelocationConfig = found[0]
    return config


def test_publishers_stay_unless_asked_to_move() -> None:
    assert chosen() == RelocationConfig()
    assert chosen().mode_of("anybody") is RelocationMode.OFF


def test_every_option_arrives() -> None:
    config = chosen(
        "--relocation", "pop", "--relocation-of", "quotes=grape", "--relocation-of", "a=b=off",
        "--relocation-priority", "delay", "--relocation-weight", "75", "--relocation-trace", "20",
        "--relocation-least-gain", "7.5", "--relocation-rest", "0", "--relocation-subscribers",
        "--relocation-most-clients", "9",
    )  # fmt: skip
    assert config == RelocationConfig(
        RelocationMode.POP,
        Preference(Priority.DELAY, 75),
        {"quotes": RelocationMode.GRAPE, "a=b": RelocationMode.OFF},
        pop_threshold=20,
        grape_threshold=20,
        least_gain=0.075,
        rest_s=0.0,
        subscribers=True,
        most_clients=9,
    )
    assert config.mode_of("quotes") is RelocationMode.GRAPE
    assert config.mode_of("others") is RelocationMode.POP


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--relocation", "pop", "--relocation-weight", "5"], "for --relocation grape"),
        (["--relocation-trace", "5"], "for overlays with --relocation"),
        (["--relocation-least-gain", "5"], "--relocation-least-gain is for overlays with"),
        (["--relocation", "pop", "--relocation-subscribers"], "for --relocation grape"),
        (["--relocation", "grape", "--relocation-most-clients", "5"], "relocation-subscribers"),
        (["--relocation-of", "quotes"], "expected a client's id"),
        (["--relocation-of", "quotes=fast"], "one of off, pop, grape"),
        (["--relocation", "grape", "--relocation-weight", "101"], "0<=x<=100"),
    ],
)
def test_what_cannot_be_is_refused(arguments: list[str], words: str) -> None:
    with pytest.raises(click.UsageError, match=words):
        chosen(*arguments)


def test_the_setting_reaches_a_broker_process(tmp_path: Path) -> None:
    config = chosen("--relocation", "grape", "--relocation-of", "quotes=off")
    spec = replace(make_spec(Topology.from_links([("b1", "b2")])), relocation=config)
    order = BrokerOrder(
        "b1", spec.addresses["b1"], {}, "tree", str(tmp_path / "log"), relocation=spec.relocation
    )
    received = msgspec.json.decode(msgspec.json.encode(order), type=BrokerOrder)
    assert received.host_config().broker.relocation == config


def test_a_brokers_file_has_a_table_of_it() -> None:
    file = BrokerFile(id="b1", listen=Address("127.0.0.1", 1))
    settings = {"relocation": {"mode": "grape", "preference": {"priority": "delay", "weight": 5}}}
    found = make_host_config(replace(file, settings=settings)).broker.relocation
    assert found == RelocationConfig(RelocationMode.GRAPE, Preference(Priority.DELAY, 5))
    for bad, words in (
        ({"moode": 1}, "unknown key 'moode'"),
        ({"grape_threshold": 0}, "grape_threshold must be"),
        ({"least_gain": 1.0}, "least_gain must be"),
        ({"rest_s": -1.0}, "rest_s must be"),
        ({"most_clients": 0}, "most_clients must be"),
        ({"preference": {"weight": 200}}, "between 0 and 100"),
    ):
        with pytest.raises(BadInput, match=words):
            make_host_config(replace(file, settings={"relocation": bad}))
