"""The scenario `routing`: many seeds hold, a run is its seed, and a broken core is caught."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from pubweave.core.routing.tree.link_table import LinkTable
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.strategies import STRATEGIES, Strategy, tree_parts
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.simulate import SCENARIOS, run_seed, run_seeds
from pubweave.telemetry.parquet import read_table

SEEDS = 200
FAST_SEEDS = 80
CHUNK = 10
CHUNKS = [
    pytest.param(first, marks=() if first < FAST_SEEDS else pytest.mark.slow)
    for first in range(0, SEEDS, CHUNK)
]


@pytest.mark.parametrize("first", CHUNKS)
def test_random_overlays_lose_double_and_misroute_nothing(first: int) -> None:
    failed = {
        seed: result.violations[:3]
        for seed in range(first, first + CHUNK)
        if (result := run_seed("routing", seed)).violations
    }
    assert not failed, f"again with: pubweave simulate routing --seed {min(failed)} --trace"


def test_the_runs_exercise_what_they_are_for() -> None:
    """Across a few seeds every fault strikes, queues run over, and deliveries are due."""
    counts: dict[str, int] = {}
    for result in run_seeds("routing", range(25), jobs=1):
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in (
        "due",
        "holds",
        "connection_drop",
        "delay_spike",
        "partition",
        "broker_pause",
        "broker_crash",
    ):
        assert counts.get(name, 0) > 0, name
    assert counts["excused"] < counts["wanted"] / 100


def trace_of(seed: int) -> str:
    stream = io.StringIO()
    run_seed("routing", seed, trace=Trace(stream), max_brokers=12)
    return stream.getvalue()


def test_the_same_seed_gives_the_same_trace_byte_for_byte() -> None:
    first = trace_of(3)
    assert first == trace_of(3)
    assert first != trace_of(4)
    assert first.count("\n") > 1000


def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from pubweave.sim.simulate import run_seed\n"
                "from pubweave.sim.kernel.trace import Trace\n"
                "print(run_seed('routing', 5, trace=Trace()).trace_digest)",
            ],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2", "random")
    }
    assert len(digests) == 1


def test_results_do_not_depend_on_how_many_run_at_once() -> None:
    alone = {r.seed: r for r in run_seeds("routing", range(6), jobs=1)}
    together = {r.seed: r for r in run_seeds("routing", range(6), jobs=2)}
    assert alone == together


def test_a_simulated_run_writes_the_telemetry_of_a_real_one(tmp_path: Path) -> None:
    result = run_seed("routing", 2, telemetry=tmp_path)
    assert not result.violations
    published = read_table(tmp_path, "publications")
    delivered = read_table(tmp_path, "deliveries")
    assert len(published) == result.counts["publications"]
    assert len(delivered) >= result.counts["deliveries"]
    assert min(delivered["latency_ms"].to_pylist()) > 0


def test_latencies_can_come_from_a_matrix() -> None:
    run = SCENARIOS["routing"].begin(1, rtt=np.where(np.eye(30), 0.0, 400.0))
    assert {link.latency_s for link in run.overlay.links.values()} == {0.2}


# --- a core with a mistake in it must be caught ------------------------------------------------


def is_caught(seeds: range = range(60)) -> bool:
    return any(run_seed("routing", seed).violations for seed in seeds)


def test_caught_a_session_that_does_not_send_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "retransmit", Session.pump)
    assert is_caught()


def test_caught_subscriptions_left_behind_by_unadvertise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LinkTable, "unadvertised", lambda table, id_: None)
    assert is_caught()


def test_caught_publications_sent_back_where_they_came_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        TreeRouting,
        "route",
        lambda self, publication, origin: (
            self._link_index.match(publication) + self._client_index.match(publication)
        ),
    )
    assert is_caught()


def test_caught_a_forgotten_uncovering(monkeypatch: pytest.MonkeyPatch) -> None:
    original = LinkTable.unsubscribed

    def forgetful(table: LinkTable, id_: str) -> None:
        if id_ in table.forwarded:
            for orphan in list(table._stands_for.get(id_, {})):
                table._unsuppress(orphan)
        original(table, id_)

    monkeypatch.setattr(LinkTable, "unsubscribed", forgetful)
    assert is_caught()


class Unknown(TreeRouting):
    """A strategy that the simulator knows nothing of."""


@pytest.fixture
def any_strategy(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(STRATEGIES, "own", Strategy(Unknown, tree_parts))
    return "own"


def test_a_strategy_with_unknown_tables_is_judged_as_any_other(any_strategy: str) -> None:
    results = [run_seed("routing", seed, strategy=any_strategy) for seed in range(12)]
    assert not [result.violations for result in results if result.violations]
    known = [run_seed("routing", seed).counts["due"] for seed in range(12)]
    assert sum(result.counts["due"] for result in results) > 0.9 * sum(known)


def test_a_strategy_with_unknown_tables_that_loses_publications_is_caught(
    any_strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "retransmit", Session.pump)
    assert any(run_seed("routing", seed, strategy=any_strategy).violations for seed in range(60))
