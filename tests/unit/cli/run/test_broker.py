"""A single broker: what it has to be told, and its port."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from pubweave.cli import main


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


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[broker]\nid = 'b1'", "a broker needs --id and --listen"),
        ("[self_organizing]\nenabled = true", "needs a store"),
        ("[broker]\ndurability = 'journal'", "--durability journal needs --journal-dir"),
        ("[store]\nzookeeper = 'z:2181'", "--zookeeper needs --overlay"),
        ("[broker.topics]\nring = ['r1']", "broker.topics.ring needs broker.strategy"),
        ("[placement]\nmembers = ['b2']", "placement.members needs broker.strategy"),
        ("[broker]\nstrategy = 'star'", "broker.strategy must be one of"),
    ],
)
def test_what_a_broker_cannot_be_started_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, told: str
) -> None:
    (tmp_path / "broker.toml").write_text(text)
    listen = [] if "id = 'b1'" in text else ["--id", "b1", "--listen", "127.0.0.1:0"]
    assert main.run(["broker", "--config", str(tmp_path / "broker.toml"), *listen]) == 2
    assert told in capsys.readouterr().err
