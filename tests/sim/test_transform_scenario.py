"""The scenario `transform`: many seeds hold, a run is its seed, and mistakes are caught."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

from pubweave.core.vocabulary.events import ActionDecided
from pubweave.deploy.agent import Agent
from pubweave.deploy.executor import Executor
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.store import Write
from pubweave.model.deployment import ActionState
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios.trees import FAULTS, draw_planned, plan_run
from pubweave.sim.simulate import run_seed

SEEDS = 6
LARGEST = 20


@pytest.mark.parametrize("fault", FAULTS)
def test_plans_are_carried_out_without_loss_whatever_fails(fault: str) -> None:
    failed = {
        seed: result.violations[:3]
        for seed in range(SEEDS)
        if (result := run_seed("transform", seed, fault=fault, max_brokers=LARGEST)).violations
    }
    assert not failed


@pytest.mark.parametrize("seed", [504, 841, 1264, 1550])
def test_seeds_that_once_lost_something_do_not_any_more(seed: int) -> None:
    """504: a withdrawn advertisement; 841: the checker; the others: an old session's grace."""
    assert not run_seed("transform", seed).violations


def test_the_runs_exercise_what_they_are_for() -> None:
    """Across a few seeds every fault strikes, plans end both ways, and something is held."""
    counts: dict[str, int] = {}
    for seed in range(3 * SEEDS):
        result = run_seed("transform", seed, fault="crashes", max_brokers=LARGEST)
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in (
        "due",
        "connection_drop",
        "delay_spike",
        "broker_pause",
        "broker_crash",
        "executor_crash",
        "store_line_break",
        "plans_done",
        "plans_aborted",
        "actions_committed",
        "actions_aborted",
        "held_publications",
        "pauses",
        "aborts_asked",
    ):
        assert counts.get(name, 0) > 0, name
    assert counts["excused"] < counts["wanted"] / 100


def test_a_quiet_run_measures_what_a_transformation_costs() -> None:
    measures = run_seed("transform", 5, fault="none").measures
    assert 0 < measures["hold_ms_median"] <= measures["hold_ms_max"] < 300
    assert measures["unaffected_ms_p99"] > 0
    assert 0 < measures["affected_share"] < 1
    assert measures["first_plan_s"] < measures["first_plan_serial_s"]


def trace_of(seed: int) -> str:
    stream = io.StringIO()
    run_seed("transform", seed, fault="all", trace=Trace(stream), max_brokers=12)
    return stream.getvalue()


def test_the_same_seed_gives_the_same_trace_byte_for_byte() -> None:
    first = trace_of(3)
    assert first == trace_of(3)
    assert first != trace_of(4)


def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [
                sys.executable,
                "-c",
                "from pubweave.sim.simulate import run_seed\n"
                "from pubweave.sim.kernel.trace import Trace\n"
                "run = run_seed('transform', 5, fault='crashes', max_brokers=15, trace=Trace())\n"
                "print(run.trace_digest)",
            ],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2", "random")
    }
    assert len(digests) == 1
    assert "None" not in digests.pop()


def test_an_unknown_fault_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="none, network, control, all, crashes"):
        run_seed("transform", 0, fault="weather")


# --- mistakes must be caught -------------------------------------------------------------------


def is_caught(fault: str, seeds: range = range(40)) -> bool:
    return any(
        run_seed("transform", seed, fault=fault, max_brokers=LARGEST).violations for seed in seeds
    )


def test_caught_blind_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    send = Mirror.send

    def blind(mirror: Mirror, change: Any) -> None:
        send(mirror, Write(change.path, change.data) if isinstance(change, Write) else change)

    monkeypatch.setattr(Mirror, "send", blind)
    assert is_caught("none")


def test_caught_an_agent_that_tells_what_it_wishes_and_not_what_stands_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decide(agent: Agent) -> None:
        for id_, wish in list(agent._decisions.items()):
            del agent._decisions[id_]
            agent._effects.append(ActionDecided(id_, wish.commit))

    monkeypatch.setattr(Agent, "_decide", decide)
    assert is_caught("none")


def test_caught_a_restarted_broker_that_forgets_what_was_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pubweave.deploy.agent.COMMITTED", (ActionState.DONE,))
    assert is_caught("crashes")


def test_caught_an_executor_that_ends_an_aborted_step_too_early(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = (ActionState.DONE, ActionState.ABORTED, ActionState.COMMITTED)
    monkeypatch.setattr("pubweave.deploy.executor.OVER", over)
    assert is_caught("all")


def test_caught_an_executor_that_forgets_to_write_the_topology(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def count(executor: Executor, deployment: Any, topology: Any, states: Any) -> None:
        executor._count_step(deployment)

    monkeypatch.setattr(Executor, "_write_topology", count)
    assert is_caught("crashes")


def test_a_plan_that_cannot_end_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agent, "_finish", lambda agent: None)
    world, options = World(2), Options(max_brokers=12, fault="none")
    tree, plans = draw_planned(world, options)
    planned = plan_run("transform", world, options, (tree, replace(plans, plans=1)))
    result = planned.compose().run()
    assert any("never ends" in violation for violation in result.violations)
