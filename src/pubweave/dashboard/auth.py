"""Who may see and who may do: what every request to the dashboard has to pass.

The server is on loopback, so whoever can ask it is on this machine, or is a page in a browser on
this machine. Against the latter: a request that names another host is refused (a foreign name that
was made to point here), and so is a change that comes from another origin. Changes need the token;
without one the dashboard is read-only. Answers carry headers that keep foreign scripts, frames and
fonts out of the page.

A secured overlay shows nothing without the token that it was given. The token comes in the address
that the dashboard prints, once: the answer puts it into a cookie and sends the browser to the same
page without it. Programs send it as a bearer token. The token for changes lets its owner look, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import secrets
from collections.abc import Callable
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pubweave.dashboard import auth as guard

TOKEN_LENGTH_MIN = 16
WRONG_TOKEN_PAUSE_S = 0.5
"""Guessing is slow as well as hopeless."""

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_LOOPBACK_NAMES = frozenset({"localhost", "127.0.0.1", "[::1]"})


class TokenError(ValueError):
    """A token file that cannot be used, with the reason."""


class RequestRefusedError(Exception):
    """A change that is not made; ``status`` is HTTP's."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


def read_token(path: Path) -> str:
    """The token in a file: its only line; TokenError if it is missing, short or open to others."""
    try:
        text = path.read_text().strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise TokenError(f"{path}: {reason}; write a token of one line into it") from error
    if mode & 0o077:
        raise TokenError(f"{path}: others can read it; run 'chmod 600 {path}'")
    if len(text) < TOKEN_LENGTH_MIN or not text.isascii() or any(c.isspace() for c in text):
        raise TokenError(
            f"{path}: a token is one line of at least {TOKEN_LENGTH_MIN} characters without "
            f"spaces; make one with 'umask 077; openssl rand -hex 24 > {path}'"
        )
    return text


class ChangeGuard:
    """Lets changes pass that carry the token and come from the page itself or from a program."""

    def __init__(self, token: str | None) -> None:
        self._token = None if token is None else token.encode()

    @property
    def is_read_only(self) -> bool:
        return self._token is None

    async def check(self, headers: Headers) -> None:
        """Raise Refusal unless the request may change something."""
        if self._token is None:
            raise RequestRefusedError(
                403, "this dashboard is read-only: start it with --token-file to allow changes"
            )
        origin = headers.get("origin")
        site = headers.get("sec-fetch-site", "none")
        if origin is not None and origin != f"http://{headers.get('host', '')}":
            raise RequestRefusedError(
                403, f"changes are taken from this page only, not from {origin}"
            )
        if site not in ("same-origin", "none"):
            raise RequestRefusedError(403, "changes are taken from this page only")
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_right = hmac.compare_digest(given.strip().encode(), self._token)
        if scheme.lower() != "bearer" or not is_right:
            await asyncio.sleep(WRONG_TOKEN_PAUSE_S)
            raise RequestRefusedError(401, "the token is missing or wrong")


class HostGuard:
    """Around the whole application: only requests to loopback's names, and safe headers."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers[name] = value
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if host_name(host) not in _LOOPBACK_NAMES:
            told = PlainTextResponse("ask for localhost or 127.0.0.1, not another name\n", 421)
            await told(scope, receive, send_safely)
            return
        await self._app(scope, receive, send_safely)


def host_name(host: str) -> str:
    """The name in a Host header, without its port.

    >>> host_name("[::1]:8000"), host_name("localhost")
    ('[::1]', 'localhost')
    """
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].lower()


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
