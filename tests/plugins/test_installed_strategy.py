"""A package that brings its own strategy is installed, and runs on sockets and in the simulator."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import pubweave
from pubweave.core.strategies import find_strategy, strategy_names
from pubweave.model import plugins
from pubweave.model.topology import Topology
from tests.sockets.harness import overlay, run

PACKAGE = Path(__file__).parent / "counted_flooding"
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3")])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the package is installed in, without a network."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    local = ["--no-deps", "--no-index", "--no-build-isolation", "--target", str(target)]
    subprocess.run([*pip, *local, str(PACKAGE)], check=True, timeout=120)
    return target


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(site))
    plugins.plugins.cache_clear()
    yield
    plugins.plugins.cache_clear()
    sys.modules.pop("counted_flooding", None)


def pubweave_command(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line in a process that finds the package."""
    search = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", "from pubweave.cli.main import main; main()", *arguments],
        env={**os.environ, "PYTHONPATH": search},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_it_is_found_behind_those_of_pubweave(installed: None) -> None:
    assert strategy_names()[-1] == "counted"
    assert find_strategy("counted").needs_tree


@pytest.mark.sockets
def test_it_routes_on_sockets_and_its_part_answers(installed: None) -> None:
    async def main() -> None:
        async with (
            overlay(CHAIN, strategy="counted") as hosts,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
            pubweave.connect(str(hosts["b3"].address)) as subscriber,
        ):
            await publisher.advertise("class = 'T'")
            numbers = await subscriber.subscribe("n > 2")
            for number in range(6):
                await publisher.publish("T", {"n": number})
            received = [(await anext(numbers)).attributes["n"] for _ in range(3)]
            assert received == [3, 4, 5]
            assert json.loads(await subscriber.query("counted")) == {"T": 6}

    run(main())


def test_it_routes_in_the_simulator(site: Path) -> None:
    simulated = ["simulate", "routing", "--strategy", "counted", "--seeds", "4", "--json"]
    done = pubweave_command(site, *simulated, "--max-brokers", "8")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["runs"] == 4
    assert not result["violations"]


def test_a_strategy_that_cannot_be_loaded_is_refused_with_its_package(
    site: Path, tmp_path: Path
) -> None:
    info = tmp_path / "broken-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pubweave.strategies]\nlost = nowhere:LOST\n")
    at_broker = ["broker", "--id", "b1", "--listen", "127.0.0.1:0", "--strategy", "lost"]
    for arguments in (at_broker, ["simulate", "routing", "--seeds", "1", "--strategy", "lost"]):
        done = pubweave_command(tmp_path, *arguments)
        assert done.returncode == 2
        assert "'lost' of package broken cannot be loaded from 'nowhere:LOST'" in done.stderr


def test_a_journal_is_refused_with_a_strategy_of_another_package(site: Path) -> None:
    at_broker = ["broker", "--id", "b1", "--listen", "127.0.0.1:0", "--strategy", "counted"]
    done = pubweave_command(site, *at_broker, "--durability", "journal", "--journal-dir", str(site))
    assert done.returncode == 2
    assert "broker.durability = 'journal' does not work with 'counted'" in done.stderr


@pytest.mark.parametrize("command", ["up", "broker"])
def test_an_unknown_name_is_refused_with_all_there_are(site: Path, command: str) -> None:
    done = pubweave_command(site, command, "--strategy", "none")
    assert done.returncode == 2
    assert "'flooding'" in done.stderr
    assert "'counted'" in done.stderr
