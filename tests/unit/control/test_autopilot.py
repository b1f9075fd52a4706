"""The loop, request by request: what it does, in which order, and what it does not do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from pubweave.control.autopilot import Autopilot
from pubweave.control.evidence import Soundness
from pubweave.control.records import approve, list_decisions, reject
from pubweave.control.requests import (
    AskStore,
    CarriedOut,
    CarryOut,
    Reply,
    Rest,
    TakeProfile,
    Tell,
    Trouble,
    Weigh,
)
from pubweave.control.settings import ControlSettings
from pubweave.design.tree.traffic import Traffic
from pubweave.model.decisions import (
    AutopilotPhase,
    ControlMode,
    DecisionRecord,
    DecisionState,
    Verdict,
)
from pubweave.model.deployment import AbortedBy, DeploymentState
from pubweave.model.topology import Topology
from tests.unit.control.world import BROKERS, LAYOUT, Store, evidence, options_for

State = DecisionState
DONE = CarriedOut(DeploymentState.DONE, "1-ab")
PERIOD_S = 100.0


class Driver:
    """Answers the loop's requests from a script of the test; the store is real, in memory."""

    def __init__(self, mode: ControlMode = ControlMode.AUTO, **changed: Any) -> None:
        self.settings = ControlSettings(
            **{
                "mode": mode,
                "period_s": PERIOD_S,
                "free_period_s": 250.0,
                "few_links": (1, 2),
                "review_s": 1000.0,
                "review_poll_s": 10.0,
                **changed,
            }
        )
        self.store = Store()
        self.now = 0.0
        self.topology = evidence().topology
        self.profile: Callable[[float], object] = self.fresh
        self.end: object = DONE
        self.is_store_away = False
        self.asked: list[str] = []
        self.lines: list[str] = []
        self.statuses: list[Any] = []
        self.carried: list[DecisionRecord] = []
        self.at: dict[float, Callable[[], object]] = {}

    def fresh(self, since: float) -> object:
        return evidence(
            profile_id=f"run@{self.now:.0f}",
            # The overlay ran long before the test begins.
            window_started_at=since if since > 0 else self.now - PERIOD_S,
            window_ended_at=self.now,
            topology=self.topology,
        )

    def run(self, until: float) -> Driver:
        """A loop from here until an instant; then it is killed."""
        self.loop = Autopilot("demo", "test", self.settings)
        running = self.loop.run(self.now)
        request = next(running)
        while self.now < until:
            request = running.send(Reply(self.answer(request, until), self.now))
        return self

    def answer(self, request: Any, until: float) -> object:
        self.asked.append(type(request).__name__)
        match request:
            case Rest(wake_at):
                for instant in sorted(i for i in self.at if i <= wake_at):
                    self.now = max(self.now, instant)
                    self.at.pop(instant)()
                self.now = max(self.now, min(wake_at, until))
            case TakeProfile(since=since):
                self.now += 5.0
                return self.profile(since)
            case Weigh(seen, allowed):
                return options_for(seen, self.settings, allowed)
            case AskStore(script):
                if self.is_store_away:
                    script.close()
                    return Trouble("ZooKeeper does not answer")
                try:
                    return self.store.run(script)
                except ValueError as error:
                    return Trouble(str(error))
            case CarryOut(record):
                self.carried.append(record)
                self.now += 3.0
                if self.end == DONE:
                    self.topology = _after(record, self.topology)
                return self.end
            case Tell(status, line):
                self.statuses.append(status)
                self.lines += [line] if line else []
        return None

    @property
    def records(self) -> tuple[DecisionRecord, ...]:
        return self.store.run(list_decisions(LAYOUT))

    @property
    def verdicts(self) -> list[Verdict]:
        return [each.verdict for each in self.records]


def _after(record: DecisionRecord, topology: Topology) -> Topology:
    from pubweave.deploy.topology_state import apply_actions, spell_out_step

    for step in record.plan_record().plan.steps:
        topology = apply_actions(topology, spell_out_step(topology, step))
    return topology


