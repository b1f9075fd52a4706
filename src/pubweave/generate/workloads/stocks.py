"""The stock-quote workloads of POP/GRAPE 5.1, and their quotes: from a file, or generated ones.

Each publisher publishes the quotes of one symbol. Its subscribers are rated by how much of that
they sink: low about 10%, medium about 50%, high everything. The filters have the paper's form,
but the printed thresholds pass other shares on the paper's own data, so they are taken from the
quantiles of each symbol.

The spread X, in how many brokers the subscribers of a publisher are, is drawn anew for each
publisher; the paper's case of all subscribers of each publisher at one broker is X = 1.

A quote knows the attributes of its publication, including the derived ones of the paper's sample
(YHOO of 1996-09-05: ``highLow%Diff`` 0.014, which is (high - low) / low to three places). Dates
are ISO strings, so that their order as strings is their order in time.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import itertools
import math
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pubweave.generate.workloads.clients import Content, WorkloadPublisher, WorkloadSubscriber
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.ids import BrokerId
from pubweave.model.publications import TOPIC_ATTRIBUTE, Value
from pubweave.model.topology import Topology

STOCK_TOPIC = "STOCK"
HIGH_LOW = "highLow%Diff"
OPEN_CLOSE = "openClose%Diff"
VOLUME = "volume"
COLUMNS = ("class", "symbol", "date", "open", "high", "low", "close", "volume")
_FIRST_DAY = datetime.date(1996, 1, 1)
_LEAST_PRICE = 1.0


@dataclass(frozen=True, slots=True)
class Quote:
    """One day of one stock."""

    symbol: str
    date: str
    open: float
    high: float
    low: float
    close: float
    volume: int

    @property
    def high_low_diff(self) -> float:
        """How far high is above low, as a share of low."""
        return round((self.high - self.low) / self.low, 3)

    @property
    def open_close_diff(self) -> float:
        """How far open and close are apart, as a share of open."""
        return round(abs(self.open - self.close) / self.open, 3)

    def attributes(self) -> dict[str, Value]:
        """The attributes of the quote's publication, named and typed as in the paper's sample."""
        return {
            "symbol": self.symbol,
            "open": self.open,
            "high": self.high,
            "low": self.low,
            "close": self.close,
            VOLUME: self.volume,
            "date": self.date,
            OPEN_CLOSE: self.open_close_diff,
            HIGH_LOW: self.high_low_diff,
            "closeEqualsLow": "true" if self.close == self.low else "false",
            "closeEqualsHigh": "true" if self.close == self.high else "false",
        }


Quotes = Mapping[str, tuple[Quote, ...]]
"""The quotes of each symbol in the order of their dates."""


def read_quotes(path: str | Path) -> Quotes:
    """Quotes from a CSV file, plain or gzipped; ValueError names the file and the line."""
    path = Path(path)
    found: dict[str, list[Quote]] = {}
    for line, row in _rows(path):
        found.setdefault(row[1], []).append(_quote(row, f"{path}: line {line}"))
    return {s: tuple(sorted(found[s], key=lambda quote: quote.date)) for s in sorted(found)}


def synthetic_quotes(symbols: Collection[str], days: int, rng: np.random.Generator) -> Quotes:
    """Generated quotes on consecutive weekdays: each price is a geometric random walk.

    Stocks differ in first price, volatility and turnover. For demonstrations and tests without
    the real file; nothing in them is meant to resemble a particular stock.
    """
    if days < 1:
        raise ValueError(f"quotes need at least 1 day, got {days}")
    return {symbol: _walk(symbol, days, rng) for symbol in sorted(symbols)}


def _walk(symbol: str, days: int, rng: np.random.Generator) -> tuple[Quote, ...]:
    price = float(rng.uniform(10, 100))
    volatility = float(rng.uniform(0.01, 0.05))
    turnover = float(rng.uniform(11, 16))
    overnight = np.exp(rng.normal(0, volatility / 3, size=days))
    daily = np.exp(rng.normal(0, volatility, size=days))
    above, below = np.exp(np.abs(rng.normal(0, volatility / 2, size=(2, days))))
    volume = np.exp(rng.normal(turnover, 0.7, size=days))
    quotes = []
    for day, date in enumerate(_weekdays(days)):
        opened = _cents(price * overnight[day])
        price = max(_LEAST_PRICE, opened * daily[day])
        closed = _cents(price)
        high = max(opened, closed, _cents(max(opened, closed) * above[day]))
        low = min(opened, closed, _cents(min(opened, closed) / below[day]))
        shares = round(float(volume[day]), -2)
        quotes.append(Quote(symbol, date, opened, high, low, closed, int(shares)))
    return tuple(quotes)


def _weekdays(days: int) -> Iterator[str]:
    for day in range(days):
        weeks, weekday = divmod(day, 5)
        yield (_FIRST_DAY + datetime.timedelta(days=7 * weeks + weekday)).isoformat()


def _cents(price: float) -> float:
    return max(0.01, round(float(price), 2))


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    try:
        content = path.read_bytes()
        if content.startswith(b"\x1f\x8b"):
            content = gzip.decompress(content)
        text = content.decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read: {error}") from error
    reader = csv.reader(text.splitlines())
    header = next(reader, [])
    if tuple(header) != COLUMNS:
        raise ValueError(f"{path}: expected the columns {','.join(COLUMNS)}")
    for row in reader:
        if len(row) != len(COLUMNS):
            raise ValueError(f"{path}: line {reader.line_num}: expected {len(COLUMNS)} columns")
        yield reader.line_num, row


def _quote(row: list[str], where: str) -> Quote:
    try:
        opened, high, low, closed = (float(text) for text in row[3:7])
        volume = int(row[7])
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error
    prices = (opened, high, low, closed)
    if not all(0 < price < math.inf for price in prices) or volume < 0:
        raise ValueError(f"{where}: prices must be positive numbers and the volume not negative")
    return Quote(row[1], row[2], opened, high, low, closed, volume)


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
