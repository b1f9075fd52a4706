"""Executor and agents together: plans are carried out whoever dies on the way."""

from __future__ import annotations

import pytest

from pubweave.deploy.commands import abort, request_pause, resume, submit
from pubweave.deploy.executor import ExecutorRole
from pubweave.deploy.topology_state import apply_actions
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.plans import Append, Detach, Plan, Shift
from pubweave.model.topology import Topology
from tests.deploy_driver import LAYOUT, Deployment, User

SOURCE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5"), ("b5", "b6")])
PLAN = Plan(
    (
        # The third shares brokers with both others, which share none.
        (Shift("b1", "b2", "b3"), Shift("b6", "b5", "b4"), Shift("b4", "b3", "b2")),
        (Shift("b1", "b3", "b2"),),
    )
)
TARGET = apply_actions(SOURCE, PLAN.actions())


def deployed(plan: Plan = PLAN, source: Topology = SOURCE, **options: int) -> Deployment:
    world = Deployment(source)
    world.run_for(0.1)
    world.run(submit(LAYOUT, PlanRecord(plan), **options))
    return world


def test_a_plan_is_carried_out_step_by_step() -> None:
    world = deployed()
    world.start_executor("e1")
    assert world.run_until_final().state is DeploymentState.DONE
    assert world.states == ["running", "done"]
    assert world.topology() == TARGET
    assert set(world.action_states().values()) == {ActionState.DONE}
    first = [end for id_, ends in world.ended.items() if "/0/" in id_ for end in ends.values()]
    second = [start for id_, start in world.started.items() if "/1/" in id_]
    assert max(first) < min(second)
    world.assert_settled()


def test_actions_of_a_step_that_share_a_broker_wait_and_no_others() -> None:
    world = deployed(Plan(PLAN.steps[:1]))
    world.start_executor("e1")
    world.run_until_final()
    ids = sorted(world.started)
    began = [world.started[id_] for id_ in ids]
    over = [max(world.ended[id_].values()) for id_ in ids]
    # The most entangled one is put first; the other two run at once after it.
    assert min(began[1:]) > over[0]
    assert abs(began[1] - began[2]) < 0.001
    world.assert_settled()


def test_of_two_executors_one_executes_and_the_other_says_so() -> None:
    world = deployed()
    world.start_executor("e1")
    world.start_executor("e2")
    world.run_until_final()
    assert world.roles("e1")[-1] is ExecutorRole.EXECUTING
    assert ExecutorRole.EXECUTING not in world.roles("e2")
    assert world.roles("e2")[-1] is ExecutorRole.STANDBY
    assert [report.holder for who, report in world.reports if who == "e2"][-1] == "e1"
    world.assert_settled()


def kill_at(asked: int, *, arrives: bool) -> User | None:
    """Run with an executor that dies at its n-th request, and a second one; None: it needed
    fewer requests than that."""
    world = deployed()
    first = world.start_executor("e1")

    def fault(user: User) -> bool:
        if user.asked == asked:
            user.die()
            return not arrives
        return False

    first.fault = fault
    world.start_executor("e2")
    document = world.run_until_final()
    assert document.state is DeploymentState.DONE, document
    assert world.topology() == TARGET
    assert all(len(ends) == 3 for ends in world.ended.values())
    world.assert_settled()
    return None if first.is_alive else first


@pytest.mark.parametrize("arrives", [True, False])
def test_an_executor_may_die_at_any_point_and_another_resumes(arrives: bool) -> None:
    asked = 1
    while kill_at(asked, arrives=arrives) is not None:
        asked += 1
    assert asked > 30, "the executor did not even ask this often"


def interrupt_at(who: str, asked: int, *, loses: bool, arrives: bool, lasts_s: float) -> bool:
    world = deployed(PLAN)
    executor = world.start_executor("e1", step_timeout_s=30.0, missing_grace_s=10.0)
    user = executor if who == "e1" else world.brokers[who].user
    user.asked = 0
    struck = False

    def fault(user: User) -> bool:
        nonlocal struck
        if user.asked == asked and not struck:
            struck = True
            world.after(
                0.0,
                lambda: user.break_connection(loses=loses, arrives=arrives, lasts_s=lasts_s),
            )
        return False

    user.fault = fault
    document = world.run_until_final()
    assert document.state is DeploymentState.DONE, document
    assert world.topology() == TARGET
    world.assert_settled()
    return struck


