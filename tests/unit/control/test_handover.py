"""A decision's plan is handed over once, whoever was killed in between."""

from __future__ import annotations

import msgspec
import pytest

from pubweave.control.gate import History, decide
from pubweave.control.handover import carried_out, hand_over
from pubweave.control.requests import CarriedOut
from pubweave.control.settings import ControlSettings
from pubweave.deploy.commands import abort, read_progress, submit
from pubweave.deploy.documents import DeploymentDocument, TopologyDocument, encode
from pubweave.deploy.store import Write
from pubweave.model.decisions import ControlMode, DecisionRecord
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology
from tests.unit.control.world import BROKERS, LAYOUT, Store, evidence, options_for

SETTINGS = ControlSettings(mode=ControlMode.AUTO, few_links=(1,))


@pytest.fixture
def store() -> Store:
    return Store()


@pytest.fixture
def decision() -> DecisionRecord:
    seen = evidence()
    made = decide("demo", seen, options_for(seen, SETTINGS), History(), SETTINGS, 0.0)
    return msgspec.structs.replace(made, id="000005")


def end(store: Store, state: DeploymentState, reason: str = "") -> None:
    current = store.run(read_progress(LAYOUT)).deployment
    ended = msgspec.structs.replace(current, state=state, reason=reason)
    store.memory.handle(store.session, Write(LAYOUT.plan, encode(ended)))


def test_the_deployment_says_why(store: Store, decision: DecisionRecord) -> None:
    begun = store.run(hand_over(LAYOUT, decision))
    assert isinstance(begun, DeploymentDocument)
    assert begun.state is DeploymentState.READY
    assert begun.deployment.endswith(decision.plan_hash)
    assert begun.purpose == f"decision 000005: {decision.reason}"


def test_handed_over_again_it_is_the_same_deployment(
    store: Store, decision: DecisionRecord
) -> None:
    begun = store.run(hand_over(LAYOUT, decision))
    assert store.run(hand_over(LAYOUT, decision)) == begun


def test_a_paused_one_goes_on(store: Store, decision: DecisionRecord) -> None:
    store.run(hand_over(LAYOUT, decision))
    end(store, DeploymentState.PAUSED)
    resumed = store.run(hand_over(LAYOUT, decision))
    assert resumed.state is DeploymentState.RUNNING
    assert resumed.pause_after is None


@pytest.mark.parametrize("state", [DeploymentState.DONE, DeploymentState.ABORTED])
def test_one_that_ended_while_nobody_looked_is_not_done_again(
    store: Store, decision: DecisionRecord, state: DeploymentState
) -> None:
    begun = store.run(hand_over(LAYOUT, decision))
    end(store, state, "step 2: too slow")
    assert store.run(hand_over(LAYOUT, decision)) == CarriedOut(
        state, begun.deployment, "step 2: too slow"
    )


def test_a_deployment_of_a_version_without_the_field_is_known_by_its_purpose(
    store: Store, decision: DecisionRecord
) -> None:
    begun = store.run(hand_over(LAYOUT, decision))
    assert isinstance(begun, DeploymentDocument)
    assert begun.decision == decision.id
    old = msgspec.json.decode(encode(begun))
    del old["decision"]
    store.memory.handle(store.session, Write(LAYOUT.plan, msgspec.json.encode(old)))
    again = store.run(hand_over(LAYOUT, decision))
    assert isinstance(again, DeploymentDocument)
    assert again.deployment == begun.deployment


def test_somebody_elses_plan_goes_before(store: Store, decision: DecisionRecord) -> None:
    other = store.run(submit(LAYOUT, PlanRecord(Plan(((Shift("b1", "b2", "b3"),),)))))
    refused = store.run(hand_over(LAYOUT, decision))
    assert refused == CarriedOut(None, reason=f"deployment {other.deployment} is under way")
    store.run(abort(LAYOUT, "enough"))
    assert isinstance(store.run(hand_over(LAYOUT, decision)), DeploymentDocument)


def test_a_plan_for_another_overlay_is_not_handed_over(
    store: Store, decision: DecisionRecord
) -> None:
    star = Topology.from_links([("b1", b) for b in BROKERS[1:]])
    store.memory.handle(store.session, Write(LAYOUT.topology, encode(TopologyDocument.of(star))))
    refused = store.run(hand_over(LAYOUT, decision))
    assert refused.state is None
    assert "overlay has changed" in refused.reason


def test_only_what_is_over_has_an_end(store: Store, decision: DecisionRecord) -> None:
    with pytest.raises(AssertionError):
        carried_out(store.run(hand_over(LAYOUT, decision)))
