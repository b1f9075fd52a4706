"""The web application: reading, events that resume, and changes that need the token."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.applications import Starlette

from pubweave.dashboard import auth as guard_module
from pubweave.dashboard.app import PAGE, make_app
from pubweave.dashboard.auth import ChangeGuard
from pubweave.dashboard.state import PageState
from pubweave.model.decisions import DecisionState
from pubweave.model.deployment import DeploymentState
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import MadeOverlay, with_history

TOKEN = "0123456789abcdef"
RIGHT = {"authorization": f"Bearer {TOKEN}"}


@dataclass
class Answer:
    """What came back."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(
    app: Starlette,
    path: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    *,
    until: bytes | None = None,
) -> Answer:
    """One request; a stream is left when its text holds ``until``."""
    answer = Answer()
    done = asyncio.Event()
    path, _, query = path.partition("?")
    given = {"host": "127.0.0.1:8642", **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8642),
    }

    async def receive() -> dict[str, Any]:
        await done.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {n.decode(): v.decode() for n, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")
            if until is not None and until in answer.body:
                done.set()
                await asyncio.sleep(0)

    asked = asyncio.ensure_future(app(scope, receive, send))
    try:
        await asyncio.wait_for(asked, 10)
    finally:
        done.set()
    return answer


class Site:
    """A board with a made-up overlay behind an application."""

    def __init__(self, token: str | None = TOKEN) -> None:
        self.overlay = with_history(MadeOverlay(12))
        self.board = PageState(settled_layout)
        self.app = make_app(self.board, self.overlay, ChangeGuard(token))

    async def look(self) -> None:
        snapshot = await self.overlay.snapshot()
        self.board.take(snapshot, self.board.draw(snapshot))

    def ask(self, path: str, method: str = "GET", headers: dict[str, str] | None = None) -> Answer:
        return asyncio.run(ask(self.app, path, method, headers))


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(guard_module, "WRONG_TOKEN_PAUSE_S", 0.0)
    made = Site()
    asyncio.run(made.look())
    return made


# --- reading -----------------------------------------------------------------------------------


def test_the_page_and_all_it_needs_come_from_here(site: Site) -> None:
    page = site.ask("/")
    assert page.status == 200
    assert page.headers["content-type"].startswith("text/html")
    for path in sorted(PAGE.iterdir()):
        text = path.read_text()
        outside = text.replace("http://www.w3.org/", "")  # names of formats, never fetched
        assert "://" not in outside, f"{path.name} names another host"
        if path.name != "index.html":
            assert site.ask(f"/{path.name}").body == path.read_bytes()
    assert site.ask("/../app.py").status == 404
    assert site.ask("/app.py").status == 404


def test_every_answer_forbids_foreign_scripts_frames_and_inline_code(site: Site) -> None:
    for path in ("/", "/main.js", "/api/status", "/metrics", "/nothing"):
        policy = site.ask(path).headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "script-src 'self';" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


def test_each_part_is_there_as_json(site: Site) -> None:
    assert site.ask("/api/status").json["brokers"] == 12
    assert len(site.ask("/api/loads").json["links"]) == 11
    assert len(site.ask("/api/picture").json["brokers"]) == 12
    assert site.ask("/api/plan").json is None
    assert site.ask("/api/troubles").json == []
    assert site.ask("/api/timelines").json[0]["number"] == 1
    assert site.ask("/api/decisions").json[0]["id"] == "000004"
    assert site.ask("/api/decisions/000002").json["state"] == "deployed"
    assert len(site.ask("/api/decisions/000002").json["steps"]) == 2
    assert site.ask("/api/decisions/000099").status == 404
    metrics = site.ask("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert b"pubweave_brokers" in metrics.body


def test_before_the_first_look_it_says_so() -> None:
    fresh = Site()
    assert fresh.ask("/api/status").status == 503
    assert "ask again" in fresh.ask("/api/status").json["error"]
    assert fresh.ask("/metrics").status == 503
    assert fresh.ask("/").status == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8642", ""])
def test_a_foreign_name_that_points_here_is_refused(site: Site, host: str) -> None:
    assert site.ask("/api/status", headers={"host": host}).status == 421


@pytest.mark.parametrize("host", ["localhost:1", "LOCALHOST", "127.0.0.1:8642", "[::1]:8642"])
def test_loopbacks_own_names_are_served_at_any_port(site: Site, host: str) -> None:
    assert site.ask("/api/status", headers={"host": host}).status == 200


# --- events ------------------------------------------------------------------------------------


def events(body: bytes) -> list[tuple[str, str]]:
    """Names and ids, in their order."""
    found = []
    for block in body.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "event" in fields:
            found.append((fields["event"], fields.get("id", "")))
    return found


def test_a_stream_that_is_taken_up_again_brings_only_what_is_newer(site: Site) -> None:
    async def follow() -> None:
        whole = await ask(site.app, "/events", until=b"event: look")
        assert whole.headers["content-type"].startswith("text/event-stream")
        told = events(whole.body)
        assert [name for name, _ in told][:3] == ["troubles", "status", "picture"]
        last = told[-1][1]
        assert last.endswith("-1")
        await site.look()
        again = await ask(site.app, "/events", headers={"last-event-id": last}, until=b"look")
        assert [name for name, _ in events(again.body)] == ["status", "loads", "points", "look"]
        by_query = await ask(site.app, f"/events?after={last}", until=b"event: look")
        assert events(by_query.body) == events(again.body)

    asyncio.run(follow())


@pytest.mark.parametrize("known", ["other-1", "x", "-1", "other-99999999999999999999"])
def test_who_knows_another_life_of_the_server_is_told_everything(site: Site, known: str) -> None:
    told = asyncio.run(
        ask(site.app, "/events", headers={"last-event-id": known}, until=b"event: look")
    )
    assert len(events(told.body)) == 8


def test_an_id_only_comes_with_the_end_of_a_look(site: Site) -> None:
    """Else a connection that breaks in between would skip the rest of that look."""
    told = asyncio.run(ask(site.app, "/events", until=b"event: look"))
    assert [bool(id_) for _, id_ in events(told.body)] == [False] * 7 + [True]


def test_streams_end_when_the_board_is_closed(site: Site) -> None:
    async def follow() -> Answer:
        following = asyncio.create_task(ask(site.app, "/events"))
        await asyncio.sleep(0.05)
        site.board.close()
        return await following

    assert events(asyncio.run(follow()).body)[-1][0] == "look"


# --- changes -----------------------------------------------------------------------------------


def state_of(site: Site, id_: str) -> DecisionState:
    return next(d.state for d in site.overlay.decisions if d.id == id_)


def test_with_the_token_a_plan_is_approved_and_stopped(site: Site) -> None:
    approved = site.ask("/api/decisions/000004/approve", "POST", RIGHT)
    assert (approved.status, approved.json) == (200, {"done": "decision 000004 is approved"})
    assert state_of(site, "000004") is DecisionState.APPROVED
    assert site.overlay.deployment is not None
    stopped = site.ask(f"/api/plan/{site.overlay.deployment.id}/abort", "POST", RIGHT)
    assert stopped.status == 200
    assert site.overlay.deployment.state is DeploymentState.ABORTED


def test_what_cannot_be_done_is_said_in_words(site: Site) -> None:
    refused = site.ask("/api/decisions/000001/reject", "POST", RIGHT)
    assert refused.status == 409
    assert refused.json["error"] == "decision 000001 does not wait for an answer"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer 0123456789abcdeX"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": TOKEN},
        {"authorization": "Bearer "},
    ],
)
def test_without_the_right_token_nothing_is_changed(site: Site, headers: dict[str, str]) -> None:
    assert site.ask("/api/decisions/000004/approve", "POST", headers).status == 401
    assert state_of(site, "000004") is DecisionState.WAITING


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "https://127.0.0.1:8642"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_a_change_from_another_origin_is_refused_even_with_the_token(
    site: Site, headers: dict[str, str]
) -> None:
    refused = site.ask("/api/decisions/000004/approve", "POST", {**RIGHT, **headers})
    assert refused.status == 403
    assert state_of(site, "000004") is DecisionState.WAITING


def test_the_page_itself_may_ask_for_changes(site: Site) -> None:
    own = {**RIGHT, "origin": "http://127.0.0.1:8642", "sec-fetch-site": "same-origin"}
    assert site.ask("/api/decisions/000004/reject", "POST", own).status == 200


def test_a_change_is_never_a_mere_look(site: Site) -> None:
    assert site.ask("/api/decisions/000004/approve", "GET", RIGHT).status == 405
    assert state_of(site, "000004") is DecisionState.WAITING


def test_without_a_token_it_is_read_only_and_says_so() -> None:
    site = Site(token=None)
    asyncio.run(site.look())
    assert site.ask("/api/access").json == {"is_read_only": True}
    refused = site.ask("/api/decisions/000004/approve", "POST", {"authorization": "Bearer None"})
    assert refused.status == 403
    assert "--token-file" in refused.json["error"]
    assert state_of(site, "000004") is DecisionState.WAITING
