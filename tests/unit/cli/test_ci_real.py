"""CI's worlds from real data: made files of the same form, and the shared ones where they are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pubweave.cli.main import cli
from pubweave.experiments.ci.real import KINDS, PLANETLAB, SEATTLE, make_real_world
from pubweave.experiments.ci.setting import CiSetting
from tests.naive.traffic import groups_of
from tests.shared_data import shared_data

BROKERS = 9
SETTING = CiSetting(brokers=BROKERS, types=6, subscribers=3, ticks=2_500)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small folder of the same form as the shared data."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "latency").mkdir()
    (folder / "topology").mkdir()
    rng = np.random.default_rng(1)
    for name in PLANETLAB:
        _write(folder / name, [",".join(map(str, row)) for row in _square(rng, 12).tolist()])
    lines = ["slice,node," + ",".join(f"n{n}" for n in range(BROKERS))]
    for slice_ in (1, 9, 17):
        rows = _square(rng, BROKERS).tolist()
        lines += [f"{slice_},{n}," + ",".join(map(str, row)) for n, row in enumerate(rows)]
    _write(folder / SEATTLE, lines)
    chain = [f"{n},{n + 1},-1" for n in range(1, 30)]
    _write(folder / "topology/as_caida20070917.csv.gz", ["from_as,to_as,rel", *chain])
    places = [f"germany50,c{n},{48 + n % 3},{9 + n // 3}" for n in range(BROKERS)]
    _write(folder / "topology/sndlib_nodes.csv.gz", ["network,node,lat,lon", *places])
    demands = [f"germany50,c{n},c{(n + 1) % BROKERS},{n + 1}.0" for n in range(BROKERS)]
    _write(folder / "topology/sndlib_demands.csv.gz", ["network,source,target,demand", *demands])
    return folder


def _square(rng: np.random.Generator, size: int) -> np.ndarray:
    square = rng.uniform(5, 200, (size, size)).round(1)
    np.fill_diagonal(square, 0.0)
    return square


def _write(path: Path, lines: list[str]) -> None:
    path.write_bytes(gzip.compress(("\n".join(lines) + "\n").encode()))


@pytest.mark.parametrize("kind", KINDS)
def test_a_world_has_prices_in_range_and_traffic_in_every_interval(kind: str, data: Path) -> None:
    world = make_real_world(kind, 3, data, SETTING)
    assert len(world.traffic) == SETTING.intervals
    assert all(traffic.notifications > 0 for traffic in world.traffic)
    for _, prices in world.phases:
        links = prices.communication[~np.eye(BROKERS, dtype=bool)]
        assert links.min() >= 0
        assert links.max() <= SETTING.link_cost_max
    again = make_real_world(kind, 3, data, SETTING)
    assert (again.start == world.start).all()
    assert (again.traffic[-1].weights == world.traffic[-1].weights).all()


def test_links_change_where_they_were_measured_again_and_again(data: Path) -> None:
    phases = make_real_world("seattle", 3, data, SETTING).phases
    assert [first for first, _ in phases] == [0, 3, 7]
    one, other = phases[0][1].communication, phases[1][1].communication
    assert (one != other).any()


def test_demands_say_who_talks_to_whom(data: Path) -> None:
    world = make_real_world("sndlib", 3, data, SETTING)
    for members, _ in groups_of(world.traffic[0]):
        one, other = sorted(int(name[1:]) for name in members)
        assert other - one in (1, BROKERS - 1)


def test_hops_are_those_of_the_graph(data: Path) -> None:
    """All systems are on a chain: the farthest pair costs most, and nothing is free but itself."""
    prices = make_real_world("caida", 3, data, SETTING).phases[0][1].communication
    links = prices[np.isfinite(prices)]
    assert links.max() == SETTING.link_cost_max


def test_the_verb_compares_all_of_them(data: Path, tmp_path: Path) -> None:
    arguments = ["reproduce", "ci-real", "--data", str(data), "--seeds", "2", "--ticks", "2500"]
    done = CliRunner().invoke(cli, [*arguments, "--out", str(tmp_path), "--json"])
    assert done.exit_code == 0, done.output
    costs = json.loads(done.output)["costs"]
    assert set(costs) == set(KINDS)
    assert (tmp_path / "ci-real.png").stat().st_size > 1000


@pytest.mark.data
@pytest.mark.parametrize("kind", KINDS)
def test_the_shared_data_make_worlds(kind: str) -> None:
    data = shared_data("latency").parent
    world = make_real_world(kind, 1, data, CiSetting(ticks=2_500))
    assert len(world.names) in (50, 99, 100)
    assert world.traffic[0].notifications > 1_000
