"""Documents of the store: readable back, and states change only along their tables."""

from __future__ import annotations

from itertools import product

import pytest

from pubweave.deploy.documents import (
    ActionDocument,
    ActionEntry,
    BrokerReport,
    DeploymentDocument,
    DocumentError,
    PlanDocument,
    TopologyDocument,
    decode,
    encode,
)
from pubweave.model.deployment import (
    ACTION_CHANGES,
    DEPLOYMENT_CHANGES,
    AbortedBy,
    ActionState,
    DeploymentState,
)
from pubweave.model.plans import Append, Detach, Move, Plan, Shift
from pubweave.model.records.status import BrokerStatus, CounterStatus, RateStatus, SessionStatus
from pubweave.model.topology import Topology

ACTIONS = (
    Shift("b1", "b2", "b3"),
    Move("b1", "b2", "b3", "b4"),
    Append("b5", "b1"),
    Detach("b4", "b3"),
)


@pytest.mark.parametrize(("old", "new"), list(product(ActionState, ActionState)))
def test_an_action_moves_only_along_its_table(old: ActionState, new: ActionState) -> None:
    document = ActionDocument(op="shift", brokers=("b1", "b2", "b3"), state=old)
    if new in ACTION_CHANGES[old]:
        moved = document.moved_to(new, "b1", "because")
        assert (moved.state, moved.by, moved.reason) == (new, "b1", "because")
    else:
        with pytest.raises(AssertionError):
            document.moved_to(new, "b1")


@pytest.mark.parametrize(("old", "new"), list(product(DeploymentState, DeploymentState)))
def test_a_deployment_moves_only_along_its_table(
    old: DeploymentState, new: DeploymentState
) -> None:
    document = DeploymentDocument(deployment="1-a", number=1, state=old, step_count=3)
    if new in DEPLOYMENT_CHANGES[old]:
        assert document.moved_to(new).state is new
    else:
        with pytest.raises(AssertionError):
            document.moved_to(new)


def test_every_state_can_be_reached_and_ends_are_ends() -> None:
    for table in (ACTION_CHANGES, DEPLOYMENT_CHANGES):
        first = next(iter(table))
        reached = {first}
        waiting = [first]
        for state in waiting:
            for after in table[state] - reached:
                reached.add(after)
                waiting.append(after)
        assert reached == set(table)
    assert {s for s in DeploymentState if s.is_final} == {
        DeploymentState.DONE,
        DeploymentState.ABORTED,
    }


def test_a_reason_and_who_gave_up_stay() -> None:
    document = DeploymentDocument(
        deployment="1-a", number=1, state=DeploymentState.RUNNING, step_count=3
    )
    aborting = document.given_up(DeploymentState.ABORTING, AbortedBy.OPERATOR, "enough")
    aborted = aborting.moved_to(DeploymentState.ABORTED)
    assert (aborted.reason, aborted.aborted_by) == ("enough", AbortedBy.OPERATOR)


@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_an_action_comes_back_from_its_document(action: Shift) -> None:
    assert ActionDocument.of(action).action() == action
    assert ActionEntry.of(action).action() == action


def test_a_plan_and_a_topology_come_back_from_their_bytes() -> None:
    plan = Plan(((ACTIONS[0], ACTIONS[2]), (ACTIONS[1],)))
    document = PlanDocument.of(plan, "s", "t")
    assert decode(encode(document), PlanDocument, "/p").plan() == plan
    topology = Topology.from_links([("b2", "b1"), ("b2", "b3")], ["b9"])
    stored = TopologyDocument.of(topology, "4-x", 2)
    again = decode(encode(stored), TopologyDocument, "/t")
    assert (again.topology(), again.deployment, again.steps_applied) == (topology, "4-x", 2)


def test_the_same_document_has_the_same_bytes() -> None:
    links = [("b3", "b1"), ("b2", "b1"), ("b4", "b2")]
    forwards = TopologyDocument.of(Topology.from_links(links))
    backwards = TopologyDocument.of(Topology.from_links(reversed(links)))
    assert encode(forwards) == encode(backwards)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (b"", "/plan: not a DeploymentDocument"),
        (b"[1]", "/plan: not a DeploymentDocument"),
        (b'{"deployment":"1","number":1,"state":"odd","step_count":1}', "odd"),
        (
            b'{"format_version":2,"deployment":"1","number":1,"state":"done","step_count":1}',
            "/plan: format_version 2, this program reads 1",
        ),
    ],
)
def test_a_foreign_document_is_refused_by_path_and_reason(data: bytes, complaint: str) -> None:
    with pytest.raises(DocumentError, match=complaint):
        decode(data, DeploymentDocument, "/plan")


def test_a_report_adds_up_the_queues_of_all_sessions() -> None:
    def session(remote: str, queued: int) -> SessionStatus:
        return SessionStatus(remote, "established", queued, 10 * queued, 0, None, False)

    status = BrokerStatus(
        broker="b1",
        strategy="tree",
        uptime_s=3.0,
        subscriptions=5,
        advertisements=4,
        forwarded=1,
        links=(session("b2", 2), session("b3", 3)),
        client_count=7,
        clients=(session("k1", 4),),
        queue_bytes=90,
        counters=CounterStatus(notifications_lost=6),
        rates=RateStatus(publications_in_per_s=8.0),
    )
    report = BrokerReport.of(status)
    assert (report.queue_messages, report.queue_bytes, report.link_count) == (9, 90, 2)
    assert (report.client_count, report.notifications_lost) == (7, 6)
    assert report.rates.publications_in_per_s == 8.0
