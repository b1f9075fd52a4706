"""The source without an overlay, and its book of troubles."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pubweave.dashboard.snapshot import Severity
from pubweave.runtime.dashboard_source import InRunDirectory, OverlaySource, TroubleBook


def test_without_an_overlay_the_page_waits_and_says_for_what(tmp_path: Path) -> None:
    async def look() -> None:
        async with OverlaySource(InRunDirectory(tmp_path / "run")) as source:
            first = await source.snapshot()
            assert [t.kind for t in first.troubles] == ["no_overlay"]
            assert "pubweave up" in first.troubles[0].text
            assert (first.brokers, first.publications_per_s) == ((), None)
            await source.wait_for_news(0.01)
            second = await source.snapshot()
            assert second.troubles[0].since == first.troubles[0].since
            assert second.taken_at > first.taken_at

    asyncio.run(look())


def test_a_trouble_keeps_its_beginning_until_it_is_over() -> None:
    book = TroubleBook()
    book.tell("a", Severity.NOTE, "first", 10.0)
    assert [t.since for t in book.close()] == [10.0]
    book.tell("a", Severity.NOTE, "in other words", 20.0)
    book.tell("b", Severity.ERROR, "graver", 20.0)
    assert [(t.kind, t.since) for t in book.close()] == [("b", 20.0), ("a", 10.0)]
    assert book.close() == ()
    book.tell("a", Severity.NOTE, "again", 30.0)
    assert [t.since for t in book.close()] == [30.0]