@pytest.mark.parametrize("who", ["e1", "b1", "b3", "b4"])
@pytest.mark.parametrize("loses", [True, False])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_session_may_be_suspended_or_lost_at_any_point(
    who: str, loses: bool, arrives: bool
) -> None:
    asked = 1
    while interrupt_at(who, asked, loses=loses, arrives=arrives, lasts_s=0.3):
        asked += 1
    assert asked > 8, f"{who} did not even ask this often"


def test_an_interruption_longer_than_the_brokers_wait_aborts_and_leaves_a_tree() -> None:
    world = deployed()
    world.start_executor("e1")
    while not world.started:
        world.run_for(0.01)
    world.brokers["b4"].user.break_connection(loses=False, arrives=False, lasts_s=5.0)
    document = world.run_until_final()
    assert document.state is DeploymentState.ABORTED
    assert "timed out" in document.reason
    world.assert_settled()


# --- brokers that fail -----------------------------------------------------------------------


def test_a_broker_that_refuses_aborts_the_plan_with_its_reason() -> None:
    world = deployed()
    world.brokers["b3"].refuses = True
    world.start_executor("e1")
    document = world.run_until_final()
    assert document.state is DeploymentState.ABORTED
    assert document.reason == "step 1: shift(b4, b3, b2) was aborted: b3 refuses"
    assert world.topology() == SOURCE
    assert world.states == ["running", "aborting", "aborted"]
    world.assert_settled()


def test_a_step_that_takes_too_long_is_aborted_and_keeps_what_was_committed() -> None:
    world = deployed(Plan(((Shift("b1", "b2", "b3"), Shift("b6", "b5", "b4")),)))
    world.brokers["b1"].hangs = True
    world.start_executor("e1", step_timeout_s=0.8)
    document = world.run_until_final()
    assert document.state is DeploymentState.ABORTED
    assert document.reason == "step 1: timed out, waiting for shift(b1, b2, b3)"
    assert world.topology() == apply_actions(SOURCE, [Shift("b6", "b5", "b4")])
    world.assert_settled()


def test_a_step_waits_for_a_broker_that_is_away_for_a_moment() -> None:
    world = deployed()
    world.crash("b4", down_s=3.0, session_s=0.1)
    world.run_for(0.5)
    world.start_executor("e1", missing_grace_s=8.0)
    world.run_for(2.0)
    assert world.reports[-1][1].missing == ("b4",)
    assert not world.started
    assert world.run_until_final().state is DeploymentState.DONE
    world.assert_settled()


def test_a_broker_that_stays_away_aborts_the_plan() -> None:
    world = deployed()
    world.crash("b4", down_s=60.0, session_s=0.1)
    world.run_for(0.5)
    world.start_executor("e1", missing_grace_s=5.0)
    document = world.run_until_final()
    assert document.reason == "step 1: b4 did not come back"
    assert world.topology() == SOURCE
    world.run_for(60.0)
    world.assert_settled()


@pytest.mark.parametrize("name", ["b1", "b2", "b3", "b4", "b6"])
def test_a_broker_may_crash_at_any_moment(name: str) -> None:
    """Whatever is decided stands, on the restarted broker too."""
    ends = set()
    for moment in range(40):
        world = deployed()
        world.start_executor("e1")
        world.run_for(0.03 * moment)
        world.crash(name, down_s=0.2, session_s=0.8)
        document = world.run_until_final()
        ends.add(document.state)
        if document.state is DeploymentState.DONE:
            assert world.topology() == TARGET
        world.assert_settled()
    assert ends == {DeploymentState.DONE, DeploymentState.ABORTED}


def test_a_restarted_broker_takes_its_own_place_before_its_old_session_is_over() -> None:
    world = deployed()
    world.crash("b4", down_s=0.1, session_s=30.0)
    world.run_for(1.0)
    world.start_executor("e1")
    assert world.run_until_final().state is DeploymentState.DONE
    world.run_for(40.0)
    assert world.brokers["b4"].user.machine.is_ready
    world.assert_settled()


