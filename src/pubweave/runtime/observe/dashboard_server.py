"""Serving the dashboard of a running overlay: who may look, what the page shows, what it may do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any, TypeVar

import msgspec

from pubweave.control.records import approve, reject
from pubweave.dashboard.app import make_app, serving
from pubweave.dashboard.auth import ChangeGuard, Viewing
from pubweave.dashboard.snapshot import CommandError
from pubweave.dashboard.state import PageState, Poller
from pubweave.deploy.commands import abort, read_progress, request_pause
from pubweave.deploy.documents import DeploymentDocument
from pubweave.model.records.status import STATUS_SUBJECT
from pubweave.plots.tree_layout import settled_layout
from pubweave.runtime.client.client import ClientError, NoConnectionError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.observe.dashboard_source import Finder, FoundOverlay, OverlaySource
from pubweave.runtime.security.credentials import Credentials
from pubweave.runtime.store.session import run_command
from pubweave.runtime.store.view import StoreReader

T = TypeVar("T")
BY = "the dashboard"
ASKED_AT_MOST = 3
"""Brokers that are asked whether a user may operate; the first that answers decides."""
ANSWER_LIMIT_S = 2.0
CredentialsFor = Callable[[FoundOverlay], Credentials | None]
"""Whom to be at an overlay; None: it asks nobody."""


@contextlib.asynccontextmanager
async def serving_dashboard(
    finder: Finder,
    *,
    port: int = 0,
    token: str | None = None,
    interval_s: float = 1.0,
    credentials: CredentialsFor = lambda found: None,
    on_address: Callable[[str], None] = lambda address: None,
) -> AsyncIterator[str]:
    """A live page over an overlay, as long as this lasts; its address on this machine.

    ``token`` allows changes. The overlay may be secured meanwhile: then nobody looks without the
    token in the new address that ``on_address`` is told. OverlayError if these credentials may not
    operate."""
    board, viewing = PageState(settled_layout), Viewing(token)

    def locking(found: FoundOverlay) -> Credentials | None:
        chosen = credentials(found)
        if chosen is not None or found.has_store_login:
            viewing.lock()
        return chosen

    await check_operates(finder, locking)
    async with OverlaySource(finder, locking) as source:
        app = make_app(board, OverlayCommands(source), ChangeGuard(token), viewing)
        async with serving(app, port) as address:

            def shown() -> str:
                return f"{address}?token={viewing.token}" if viewing.is_locked else address

            on_address(shown())
            viewing.on_lock = lambda: on_address(shown())
            looking = asyncio.create_task(Poller(source, board, interval_s).run())
            try:
                yield shown()
            finally:
                looking.cancel()
                await asyncio.gather(looking, return_exceptions=True)
                board.close()


class OverlayCommands:
    """What a person with the token asks for, carried out in the store."""

    def __init__(self, source: OverlaySource) -> None:
        self._source = source

    async def approve(self, decision: str) -> str:
        reader = self._reader()
        await self._do(reader, approve(reader.layout, decision, BY, time.time()))
        return f"Decision {decision} is approved; the autopilot carries its plan out."

    async def reject(self, decision: str) -> str:
        reader = self._reader()
        await self._do(reader, reject(reader.layout, decision, BY, time.time()))
        return f"Decision {decision} is rejected."

    async def pause(self, deployment: str) -> str:
        reader = await self._for_current(deployment)
        await self._do(reader, request_pause(reader.layout))
        return "The plan pauses after this step; 'pubweave plan resume' goes on with it."

    async def abort(self, deployment: str) -> str:
        reader = await self._for_current(deployment)
        ended: DeploymentDocument = await self._do(reader, abort(reader.layout, f"stopped in {BY}"))
        return f"The plan is {ended.state.value}; what was decided of its step is still finished."

    def _reader(self) -> StoreReader:
        if self._source.reader is None:
            raise CommandError("the overlay is not running with ZooKeeper now")
        return self._source.reader

    async def _for_current(self, deployment: str) -> StoreReader:
        """The store, if that deployment is still the current one: a page may be out of date."""
        reader = self._reader()
        current = (await self._do(reader, read_progress(reader.layout))).deployment
        if current.deployment != deployment:
            raise CommandError(f"{deployment} is over; the current plan is {current.deployment}")
        return reader

    async def _do(self, reader: StoreReader, command: Generator[Any, Any, T]) -> T:
        try:
            return await run_command(reader.store, command)
        except ValueError as error:
            raise CommandError(str(error)) from error


async def check_operates(finder: Finder, credentials: CredentialsFor) -> None:
    """OverlayError if the brokers of a secured overlay say that this user may not operate.

    Where none answers, or there is no overlay yet, nothing is known that could be shown either."""
    try:
        found = finder.find()
    except OverlayError:
        return
    chosen = credentials(found)
    if chosen is None or found.addresses is None:
        return
    for address in list(found.addresses.values())[:ASKED_AT_MOST]:
        refusal = await _refusal(str(address), chosen)
        if refusal is not None:
            if refusal:
                raise OverlayError(f"the dashboard is for operators: {refusal}")
            return


async def _refusal(address: str, credentials: Credentials) -> str | None:
    """Why a broker does not let a user operate; empty if it does, None if it is down."""
    try:
        async with connect(address, timeout_s=ANSWER_LIMIT_S, credentials=credentials) as client:
            answer = msgspec.json.decode(await client.query(STATUS_SUBJECT))
    except NoConnectionError:
        return None
    except ClientError as error:
        return str(error)
    return str(answer.get("error", ""))
