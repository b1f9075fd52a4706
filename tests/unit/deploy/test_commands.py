"""An operator's scripts: what they refuse, and that they survive being cut off."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import pytest

from pubweave.deploy.commands import (
    DeploymentError,
    abort,
    create_topology,
    read_progress,
    read_topology,
    request_pause,
    resume,
    submit,
    sweep,
)
from pubweave.deploy.documents import (
    ActionDocument,
    BrokerDocument,
    DeploymentDocument,
    Layout,
    PartDocument,
    UnusableNameError,
    decode,
    encode,
)
from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.store import Create, Outcome, Read, StoreAnswer, StoreRequest, Write
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.plans import Move, Plan, Shift
from pubweave.model.topology import Topology, TopologyError
from tests.deploy_driver import LAYOUT, Deployment

SOURCE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
PLAN = Plan(((Shift("b1", "b2", "b3"),), (Shift("b1", "b3", "b4"),)))
T = TypeVar("T")


@pytest.fixture
def world() -> Deployment:
    return Deployment(SOURCE)


def test_the_first_topology_stays(world: Deployment) -> None:
    other = Topology.from_links([("b1", "b9")])
    assert world.run(create_topology(LAYOUT, other)) is False
    assert world.run(read_topology(LAYOUT)) == SOURCE


def test_only_trees_with_storable_names_are_stored() -> None:
    store = Deployment(SOURCE)
    with pytest.raises(TopologyError, match="not a tree"):
        store.run(create_topology(Layout("other"), Topology.from_links([], ["b1", "b2"])))
    with pytest.raises(UnusableNameError, match="b/1"):
        store.run(create_topology(Layout("other"), Topology.from_links([("b/1", "b2")])))
    with pytest.raises(UnusableNameError, match="the overlay's name"):
        Layout("a b")


def test_an_overlay_the_store_does_not_know_is_named(world: Deployment) -> None:
    with pytest.raises(DeploymentError, match="knows no topology of the overlay 'other'"):
        world.run(submit(Layout("other"), PlanRecord(PLAN)))


def test_a_submitted_plan_is_ready(world: Deployment) -> None:
    document = world.run(submit(LAYOUT, PlanRecord(PLAN, source_hash=topology_hash(SOURCE))))
    assert (document.state, document.step_count) == (DeploymentState.READY, 2)
    progress = world.run(read_progress(LAYOUT))
    assert progress.steps == (("shift(b1, b2, b3)",), ("shift(b1, b3, b4)",))
    assert progress.executor is None


def drive(
    ask: Callable[[StoreRequest], StoreAnswer], script: Generator[StoreRequest, StoreAnswer, T]
) -> T:
    """Run a script on a store that answers at once."""
    request = next(script)
    try:
        while True:
            request = script.send(ask(request))
    except StopIteration as end:
        value: T = end.value
        return value


def test_a_decided_action_names_those_it_waits_for_and_who_of_them_is_not_there() -> None:
    store = MemoryStore()
    hand = store.open()

    def ask(request: StoreRequest) -> StoreAnswer:
        return store.handle(hand, request)

    drive(ask, create_topology(LAYOUT, SOURCE))
    deployment = drive(ask, submit(LAYOUT, PlanRecord(PLAN))).deployment
    document = ActionDocument.of(PLAN.steps[0][0]).moved_to(ActionState.RUNNING, "e1")
    ask(Create(LAYOUT.action(f"{deployment}/0/0"), encode(document)))
    assert drive(ask, read_progress(LAYOUT)).actions[0].waits_for == (), "it may still be aborted"
    decided = document.moved_to(ActionState.COMMITTED, "b1")
    ask(Write(LAYOUT.action(f"{deployment}/0/0"), encode(decided), 0))
    ask(Create(LAYOUT.part(f"{deployment}/0/0", "b1"), encode(PartDocument(done=True))))
    ask(Create(LAYOUT.broker("b3"), encode(BrokerDocument(address="b3:1", epoch=1))))
    progress = drive(ask, read_progress(LAYOUT))
    assert progress.actions[0].waits_for == ("b2", "b3")
    assert progress.missing == ("b2",)


def test_a_plan_for_another_topology_is_refused(world: Deployment) -> None:
    foreign = topology_hash(Topology.from_links([("b1", "b2")]))
    with pytest.raises(DeploymentError, match="made for another topology"):
        world.run(submit(LAYOUT, PlanRecord(PLAN, source_hash=foreign)))


def test_a_plan_that_does_not_fit_is_refused_by_step(world: Deployment) -> None:
    misfit = Plan((PLAN.steps[0], PLAN.steps[0]))
    with pytest.raises(DeploymentError, match=r"step 2 of the plan does not fit.*b1-b2"):
        world.run(submit(LAYOUT, PlanRecord(misfit)))


def test_a_second_plan_is_refused_while_one_is_under_way(world: Deployment) -> None:
    world.run(submit(LAYOUT, PlanRecord(PLAN)))
    with pytest.raises(DeploymentError, match=r"is ready \(0 of 2 steps done"):
        world.run(submit(LAYOUT, PlanRecord(PLAN)))


def test_a_move_is_carried_out_as_its_shifts(world: Deployment) -> None:
    world.run(submit(LAYOUT, PlanRecord(Plan(((Move("b1", "b2", "b1", "b4"),),)))))
    world.start_executor("e1")
    assert world.run_until_final().state is DeploymentState.DONE
    assert world.topology() == Topology.from_links([("b1", "b4"), ("b2", "b3"), ("b3", "b4")])
    world.assert_settled()


def test_what_cannot_be_done_now_is_said(world: Deployment) -> None:
    for script in (resume, request_pause, read_progress):
        with pytest.raises(DeploymentError, match="no plan was ever applied"):
            world.run(script(LAYOUT))
    world.run(submit(LAYOUT, PlanRecord(PLAN)))
    assert world.run(abort(LAYOUT, "no")).state is DeploymentState.ABORTED
    assert world.run(abort(LAYOUT, "again")).reason == "no"
    with pytest.raises(DeploymentError, match="the plan is aborted: it cannot be resumed"):
        world.run(resume(LAYOUT))
    with pytest.raises(DeploymentError, match="the plan is aborted: it cannot pause"):
        world.run(request_pause(LAYOUT))
    world.run(submit(LAYOUT, PlanRecord(PLAN)))
    world.start_executor("e1")
    world.run_until_final()
    with pytest.raises(DeploymentError, match="the plan is done"):
        world.run(abort(LAYOUT, "late"))


def test_progress_shows_actions_and_what_brokers_held(world: Deployment) -> None:
    world.run(submit(LAYOUT, PlanRecord(PLAN), pause_after=1))
    world.start_executor("e1")
    world.run_until(lambda d: d.state is DeploymentState.RUNNING)
    seen = set()
    while world.deployment().state is not DeploymentState.PAUSED:
        world.run_for(0.005)
        progress = world.run(read_progress(LAYOUT))
        seen |= {(a.text, a.state.value, a.held_messages) for a in progress.actions}
        assert progress.executor == "e1"
    assert ("shift(b1, b2, b3)", "running", 0) in seen
    assert ("shift(b1, b2, b3)", "done", 6) in seen
    assert ("shift(b1, b3, b4)", "pending", 0) in seen


def test_a_sweep_leaves_only_the_current_deployment(world: Deployment) -> None:
    for _ in range(2):
        world.run(submit(LAYOUT, PlanRecord(PLAN)))
        executor = world.start_executor("e1")
        world.run_until(lambda d: d.state is DeploymentState.RUNNING)
        world.run(abort(LAYOUT, "next"))
        world.run_until_final()
        world.run_for(1.0)
        executor.die(0.0)
        world.run_for(0.1)
    before = len(world.store.paths())
    removed = world.run(sweep(LAYOUT))
    assert removed == before - len(world.store.paths()) > 4
    assert not [path for path in world.store.paths() if f"{LAYOUT.plans}/1-" in path]
    assert world.run(read_progress(LAYOUT)).deployment.number == 2
    world.run(submit(LAYOUT, PlanRecord(PLAN)))
    world.start_executor("e2")
    assert world.run_until_final().state is DeploymentState.DONE
    world.assert_settled()


# --- interruptions -----------------------------------------------------------------------------


def run_cut(
    store: MemoryStore, script: Generator[StoreRequest, StoreAnswer, T], cut: int, arrives: bool
) -> T:
    """Run a script whose n-th request is interrupted."""
    session = store.open()
    request = next(script)
    asked = 0
    try:
        while True:
            asked += 1
            if asked == cut and not arrives:
                answer = StoreAnswer(request, Outcome.UNSURE)
            else:
                answer = store.handle(session, request)
                if asked == cut:
                    answer = StoreAnswer(request, Outcome.UNSURE)
            request = script.send(answer)
    except StopIteration as end:
        value: T = end.value
        return value


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("cut", range(1, 8))
def test_a_plan_is_submitted_once_however_it_is_interrupted(cut: int, arrives: bool) -> None:
    world = Deployment(SOURCE)
    document = run_cut(world.store, submit(LAYOUT, PlanRecord(PLAN)), cut, arrives)
    assert document == world.deployment()
    assert document.number == 1


@pytest.mark.parametrize("arrives", [True, False])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_an_abort_happens_however_it_is_interrupted(cut: int, arrives: bool) -> None:
    world = Deployment(SOURCE)
    world.run(submit(LAYOUT, PlanRecord(PLAN)))
    document = run_cut(world.store, abort(LAYOUT, "enough"), cut, arrives)
    assert document == world.deployment()
    assert document.state is DeploymentState.ABORTED


def test_a_change_is_made_to_what_somebody_else_wrote_meanwhile() -> None:
    world = Deployment(SOURCE)
    world.run(submit(LAYOUT, PlanRecord(PLAN)))
    store, session = world.store, world.store.open()
    script = request_pause(LAYOUT)
    seen = store.handle(session, next(script))
    document = decode(seen.data, DeploymentDocument, LAYOUT.plan)
    running = encode(document.moved_to(DeploymentState.RUNNING))
    store.handle(session, Write(LAYOUT.plan, running, seen.version))
    request = script.send(seen)
    request = script.send(store.handle(session, request))
    assert isinstance(request, Read), "the lost race is not noticed"
    request = script.send(store.handle(session, request))
    with pytest.raises(StopIteration):
        script.send(store.handle(session, request))
    assert world.deployment().state is DeploymentState.RUNNING
    assert world.deployment().pause_after == 1
