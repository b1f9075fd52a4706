"""The dashboard's web application: the page, its events, the same as JSON and as metrics.

Reading is free to whoever reaches loopback, or of a secured overlay to who has its token
(`viewing`); changes pass `auth.ChangeGuard`. Nothing here knows where snapshots come from.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from pubweave.dashboard.auth import ChangeGuard, HostGuard, RequestRefusedError, ViewGuard, Viewing
from pubweave.dashboard.documents import decision_document
from pubweave.dashboard.metrics import CONTENT_TYPE, metrics_text
from pubweave.dashboard.snapshot import CommandError, Commands
from pubweave.dashboard.state import PageState

PAGE = Path(__file__).parent / "page"
_TYPES = {
    ".html": "text/html",
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
BEAT_S = 10.0
"""A comment on a quiet stream, so that both ends notice a dead connection."""
PARTS = ("status", "picture", "loads", "plan", "decisions", "troubles")


def make_app(
    board: PageState, commands: Commands | None, guard: ChangeGuard, viewing: Viewing | None = None
) -> Starlette:
    """The application. Without ``commands`` there is nothing to change, whatever the token; without
    ``viewing`` everybody may look."""
    routes = _page_routes()
    routes += [Route(f"/api/{name}", _part(board, name)) for name in PARTS]
    routes += [
        Route("/api/timelines", _timelines(board)),
        Route("/api/decisions/{decision}", _decision(board)),
        Route("/api/access", _access(guard, commands)),
        Route("/events", _Events(board).stream),
        Route("/metrics", _metrics(board)),
    ]
    if commands is not None:
        routes += [
            Route(
                "/api/decisions/{name}/approve", _change(guard, commands.approve), methods=["POST"]
            ),
            Route(
                "/api/decisions/{name}/reject", _change(guard, commands.reject), methods=["POST"]
            ),
            Route("/api/plan/{name}/pause", _change(guard, commands.pause), methods=["POST"]),
            Route("/api/plan/{name}/abort", _change(guard, commands.abort), methods=["POST"]),
        ]
    around = [Middleware(HostGuard), Middleware(ViewGuard, viewing or Viewing())]
    return Starlette(routes=routes, middleware=around)


def json_response(document: object, status: int = 200) -> Response:
    return _json_bytes(msgspec.json.encode(document), status)


def _json_bytes(content: bytes, status: int = 200) -> Response:
    return Response(content, status, {"Cache-Control": "no-store"}, media_type="application/json")


# --- the page ----------------------------------------------------------------------------------


def _page_routes() -> list[Route]:
    """Exactly the files that come with the package, read once."""
    routes = []
    for path in sorted(PAGE.iterdir()):
        if path.suffix in _TYPES:
            at = "/" if path.name == "index.html" else f"/{path.name}"
            routes.append(Route(at, _file(path.read_bytes(), _TYPES[path.suffix])))
    return routes


def _file(content: bytes, media_type: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return Response(content, headers={"Cache-Control": "no-cache"}, media_type=media_type)

    return answer


# --- JSON and metrics --------------------------------------------------------------------------


def _not_yet() -> Response:
    return json_response({"error": "nothing has been seen yet: ask again in a second"}, 503)


def _part(board: PageState, name: str) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        content = board.part(name)
        return _not_yet() if content is None else _json_bytes(content)

    return answer


def _timelines(board: PageState) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return json_response(list(board.timelines))

    return answer


def _decision(board: PageState) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        wanted = request.path_params["decision"]
        known = () if board.snapshot is None else board.snapshot.decisions
        found = next((each for each in known if each.id == wanted), None)
        if found is None:
            return json_response({"error": f"no decision {wanted} is known here"}, 404)
        return json_response(decision_document(found))

    return answer


def _access(
    guard: ChangeGuard, commands: Commands | None
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        return json_response({"is_read_only": guard.is_read_only or commands is None})

    return answer


def _metrics(board: PageState) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        if board.snapshot is None:
            return PlainTextResponse("# nothing has been seen yet\n", 503)
        headers = {"Content-Type": CONTENT_TYPE, "Cache-Control": "no-store"}
        return Response(metrics_text(board.snapshot), headers=headers)

    return answer


# --- events ------------------------------------------------------------------------------------


class _Events:
    """The board as server-sent events. An id is ``<life>-<number>``: a follower that knows another
    life of this server is told everything; one of this life only what is newer."""

    def __init__(self, board: PageState) -> None:
        self._board = board
        self._life = secrets.token_hex(4)

    async def stream(self, request: Request) -> Response:
        known = request.headers.get("last-event-id") or request.query_params.get("after", "")
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(
            self._events(self._number(known)), headers=headers, media_type="text/event-stream"
        )

    def _number(self, known: str) -> int:
        life, _, number = known.partition("-")
        is_ours = life == self._life and number.isdecimal()
        return min(int(number), self._board.number) if is_ours else 0

    async def _events(self, seen: int) -> AsyncIterator[bytes]:
        yield b"retry: 1000\n\n"
        while not self._board.is_closed:
            news = await self._board.wait_for_news(seen, BEAT_S)
            if news is None:
                yield b": still here\n\n"
                continue
            # Only the last event of a look carries its id: whoever is cut off in between is told
            # the whole look again.
            lines = [b"event: %s\ndata: %s\n\n" % (p.name.encode(), p.data) for p in news.parts]
            end = f"id: {self._life}-{news.number}\nevent: look\ndata: {news.number}\n\n"
            yield b"".join(lines) + end.encode()
            seen = news.number


# --- changes -----------------------------------------------------------------------------------


def _change(
    guard: ChangeGuard, command: Callable[[str], Awaitable[str]]
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        try:
            await guard.check(request.headers)
            done = await command(request.path_params["name"])
        except RequestRefusedError as refusal:
            return json_response({"error": str(refusal)}, refusal.status)
        except CommandError as error:
            return json_response({"error": str(error)}, 409)
        return json_response({"done": done})

    return answer


HOST = "127.0.0.1"
_STOP_LIMIT_S = 2
_CONNECTIONS_MAX = 200


class _Server(uvicorn.Server):
    """Signals are the caller's business."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listening_socket(port: int) -> socket.socket:
    """A socket on loopback that takes connections at once; OSError if the port is taken. 0 takes
    any free one."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen()
    except OSError as error:
        listener.close()
        reason = error.strerror or "it cannot be had"
        what_to_do = "choose another port, or 0 for any free one"
        raise OSError(error.errno, f"port {port} of {HOST}: {reason}: {what_to_do}") from error
    return listener


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, port: int) -> AsyncIterator[str]:
    """Serve the application while inside; its address is yielded."""
    with contextlib.closing(listening_socket(port)) as listener:
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            ws="none",
            http="h11",
            server_header=False,
            limit_concurrency=_CONNECTIONS_MAX,
            # Streams of events never end by themselves: they are cut off.
            timeout_graceful_shutdown=_STOP_LIMIT_S,
        )
        server = _Server(config)
        task = asyncio.create_task(server.serve(sockets=[listener]), name="dashboard server")
        try:
            yield f"http://{HOST}:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            await task
