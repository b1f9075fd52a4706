"""Applying plans from the command line: options, differences, views; without any server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pubweave.cli.deploy.plan_control import _waiting
from pubweave.cli.deploy.run import drawing
from pubweave.cli.errors import BadInput
from pubweave.cli.main import run
from pubweave.cli.options.coordination import DeploymentChoice
from pubweave.deploy.commands import ActionStatus
from pubweave.deploy.documents import DeploymentDocument
from pubweave.deploy.executor import ActionProgress, ExecutorReport, ExecutorRole
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash, write_plan
from pubweave.model.plans import Append, Detach, Plan, Shift
from pubweave.model.topology import Topology
from pubweave.runtime.coordination.deployment_run import Look, end_in_words
from pubweave.runtime.coordination.mismatch import (
    MisfitError,
    differences,
    needs_not_met,
    refuse_misfit,
)
from pubweave.runtime.overlay.run_directory import (
    BrokerState,
    OverlayCondition,
    OverlayState,
    RunDirectory,
)

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
SHIFTED = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4")])
PLAN = Plan(((Shift("b4", "b3", "b2"),),))
RECORD = PlanRecord(PLAN, source_hash=topology_hash(CHAIN), target_hash=topology_hash(SHIFTED))


def refusal(record: PlanRecord, current: Topology, source: Topology | None = None) -> str:
    with pytest.raises(MisfitError) as raised:
        refuse_misfit(record, current, source, "demo")
    return str(raised.value)


def test_a_plan_fits_what_it_was_made_for() -> None:
    unbound = replace(RECORD, source_hash=None, target_hash=None)
    for record in (RECORD, unbound):
        refuse_misfit(record, CHAIN, None, "demo")
    assert "no link b3-b4" in refusal(unbound, SHIFTED), "and nothing else, bound to it or not"


def test_a_plan_that_was_carried_out_says_so() -> None:
    assert refusal(RECORD, SHIFTED) == "the overlay demo already is what this plan leads to"


def test_a_misfit_names_the_links_that_the_plan_needs() -> None:
    other = Topology.from_links([("b1", "b2"), ("b1", "b3"), ("b2", "b4")])
    message = refusal(RECORD, other)
    assert "no link b3-b4 (step 1, shift(b4, b3, b2))" in message
    assert "no link b2-b3 (step 1, shift(b4, b3, b2))" in message
    assert "link b2-b4 is already there" in message


def test_with_its_source_the_difference_is_complete() -> None:
    larger = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b1", "b10")])
    assert "elsewhere differ" in refusal(RECORD, larger)
    assert "b1-b10 is in the overlay, but not in the plan's topology" in refusal(
        RECORD, larger, CHAIN
    )
    assert "--source is not the topology" in refusal(RECORD, larger, SHIFTED)
    assert differences(CHAIN, larger)[-1] == (
        "broker b10 is in the overlay, but not in the plan's topology"
    )


def test_what_earlier_actions_bring_is_not_missed() -> None:
    plan = Plan(
        (
            (Append("b5", "b4"),),
            (Shift("b5", "b4", "b3"),),
            (Detach("b5", "b3"),),
        )
    )
    assert needs_not_met(PlanRecord(plan), CHAIN) == []
    assert needs_not_met(PlanRecord(Plan(plan.steps[1:])), CHAIN) == [
        "no broker b5 (step 1, shift(b5, b4, b3))",
        "no broker b5 (step 2, detach(b5, b3))",
    ]


def test_only_the_first_of_many_differences_are_shown() -> None:
    star = Topology.from_links([("b1", f"b{n}") for n in range(2, 30)])
    message = refusal(RECORD, star, CHAIN)
    total = 2 + 27 + 25  # links missing, links too many, brokers too many
    assert f"and {total - 8} more" in message
    assert message.count("\n") == 10


def state(zookeeper: str | None) -> OverlayState:
    brokers = {"b1": BrokerState("127.0.0.1:7000", 1)}
    return OverlayState(
        "demo", OverlayCondition.RUNNING, 1, 0.0, "tree", brokers, [], zookeeper=zookeeper
    )


def test_the_store_is_found_through_the_run_directory(tmp_path: Path) -> None:
    directory = RunDirectory(tmp_path)
    directory.write(state("127.0.0.1:2181/a"))
    directory.release()
    found = DeploymentChoice(tmp_path, None, "me:secret").find()
    assert (found.overlay, str(found.target), found.target.auth) == (
        "demo",
        "127.0.0.1:2181/a",
        "me:secret",
    )
    with pytest.raises(BadInput, match="is 'demo', not 'other'"):
        DeploymentChoice(tmp_path, None, None, "other").find()
    assert DeploymentChoice(tmp_path, "zk1", None, "other").find().overlay == "other"
    with pytest.raises(BadInput, match="needs --overlay"):
        DeploymentChoice(tmp_path, "zk1", None).find()


def test_an_overlay_without_zookeeper_cannot_be_transformed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory = RunDirectory(tmp_path / "run")
    directory.write(state(None))
    directory.release()
    write_plan(RECORD, tmp_path / "plan.json")
    options = ["--run-dir", str(tmp_path / "run")]
    for verb in (["apply", str(tmp_path / "plan.json")], ["plan", "status"], ["plan", "resume"]):
        assert run([*verb, *options]) == 2
        assert "without ZooKeeper" in capsys.readouterr().err


def test_a_plan_without_steps_is_nothing_to_apply(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_plan(PlanRecord(Plan()), tmp_path / "plan.json")
    assert run(["apply", str(tmp_path / "plan.json")]) == 2
    assert "no steps" in capsys.readouterr().err


def look(deployment: DeploymentState, *states: ActionState, done: int = 0) -> Look:
    actions = tuple(
        ActionProgress(
            f"1-x/0/{place}", f"shift(b{place}, b8, b9)", (f"b{place}", "b8", "b9"), known
        )
        for place, known in enumerate(states)
    )
    document = DeploymentDocument(
        deployment="1-x", number=1, state=deployment, step_count=2, steps_done=done
    )
    report = ExecutorReport(ExecutorRole.EXECUTING, "me", document, actions, ("b7",), "trouble")
    return Look(report, {"1-x/0/1": 12}, 3.0)


def test_a_look_tells_step_actions_state_and_buffered_messages() -> None:
    seen = look(DeploymentState.RUNNING, ActionState.DONE, ActionState.RUNNING)
    assert seen.line() == (
        "running: step 1 of 2, 1 of 2 actions done, 12 messages buffered; waiting for b7; trouble"
    )
    document = seen.document()
    assert document["actions"][1] == {
        "action": "shift(b1, b8, b9)",
        "state": "running",
        "held_messages": 12,
        "reason": None,
    }
    assert (document["steps_done"], document["held_messages"]) == (0, 12)


def test_a_look_is_drawn_with_a_row_per_action() -> None:
    from rich.console import Console

    console = Console(width=100, force_terminal=False)
    with console.capture() as captured:
        console.print(drawing(look(DeploymentState.RUNNING, ActionState.COMMITTED)))
    drawn = captured.get()
    assert "shift(b0, b8, b9)" in drawn
    assert "committed" in drawn


@pytest.mark.parametrize(
    ("deployment", "text"),
    [
        (DeploymentState.DONE, "done: 2 steps"),
        (DeploymentState.PAUSED, "paused: 1 of 2 steps done; go on with 'pubweave plan resume'"),
        (DeploymentState.ABORTED, "aborted: 1 of 2 steps done: why"),
        (DeploymentState.ABORTING, "aborting: 1 of 2 steps done"),
    ],
)
def test_every_end_is_said_in_words(deployment: DeploymentState, text: str) -> None:
    assert end_in_words(deployment, 1, 2, "why") == text


def test_what_a_decided_action_waits_for_is_said_with_since_when() -> None:
    action = ActionStatus(
        "shift(b1, b2, b3)", ActionState.COMMITTED, "", {}, waits_for=("b2", "b3"), since=100.0
    )
    assert _waiting(action, ["b3"], 112.0) == (
        "shift(b1, b2, b3) was decided 12 s ago and waits for b2, b3 (not there: start it again)"
    )
    unknown = ActionStatus("x", ActionState.COMMITTED, "", {}, waits_for=("b2",))
    assert _waiting(unknown, [], 112.0) == "x was decided and waits for b2"
