"""Who may look at the dashboard of a secured overlay: whoever has the token that it was given.

The token comes in the address that the dashboard prints, once: the answer puts it into a cookie and
sends the browser to the same page without it. Programs send it as a bearer token. The token for
changes lets its owner look, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable

from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from pubweave.dashboard import auth as guard

PARAMETER = "token"
_REFUSAL = (
    "This overlay is secured: open the address with ?token=... that the dashboard printed when it "
    "started, or send the header 'Authorization: Bearer TOKEN'.\n"
)


class Viewing:
    """Whether a token is needed to look, and which. Once one is needed, it stays so."""

    def __init__(self, *others: str | None) -> None:
        """``others`` are tokens that allow more than to look."""
        self.token = secrets.token_urlsafe(32)
        self._right = [token.encode() for token in (self.token, *others) if token is not None]
        self.cookie = f"pubweave-{hashlib.sha256(self.token.encode()).hexdigest()[:12]}"
        """Cookies know no ports: two dashboards on one machine must not share a name."""
        self.is_locked = False
        self.on_lock: Callable[[], None] = lambda: None

    def lock(self) -> None:
        """From here on nobody sees anything without a token."""
        if not self.is_locked:
            self.is_locked = True
            self.on_lock()

    def is_right(self, given: str) -> bool:
        """In a time that does not depend on how much of it is right."""
        return any([hmac.compare_digest(given.encode(), token) for token in self._right])


class ViewGuard:
    """Around the whole application, within `HostGuard`."""

    def __init__(self, app: ASGIApp, viewing: Viewing) -> None:
        self._app = app
        self._viewing = viewing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = None
        if scope["type"] == "http" and self._viewing.is_locked:
            answer = await self._judge(Request(scope))
        await (self._app if answer is None else answer)(scope, receive, send)

    async def _judge(self, request: Request) -> Response | None:
        """What is answered instead of what was asked for; None: it may be."""
        viewing = self._viewing
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        asked = request.query_params.get(PARAMETER) if request.method == "GET" else None
        if asked is not None and viewing.is_right(asked):
            return self._let_in(request)
        given = [request.cookies.get(viewing.cookie, "")]
        if scheme.lower() == "bearer":
            given.append(bearer.strip())
        if any([viewing.is_right(each) for each in given]):
            return None
        if asked or any(given):
            await asyncio.sleep(guard.WRONG_TOKEN_PAUSE_S)
        return PlainTextResponse(
            _REFUSAL, 401, {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"}
        )

    def _let_in(self, request: Request) -> Response:
        """The same address without the token, which need not stay in the browser's history."""
        others = QueryParams([p for p in request.query_params.multi_items() if p[0] != PARAMETER])
        answer = RedirectResponse(str(request.url.replace(query=str(others))), 303)
        answer.headers["Cache-Control"] = "no-store"
        answer.set_cookie(
            self._viewing.cookie, self._viewing.token, httponly=True, samesite="strict", path="/"
        )
        return answer
