"""``pubweave whatif``: two overlays side by side, and clear words where that cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from bench.design_profiles import write_profile

from pubweave.cli import main
from pubweave.model.files.topology import write_topology
from pubweave.model.topology import Topology
from pubweave.sim.simulate import SimTelemetry

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3")])
SHORT = Topology.from_links([("b1", "b3"), ("b2", "b3")])
TABLES = {
    "delivery_trees": {"tree": [1], "broker": ["b1"], "weight": [20.0]},
    "tree_receivers": {"tree": [1], "broker": ["b3"]},
    "broker_costs": {"broker": ["b1", "b2", "b3"], "processing_ms": [1.0, 1.0, 1.0]},
    "links": {
        "broker_a": ["b1", "b2"],
        "broker_b": ["b2", "b3"],
        "is_present": [True, True],
        "cost_ms": [5.0, 5.0],
    },
}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A profile, its telemetry, and a target."""
    write_profile(tmp_path / "profile", TABLES)
    write_topology(SHORT, tmp_path / "short.json")
    write_topology(CHAIN, tmp_path / "chain.json")
    _record(tmp_path / "telemetry")
    return tmp_path


def _record(directory: Path) -> None:
    """Telemetry of the chain with one publisher and one subscriber, from a simulation."""
    from pubweave.core.config.broker import BrokerConfig
    from pubweave.core.config.session import SessionLimits
    from pubweave.model.filters.text import parse_filter
    from pubweave.sim.kernel.nodes import HandlingTime
    from pubweave.sim.kernel.world import World
    from pubweave.sim.overlays.tree import TreeOverlay

    gathered = SimTelemetry()
    world = World(0)
    overlay = TreeOverlay(
        world,
        CHAIN,
        make_config=BrokerConfig,
        handling=HandlingTime(),
        on_telemetry=gathered.take,
    )
    wanted = parse_filter("class = 'T'")
    for name, home in (("publisher", "b1"), ("subscriber", "b3")):
        overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
    overlay.clients["publisher"].core.advertise(wanted)
    overlay.subscribe(overlay.clients["subscriber"], wanted)
    for client in overlay.clients.values():
        client.flush()
    overlay.run_until_quiet(60.0)
    publisher = overlay.clients["publisher"]
    for number in range(20):
        world.after(
            number / 10,
            lambda: overlay.publish(publisher, "T", {}),
        )
    world.run_until(world.now + 30.0)
    gathered.write(directory, "whatif", 0)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main.run(["whatif", *(str(argument) for argument in arguments)])
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def options(files: Path) -> tuple[object, ...]:
    return ("--profile", files / "profile", "--traffic", files / "telemetry")


def test_the_shorter_way_is_shown_to_be_shorter(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(
        capsys, files / "short.json", *options(files), "--assume-latency", 5, "--json"
    )
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["now"]["hops_mean"] == 2.0
    assert told["target"]["hops_mean"] == 1.0
    assert told["now"]["deliveries"] == told["target"]["deliveries"] == 20
    assert told["now"]["cost_ms_per_notification"] == 13.0
    assert told["target"]["cost_ms_per_notification"] == 7.0
    assert told["target"]["latency_ms_mean"] < told["now"]["latency_ms_mean"]


def test_the_table_has_both_sides(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, files / "short.json", *options(files), "--assume-latency", 5)
    assert code == 0
    assert "hops per delivery" in out
    assert "-50.0%" in out
    assert "replayed 20 publications of 2 clients" in out


def test_a_link_without_a_price_is_named(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, files / "short.json", *options(files))
    assert code == 2
    assert "nobody knows how slow link b1-b3 would be" in err


def test_overlays_of_other_brokers_cannot_be_compared(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_topology(Topology.from_links([("b1", "b2"), ("b2", "b4")]), files / "other.json")
    code, _, err = run(capsys, files / "other.json", *options(files), "--assume-latency", 5)
    assert code == 2
    assert "is not in both overlays" in err


def test_telemetry_that_is_not_here_any_more_is_asked_for(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = files / "profile" / "profile.json"
    description = msgspec.json.decode(path.read_bytes())
    description["source"] = str(files / "gone")
    path.write_bytes(msgspec.json.encode(description))
    code, _, err = run(
        capsys, files / "short.json", "--profile", files / "profile", "--assume-latency", 5
    )
    assert code == 2
    assert "name it with --traffic" in err
