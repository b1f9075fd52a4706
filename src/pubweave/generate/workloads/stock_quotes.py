"""Daily stock quotes: those of the POP/GRAPE paper from a file, or generated ones.

A quote knows the attributes of its publication, including the derived ones of the paper's sample
(YHOO of 1996-09-05: ``highLow%Diff`` 0.014, which is (high - low) / low to three places). Dates
are ISO strings, so that their order as strings is their order in time.
"""

from __future__ import annotations

import csv
import datetime
import gzip
import math
import zlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pubweave.model.publications import Value

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
