"""The stock-quote workloads of POP/GRAPE 5.1: ratings, filters, places."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from pubweave.generate.topologies.trees import fanout_tree
from pubweave.generate.workloads.stocks import (
    STOCK_TOPIC,
    Distribution,
    Quote,
    Quotes,
    Rating,
    StockWorkload,
    rated_filter,
    rating_counts,
    read_quotes,
    stock_workload,
    synthetic_quotes,
)
from pubweave.model.filters.filter import Filter
from pubweave.model.publications import TOPIC_ATTRIBUTE, make_publication
from tests.shared_data import shared_data

SYMBOLS = [f"S{number}" for number in range(12)]


@pytest.fixture(scope="module")
def quotes() -> Quotes:
    return synthetic_quotes(SYMBOLS, 400, np.random.default_rng(1))


def _workload(quotes: Quotes, distribution: Distribution, spread: int) -> StockWorkload:
    rng = np.random.default_rng(2)
    return stock_workload(quotes, fanout_tree(31), distribution, spread, rng, 40)


def selectivity(quotes: Sequence[Quote], wanted: Filter) -> float:
    """The share of the quotes that a filter matches."""
    matched = 0
    for quote in quotes:
        attributes = {TOPIC_ATTRIBUTE: STOCK_TOPIC, **quote.attributes()}
        matched += all(p.holds(attributes.get(p.attribute)) for p in wanted.predicates)
    return matched / len(quotes)


def _shares(quotes: Quotes, rating: Rating) -> list[float]:
    return [selectivity(days, rated_filter(days, rating)) for days in quotes.values()]


def _assert_rated(quotes: Quotes, low_within: float, medium_within: float) -> None:
    assert all(abs(share - 0.1) < low_within for share in _shares(quotes, Rating.LOW))
    assert all(abs(share - 0.5) < medium_within for share in _shares(quotes, Rating.MEDIUM))
    assert all(share == 1 for share in _shares(quotes, Rating.HIGH))


def test_ratings_sink_their_shares_of_generated_quotes(quotes: Quotes) -> None:
    _assert_rated(quotes, low_within=0.01, medium_within=0.01)


@pytest.mark.data
def test_ratings_sink_their_shares_of_the_real_quotes() -> None:
    """One illiquid stock (UTBI) is 5 points off; the other 99 are within 2.2 (a third is tried)."""
    quotes = dict(read_quotes(shared_data("stocks/padres_stockquotes.csv.gz")))
    assert len(quotes) == 100
    illiquid = {"UTBI": quotes.pop("UTBI")}
    some = {symbol: quotes[symbol] for symbol in list(quotes)[::3]}
    _assert_rated(some, low_within=0.003, medium_within=0.022)
    _assert_rated(illiquid, low_within=0.003, medium_within=0.05)


def test_filters_have_the_form_of_the_paper(quotes: Quotes) -> None:
    attributes = {
        rating: [predicate.attribute for predicate in rated_filter(quotes["S1"], rating).predicates]
        for rating in Rating
    }
    assert attributes == {
        Rating.LOW: ["class", "symbol", "highLow%Diff"],
        Rating.MEDIUM: ["class", "symbol", "volume", "openClose%Diff"],
        Rating.HIGH: ["class", "symbol"],
    }


def test_a_stock_that_rarely_moves_is_rated_by_volume_alone() -> None:
    still = [Quote("S", f"day{n}", 5.0, 5.0, 5.0, 5.0, n) for n in range(100)]
    wanted = rated_filter(still, Rating.MEDIUM)
    assert [predicate.attribute for predicate in wanted.predicates] == ["class", "symbol", "volume"]
    assert selectivity(still, wanted) == 0.5


def test_subscribers_are_rated_in_the_shares_of_the_paper() -> None:
    assert rating_counts(Distribution.RANDOM, 20) == {
        Rating.LOW: 14,
        Rating.MEDIUM: 5,
        Rating.HIGH: 1,
    }
    assert rating_counts(Distribution.CLUSTERED, 40) == {Rating.LOW: 38, Rating.HIGH: 2}
    for count in range(60):
        for distribution in Distribution:
            assert sum(rating_counts(distribution, count).values()) == count


@pytest.mark.parametrize("spread", [1, 5, 31])
def test_random_subscribers_of_a_symbol_are_at_no_more_than_x_brokers(
    quotes: Quotes, spread: int
) -> None:
    workload = _workload(quotes, Distribution.RANDOM, spread)
    assert len({subscriber.client for subscriber in workload.subscribers}) == 12 * 40
    for symbol in SYMBOLS:
        mine = [s for s in workload.subscribers if s.symbol == symbol]
        assert Counter(s.rating for s in mine) == rating_counts(Distribution.RANDOM, 40)
        assert len({s.broker for s in mine}) <= spread
    homes = {publisher.broker for publisher in workload.publishers}
    assert len(homes) > 3, "publishers are at random brokers"


def test_clustered_subscribers_keep_high_and_low_apart(quotes: Quotes) -> None:
    workload = _workload(quotes, Distribution.CLUSTERED, 5)
    main_offices = set()
    for symbol in SYMBOLS:
        places = {
            rating: {
                s.broker for s in workload.subscribers if s.symbol == symbol and s.rating is rating
            }
            for rating in Rating
        }
        assert len(places[Rating.HIGH]) == 1
        assert not places[Rating.MEDIUM]
        assert 1 < len(places[Rating.LOW]) <= 4
        assert not places[Rating.HIGH] & places[Rating.LOW]
        main_offices |= places[Rating.HIGH]
    assert len(main_offices) > 3, "each publisher has its own brokers"


def test_one_broker_holds_everybody_if_x_is_one(quotes: Quotes) -> None:
    workload = _workload(quotes, Distribution.CLUSTERED, 1)
    for symbol in SYMBOLS:
        assert len({s.broker for s in workload.subscribers if s.symbol == symbol}) == 1


def test_a_publisher_publishes_what_it_advertises_over_and_over(quotes: Quotes) -> None:
    workload = _workload(quotes, Distribution.RANDOM, 3)
    publisher = workload.publishers[0]
    contents = list(itertools.islice(workload.publications(publisher), 401))
    assert contents[400] == contents[0]
    assert contents[399] != contents[0]
    (advertisement,) = publisher.advertisements
    for topic, attributes in contents:
        published = make_publication(publisher.client, 0, topic, attributes, b"", 0.0)
        assert advertisement.matches(published)


@pytest.mark.parametrize("spread", [0, 32])
def test_a_spread_beyond_the_brokers_is_refused(quotes: Quotes, spread: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 31 brokers"):
        _workload(quotes, Distribution.RANDOM, spread)
