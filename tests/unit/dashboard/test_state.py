"""The board: levels with numbers, so that followers may be slow, away or new."""

from __future__ import annotations

import asyncio
import json

import msgspec

from pubweave.dashboard.snapshot import Snapshot
from pubweave.dashboard.state import POINTS, POINTS_MAX, PageState, Point, TimeLines
from pubweave.model.decisions import DecisionState
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import MadeOverlay, with_history


def show(board: PageState, snapshot: Snapshot) -> None:
    board.take(snapshot, board.draw(snapshot))


def looked_at(overlay: MadeOverlay, board: PageState, times: int = 1) -> Snapshot:
    for _ in range(times):
        snapshot = asyncio.run(overlay.snapshot())
        show(board, snapshot)
    return snapshot


def names(board: PageState, after: int) -> list[str]:
    return [part.name for part in board.news(after).parts]


def test_a_new_follower_is_told_everything_and_then_only_what_changed() -> None:
    overlay, board = MadeOverlay(8), PageState(settled_layout)
    looked_at(overlay, board, 3)
    assert names(board, 0) == [
        "troubles",
        "status",
        "picture",
        "loads",
        "plan",
        "decisions",
        POINTS,
    ]
    looked_at(overlay, board)
    assert names(board, 3) == ["status", "loads", POINTS]
    overlay.decide(DecisionState.WAITING, "it pays", step_count=1)
    looked_at(overlay, board)
    assert names(board, 4) == ["status", "picture", "loads", "decisions", POINTS]
    assert names(board, 5) == []


def test_a_follower_that_was_away_gets_the_points_it_missed_and_no_others() -> None:
    overlay, board = MadeOverlay(5), PageState(settled_layout)
    looked_at(overlay, board, 10)
    points = json.loads(board.news(6).parts[-1].data)
    assert [point[0] for point in points] == [7, 8, 9, 10]
    assert board.news(6).number == 10


def test_time_lines_are_a_ring() -> None:
    overlay, board = MadeOverlay(3), PageState(settled_layout, points_max=5)
    looked_at(overlay, board, 12)
    assert [point.number for point in board.timelines] == [8, 9, 10, 11, 12]
    assert len(json.loads(board.news(0).parts[-1].data)) == 5
    assert TimeLines()._points.maxlen == POINTS_MAX


def test_looks_in_quick_succession_make_one_point() -> None:
    lines = TimeLines()
    snapshot = asyncio.run(MadeOverlay(3).snapshot())
    for number, at in enumerate((10.0, 10.2, 10.4, 10.6), 1):
        lines.add(Point.of(msgspec.structs.replace(snapshot, taken_at=at), number))
    assert [point.at for point in lines] == [10.0, 10.6]


def test_what_nobody_measured_is_null_and_not_zero() -> None:
    overlay, board = MadeOverlay(5), PageState(settled_layout)
    overlay.has_telemetry = False
    looked_at(overlay, board)
    point = next(iter(board.timelines))
    assert (point.latency_p99_ms, point.cost_per_s) == (None, None)
    status = json.loads(board.part("status") or b"")
    assert (status["latency"], status["cost_per_s"]) == (None, None)
    show(board, Snapshot(overlay.now + 1, "made"))
    last = list(board.timelines)[-1]
    assert (last.queue_messages, last.publications_per_s) == (None, None)


def test_the_picture_of_a_waiting_plan_shows_links_that_do_not_stand() -> None:
    overlay, board = with_history(MadeOverlay(20)), PageState(settled_layout)
    looked_at(overlay, board)
    links = json.loads(board.part("picture") or b"")["links"]
    coming = [link for link in links if not link["is_standing"]]
    assert coming
    assert {(link["role"], link["when"]) for link in coming} == {("new", "proposed")}
    assert len(links) == len(overlay.topology.links) + len(coming)


def test_decisions_are_listed_without_their_plans() -> None:
    overlay, board = with_history(MadeOverlay(20)), PageState(settled_layout)
    looked_at(overlay, board)
    shown = json.loads(board.part("decisions") or b"")
    assert [decision["id"] for decision in shown] == ["000004", "000003", "000002", "000001"]
    assert not {"plan", "steps"} & shown[0].keys()
    assert shown[0]["alternatives"][1]["net_ms"] == 78_300


def test_who_waits_is_woken_by_news_by_the_limit_and_by_the_end() -> None:
    async def follow() -> None:
        overlay, board = MadeOverlay(3), PageState(settled_layout)
        assert await board.wait_for_news(0, 0.01) is None
        waiting = asyncio.create_task(board.wait_for_news(0, 30))
        others = [asyncio.create_task(board.wait_for_news(0, 30)) for _ in range(5)]
        await asyncio.sleep(0)
        show(board, await overlay.snapshot())
        for task in (waiting, *others):
            news = await task
            assert news is not None
            assert news.number == 1
        late = asyncio.create_task(board.wait_for_news(1, 30))
        await asyncio.sleep(0)
        board.close()
        assert await late is None

    asyncio.run(asyncio.wait_for(follow(), 10))


def test_a_part_of_two_hundred_brokers_stays_small() -> None:
    """What goes to every page with every look."""
    overlay, board = MadeOverlay(200), PageState(settled_layout)
    looked_at(overlay, board)
    sizes = {part.name: len(part.data) for part in board.news(0).parts}
    assert sizes["loads"] < 80_000
    assert sizes["picture"] < 40_000
