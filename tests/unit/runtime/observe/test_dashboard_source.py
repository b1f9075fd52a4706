"""The source without an overlay, and its book of troubles."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec import structs

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.dashboard.snapshot import Severity
from pubweave.runtime.observe.dashboard_source import (
    InRunDirectory,
    OverlaySource,
    TroubleBook,
    mqtt_loop,
)


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
    book.report("a", Severity.NOTE, "first", 10.0)
    assert [t.since for t in book.close()] == [10.0]
    book.report("a", Severity.NOTE, "in other words", 20.0)
    book.report("b", Severity.ERROR, "graver", 20.0)
    assert [(t.kind, t.since) for t in book.close()] == [("b", 20.0), ("a", 10.0)]
    assert book.close() == ()
    book.report("a", Severity.NOTE, "again", 30.0)
    assert [t.since for t in book.close()] == [30.0]


def test_a_loop_of_mqtt_bridges_is_told_in_the_words_of_a_broker() -> None:
    plain = Broker(BrokerConfig("b1"), epoch=1, now=0.0).status(0.0)
    quiet = Broker(BrokerConfig("b2", mqtt=MqttConfig()), epoch=1, now=0.0).status(0.0)
    assert quiet.mqtt is not None
    loud = structs.replace(quiet, mqtt=structs.replace(quiet.mqtt, loop="a loop"))
    assert mqtt_loop([plain, quiet]) == ""
    assert mqtt_loop([plain, quiet, loud]) == "a loop"
