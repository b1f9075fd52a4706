"""Stock quotes, read or generated."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from pubweave.generate.workloads.stocks import Quote, read_quotes, synthetic_quotes
from tests.shared_data import shared_data

HEADER = "class,symbol,date,open,high,low,close,volume\n"
SAMPLE = Quote("YHOO", "1996-09-05", 18.37, 18.62, 18.37, 18.37, 6200)
SAMPLE_ROW = "STOCK,YHOO,1996-09-05,18.37,18.62,18.37,18.37,6200\n"
OTHER_ROW = "STOCK,AAPL,1996-09-05,10,12,9,12,100\n"


def test_the_sample_publication_of_the_paper_comes_out() -> None:
    assert SAMPLE.attributes() == {
        "symbol": "YHOO",
        "open": 18.37,
        "high": 18.62,
        "low": 18.37,
        "close": 18.37,
        "volume": 6200,
        "date": "1996-09-05",
        "openClose%Diff": 0.0,
        "highLow%Diff": 0.014,
        "closeEqualsLow": "true",
        "closeEqualsHigh": "false",
    }


@pytest.mark.parametrize("packed", [False, True])
def test_quotes_are_read_by_symbol(tmp_path: Path, packed: bool) -> None:
    content = (HEADER + SAMPLE_ROW + OTHER_ROW).encode()
    path = tmp_path / "quotes.csv"
    path.write_bytes(gzip.compress(content) if packed else content)
    quotes = read_quotes(path)
    assert list(quotes) == ["AAPL", "YHOO"]
    assert quotes["YHOO"] == (SAMPLE,)
    assert quotes["AAPL"][0].open_close_diff == 0.2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("", "expected the columns class,symbol"),
        ("a,b\n", "expected the columns class,symbol"),
        (HEADER + SAMPLE_ROW + "STOCK,X\n", "line 3: expected 8 columns"),
        (HEADER + OTHER_ROW.replace("12", "?"), "line 2: could not convert"),
        (HEADER + OTHER_ROW.replace("12", "0"), "line 2: prices must be positive"),
        (HEADER + OTHER_ROW.replace("12", "nan"), "line 2: prices must be positive"),
    ],
)
def test_bad_quotes_are_told_with_file_and_line(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "quotes.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=rf"quotes\.csv: {complaint}"):
        read_quotes(path)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"none\.csv: cannot be read"):
        read_quotes(tmp_path / "none.csv")


def test_generated_quotes_are_possible_ones() -> None:
    quotes = synthetic_quotes(["B", "A"], 400, np.random.default_rng(1))
    assert list(quotes) == ["A", "B"]
    for symbol, days in quotes.items():
        assert len({quote.date for quote in days}) == 400
        assert list(days) == sorted(days, key=lambda quote: quote.date)
        for quote in days:
            assert quote.symbol == symbol
            assert 0 < quote.low <= min(quote.open, quote.close)
            assert quote.high >= max(quote.open, quote.close)
            assert quote.volume >= 0
    assert quotes == synthetic_quotes(["A", "B"], 400, np.random.default_rng(1))
    with pytest.raises(ValueError, match="at least 1 day"):
        synthetic_quotes(["A"], 0, np.random.default_rng(1))


@pytest.mark.data
def test_the_real_quotes_hold_the_papers_sample() -> None:
    quotes = read_quotes(shared_data("stocks/padres_stockquotes.csv.gz"))
    assert SAMPLE in quotes["YHOO"]
    assert len(quotes["YHOO"]) == 2193
