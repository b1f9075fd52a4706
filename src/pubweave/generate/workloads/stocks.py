"""The stock-quote workloads of POP/GRAPE 5.1.

Each publisher publishes the quotes of one symbol. Its subscribers are rated by how much of that
they sink: low about 10%, medium about 50%, high everything. The filters have the paper's form,
but the printed thresholds pass other shares on the paper's own data, so they are taken from the
quantiles of each symbol.

The spread X, in how many brokers the subscribers of a publisher are, is drawn anew for each
publisher; the paper's case of all subscribers of each publisher at one broker is X = 1.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from pubweave.generate.workloads.clients import Content, WorkloadPublisher, WorkloadSubscriber
from pubweave.generate.workloads.stock_quotes import (
    HIGH_LOW,
    OPEN_CLOSE,
    STOCK_TOPIC,
    VOLUME,
    Quote,
    Quotes,
)
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.ids import BrokerId
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.model.topology import Topology

LOW_SHARE = 0.10
MEDIUM_SHARE = 0.50
MEDIUM_OPEN_CLOSE_SHARE = 0.75
"""The paper's medium filter has two thresholds; this much passes the first, the second the rest."""

SUBSCRIBERS_PER_PUBLISHER = 20
"""The smallest number that 5% and 95% divide without rest."""


class Rating(Enum):
    """How much of its publisher's traffic a subscriber sinks."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Distribution(Enum):
    """How ratings are shared out and where their subscribers attach."""

    RANDOM = "random"
    CLUSTERED = "clustered"


RATING_SHARES = {
    Distribution.RANDOM: {Rating.LOW: 0.70, Rating.MEDIUM: 0.25, Rating.HIGH: 0.05},
    Distribution.CLUSTERED: {Rating.LOW: 0.95, Rating.HIGH: 0.05},
}


@dataclass(frozen=True)
class StockPublisher(WorkloadPublisher):
    """A publisher of one symbol."""

    symbol: str


@dataclass(frozen=True)
class StockSubscriber(WorkloadSubscriber):
    """A subscriber to one symbol."""

    symbol: str
    rating: Rating


@dataclass(frozen=True)
class StockWorkload:
    """Publishers and subscribers at their brokers, and the quotes there are to publish."""

    quotes: Quotes
    publishers: tuple[StockPublisher, ...]
    subscribers: tuple[StockSubscriber, ...]

    def publications(self, publisher: StockPublisher) -> Iterator[Content]:
        """The quotes of a publisher's symbol by date, again and again without end."""
        for quote in itertools.cycle(self.quotes[publisher.symbol]):
            yield STOCK_TOPIC, quote.attributes()


def stock_workload(
    quotes: Quotes,
    topology: Topology,
    distribution: Distribution,
    spread: int,
    rng: np.random.Generator,
    subscribers_per_publisher: int = SUBSCRIBERS_PER_PUBLISHER,
    rate_per_s: float = 1.0,
) -> StockWorkload:
    """One publisher ``p-SYMBOL`` per symbol at a random broker, with its rated subscribers.

    Random: the subscribers of each rating are at random ones of ``spread`` brokers. Clustered:
    the high-rated are all at one broker, the low-rated at the other ``spread - 1``.
    """
    brokers = sorted(topology.brokers)
    if not 1 <= spread <= len(brokers):
        raise ValueError(f"the spread must be between 1 and {len(brokers)} brokers, got {spread}")
    counts = rating_counts(distribution, subscribers_per_publisher)
    publishers, subscribers = [], []
    for symbol in sorted(quotes):
        home = brokers[int(rng.integers(len(brokers)))]
        advertisement = symbol_filter(symbol)
        publishers.append(StockPublisher(f"p-{symbol}", home, (advertisement,), rate_per_s, symbol))
        chosen = [brokers[i] for i in rng.choice(len(brokers), size=spread, replace=False)]
        number = itertools.count(1)
        for rating, count in counts.items():
            wanted = rated_filter(quotes[symbol], rating)
            places = _places(chosen, distribution, rating)
            for place in rng.integers(len(places), size=count).tolist():
                client = f"s-{symbol}-{next(number)}"
                subscribers.append(StockSubscriber(client, places[place], wanted, symbol, rating))
    return StockWorkload(quotes, tuple(publishers), tuple(subscribers))


def rating_counts(distribution: Distribution, count: int) -> dict[Rating, int]:
    """How many of a publisher's subscribers have each rating; the largest remainders round up."""
    exact = {rating: share * count for rating, share in RATING_SHARES[distribution].items()}
    counts = {rating: int(number + 1e-9) for rating, number in exact.items()}
    by_remainder = sorted(exact, key=lambda rating: counts[rating] - exact[rating])
    for rating in by_remainder[: count - sum(counts.values())]:
        counts[rating] += 1
    return counts


def rated_filter(quotes: Sequence[Quote], rating: Rating) -> Filter:
    """The subscription of a rating to the symbol of these quotes, which share one.

    The thresholds make it match about the rating's share of the quotes. A low one is on
    highLow%Diff; a medium one on openClose%Diff and volume, or on volume alone where most days
    close as they open (illiquid stocks), so that the first threshold would pass too few.
    """
    predicates: list[Predicate] = []
    if rating is Rating.LOW:
        threshold = _threshold([quote.high_low_diff for quote in quotes], LOW_SHARE * len(quotes))
        predicates.append(Predicate(HIGH_LOW, Operator.GT, threshold))
    elif rating is Rating.MEDIUM:
        predicates.extend(_medium_predicates(quotes))
    return Filter((*symbol_filter(quotes[0].symbol).predicates, *predicates))


def symbol_filter(symbol: str) -> Filter:
    """All quotes of a symbol: what its publisher advertises and a high rating subscribes to."""
    return Filter(
        (
            Predicate(TOPIC_ATTRIBUTE, Operator.EQ, STOCK_TOPIC),
            Predicate("symbol", Operator.EQ, symbol),
        )
    )


def _medium_predicates(quotes: Sequence[Quote]) -> list[Predicate]:
    wanted = MEDIUM_SHARE * len(quotes)
    changes = [quote.open_close_diff for quote in quotes]
    change = _threshold(changes, MEDIUM_OPEN_CLOSE_SHARE * len(quotes))
    passing = [quote for quote in quotes if quote.open_close_diff > change]
    predicates = []
    if len(passing) >= wanted:
        predicates.append(Predicate(OPEN_CLOSE, Operator.GT, change))
    else:
        passing = list(quotes)
    volume = int(_threshold([quote.volume for quote in passing], wanted))
    return [Predicate(VOLUME, Operator.GT, volume), *predicates]


def _threshold(values: Sequence[float], wanted: float) -> float:
    """The value, of those that occur, which the number of greater ones comes nearest to wanted."""
    ordered: npt.NDArray[np.float64] = np.sort(np.asarray(values, dtype=np.float64))
    candidates = np.unique(ordered)
    greater = len(ordered) - np.searchsorted(ordered, candidates, side="right")
    return float(candidates[int(np.argmin(np.abs(greater - wanted)))])


def _places(chosen: list[BrokerId], distribution: Distribution, rating: Rating) -> list[BrokerId]:
    if distribution is Distribution.RANDOM or len(chosen) == 1:
        return chosen
    return chosen[:1] if rating is Rating.HIGH else chosen[1:]
