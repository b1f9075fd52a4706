"""Exchanges in the store: one lock for all changes, nothing stale gets in, and the rules of the
engine beside a broker, driven by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.vocabulary.effects import ProposeExchange
from pubweave.core.vocabulary.events import ExchangeEnded, OrganizingPaused
from pubweave.deploy.commands import (
    DeploymentError,
    abort,
    create_topology,
    read_progress,
    submit,
)
from pubweave.deploy.documents import (
    DeploymentDocument,
    ExecutorDocument,
    Layout,
    decode,
    encode,
)
from pubweave.deploy.link_exchange import (
    RETRY_S,
    ExchangeBusy,
    HostExecutor,
    OrganizerEngine,
    Step,
    WaitFor,
    submit_exchange,
)
from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.store import ANY_VERSION, Create, List, Read, StoreRequest, Write
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.ids import Link
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology

LAYOUT = Layout("demo")
CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
RING = ("b1", "b2", "b3", "b4")
REMOVED = Link("b2", "b3")
PROPOSED = ProposeExchange("b4.1.1", RING, REMOVED)
SHIFT = PlanRecord(Plan(((Shift("b5", "b4", "b3"),),)))
CONFIG = OrganizeConfig(lock_s=2.0, interval_s=5.0)


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
    with pytest.raises(DeploymentError, match="is ready"):
        store.run(submit(LAYOUT, SHIFT))
    with pytest.raises(ExchangeBusy, match="of b4 is under way"):
        store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    store.run(abort(LAYOUT, "enough"))
    assert store.run(submit(LAYOUT, SHIFT)).by == ""
    with pytest.raises(DeploymentError, match="of an operator") as refused:
        store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    assert not isinstance(refused.value, ExchangeBusy)  # not worth waiting for


@pytest.mark.parametrize("ring", [("b1", "b3", "b4"), ("b1", "b2", "b3", "b9"), ("b5", "b1", "b2")])
def test_a_ring_that_the_overlay_does_not_have_is_refused(
    store: Store, ring: tuple[str, ...]
) -> None:
    with pytest.raises(DeploymentError, match="changed since"):
        store.run(submit_exchange(LAYOUT, ring, REMOVED, "b4"))


def test_an_exchange_leaves_nothing_of_earlier_ones_in_the_store(store: Store) -> None:
    for _ in range(3):
        made = store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
        store.run(abort(LAYOUT, "enough"))
    left = store.memory.handle(store.session, List(LAYOUT.plans)).children
    assert left == (made.deployment,)


# --- the engine ----------------------------------------------------------------------------------


class Errand:
    """An errand whose requests are answered at once; its other steps are a test's to answer."""

    def __init__(self, store: Store, errand: Any) -> None:
        self._store = store
        self._errand = errand
        self.step: Step | None = None
        """What it asks of its driver; None: it is over."""
        self.answer(None)

    def answer(self, value: Any) -> Step | None:
        return self._advance(lambda: self._errand.send(value))

    def fail(self, reason: str) -> Step | None:
        return self._advance(lambda: self._errand.throw(DeploymentError(reason)))

    def _advance(self, begin: Any) -> Step | None:
        try:
            step = begin()
            while isinstance(step, StoreRequest):
                step = self._errand.send(self._store.memory.handle(self._store.session, step))
        except StopIteration:
            step = None
        self.step = step
        return self.step


def engine(broker: str = "b4") -> OrganizerEngine:
    return OrganizerEngine(LAYOUT, broker, CONFIG)


def deployment(store: Store) -> DeploymentDocument:
    answer = store.memory.handle(store.session, Read(LAYOUT.plan))
    return decode(answer.data, DeploymentDocument, LAYOUT.plan)


def report(name: str, state: DeploymentState, reason: str = "") -> DeploymentDocument:
    return DeploymentDocument(deployment=name, number=1, state=state, step_count=1, reason=reason)


def ended(store: Store, state: DeploymentState, reason: str = "") -> DeploymentDocument:
    """What an executor reports at the end of the deployment."""
    return report(deployment(store).deployment, state, reason)


def test_an_agreed_exchange_is_handed_over_executed_and_told(store: Store) -> None:
    errand = Errand(store, engine().carry_out(PROPOSED, 0.0))
    hosted = HostExecutor(deployment(store).deployment)
    assert errand.step == hosted
    assert deployment(store).by == "b4"
    assert errand.answer(None) == hosted, "an executor that died is replaced"
    told = ExchangeEnded("b4.1.1", True, "")
    assert errand.answer(ended(store, DeploymentState.DONE)) == told
    assert errand.answer(None) is None


