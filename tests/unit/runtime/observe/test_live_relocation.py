"""`pubweave relocate` recognises an MQTT client at its new broker, where it has another name."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.relocation.relocator import Relocator
from pubweave.model.records.status import PublishersStatus, SelectionStatus, TraceRequest
from pubweave.runtime.observe import live_relocation
from pubweave.runtime.observe.live_relocation import LiveRelocation


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
        relocator = Broker(BrokerConfig(broker), epoch=1, now=0.0).part(Relocator)
        assert relocator is not None
        told = PublishersStatus(relocator.counted(), tuple(self._at[broker]), tuple(selections))
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
    monkeypatch.setattr(live_relocation, "LOOK_EVERY_S", 0.001)
    monkeypatch.setattr(live_relocation, "MOVE_LIMIT_S", 0.05)
    relocation = LiveRelocation(
        Overlay(before, after),  # type: ignore[arg-type]
        TraceRequest("load", 100.0, 1),
        (before,) if is_named else (),
    )

    async def run() -> int:
        await relocation.trace(1.0)
        return sum(bool(move.problem) for move in await relocation.move())

    assert asyncio.run(run()) == failed
