"""Whatever binds the loop is read from the records."""

from __future__ import annotations

from pubweave.control.alternatives import Allowed
from pubweave.control.gate import History
from pubweave.control.settings import DAY_S, ControlSettings, OperatorLimits
from pubweave.model.decisions import DecisionState as State
from tests.unit.control.world import record, with_links

SETTINGS = ControlSettings(stand_down_s=100.0, stand_down_s_max=350.0, free_period_s=50.0)


def test_a_new_overlay_is_bound_by_nothing() -> None:
    history = History()
    assert history.open_record is None
    assert history.free_until(SETTINGS) is None
    assert history.stands_down_until() is None
    assert history.allowed(SETTINGS, 0.0) == Allowed()


def test_the_free_period_counts_from_the_end_of_the_last_change() -> None:
    closed = record("000002", State.CLOSED)
    done = record("000001", State.DEPLOYED, deploying_at=10.0, ended_at=20.0)
    assert History((done, closed)).free_until(SETTINGS) == 70.0


def test_a_change_under_way_counts_from_its_beginning() -> None:
    assert History((record("000001", State.DEPLOYING, deploying_at=10.0),)).changed_at() == 10.0


def test_decisions_that_touched_nothing_start_no_free_period() -> None:
    states = (State.CLOSED, State.OBSERVED, State.REJECTED, State.EXPIRED, State.WAITING)
    history = History(tuple(record(f"00000{n}", s, ended_at=5.0) for n, s in enumerate(states)))
    assert history.free_until(SETTINGS) is None


def test_standing_down_doubles_with_every_failure_in_a_row_up_to_a_bound() -> None:
    failures = [record(f"00000{n}", State.FAILED, ended_at=1.0) for n in range(4)]
    waits = [History(tuple(failures[:n])).next_stand_down_s(SETTINGS) for n in range(4)]
    assert waits == [100.0, 200.0, 350.0, 350.0]
    recovered = History((*failures[:2], record("000008", State.DEPLOYED, ended_at=9.0)))
    assert recovered.next_stand_down_s(SETTINGS) == 100.0


def test_a_success_ends_standing_down() -> None:
    failed = record("000001", State.FAILED, ended_at=1.0, stands_down_until=500.0)
    assert History((failed,)).stands_down_until() == 500.0
    assert History((failed, record("000002", State.CLOSED))).stands_down_until() == 500.0
    done = record("000003", State.DEPLOYED, ended_at=600.0)
    assert History((failed, done)).stands_down_until() is None


def test_the_smaller_of_the_budgets_counts() -> None:
    settings = ControlSettings(limits=OperatorLimits(links_per_change=5, links_per_day=7))
    now = 2 * DAY_S
    old = record("000001", State.DEPLOYED, ended_at=now - DAY_S - 1, **with_links(6))
    new = record("000002", State.FAILED, ended_at=now - 10.0, **with_links(4))
    assert History((old,)).allowed(settings, now).links == 5
    left = History((old, new)).allowed(settings, now)
    assert left.links == 3
    assert left.reason == "3 of the 7 links a day are left to change"
    spent = record("000003", State.DEPLOYED, ended_at=now - 5.0, **with_links(9))
    assert History((new, spent)).allowed(settings, now).links == 0


def test_what_a_person_declined_is_remembered_for_a_while() -> None:
    declined = record("000001", State.REJECTED, plan_hash="ab", reviewed_at=100.0)
    history = History((declined,))
    assert history.rejected_since("ab", 50.0) is declined
    assert history.rejected_since("ab", 100.0) is None
    assert history.rejected_since("cd", 50.0) is None


def test_only_a_change_that_was_carried_out_waits_for_its_measurement() -> None:
    done = record("000001", State.DEPLOYED, ended_at=5.0)
    assert History((done,)).unmeasured() is done
    failed = record("000002", State.FAILED, ended_at=9.0)
    assert History((done, failed)).unmeasured() is None


def test_looks_that_led_to_nothing_are_dropped_first_and_open_decisions_never() -> None:
    states = (State.DEPLOYED, State.CLOSED, State.CLOSED, State.WAITING)
    history = History(tuple(record(f"00000{n}", s) for n, s in enumerate(states)))
    assert history.surplus(4, 9 * DAY_S) == ()
    assert history.surplus(3, 9 * DAY_S) == ("000001",)
    assert history.surplus(1, 9 * DAY_S) == ("000001", "000002", "000000")
    assert history.surplus(0, 9 * DAY_S) == ("000001", "000002", "000000")


def test_the_newest_looks_are_kept_whatever_they_led_to() -> None:
    states = [State.OBSERVED] * 6 + [State.CLOSED] * 2
    history = History(tuple(record(f"00000{n}", s) for n, s in enumerate(states)))
    assert history.surplus(4, 9 * DAY_S) == ("000000", "000001", "000002", "000003")


def test_changes_that_the_budget_counts_are_kept() -> None:
    done = [record(f"00000{n}", State.DEPLOYED, ended_at=100.0) for n in range(4)]
    history = History(tuple(done))
    assert history.surplus(2, DAY_S) == ()
    assert history.surplus(2, DAY_S + 100.0) == ("000000", "000001")


def test_a_changed_record_takes_the_place_of_the_old_one() -> None:
    history = History((record("000001", State.WAITING), record("000002", State.CLOSED)))
    changed = history.with_record(record("000001", State.APPROVED))
    assert [each.state for each in changed.records] == [State.APPROVED, State.CLOSED]
    assert changed.open_record is not None
    assert changed.without(["000001"]).open_record is None
