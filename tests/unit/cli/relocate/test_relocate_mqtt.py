"""`pubweave relocate` recognises an MQTT client at its new broker, where it has another name."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from pubweave.cli.relocate import live as relocate_live
from pubweave.cli.relocate.live import LiveRelocation
from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.model.records.status import PublishersStatus, SelectionStatus, TraceRequest


class Overlay:
    """Two brokers. The publisher is at b2 from its move on, by the name that it has there."""

    addresses = ("b1", "b2")

    def __init__(self, before: str, after: str) -> None:
        self._at, self._after = {"b1": [before], "b2": []}, after

    async def query(self, broker: str, subject: str) -> bytes:
        if subject.startswith("relocate "):
            self._at = {"b1": [], "b2": [self._after]}
            return b"{}"
        selections = [
            SelectionStatus(name, "load100", "b1", "b2", "", 0.0)
            for name in self._at["b1"]
            if broker == "b1"
        ]
        relocator = Broker(BrokerConfig(broker), epoch=1, now=0.0).relocator
        assert relocator is not None
        told = PublishersStatus(relocator.status(), tuple(self._at[broker]), tuple(selections))
        return msgspec.json.encode(told)


@pytest.mark.parametrize(
    ("before", "after", "failed"),
    [
        ("mqtt:ann@b1", "mqtt:ann@b2", 0),
        ("quotes", "quotes", 0),
        ("mqtt:ann@b1", "mqtt:bob@b2", 1),
    ],
)
@pytest.mark.parametrize("is_named", [True, False])
def test_a_moved_client_is_found(
    monkeypatch: pytest.MonkeyPatch, before: str, after: str, failed: int, is_named: bool
) -> None:
    monkeypatch.setattr(relocate_live, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(relocate_live, "MOVE_LIMIT_S", 0.05)
    asked = LiveRelocation(
        TraceRequest("load", 100.0, 1), (before,) if is_named else (), 1.0, False, True
    )
    session = relocate_live._Session(Overlay(before, after), asked)  # type: ignore[arg-type]

    async def run() -> None:
        await session.trace()
        await session.move()

    asyncio.run(run())
    assert session.failed == failed