def test_an_exchange_that_was_aborted_or_whose_end_was_missed_is_not_done(store: Store) -> None:
    errand = Errand(store, engine().carry_out(PROPOSED, 0.0))
    told = ExchangeEnded("b4.1.1", False, "too slow")
    assert errand.answer(ended(store, DeploymentState.ABORTED, "too slow")) == told
    store.run(abort(LAYOUT, "too slow"))
    errand = Errand(store, engine().carry_out(PROPOSED, 0.0))
    another = report("7-other", DeploymentState.DONE)
    told = ExchangeEnded("b4.1.1", False, "another plan came after it, its end was missed")
    assert errand.answer(another) == told


def test_an_executor_is_needed_until_ours_is_over_or_another_one_came() -> None:
    hosted = HostExecutor("1-ours")
    assert not hosted.is_over(None)
    assert not hosted.is_over(report("1-ours", DeploymentState.RUNNING))
    assert hosted.is_over(report("1-ours", DeploymentState.ABORTED))
    assert hosted.is_over(report("2-other", DeploymentState.RUNNING))


def test_an_exchange_waits_for_another_one_while_its_ring_is_locked(store: Store) -> None:
    store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    errand = Errand(store, engine().carry_out(PROPOSED, 10.0))
    assert errand.step == WaitFor(RETRY_S)
    assert errand.answer(10.9) == WaitFor(RETRY_S)
    told = errand.answer(11.0)
    assert isinstance(told, ExchangeEnded)
    assert not told.done
    assert "of b1 is under way" in told.reason


def test_an_exchange_that_waited_goes_on_when_the_other_is_over(store: Store) -> None:
    store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    errand = Errand(store, engine().carry_out(PROPOSED, 0.0))
    store.run(abort(LAYOUT, "enough"))
    assert isinstance(errand.answer(RETRY_S), HostExecutor)


def test_a_broker_that_waits_can_finish_what_it_waits_for(store: Store) -> None:
    store.run(submit_exchange(LAYOUT, RING, REMOVED, "b1"))
    ours = engine()
    waiting = Errand(store, ours.carry_out(PROPOSED, 0.0))
    look = Errand(store, ours.look())
    assert look.step == HostExecutor(deployment(store).deployment)
    assert isinstance(waiting.answer(RETRY_S), ExchangeEnded), "busy with that one now"


def test_one_thing_at_a_time_and_free_again_after_each(store: Store) -> None:
    ours = engine()
    first = Errand(store, ours.carry_out(PROPOSED, 0.0))
    told = ExchangeEnded("b4.1.1", False, "another exchange is under way here")
    assert Errand(store, ours.carry_out(PROPOSED, 0.0)).step == told
    with pytest.raises(DeploymentError, match="under way here"):
        Errand(store, ours.look())
    told = ExchangeEnded("b4.1.1", False, "no ZooKeeper answers")
    assert first.fail("no ZooKeeper answers") == told
    assert Errand(store, ours.look()).step == HostExecutor(deployment(store).deployment)


def test_an_operator_goes_before_everything(store: Store) -> None:
    store.run(submit(LAYOUT, SHIFT))
    ours = engine()
    refused = Errand(store, ours.carry_out(PROPOSED, 0.0)).step
    assert isinstance(refused, ExchangeEnded)
    assert "of an operator is under way" in refused.reason
    look = Errand(store, ours.look())
    assert look.step == OrganizingPaused(True)
    assert ours.is_operated
    assert look.answer(None) is None, "the plan of an operator is not ours to finish"
    assert Errand(store, ours.look()).step is None, "told once"
    store.run(abort(LAYOUT, "enough"))
    assert Errand(store, ours.look()).step == OrganizingPaused(False)
    assert not ours.is_operated


def test_a_look_finishes_only_what_nobody_executes(store: Store) -> None:
    ours = engine("b5")
    assert Errand(store, ours.look()).step is None
    made = store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
    executor = store.memory.open()
    holder = encode(ExecutorDocument(name="e"))
    store.memory.handle(executor, Create(LAYOUT.executor, holder, ephemeral=True))
    assert Errand(store, ours.look()).step is None
    store.memory.expire(executor)
    look = Errand(store, ours.look())
    assert look.step == HostExecutor(made.deployment)
    assert look.answer(ended(store, DeploymentState.DONE)) is None, "nobody here asked for it"


def test_a_paused_exchange_is_left_to_whoever_paused_it(store: Store) -> None:
    store.run(submit_exchange(LAYOUT, RING, REMOVED, "b4"))
    current = deployment(store)
    paused = msgspec.structs.replace(current, state=DeploymentState.PAUSED)
    store.memory.handle(store.session, Write(LAYOUT.plan, encode(paused), ANY_VERSION))
    assert Errand(store, engine("b5").look()).step is None


def test_looks_come_every_few_intervals() -> None:
    assert engine().look_every_s == 20.0
