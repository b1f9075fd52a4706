"""A single broker: its configuration file, its port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pubweave.cli import main
from pubweave.cli.errors import BadInput
from pubweave.cli.run.broker import make_host_config, read_broker_file
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.design.ci.rules import Heuristic
from pubweave.runtime.net.addresses import Address

WHOLE = """
id = "b1"
listen = "10.0.0.1:7001"
strategy = "tree_covering"
telemetry = "records"
sample = 0.5
[neighbors]
b2 = "10.0.0.2:7001"
[settings]
client_expiry_s = 5.5
[settings.limits]
window_bytes = 4096
[settings.organize]
heuristic = "mst"
eta = 3
link_prices = { b2 = 3.5 }
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return path


def test_every_key_of_a_file_arrives(tmp_path: Path) -> None:
    config = make_host_config(read_broker_file(written(tmp_path, WHOLE)))
    assert config.listen == Address("10.0.0.1", 7001)
    assert config.neighbors == {"b2": Address("10.0.0.2", 7001)}
    assert config.telemetry_directory == Path("records")
    assert config.sample_ratio == 0.5
    assert config.broker.id == "b1"
    assert config.broker.strategy == "tree_covering"
    assert config.broker.client_expiry_s == 5.5
    assert config.broker.limits.window_bytes == 4096
    organize = config.broker.organize
    assert organize == OrganizeConfig(Heuristic.MST, eta=3, link_prices={"b2": 3.5})


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("id = ", "broker.toml: not TOML"),
        ("idd = 'b1'", "broker.toml: unknown key 'idd': there are id, listen"),
        ("id = 1", "broker.toml: id must be a string, got 1"),
        ("listen = 'nowhere'", "broker.toml: listen: 'nowhere' is no address"),
        ("neighbors = 'b2'", "broker.toml: neighbors must be a table"),
        ("[neighbors]\nb2 = 'x'", "broker.toml: neighbors.b2: 'x' is no address"),
        ("sample = true", "broker.toml: sample must be a number, got True"),
    ],
)
def test_a_wrong_file_is_refused_by_key(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(BadInput) as caught:
        read_broker_file(written(tmp_path, text))
    assert told in caught.value.message


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("sample = 2", "sample must be between 0 and 1, got 2"),
        ("strategy = 'star'", "unknown routing strategy 'star'"),
        ("[settings]\ntick = 1", "settings: unknown key 'tick': there are ack_delay_s"),
        ("[settings]\ntick_s = 'often'", "settings: Expected `float`, got `str`"),
        ("[settings.limits]\nwindow = 1", "settings.limits: unknown key 'window'"),
        ("[settings.organize]\nhops = 1", "settings.organize: unknown key 'hops'"),
        ("[settings.organize]\neta = 1", "organize.eta must be at least 2"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(tmp_path: Path, more: str, told: str) -> None:
    text = f"id = 'b1'\nlisten = '7001'\n{more}"
    with pytest.raises(BadInput) as caught:
        make_host_config(read_broker_file(written(tmp_path, text)))
    assert told in caught.value.message


@pytest.mark.sockets
def test_a_used_port_is_refused_with_the_way_out(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main.run(["broker", "--id", "b1", "--listen", address]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"Error: broker 'b1' cannot listen at {address}: ")
    assert said.endswith(
        "; choose another port (0: any free one) or another address for --listen\n"
    )


def test_a_broker_without_a_store_cannot_organize(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "id = 'b1'\nlisten = '127.0.0.1:0'\n[settings.organize]\neta = 3"
    assert main.run(["broker", "--config", str(written(tmp_path, text))]) == 2
    assert "needs a store" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--ring", "r1=127.0.0.1:7002"], "--ring is for brokers of clusters"),
        (["--placement-load", "2"], "--placement-load needs --placement-with"),
        (["--placement-with", "b2=127.0.0.1:7002"], "is for --strategy rendezvous"),
        (["--ring", "r1"], "write id=host:port"),
    ],
)
def test_gateways_and_placement_need_their_strategy(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["broker", "--id", "b1", "--listen", "127.0.0.1:0", *options]
    assert main.run(given) == 2
    assert told in capsys.readouterr().err
