"""The scenario `relocate`: clients migrate while everything fails, and nothing is lost by it."""

from __future__ import annotations

import io

import pytest

from pubweave.sim.kernel.trace import Trace
from pubweave.sim.simulate import run_seed


@pytest.mark.parametrize(
    ("fault", "seed"), [("none", 4), ("network", 5), ("control", 6), ("all", 7), ("crashes", 15)]
)
def test_nothing_is_lost_whatever_fails_while_clients_move(fault: str, seed: int) -> None:
    result = run_seed("relocate", seed, fault=fault, max_brokers=10)
    assert result.violations == ()
    assert result.counts["migrations_done"] > 0
    assert result.measures["migration_wait_per_hop_s"] > 0


def test_subscribers_move_in_the_place_of_publishers_that_cannot() -> None:
    result = run_seed("relocate", 95013, max_brokers=10)
    assert result.violations == ()
    assert result.counts["subscribers_moved"] > 0
    assert result.counts["publishers_moved"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 20))
def test_many_runs_hold(first: int) -> None:
    for seed in range(first, first + 20):
        assert run_seed("relocate", seed).violations == ()


@pytest.mark.slow
def test_a_broker_that_had_switched_before_it_crashed_is_told_so() -> None:
    """It answered its neighbors before `moved` was told again, and dropped what came between."""
    assert run_seed("relocate", 6030, fault="crashes").violations == ()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [6008, 6019, 20008, 20096])
def test_what_only_a_crashed_broker_had_is_not_asked_of_the_others(seed: int) -> None:
    assert run_seed("relocate", seed, fault="crashes").violations == ()


@pytest.mark.parametrize("seed", [96644, 97099, 131084])
def test_what_is_under_way_to_a_restarted_broker_stays_with_its_marks(seed: int) -> None:
    """Two migrations in doubt put each other's marks behind publications; and publications came
    to a broker on the path in front of what its tables need to route them."""
    assert run_seed("relocate", seed, max_brokers=20).violations == ()


@pytest.mark.parametrize(
    "seed",
    [98262, 98498, 99122, *(pytest.param(s, marks=pytest.mark.slow) for s in (98473, 99052))],
)
def test_neighbors_that_were_both_restarted_lose_nothing(seed: int) -> None:
    """One of them had not told yet what is wanted behind it; or the source's last word put back a
    session that was gone."""
    assert run_seed("relocate", seed, fault="crashes").violations == ()


def test_a_migration_whose_way_lost_a_link_ends() -> None:
    """Word of its end was taken for made up: it named a link that a plan had removed."""
    assert run_seed("relocate", 80751, max_brokers=20).violations == ()


def test_what_a_restarted_source_tells_before_it_knows_moves_along() -> None:
    """The client came back to it, subscribed, and was sent on by a migration of before."""
    assert run_seed("relocate", 170543).violations == ()


def test_marks_keep_their_places_where_another_migration_puts_its_own() -> None:
    """What was in front of one migration's mark came behind it, and its client never got it; and
    a publisher's publications stay in their order."""
    for seed in (171140, 191157):
        assert run_seed("relocate", seed).violations == ()


def test_a_broker_does_not_leave_with_publications_at_its_gate() -> None:
    """Its neighbor was restarted, and had not answered yet when its last client left."""
    assert run_seed("relocate", 171204).violations == ()


def test_the_last_word_is_told_again_where_it_got_lost() -> None:
    """A broker crashed with it while the one before waited for an answer of the destination."""
    assert run_seed("relocate", 190411).violations == ()


def test_a_migration_ends_although_a_link_of_its_way_is_gone() -> None:
    """A broker that had ended it, and was shifted since, answered a restarted one no more."""
    assert run_seed("relocate", 191032).violations == ()


def test_a_withdrawal_behind_publications_is_taken_although_the_publisher_moves() -> None:
    """They went again to a restarted broker, which had heard of the migration by then."""
    assert run_seed("relocate", 210939, fault="crashes").violations == ()


def test_what_was_noted_for_a_mark_that_never_comes_is_entered_at_the_end() -> None:
    """Brokers on the path crashed, the destination when all was over."""
    for seed in (220081, 250612):
        assert run_seed("relocate", seed).violations == ()


def test_an_update_that_comes_after_its_mark_changes_nothing() -> None:
    """A restarted broker got both, the update from the one side and the mark from the other."""
    assert run_seed("relocate", 260510, fault="crashes").violations == ()


@pytest.mark.parametrize("seed", [260327, 260456])
def test_nothing_is_promised_of_a_publisher_that_its_broker_does_not_have(seed: int) -> None:
    assert run_seed("relocate", seed, fault="crashes").violations == ()


@pytest.mark.slow
def test_a_client_that_came_back_from_a_forgotten_move_keeps_what_is_its_own() -> None:
    """Both brokers of the move crashed; others still had its advertisements from the destination,
    and the source took them for another client's."""
    assert run_seed("relocate", 260710, max_brokers=20, fault="crashes").violations == ()


@pytest.mark.slow
def test_a_steady_client_may_move_to_a_broker_that_a_plan_takes_out() -> None:
    assert run_seed("relocate", 421201, max_brokers=20).violations == ()


@pytest.mark.slow
def test_a_restarted_broker_that_lacks_a_neighbor_answers_in_part_and_uncovers_nothing() -> None:
    assert run_seed("relocate", 99261, max_brokers=20, fault="crashes").violations == ()


def test_the_same_seed_gives_the_same_run() -> None:
    digests = set()
    for _ in range(2):
        trace = Trace(io.StringIO())
        run_seed("relocate", 2, max_brokers=8, trace=trace)
        digests.add(trace.digest())
    assert len(digests) == 1


def test_a_publisher_whose_link_is_shifted_goes_on_waiting_for_the_tree() -> None:
    """It advertised at a leaf while the leaf's only link was being shifted: the answer of the old
    link was awaited, and when that was gone, nobody's."""
    assert run_seed("relocate", 1000, fault="crashes").violations == ()
