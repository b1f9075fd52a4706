"""What a plan does to the links of the picture."""

from __future__ import annotations

import pytest

from pubweave.dashboard.documents import (
    LinkRole,
    Mark,
    When,
    brokers_of,
    deployment_marks,
    links_after,
    links_of,
    proposal_marks,
    steps_of,
)
from pubweave.dashboard.snapshot import DeploymentView
from pubweave.generate.topologies.trees import chain
from pubweave.model.decisions import ControlMode, DecisionRecord, DecisionState, Verdict
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord, plan_to_json
from pubweave.model.ids import Link
from pubweave.model.plans import Action, Append, Detach, Move, Plan, Shift

# b1-b2-b3-b4-b5: first b1 goes to b3, then to b4; b5 to b3 in the first step.
TWO_STEPS = (
    (Shift("b1", "b2", "b3"), Shift("b5", "b4", "b3")),
    (Shift("b1", "b3", "b4"),),
)


def link(text: str) -> Link:
    return Link.between(*text.split("-"))


def deployment(steps_done: int, state: DeploymentState) -> DeploymentView:
    return DeploymentView("1-a", state, TWO_STEPS, steps_done)


@pytest.mark.parametrize(
    ("action", "removed", "pivot", "added"),
    [
        (Shift("b1", "b2", "b3"), "b1-b2", "b2-b3", "b1-b3"),
        (Move("b1", "b2", "b4", "b5"), "b1-b2", None, "b4-b5"),
        (Append("b9", "b1"), None, None, "b1-b9"),
        (Detach("b9", "b1"), "b1-b9", None, None),
    ],
)
def test_an_action_names_its_links(
    action: Action, removed: str | None, pivot: str | None, added: str | None
) -> None:
    expected = tuple(None if text is None else link(text) for text in (removed, pivot, added))
    assert links_of(action) == expected


def test_the_step_under_way_is_marked_before_what_comes_later() -> None:
    marks = deployment_marks(chain(5).links, deployment(0, DeploymentState.RUNNING))
    assert marks == {
        link("b1-b2"): Mark(LinkRole.REMOVED, When.NOW),
        link("b2-b3"): Mark(LinkRole.PIVOT, When.NOW),
        link("b1-b3"): Mark(LinkRole.NEW, When.NOW),
        link("b4-b5"): Mark(LinkRole.REMOVED, When.NOW),
        link("b3-b4"): Mark(LinkRole.PIVOT, When.NOW),
        link("b3-b5"): Mark(LinkRole.NEW, When.NOW),
        link("b1-b4"): Mark(LinkRole.NEW, When.LATER),
    }


def test_what_is_done_and_stays_is_told_from_what_the_last_step_does() -> None:
    links = links_after(chain(5).links, TWO_STEPS[:1])
    marks = deployment_marks(links, deployment(1, DeploymentState.RUNNING))
    assert marks == {
        link("b3-b5"): Mark(LinkRole.NEW, When.DONE),
        link("b1-b3"): Mark(LinkRole.REMOVED, When.NOW),
        link("b3-b4"): Mark(LinkRole.PIVOT, When.NOW),
        link("b1-b4"): Mark(LinkRole.NEW, When.NOW),
    }


def test_a_paused_plan_has_no_step_under_way() -> None:
    links = links_after(chain(5).links, TWO_STEPS[:1])
    marks = deployment_marks(links, deployment(1, DeploymentState.PAUSED))
    assert {mark.when for mark in marks.values()} == {When.DONE, When.LATER}


def test_a_proposal_shows_only_where_it_leads() -> None:
    marks = proposal_marks(chain(5).links, TWO_STEPS)
    assert marks == {
        link("b1-b2"): Mark(LinkRole.REMOVED, When.PROPOSED),
        link("b4-b5"): Mark(LinkRole.REMOVED, When.PROPOSED),
        link("b1-b4"): Mark(LinkRole.NEW, When.PROPOSED),
        link("b3-b5"): Mark(LinkRole.NEW, When.PROPOSED),
    }


def test_all_brokers_of_a_plan_are_known_also_those_to_come() -> None:
    assert brokers_of((*TWO_STEPS, (Append("b9", "b1"),))) == {"b1", "b2", "b3", "b4", "b5", "b9"}


def decision(plan: str) -> DecisionRecord:
    return DecisionRecord(
        id="000001",
        overlay="made",
        decided_at=0.0,
        mode=ControlMode.APPROVE,
        verdict=Verdict.CHANGE,
        reason="it pays",
        state=DecisionState.WAITING,
        plan=plan,
    )


def test_a_decisions_plan_is_read_and_one_that_cannot_be_read_is_none() -> None:
    assert steps_of(decision(plan_to_json(PlanRecord(Plan(TWO_STEPS))))) == TWO_STEPS
    assert steps_of(decision("")) == ()
    assert steps_of(decision("{nonsense")) == ()
