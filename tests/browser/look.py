"""A real browser for tests of the dashboard, and a server of made-up overlays to look at."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pubweave.dashboard.app import make_app, serving
from pubweave.dashboard.auth import ChangeGuard
from pubweave.dashboard.state import PageState, Poller
from pubweave.plots.tree_layout import settled_layout
from tests.browser.made_overlay import MadeOverlay

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CHROMIUM = Path(os.environ.get("PUBWEAVE_CHROMIUM", "/usr/bin/chromium"))
ARTEFACTS_VARIABLE = "PUBWEAVE_ARTEFACTS"
TOKEN = "a-token-for-tests-only"
WAIT_MS = 120_000
_FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip


def needs_chromium() -> pytest.MarkDecorator:
    """Skips, saying why, where there is no browser."""
    reason = "" if CHROMIUM.exists() else f"no browser at {CHROMIUM}: install Debian's chromium"
    return pytest.mark.skipif(bool(reason), reason=reason)


@contextlib.contextmanager
def opened_browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
        yield browser
        browser.close()


@contextlib.contextmanager
def opened_page(
    browser: Browser, address: str, *, may_complain: bool = False, **options: Any
) -> Iterator[Page]:
    """A page without complaints: what the console says of errors fails the test at the end.

    A refused or lost connection is such a complaint: who tests those says ``may_complain``."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(WAIT_MS)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "console",
        lambda told: complaints.append(told.text) if told.type in ("error", "warning") else None,
    )
    page.goto(address)
    yield page
    context.close()
    assert may_complain or not complaints, complaints


def keep_screenshot(page: Page, name: str) -> None:
    """Keep a picture of the whole page where somebody wants to look at it."""
    directory = os.environ.get(ARTEFACTS_VARIABLE)
    if directory:
        Path(directory).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=str(Path(directory) / f"{name}.png"), full_page=True)


class ServedOverlay:
    """A dashboard of a made-up overlay, in a thread of its own."""

    def __init__(
        self, overlay: MadeOverlay, *, token: str | None = TOKEN, interval_s: float = 0.25
    ) -> None:
        self.overlay = overlay
        self.address = ""
        self.port = 0
        self._token = token
        self._interval_s = interval_s
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), daemon=True)
        self._thread.start()
        assert ready.wait(20)

    def stop(self) -> None:
        if self._thread is None:
            return
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
        assert not self._thread.is_alive()
        self._thread = None

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        board = PageState(settled_layout)
        app = make_app(board, self.overlay, ChangeGuard(self._token))
        async with serving(app, self.port) as self.address:
            self.port = int(self.address.rstrip("/").rpartition(":")[2])
            looking = asyncio.create_task(Poller(self.overlay, board, self._interval_s).run())
            ready.set()
            await self._stop.wait()
            looking.cancel()
            board.close()

    def __enter__(self) -> ServedOverlay:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
