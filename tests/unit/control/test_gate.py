"""The gate: worth it, allowed, and said in words."""

from __future__ import annotations

from typing import Any

import pytest

from pubweave.control.alternatives import Allowed
from pubweave.control.evidence import Evidence
from pubweave.control.gate import History, decide, not_now, nothing_weighed, outdated
from pubweave.control.settings import ControlSettings, OperatorLimits, QuietHours
from pubweave.design.tree.traffic import Traffic
from pubweave.model.decisions import ControlMode, DecisionRecord, DecisionState, Verdict
from pubweave.model.files.plan import topology_hash
from pubweave.model.topology import Topology
from tests.unit.control.world import BROKERS, CHAIN, FAR, evidence, options_for, record

NOW = 1000.0


def settings(**changed: Any) -> ControlSettings:
    return ControlSettings(**{"mode": ControlMode.AUTO, "few_links": (1, 2), **changed})


def decided(
    set_: ControlSettings,
    history: History | None = None,
    seen: Evidence | None = None,
    allowed: Allowed | None = None,
) -> DecisionRecord:
    seen = seen or evidence()
    options = options_for(seen, set_, allowed)
    return decide("demo", seen, options, history or History(), set_, NOW)


def test_what_pays_is_done_and_the_record_says_why_and_how() -> None:
    made = decided(settings())
    assert made.verdict is Verdict.CHANGE
    assert made.state is DecisionState.DEPLOYING
    assert made.deploying_at == NOW
    chosen = made.chosen_alternative
    assert chosen is not None
    assert chosen.net_ms == max(each.net_ms for each in made.alternatives) > 0
    assert made.reason.startswith(f"{len(chosen.added_links)} new link")
    assert made.prediction is not None
    assert made.prediction.cost_ms_per_s == chosen.cost_ms_per_s
    assert made.plan_record().source_hash == topology_hash(CHAIN)
    assert made.plan_hash


@pytest.mark.parametrize(
    ("mode", "state"),
    [
        (ControlMode.OBSERVE, DecisionState.OBSERVED),
        (ControlMode.APPROVE, DecisionState.WAITING),
        (ControlMode.AUTO, DecisionState.DEPLOYING),
    ],
)
def test_the_mode_says_what_becomes_of_a_change(mode: ControlMode, state: DecisionState) -> None:
    made = decided(settings(mode=mode, review_s=60.0))
    assert made.state is state
    assert made.expires_at == (NOW + 60.0 if mode is ControlMode.APPROVE else None)


def test_what_costs_more_than_it_saves_is_not_done() -> None:
    seen = evidence(entries=dict.fromkeys(BROKERS, 1e9))
    made = decided(settings(), seen=seen)
    assert made.verdict is Verdict.STAY
    assert made.state is DecisionState.CLOSED
    assert made.reason.endswith("of change: not worth it")
    assert made.plan == ""


def test_what_saves_too_little_is_not_done() -> None:
    made = decided(settings(least_saving=0.99))
    assert made.verdict is Verdict.STAY
    assert made.reason.endswith("less than the 99% it must be")


def test_where_nothing_is_cheaper_that_is_said() -> None:
    seen = evidence(traffic=Traffic.of(BROKERS, [(("b1", "b2"), 900.0)]))
    assert decided(settings(), seen=seen).reason.startswith("no tree within the limits")


def test_a_budget_that_is_spent_is_the_reason_to_stay() -> None:
    made = decided(settings(), allowed=Allowed(0, "0 of the 4 links a day are left to change"))
    assert made.verdict is Verdict.STAY
    assert made.reason.endswith("but 0 of the 4 links a day are left to change")


def test_the_free_period_standing_down_and_quiet_hours_forbid_everything() -> None:
    done = record("000001", DecisionState.DEPLOYED, ended_at=NOW - 10.0)
    assert "free period" in not_now(History((done,)), settings(), NOW)
    assert not_now(History((done,)), settings(free_period_s=5.0), NOW) == ""
    failed = record(
        "000002", DecisionState.FAILED, ended_at=NOW - 5000.0, stands_down_until=NOW + 600.0
    )
    assert not_now(History((failed,)), settings(), NOW).endswith("standing down until 00:26")
    assert not_now(History((failed,)), settings(), NOW + 601.0) == ""
    quiet = OperatorLimits(quiet_hours=(QuietHours.parse("00:00-01:00"),))
    assert not_now(History(), settings(limits=quiet), NOW).endswith("quiet hours, until 01:00")
    assert not_now(History(), settings(limits=quiet), 3600.0) == ""


def test_a_plan_that_a_person_rejected_is_not_proposed_again_for_a_while() -> None:
    set_ = settings(mode=ControlMode.APPROVE, review_s=600.0)
    first = decided(set_)
    declined = record(
        "000007",
        DecisionState.REJECTED,
        plan_hash=first.plan_hash,
        reviewed_by="ann",
        reviewed_at=NOW - 599.0,
    )
    again = decided(set_, History((declined,)))
    assert again.verdict is Verdict.HOLD
    assert again.reason.endswith("ann rejected this very plan (decision 000007)")
    later = settings(mode=ControlMode.APPROVE, review_s=598.0)
    assert decided(later, History((declined,))).verdict is Verdict.CHANGE


def test_a_proposal_stands_until_it_saves_too_little_or_the_overlay_changed() -> None:
    set_ = settings(mode=ControlMode.APPROVE)
    waiting = decided(set_)
    assert outdated(waiting, evidence(), set_) == ""
    other = evidence(traffic=Traffic.of(BROKERS, [FAR[1], (("b1", "b6"), 1.0)]))
    assert outdated(waiting, other, set_).startswith("by now it would save")
    star = Topology.from_links([("b1", b) for b in BROKERS[1:]])
    assert "overlay has changed" in outdated(waiting, evidence(topology=star), set_)


def test_the_prediction_keeps_what_was_measured_beside_the_model() -> None:
    model = decided(settings())
    measured = decided(settings(), seen=evidence(measured_ms_per_notification=200.0))
    assert model.prediction is not None
    assert measured.prediction is not None
    share = measured.prediction.saving_share
    assert share == pytest.approx(model.prediction.saving_share)
    assert measured.prediction.cost_ms_per_notification == pytest.approx(200.0 * (1 - share))


def test_a_look_without_evidence_says_what_is_missing() -> None:
    gaps = ("the window is 5 s long", "nothing was heard of b2")
    words = "; ".join(gaps)
    made = nothing_weighed("demo", settings(), NOW, Verdict.NO_EVIDENCE, words, evidence(), gaps)
    assert made.state is DecisionState.CLOSED
    assert made.inputs is not None
    assert made.inputs.gaps == gaps