# --- operators -------------------------------------------------------------------------------


def test_a_plan_pauses_after_a_step_and_goes_on_when_told() -> None:
    world = deployed(pause_after=1)
    world.start_executor("e1")
    document = world.run_until(lambda d: d.state is DeploymentState.PAUSED)
    assert document.steps_done == 1
    assert world.topology() == apply_actions(SOURCE, PLAN.steps[0])
    world.run_for(20.0)
    assert not [id_ for id_ in world.started if "/1/" in id_]
    world.run(resume(LAYOUT))
    assert world.run_until_final().state is DeploymentState.DONE
    assert world.states == ["running", "paused", "done"]  # "running" again by the operator
    world.assert_settled()


def test_a_pause_asked_for_during_a_step_comes_after_it() -> None:
    world = deployed()
    world.start_executor("e1")
    world.run_until(lambda d: d.state is DeploymentState.RUNNING)
    world.run(request_pause(LAYOUT))
    document = world.run_until(lambda d: d.state is DeploymentState.PAUSED)
    assert document.steps_done == 1


def test_a_plan_may_be_aborted_at_any_moment() -> None:
    ends = set()
    for moment in range(60):
        world = deployed()
        world.start_executor("e1")
        world.run_for(0.013 * moment)
        if world.deployment().state is DeploymentState.DONE:
            break
        world.run(abort(LAYOUT, "enough"))
        document = world.run_until_final()
        assert document.state is DeploymentState.ABORTED
        assert document.reason == "enough"
        ends.add(len(world.topology().links - SOURCE.links))
        world.assert_settled()
    assert len(ends) > 1, "it was always aborted at the same place"


def test_an_abort_without_executor_waits_for_one() -> None:
    world = deployed()
    first = world.start_executor("e1")
    world.run_until(lambda d: d.state is DeploymentState.RUNNING)
    first.die()
    world.run(abort(LAYOUT, "enough"))
    world.run_for(10.0)
    assert world.deployment().state is DeploymentState.ABORTING
    world.start_executor("e2")
    assert world.run_until_final().state is DeploymentState.ABORTED
    world.assert_settled()


def test_an_end_that_waits_for_a_committed_part_says_for_whom() -> None:
    world = deployed(Plan(((Shift("b1", "b2", "b3"),),)))
    world.start_executor("e1")
    while ActionState.COMMITTED not in world.action_states().values():
        world.run_for(0.001)
    world.crash("b2", down_s=30.0, session_s=0.1)
    world.run(abort(LAYOUT, "enough"))
    world.run_for(20.0)
    assert world.deployment().state is DeploymentState.ABORTING
    assert world.reports[-1][1].missing == ("b2",)
    document = world.run_until_final()
    assert (document.state, document.steps_done) == (DeploymentState.ABORTED, 1)
    assert world.topology() == apply_actions(SOURCE, [Shift("b1", "b2", "b3")])
    world.assert_settled()


def test_another_plan_may_follow() -> None:
    world = deployed()
    world.start_executor("e1")
    world.run_until_final()
    back = Plan(((Shift("b1", "b2", "b3"),),))
    world.run(submit(LAYOUT, PlanRecord(back)))
    document = world.run_until_final()
    assert (document.number, document.state) == (2, DeploymentState.DONE)
    assert world.topology() == apply_actions(TARGET, back.actions())
    world.assert_settled()


def test_a_plan_without_steps_is_done_at_once() -> None:
    world = deployed(Plan())
    world.start_executor("e1")
    assert world.run_until_final().state is DeploymentState.DONE
    assert world.topology() == SOURCE


def test_brokers_join_and_leave_by_a_plan() -> None:
    plan = Plan(((Append("b7", "b3"), Detach("b6", "b5")), (Shift("b7", "b3", "b4"),)))
    world = Deployment(SOURCE, joining=("b7",))
    world.run_for(0.1)
    assert world.brokers["b7"].user.machine.is_ready
    assert not world.brokers["b7"].links
    world.run(submit(LAYOUT, PlanRecord(plan)))
    world.start_executor("e1")
    assert world.run_until_final().state is DeploymentState.DONE
    assert world.topology() == apply_actions(SOURCE, plan.actions())
    world.assert_settled()
