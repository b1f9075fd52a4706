"""What ``pubweave pub`` understands, publishes and refuses."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import re
import threading
import warnings
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest

from pubweave.cli.errors import BadInput
from pubweave.cli.output import Advance
from pubweave.cli.run import pub
from pubweave.cli.run.pub import Draft, Publisher, parse_attribute, parse_value
from pubweave.core.client import NotAdvertisedError
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Value
from pubweave.runtime.client.client import Client


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1000", 1000),
        ("-3", -3),
        ("18.5", 18.5),
        ("1e3", 1000.0),
        ("true", True),
        ("False", False),
        ("'1000'", "1000"),
        ('"true"', "true"),
        ("'it''s'", "it's"),
        ("YHOO", "YHOO"),
        ("IBM & Co", "IBM & Co"),
        ("3 apples", "3 apples"),
        ("1996-09-05", "1996-09-05"),
        ("'open", "'open"),
        ("nan", "nan"),
        ("", ""),
        ("a=b", "a=b"),
    ],
)
def test_a_value_is_what_it_looks_like_and_else_a_string(text: str, value: Value) -> None:
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


def test_an_attribute_is_split_at_its_first_equals_sign() -> None:
    assert parse_attribute(" x =a=b") == ("x", "a=b")


class StrictClient:
    """A client as far as a publisher knows it, that only takes publications on NEWS."""

    async def advertise(self, filter_: Filter) -> str:
        return "a1"

    async def publish(self, topic: str, attributes: dict[str, Value], payload: bytes) -> None:
        if topic != "NEWS":
            raise NotAdvertisedError("call advertise() first")

    async def flush(self) -> None:
        pass


@pytest.mark.parametrize("source", ["the publication", "standard input, line 7"])
def test_a_publication_outside_its_advertisement_blames_the_option(source: str) -> None:
    async def drafts() -> AsyncIterator[Draft]:
        for topic in ("NEWS", "STOCK"):
            yield Draft(topic, {}, b"", source)

    publisher = Publisher(cast(Client, StrictClient()), parse_filter("class = 'NEWS'"), None)
    told = f"--advertise does not match {source} on 'STOCK': widen it or leave it out"
    with pytest.raises(BadInput, match=f"^{re.escape(told)}$"):
        asyncio.run(publisher.publish_all(drafts(), Advance()))
    assert publisher.published == 1


def test_input_is_read_in_lines_whatever_the_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = iter([b"a", b"b\nc\n", b"\nd", *[b"x" for _ in range(20)], b""])
    monkeypatch.setattr(pub, "os", SimpleNamespace(read=lambda *_: next(pieces)))

    async def lines() -> list[bytes]:
        return [line async for line in pub._stdin_lines()]

    assert asyncio.run(lines()) == [b"ab", b"c", b"", b"d" + 20 * b"x"]


def test_input_that_comes_after_the_end_is_no_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    pieces = iter([b"a\n", b"b\n"])
    readers: list[threading.Thread] = []

    def read(*_: int) -> bytes:
        if readers:
            over.wait(10)
        readers.append(threading.current_thread())
        return next(pieces)

    async def first_line() -> bytes:
        async with contextlib.aclosing(pub._stdin_lines()) as lines:
            return await anext(lines)

    monkeypatch.setattr(pub, "os", SimpleNamespace(read=read))
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert asyncio.run(first_line()) == b"a"
        over.set()
        readers[0].join(10)
        assert not readers[0].is_alive()
        gc.collect()
    assert len(readers) == 2, "the second piece was read after the loop had ended"
    assert [str(warning.message) for warning in warned] == []