def test_a_change_that_pays_is_recorded_done_and_measured() -> None:
    driver = Driver().run(400.0)
    first = driver.records[0]
    assert first.verdict is Verdict.CHANGE
    assert first.state is State.DEPLOYED
    assert (first.deploying_at, first.ended_at) == (5.0, 8.0)
    assert first.deployment == "1-ab"
    assert first.measured is not None
    assert first.measured.prediction_error == pytest.approx(0.0, abs=1e-9)
    assert driver.verdicts[1:] == [Verdict.HOLD, Verdict.HOLD, Verdict.STAY]


def test_nothing_is_done_before_it_is_recorded() -> None:
    driver = Driver()
    seen: list[DecisionState] = []
    answer = driver.answer

    def watching(request: Any, until: float) -> object:
        if isinstance(request, CarryOut):
            seen.extend(each.state for each in driver.records)
        return answer(request, until)

    driver.answer = watching  # type: ignore[method-assign]
    driver.run(20.0)
    assert seen == [State.DEPLOYING]


def test_mode_observe_only_says_it_again_and_again() -> None:
    driver = Driver(ControlMode.OBSERVE).run(350.0)
    assert [each.state for each in driver.records] == [State.OBSERVED] * 4
    assert driver.carried == []


def test_mode_approve_waits_and_does_it_soon_after_the_answer() -> None:
    driver = Driver(ControlMode.APPROVE)
    driver.at[42.0] = lambda: driver.store.run(approve(LAYOUT, "1", "ann", 42.0))
    driver.run(70.0)
    (only,) = driver.records
    assert only.state is State.DEPLOYED
    assert only.reviewed_by == "ann"
    assert only.deploying_at is not None
    assert 42.0 <= only.deploying_at <= 42.0 + driver.settings.review_poll_s


def test_a_waiting_proposal_is_not_replaced_by_the_next_look() -> None:
    driver = Driver(ControlMode.APPROVE).run(450.0)
    assert [each.state for each in driver.records] == [State.WAITING]
    assert driver.asked.count("TakeProfile") == 5


def test_a_rejected_plan_is_not_proposed_again() -> None:
    driver = Driver(ControlMode.APPROVE)
    driver.at[42.0] = lambda: driver.store.run(reject(LAYOUT, "1", "bob", 42.0))
    driver.run(150.0)
    assert [each.state for each in driver.records] == [State.REJECTED, State.CLOSED]
    assert driver.records[1].verdict is Verdict.HOLD
    assert driver.carried == []


def test_what_nobody_answers_expires() -> None:
    driver = Driver(ControlMode.APPROVE, review_s=60.0).run(90.0)
    assert driver.records[0].state is State.EXPIRED
    assert driver.records[0].outcome_reason == "nobody answered in time"


def test_a_proposal_that_lost_its_worth_expires_and_a_better_one_may_come() -> None:
    driver = Driver(ControlMode.APPROVE)

    def other(since: float) -> object:
        seen: Any = driver.fresh(since)
        groups = [(("b2", "b5"), 3000.0)]
        return altered(seen, traffic=Traffic.of(BROKERS, groups))

    driver.at[50.0] = lambda: setattr(driver, "profile", other)
    driver.run(150.0)
    assert [each.state for each in driver.records] == [State.EXPIRED, State.WAITING]
    assert "by now it would save" in driver.records[0].outcome_reason


def test_an_incomplete_profile_is_never_acted_on() -> None:
    driver = Driver()
    bad = Soundness(records=100, lost=1)
    driver.profile = lambda since: altered(driver.fresh(since), soundness=bad)
    driver.run(250.0)
    assert driver.verdicts == [Verdict.NO_EVIDENCE] * 3
    assert "Weigh" not in driver.asked
    assert driver.carried == []


