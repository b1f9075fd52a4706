"""Exchanges in the store: one lock for all changes, and nothing stale gets in."""

from __future__ import annotations

from typing import Any

import pytest

from pubweave.deploy.commands import (
    DeploymentError,
    abort,
    create_topology,
    read_progress,
    submit,
)
from pubweave.deploy.documents import ExecutorDocument, encode
from pubweave.deploy.layout import Layout
from pubweave.deploy.link_exchange import ExchangeBusy, find_abandoned, is_operated, submit_exchange
from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.store import Create, List
from pubweave.model.files.plan import PlanRecord
from pubweave.model.ids import Link
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology

LAYOUT = Layout("demo")
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
RING = ("b1", "b2", "b3", "b4")
REMOVED = Link("b2", "b3")


class Store:
    """The memory store with one user who runs scripts."""

    def __init__(self) -> None:
        self.memory = MemoryStore()
        self.session = self.memory.open()
        self.run(create_topology(LAYOUT, CHAIN))

    def run(self, script: Any) -> Any:
        try:
            request = next(script)
            while True:
                request = script.send(self.memory.handle(self.session, request))
        except StopIteration as end:
            return end.value


@pytest.fixture
def store() -> Store:
    return Store()


def test_an_exchange_is_a_plan_of_one_step_that_slides_the_link_round_the_ring(
    store: Store,
) -> None:
    made = store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
    assert (made.by, made.step_count) == ("b4", 1)
    steps = store.run(read_progress(LAYOUT)).steps
    assert steps == (("shift(b2, b3, b4)", "shift(b4, b2, b1)"),)


def test_only_one_change_at_a_time_whoever_asks(store: Store) -> None:
    store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
    plan = PlanRecord(Plan(((Shift("b5", "b4", "b3"),),)))
    with pytest.raises(DeploymentError, match="is ready"):
        store.run(submit(LAYOUT, plan))
    with pytest.raises(ExchangeBusy, match="of b4 is under way"):
        store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    store.run(abort(LAYOUT, "enough"))
    assert store.run(submit(LAYOUT, plan)).by == ""
    with pytest.raises(DeploymentError, match="of an operator") as refused:
        store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    assert not isinstance(refused.value, ExchangeBusy)  # not worth waiting for


@pytest.mark.parametrize("ring", [("b1", "b3", "b4"), ("b1", "b2", "b3", "b9"), ("b5", "b1", "b2")])
def test_a_ring_that_the_overlay_does_not_have_is_refused(
    store: Store, ring: tuple[str, ...]
) -> None:
    with pytest.raises(DeploymentError, match="changed since"):
        store.run(submit_exchange(LAYOUT, ring, REMOVED, "b4"))


def test_a_broker_s_deployment_that_nobody_executes_is_found_and_an_operator_s_is_not(
    store: Store,
) -> None:
    assert store.run(find_abandoned(LAYOUT)) == ""
    made = store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
    assert store.run(find_abandoned(LAYOUT)) == made.deployment
    assert not store.run(is_operated(LAYOUT))
    executor = store.memory.open()
    holder = encode(ExecutorDocument(name="e"))
    store.memory.handle(executor, Create(LAYOUT.executor, holder, ephemeral=True))
    assert store.run(find_abandoned(LAYOUT)) == ""
    store.memory.expire(executor)
    store.run(abort(LAYOUT, "enough"))
    assert store.run(find_abandoned(LAYOUT)) == ""
    store.run(submit(LAYOUT, PlanRecord(Plan(((Shift("b5", "b4", "b3"),),)))))
    assert store.run(find_abandoned(LAYOUT)) == ""
    assert store.run(is_operated(LAYOUT))


def test_an_exchange_leaves_nothing_of_earlier_ones_in_the_store(store: Store) -> None:
    for _ in range(3):
        made = store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
        store.run(abort(LAYOUT, "enough"))
    left = store.memory.handle(store.session, List(LAYOUT.plans)).children
    assert left == (made.deployment,)
