"""The dashboard's server on a real socket."""

from __future__ import annotations

import asyncio
import socket
import time

import pytest

from pubweave.dashboard.app import listening_socket, make_app, serving
from pubweave.dashboard.auth import ChangeGuard
from pubweave.dashboard.state import PageState
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import MadeOverlay

pytestmark = pytest.mark.sockets
REQUEST = b"GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


async def show(board: PageState, overlay: MadeOverlay) -> None:
    snapshot = await overlay.snapshot()
    board.take(snapshot, board.draw(snapshot))


async def follow(
    port: int, limit_bytes: int = 2**24
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=limit_bytes)
    writer.write(REQUEST)
    await writer.drain()
    return reader, writer


def test_a_follower_that_never_reads_costs_little_and_holds_nobody_up() -> None:
    async def run() -> None:
        overlay, board = MadeOverlay(60), PageState(settled_layout)
        app = make_app(board, None, ChangeGuard(None))
        async with serving(app, 0) as address:
            port = int(address.rstrip("/").rpartition(":")[2])
            stuck = socket.create_connection(("127.0.0.1", port))
            stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stuck.sendall(REQUEST)
            await show(board, overlay)
            reader, writer = await follow(port)
            for number in range(2, 120):
                await show(board, overlay)
                await reader.readuntil(f"event: look\ndata: {number}\n".encode())
            told = sum(len(part.data) for part in board.news(0).parts)
            assert board.number == 119
            assert told < 100_000, "a follower that comes back is told levels, not all that was"
            writer.close()
            board.close()
            began = time.monotonic()
        assert time.monotonic() - began < 5.0, "it does not wait for who does not read"
        stuck.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_it_listens_on_loopback_only_and_a_taken_port_is_an_error() -> None:
    with listening_socket(0) as first:
        host, port = first.getsockname()
        assert host == "127.0.0.1"
        with pytest.raises(OSError, match="in use"):
            listening_socket(port)