def test_a_profile_that_fails_ends_a_look_and_not_the_loop() -> None:
    driver = Driver()
    driver.profile = lambda since: Trouble("the Spark job was killed by signal 9")
    driver.at[50.0] = lambda: setattr(driver, "profile", driver.fresh)
    driver.run(150.0)
    assert driver.verdicts == [Verdict.NO_EVIDENCE, Verdict.CHANGE]
    assert "no profile: the Spark job was killed by signal 9" in driver.lines
    rested = [s for s in driver.statuses if s.phase is AutopilotPhase.RESTING and s.notice]
    assert rested[0].notice == "no profile: the Spark job was killed by signal 9"
    assert driver.statuses[-1].notice == ""


def test_after_a_failed_plan_it_stands_down_and_says_until_when() -> None:
    driver = Driver(stand_down_s=300.0)
    driver.end = CarriedOut(DeploymentState.ABORTED, "1-ab", "step 1: too slow", AbortedBy.EXECUTOR)
    driver.run(250.0)
    failed = driver.records[0]
    assert failed.state is State.FAILED
    assert failed.stands_down_until == 308.0
    assert driver.verdicts == [Verdict.CHANGE, Verdict.HOLD, Verdict.HOLD]
    assert "standing down until 00:05" in driver.records[1].reason
    assert driver.statuses[-1].phase is AutopilotPhase.STANDING_DOWN
    assert len(driver.carried) == 1


def test_the_second_failure_in_a_row_counts_double() -> None:
    driver = Driver(stand_down_s=300.0, free_period_s=0.0)
    driver.end = CarriedOut(DeploymentState.ABORTED, "1-ab", "step 1: too slow", AbortedBy.EXECUTOR)
    driver.run(600.0)
    first, second = (each for each in driver.records if each.state is State.FAILED)
    assert first.stands_down_until is not None
    assert second.ended_at is not None
    assert second.ended_at >= first.stands_down_until
    assert second.stands_down_until == second.ended_at + 600.0


def test_a_person_who_gives_a_plan_up_is_told_apart_from_a_failure() -> None:
    driver = Driver()
    driver.end = CarriedOut(DeploymentState.ABORTED, "1-ab", "asked", AbortedBy.OPERATOR)
    driver.run(20.0)
    assert driver.records[0].state is State.ABORTED


def test_a_plan_that_does_not_fit_any_more_expires_without_standing_down() -> None:
    driver = Driver()
    driver.end = CarriedOut(None, reason="the overlay has changed since the plan was made")
    driver.run(20.0)
    assert driver.records[0].state is State.EXPIRED
    assert driver.records[0].stands_down_until is None


def test_without_the_store_nothing_is_decided_and_it_goes_on_when_it_is_back() -> None:
    driver = Driver()
    driver.is_store_away = True
    driver.at[40.0] = lambda: setattr(driver, "is_store_away", False)
    driver.run(60.0)
    assert driver.records[0].state is State.DEPLOYED
    assert driver.records[0].decided_at >= 40.0
    assert driver.lines[0] == "the store cannot be used: ZooKeeper does not answer"
    assert driver.lines.count(driver.lines[0]) == 1
    assert "that is over; going on" in driver.lines


def test_a_decision_that_cannot_be_stored_is_not_carried_out() -> None:
    driver = Driver()

    def away(since: float) -> object:
        driver.is_store_away = True
        return driver.fresh(since)

    driver.profile = away
    driver.run(50.0)
    assert driver.carried == []
    assert any("nobody knows whether the decision was stored" in line for line in driver.lines)


def test_a_decision_that_was_stored_unheard_is_gone_on_with_and_not_made_twice() -> None:
    driver = Driver()
    answer = driver.answer
    cut: list[object] = []

    def unheard(request: Any, until: float) -> object:
        value = answer(request, until)
        if isinstance(value, DecisionRecord) and not cut:
            cut.append(value)
            return Trouble("ZooKeeper does not answer any more")
        return value

    driver.answer = unheard  # type: ignore[method-assign]
    driver.run(150.0)
    assert [each.state for each in driver.records] == [State.DEPLOYED]
    assert len(driver.carried) == 1


