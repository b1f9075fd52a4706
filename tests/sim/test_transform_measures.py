"""Which deliveries a transformation affected, and what the truth about a deployment catches."""

from __future__ import annotations

import pytest

from pubweave.core.vocabulary.effects import ReportAction
from pubweave.deploy.documents import (
    ActionDocument,
    DeploymentDocument,
    Document,
    Layout,
    TopologyDocument,
    encode,
)
from pubweave.deploy.store import Create, Write
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.ids import Link
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology
from pubweave.sim.checkers.deployment import DeploymentWatch
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.plan_costs import Deliveries, measure, percentile

LAYOUT = Layout("sim")
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
SHIFT = Shift("b1", "b2", "b3")
ACTION = LAYOUT.action("1-a/0/0")


class Story:
    """A deployment of one shift, told write by write."""

    def __init__(self) -> None:
        self.world = World(0)
        self.topologies: list[Topology] = []
        self.watch = DeploymentWatch(self.world, LAYOUT, CHAIN, self.topologies.append)
        self.versions: dict[str, int] = {}
        self.deployment = DeploymentDocument(
            deployment="1-a", number=1, state=DeploymentState.READY, step_count=1
        )
        self.action = ActionDocument.of(SHIFT)
        self.store(LAYOUT.plan, self.deployment)
        self.store(ACTION, self.action)

    def store(self, path: str, document: Document) -> None:
        data = encode(document)
        if path in self.versions:
            self.watch.changed(Write(path, data, self.versions[path]))
        else:
            self.watch.changed(Create(path, data))
        self.versions[path] = self.versions.get(path, -1) + 1

    def plan(self, at: float, state: DeploymentState) -> None:
        self.world.now = at
        self.deployment = self.deployment.moved_to(state)
        self.store(LAYOUT.plan, self.deployment)

    def act(self, at: float, state: ActionState) -> None:
        self.world.now = at
        self.action = self.action.moved_to(state, "b1")
        self.store(ACTION, self.action)


@pytest.fixture
def done() -> Story:
    """A plan from 1.0 to 3.0, whose shift held from 1.4 to 2.0."""
    story = Story()
    story.plan(1.0, DeploymentState.RUNNING)
    story.act(1.1, ActionState.RUNNING)
    story.act(1.8, ActionState.COMMITTED)
    for broker, at, held_s in (("b3", 1.9, 0.4), ("b2", 2.0, 0.5), ("b1", 1.95, 0.55)):
        story.world.now = at
        story.watch.reported(broker, ReportAction("1-a/0/0", True, "", 2, held_s))
    story.act(2.2, ActionState.DONE)
    story.plan(3.0, DeploymentState.DONE)
    return story


def test_a_clean_story_has_no_violation_and_its_topology_is_known(done: Story) -> None:
    assert not done.watch.violations
    assert done.topologies == [done.watch.topology]
    assert done.watch.topology == Topology.from_links(
        [("b1", "b3"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")]
    )
    assert done.watch.first_plan_s() == 2.0


@pytest.mark.parametrize(
    ("delivery", "is_affected"),
    [
        ((1.5, 1.9, "b1", "b2"), True),  # over the removed link during the hold
        ((1.3, 1.5, "b2", "b4"), True),  # over the pivot, met on the way
        ((1.5, 1.9, "b4", "b5"), False),  # elsewhere
        ((1.1, 1.3, "b1", "b2"), False),  # before the hold
        ((2.1, 2.3, "b1", "b2"), False),  # after it
    ],
)
def test_a_delivery_is_affected_if_a_hold_was_on_its_way(
    done: Story, delivery: tuple[float, float, str, str], is_affected: bool
) -> None:
    deliveries = Deliveries()
    deliveries.add(delivery)
    affected, unaffected = deliveries.latencies_ms(done.watch)
    assert (len(affected), len(unaffected)) == ((1, 0) if is_affected else (0, 1))


def test_deliveries_outside_of_any_plan_do_not_count(done: Story) -> None:
    deliveries = Deliveries()
    deliveries.add((0.1, 0.5, "b1", "b2"))
    deliveries.add((3.1, 3.5, "b1", "b2"))
    assert deliveries.latencies_ms(done.watch) == ([], [])


def test_a_judged_delivery_knows_its_way_and_whether_a_plan_ran(done: Story) -> None:
    deliveries = Deliveries()
    for delivery in ((0.1, 0.3, "b1", "b3"), (1.5, 1.9, "b1", "b3"), (2.1, 2.3, "b1", "b3")):
        deliveries.add(delivery)
    before, held, after = deliveries.judged(done.watch)
    assert (before.is_during, before.is_affected) == (False, False)
    assert (held.is_during, held.is_affected) == (True, True)
    assert held.latency_ms == pytest.approx(400.0)
    assert before.way == held.way == {Link("b1", "b2"), Link("b2", "b3")}
    assert (after.is_during, after.is_affected) == (True, False)
    assert after.way == {Link("b1", "b3")}


def test_the_measures_of_a_story(done: Story) -> None:
    deliveries = Deliveries()
    deliveries.add((1.5, 1.9, "b1", "b2"))
    deliveries.add((1.5, 1.6, "b4", "b5"))
    measures = measure(done.watch, deliveries)
    assert measures["plan_s"] == 2.0
    assert measures["hold_ms_max"] == 550.0
    assert measures["held_messages_max"] == 6
    assert measures["affected_ms_p99"] == pytest.approx(400.0)
    assert measures["unaffected_ms_p99"] == pytest.approx(100.0)
    assert measures["affected_share"] == 0.5


def test_a_percentile_is_one_of_the_values() -> None:
    values = [float(n) for n in range(1, 101)]
    assert percentile(values, 0.5) == 51.0
    assert percentile(values, 0.99) == 100.0
    assert percentile([], 0.5) == 0.0


# --- what the watch catches ---------------------------------------------------------------------


def test_caught_a_state_off_its_table() -> None:
    story = Story()
    story.action = ActionDocument(op="shift", brokers=SHIFT.brokers, state=ActionState.DONE)
    story.store(ACTION, story.action)
    assert "pending to done" in story.watch.violations[0]


def test_caught_a_blind_write() -> None:
    story = Story()
    moved = story.action.moved_to(ActionState.RUNNING, "e1")
    story.watch.changed(Write(ACTION, encode(moved)))
    assert "a blind write" in story.watch.violations[0]


def test_caught_a_broker_that_does_what_was_not_decided(done: Story) -> None:
    done.watch.reported("b1", ReportAction("1-a/0/0", False))
    assert "b1 reports" in done.watch.violations[0]


def test_caught_a_topology_that_is_not_what_was_committed(done: Story) -> None:
    done.watch.changed(Create(LAYOUT.topology, encode(TopologyDocument.of(CHAIN))))
    assert "not the source with what was committed" in done.watch.violations[0]


def test_caught_a_step_counted_twice() -> None:
    story = Story()
    story.plan(1.0, DeploymentState.RUNNING)
    skipped = DeploymentDocument(
        deployment="1-a", number=1, state=DeploymentState.RUNNING, step_count=5, steps_done=2
    )
    story.store(LAYOUT.plan, skipped)
    assert "steps 0, 2" in story.watch.violations[0]
