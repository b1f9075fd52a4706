"""The web server around the application: on loopback, for as long as it is wanted."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator

import uvicorn
from starlette.types import ASGIApp

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