def test_a_deployment_it_lost_sight_of_is_gone_on_with() -> None:
    driver = Driver()
    driver.end = Trouble("ZooKeeper does not answer any more")
    driver.at[30.0] = lambda: setattr(driver, "end", DONE)
    driver.run(60.0)
    assert [each.state for each in driver.records] == [State.DEPLOYED]
    assert len(driver.carried) > 1
    assert {each.id for each in driver.carried} == {"000001"}


@pytest.mark.parametrize("state", [State.DEPLOYING, State.APPROVED])
def test_killed_in_the_middle_it_goes_on_where_it_was(state: DecisionState) -> None:
    driver = Driver(ControlMode.APPROVE)
    driver.run(20.0)
    driver.store.run(approve(LAYOUT, "1", "ann", 20.0))
    if state is State.DEPLOYING:
        driver.end = Trouble("killed")
        driver.run(30.0)
        assert driver.records[0].state is State.DEPLOYING
        driver.end = DONE
    driver.run(60.0)
    assert [each.state for each in driver.records] == [State.DEPLOYED]
    assert f"decision 000001 is {state.value}: going on with it" in driver.lines


def test_restarted_it_is_bound_by_the_same_free_period() -> None:
    driver = Driver().run(20.0)
    driver.topology = evidence().topology  # somebody changed the tree back: much to gain again
    driver.run(200.0)
    assert len(driver.carried) == 1
    assert Verdict.CHANGE not in driver.verdicts[1:]


def test_what_was_approved_long_ago_is_not_carried_out() -> None:
    driver = Driver(ControlMode.APPROVE, review_s=500.0)
    driver.run(20.0)
    driver.store.run(approve(LAYOUT, "1", "ann", 20.0))
    driver.now = 600.0
    driver.run(640.0)
    assert driver.carried == []
    assert driver.records[0].state is State.EXPIRED


def test_a_slow_look_moves_no_later_one_and_missed_ones_are_not_made_up_for() -> None:
    driver = Driver(ControlMode.OBSERVE)
    looked: list[float] = []

    def slow(since: float) -> object:
        looked.append(driver.now - 5.0)
        driver.now += 230.0 if len(looked) == 1 else 0.0
        return driver.fresh(since)

    driver.profile = slow
    driver.run(550.0)
    assert looked == [0.0, 300.0, 400.0, 500.0]


def test_records_are_bounded_and_what_was_done_is_kept_longest() -> None:
    driver = Driver(keep_records=3).run(1500.0)
    assert len(driver.records) == 3
    assert driver.records[0].state is State.DEPLOYED


def test_a_store_that_somebody_cleared_does_not_stop_the_loop() -> None:
    driver = Driver(ControlMode.APPROVE)
    driver.at[30.0] = lambda: driver.store.__init__()  # type: ignore[misc]
    driver.run(150.0)
    assert "decision 000001 is gone: somebody cleared the store" in driver.lines
    assert [each.state for each in driver.records] == [State.WAITING], "proposed anew"


def test_what_somebody_elses_change_brought_is_not_taken_for_our_own() -> None:
    driver = Driver()
    driver.at[60.0] = lambda: setattr(driver, "topology", evidence().topology)
    driver.run(400.0)
    assert driver.records[0].state is State.DEPLOYED
    assert driver.records[0].measured is None


def test_the_same_answers_give_the_same_records() -> None:
    one, other = Driver().run(700.0), Driver().run(700.0)
    assert msgspec.json.encode(one.records) == msgspec.json.encode(other.records)


def altered(seen: Any, **changed: Any) -> Any:
    from dataclasses import replace

    return replace(seen, **changed)
