"""The dashboard of a secured overlay: nothing is shown without the token."""

from __future__ import annotations

import asyncio

import pytest

from pubweave.dashboard import auth as guard
from pubweave.dashboard.app import PAGE, PARTS, make_app
from pubweave.dashboard.auth import ChangeGuard, Viewing
from pubweave.dashboard.state import PageState
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import MadeOverlay
from tests.unit.dashboard.test_app import TOKEN, Answer, ask

PATHS = [
    "/",
    *(f"/{path.name}" for path in sorted(PAGE.iterdir()) if path.name != "index.html"),
    *(f"/api/{part}" for part in PARTS),
    "/api/timelines",
    "/api/decisions/000004",
    "/api/access",
    "/events",
    "/metrics",
    "/nothing",
]


class Locked:
    """An application whose overlay is secured."""

    def __init__(self) -> None:
        self.viewing = Viewing(TOKEN)
        self.viewing.lock()
        self.board = PageState(settled_layout)
        overlay = MadeOverlay(4)
        self.app = make_app(self.board, overlay, ChangeGuard(TOKEN), self.viewing)
        snapshot = asyncio.run(overlay.snapshot())
        self.board.take(snapshot, self.board.draw(snapshot))

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        return asyncio.run(ask(self.app, path, method, headers))

    @property
    def cookie(self) -> str:
        return f"{self.viewing.cookie}={self.viewing.token}"


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> Locked:
    monkeypatch.setattr(guard, "WRONG_TOKEN_PAUSE_S", 0.0)
    return Locked()


@pytest.mark.parametrize("path", PATHS)
def test_without_the_token_every_path_says_what_to_do_and_nothing_else(
    locked: Locked, path: str
) -> None:
    wrong = "x" * len(locked.viewing.token)
    for given in (
        {},
        {"authorization": f"Bearer {wrong}"},
        {"authorization": "Bearer "},
        {"authorization": f"Basic {locked.viewing.token}"},
        {"cookie": f"{locked.viewing.cookie}={wrong}"},
        {"cookie": f"{locked.viewing.cookie}="},
        {"cookie": f"other={locked.viewing.token}"},
    ):
        answer = locked.ask(path, **given)
        assert answer.status == 401
        assert answer.body.decode().startswith("This overlay is secured: open the address with")
        assert "content-security-policy" in answer.headers
    assert locked.ask(f"{path}?token={wrong}").status == 401
    assert locked.ask(f"{path}?token=").status == 401


def test_a_change_needs_more_than_to_be_allowed_to_look(locked: Locked) -> None:
    path = "/api/decisions/000004/approve"
    assert locked.ask(path, "POST").status == 401
    assert locked.ask(f"{path}?token={locked.viewing.token}", "POST").status == 401
    refused = locked.ask(path, "POST", cookie=locked.cookie)
    assert (refused.status, refused.json) == (401, {"error": "the token is missing or wrong"})
    assert locked.ask(path, "POST", authorization=f"Bearer {TOKEN}").status == 409  # no such one


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(locked: Locked) -> None:
    answer = locked.ask(f"/?a=1&token={locked.viewing.token}&b=2")
    assert (answer.status, answer.headers["location"]) == (303, "http://127.0.0.1:8642/?a=1&b=2")
    cookie, *attributes = answer.headers["set-cookie"].split("; ")
    assert cookie == locked.cookie
    assert {a.lower() for a in attributes} == {"httponly", "path=/", "samesite=strict"}
    assert locked.ask("/", cookie=cookie).status == 200
    assert locked.ask("/api/status", cookie=cookie).status == 200


def test_the_way_on_stays_on_this_machine(locked: Locked) -> None:
    answer = locked.ask(f"//evil.example/?token={locked.viewing.token}")
    assert answer.headers["location"].startswith("http://127.0.0.1:8642/")


def test_programs_send_the_token_and_so_does_who_may_change(locked: Locked) -> None:
    for token in (locked.viewing.token, TOKEN):
        for path in ("/metrics", "/api/status", "/"):
            assert locked.ask(path, authorization=f"Bearer {token}").status == 200


def test_a_foreign_name_is_refused_before_the_token_is_looked_at(locked: Locked) -> None:
    answer = locked.ask(f"/?token={locked.viewing.token}", host="evil.example")
    assert answer.status == 421
    assert "set-cookie" not in answer.headers


def test_a_wrong_token_takes_time(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("pubweave.dashboard.auth.asyncio.sleep", sleep)
    answer = Locked().ask("/", authorization="Bearer guess")
    assert (answer.status, slept) == (401, [guard.WRONG_TOKEN_PAUSE_S])


def test_an_open_overlay_shows_itself_until_a_secured_one_takes_its_place() -> None:
    viewing, told = Viewing(), []
    viewing.on_lock = lambda: told.append(viewing.token)
    app = make_app(PageState(settled_layout), None, ChangeGuard(None), viewing)
    assert asyncio.run(ask(app, "/")).status == 200
    viewing.lock()
    viewing.lock()
    assert asyncio.run(ask(app, "/")).status == 401
    assert told == [viewing.token]
    assert len({Viewing().token for _ in range(3)}) == 3
