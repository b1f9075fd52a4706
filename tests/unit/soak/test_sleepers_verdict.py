"""How `soak.run_sleepers` judges: what is due follows from the clients' own lists."""

from __future__ import annotations

import pytest
from soak.sleepers_plan import (
    ClientsPlan,
    ClientsResult,
    ClientTold,
    Gap,
    PublisherPlan,
    SubscriberPlan,
    Wanted,
    draw_clients,
)
from soak.sleepers_verdict import (
    BOUNDED,
    CLEAN,
    COUNTED,
    DISORDERED,
    DOUBLED,
    SILENT,
    UNEXPECTED,
    Judgement,
    judge,
)

PLAN = ClientsPlan(
    publishers=(PublisherPlan("p", "b1", "127.0.0.1:1", ("t1", "t2")),),
    subscribers=(
        SubscriberPlan("all", "b1", "127.0.0.1:1", (Wanted("t1"), Wanted("t2"))),
        SubscriberPlan("some", "b2", "127.0.0.1:2", (Wanted("t1", 100, 600),)),
    ),
    rate=1.0,
    payload_bytes=10,
    seed=1,
    patience_s=1.0,
    result_file="",
)
PUBLISHED = [("t1", 50), ("t1", 500), ("t2", 500), ("t1", 600), ("t1", 601)]
"""Numbers 1 to 5; "some" wants 2 and 4."""


def judged(
    t1: list[int],
    t2: list[int],
    some: list[int],
    *,
    counted: dict[str, int] | None = None,
    gaps: tuple[Gap, ...] = (),
    uncertain: bool = False,
) -> Judgement:
    told = ClientTold("b1", True, 0, None, 0, gaps)
    result = ClientsResult(
        published={"p": PUBLISHED},
        uncertain={"p": ("t1", 1)} if uncertain else {},
        received={"all": [{"p": t1}, {"p": t2}], "some": [{"p": some}]},
        told={"all": told},
        longest_wait_s=0.0,
        quiet_s=0.0,
    )
    return judge(PLAN, result, {} if counted is None else {"b1": counted})


def test_a_run_is_clean_if_all_that_was_due_came_once_and_in_order() -> None:
    found = judged([1, 2, 4, 5], [3], [2, 4])
    assert (found.expected, found.got, found.missing) == (7, 7, 0)
    assert found.verdict == CLEAN


def test_what_nobody_counted_is_a_silent_loss() -> None:
    found = judged([1, 4, 5], [3], [4])
    assert (found.expected, found.got, found.missing) == (7, 5, 2)
    assert found.missing_of == {("p", "all"): 1, ("p", "some"): 1}
    assert found.missing_publications == {("p", 2): 2}
    assert found.verdict == SILENT


@pytest.mark.parametrize(
    ("counted", "verdict"),
    [
        ({"notifications_lost": 2}, COUNTED),
        ({"notifications_lost": 1}, SILENT),
        ({"notifications_lost": 3}, BOUNDED),
        ({"publications_lost": 1}, COUNTED),
        ({"publications_lost": 5}, BOUNDED),
        ({"clients_expired": 9}, SILENT),
    ],
)
def test_a_counted_publication_may_be_missing_at_several_a_notification_at_one(
    counted: dict[str, int], verdict: str
) -> None:
    assert judged([1, 4, 5], [3], [4], counted=counted).verdict == verdict


def test_one_counted_publication_does_not_explain_two() -> None:
    missing_two = judged([4, 5], [3], [4], counted={"publications_lost": 1})
    assert missing_two.missing == 3
    assert missing_two.explained_at_most == 2
    assert missing_two.verdict == SILENT


@pytest.mark.parametrize(
    ("gap", "verdict"),
    [
        (Gap("t1", "p", 1, 1), COUNTED),
        (Gap("t1", "p", 0, 4), BOUNDED),
        (Gap("t1", "", 0, 4), BOUNDED),
        (Gap("t1", "p", 2, 2), BOUNDED),
        (Gap("t1", "another", 1, 1), SILENT),
    ],
)
def test_what_the_client_was_told_counts(gap: Gap, verdict: str) -> None:
    assert judged([1, 4, 5], [3], [2, 4], gaps=(gap,)).verdict == verdict


def test_what_another_client_was_told_does_not_count() -> None:
    assert judged([1, 2, 4, 5], [3], [4], gaps=(Gap("t1", "p", 1, 1),)).verdict == SILENT


def test_what_comes_twice_or_late_or_unasked_is_seen() -> None:
    assert judged([1, 2, 2, 4, 5], [3], [2, 4]).verdict == DOUBLED
    assert judged([1, 4, 2, 5], [3], [2, 4]).verdict == DISORDERED
    unasked = judged([1, 2, 4, 5], [3], [2, 4, 5])
    assert (unasked.verdict, unasked.unexpected) == (UNEXPECTED, 1)


def test_a_double_is_not_out_of_order_and_does_not_make_up_for_a_loss() -> None:
    found = judged([1, 2, 4, 5, 1], [3], [2, 2])
    assert (found.doubled, found.disordered, found.missing) == (2, 0, 1)
    assert found.verdict == SILENT


def test_what_a_stuck_publisher_had_in_hand_may_come_or_not() -> None:
    assert judged([1, 2, 4, 5, 6], [3], [2, 4], uncertain=True).verdict == CLEAN
    assert judged([1, 2, 4, 5], [3], [2, 4], uncertain=True).verdict == CLEAN


def test_clients_are_at_all_brokers_and_the_same_seed_draws_the_same() -> None:
    addresses = {f"b{number}": f"127.0.0.1:{number}" for number in range(1, 6)}

    def drawn(seed: int, *, by_content: bool) -> ClientsPlan:
        return draw_clients(
            addresses,
            by_content=by_content,
            homes=2,
            rate=10.0,
            payload_bytes=10,
            seed=seed,
            patience_s=1.0,
            result_file="",
        )

    plan = drawn(1, by_content=True)
    assert plan == drawn(1, by_content=True) != drawn(2, by_content=True)
    assert {each.broker for each in plan.publishers} == set(addresses)
    assert {each.broker for each in plan.subscribers} == set(addresses)
    assert all(len(set(each.addresses.split(","))) == 2 for each in plan.publishers)
    by_topic = drawn(1, by_content=False)
    filters = [wanted.filter for each in by_topic.subscribers for wanted in each.wanted]
    assert filters
    assert all("value" not in text for text in filters)
