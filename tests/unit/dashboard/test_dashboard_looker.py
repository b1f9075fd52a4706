"""The loop that looks: it outlives its source's troubles."""

from __future__ import annotations

import asyncio
import json

import pytest

from pubweave.dashboard.state import PageState, Poller
from pubweave.model.plans import Shift
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import MadeOverlay


def test_a_look_that_fails_keeps_what_was_seen_and_says_since_when(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def look() -> None:
        overlay, board = MadeOverlay(5), PageState(settled_layout)
        looker = Poller(overlay, board)
        await looker.poll()
        overlay.failure = RuntimeError("the cable was cut")
        await looker.poll()
        troubles = json.loads(board.part("troubles") or b"")
        assert [(t["kind"], t["severity"]) for t in troubles] == [("source_failed", "error")]
        assert "the cable was cut" in troubles[0]["text"]
        assert len(json.loads(board.part("picture") or b"")["brokers"]) == 5
        await looker.poll()
        assert json.loads(board.part("troubles") or b"")[0]["since"] == troubles[0]["since"]
        overlay.failure = None
        await looker.poll()
        assert json.loads(board.part("troubles") or b"") == []

    asyncio.run(look())
    assert "could not be looked at" in caplog.text


class WaitedFor(MadeOverlay):
    """Notes how long the loop meant to wait."""

    def __init__(self) -> None:
        super().__init__(5)
        self.waits: list[float] = []
        self.moves_by_itself = False

    async def wait_for_news(self, limit_s: float) -> None:
        self.waits.append(limit_s)
        if len(self.waits) == 3:
            self.deploy(((Shift("b1", "b2", "b3"),),))
        if len(self.waits) == 6:
            raise asyncio.CancelledError
        await asyncio.sleep(0)


def test_looks_follow_closely_while_a_plan_is_under_way() -> None:
    overlay = WaitedFor()
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(Poller(overlay, PageState(settled_layout), interval_s=8.0).run())
    assert all(4.0 <= wait_s <= 8.0 for wait_s in overlay.waits[:3])
    assert all(1.0 <= wait_s <= 2.0 for wait_s in overlay.waits[3:])
