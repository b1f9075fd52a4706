"""Carrying a deployment out from the command line: an executor, a view, and Ctrl-C.

`pubweave apply` and `pubweave plan resume` differ only in how they begin. Ctrl-C asks for a pause
after the current step; this process may also be killed: the store knows all that the next one
needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from pubweave.cli.deploy.view import Look, deployment_document, end_in_words
from pubweave.cli.errors import FAILED
from pubweave.cli.output import LiveView, print_json, remark
from pubweave.deploy.commands import DeploymentError, Script, request_pause
from pubweave.deploy.documents import (
    DeploymentDocument,
    DocumentError,
    PartDocument,
    decode,
)
from pubweave.deploy.executor import ExecutorConfig, ExecutorReport, ExecutorRole
from pubweave.deploy.layout import Layout
from pubweave.deploy.store import List, Outcome, Read
from pubweave.model.deployment import DeploymentState
from pubweave.model.ids import BrokerId
from pubweave.runtime.client.observer import OverlayObserver
from pubweave.runtime.coordination.executor_host import ExecutorHost, executor_name
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.security.credentials import Credentials
from pubweave.runtime.security.directory import operator_credentials
from pubweave.runtime.store.session import read_address, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

LOOK_EVERY_S = 0.25
ANSWER_LIMIT_S = 1.0


@dataclass(frozen=True)
class Ended:
    """Where a deployment rests, and what it took."""

    deployment: DeploymentDocument
    seconds: float
    held_messages: int
    held_s_max: float

    def document(self) -> dict[str, Any]:
        return {
            "event": "ended",
            **deployment_document(self.deployment),
            "reason": self.deployment.reason or None,
            "seconds": round(self.seconds, 3),
            "held_messages": self.held_messages,
            "held_s_max": round(self.held_s_max, 4),
        }

    def __str__(self) -> str:
        d = self.deployment
        text = end_in_words(d.state, d.steps_done, d.step_count, d.reason)
        text += f" ({self.seconds:.1f} s"
        if self.held_messages:
            text += f"; {self.held_messages:,} messages waited, at most {self.held_s_max:.2f} s"
        return text + ")"


async def carry_out(
    where: Coordination,
    begin: Callable[[Layout], Script[DeploymentDocument]],
    *,
    step_timeout_s: float,
    as_json: bool,
    quiet: bool = False,
) -> int:
    """Begin or go on, be the executor until it ends or pauses; the exit code."""
    layout = Layout(where.overlay)
    config = ExecutorConfig(where.overlay, executor_name(), step_timeout_s=step_timeout_s)
    async with StopRequest() as stop, ExecutorHost(where.target, config) as host:
        began = time.monotonic()
        begun = await run_command(host.store, begin(layout))
        view = LiveView(as_json=as_json, quiet=quiet)
        with view:
            watch = _ProgressWatch(host, layout, begun, stop, view, as_json, began, where.security)
            last = await watch.run()
        ended = await _sum_up(host.store, layout, last, time.monotonic() - began)
        if as_json:
            print_json(ended.document())
        else:
            remark(str(ended))
    if last.state is DeploymentState.ABORTED:
        return FAILED
    return stop.exit_code if last.state is DeploymentState.PAUSED else 0


@dataclass
class _ProgressWatch:
    """Looks at a deployment until it rests."""

    host: ExecutorHost
    layout: Layout
    begun: DeploymentDocument
    stop: StopRequest
    view: LiveView
    as_json: bool
    began: float
    security: str | None = None
    _pause_asked: bool = False
    _shown: object = None
    _said: str = ""

    async def run(self) -> DeploymentDocument:
        credentials = operator_credentials(self.security)
        async with _StepObserver(self.host.store, self.layout, credentials) as observer:
            while True:
                report = await self.host.wait_until(lambda report: True)
                assert report is not None
                held = await observer.held(report)
                self._show(Look(report, held, time.monotonic() - self.began))
                if (rests := self._rests(report)) is not None:
                    return rests
                await self._ask_for_pause()
                await self._wait_for_news(report)

    def _rests(self, report: ExecutorReport) -> DeploymentDocument | None:
        """The deployment if it ended or pauses; what the executor saw before we began is old."""
        seen = report.deployment
        if seen is None or seen.deployment != self.begun.deployment:
            return None
        is_paused_anew = (
            seen.state is DeploymentState.PAUSED and seen.steps_done > self.begun.steps_done
        )
        return seen if seen.state.is_final or is_paused_anew else None

    async def _ask_for_pause(self) -> None:
        if not self.stop.is_set or self._pause_asked:
            return
        self._pause_asked = True
        remark("stopping after the current step; 'pubweave plan resume' goes on from there")
        with contextlib.suppress(DeploymentError):  # it has ended meanwhile
            await run_command(self.host.store, request_pause(self.layout))

    async def _wait_for_news(self, seen: ExecutorReport) -> None:
        news = asyncio.ensure_future(
            self.host.wait_until(lambda report: report is not seen, LOOK_EVERY_S)
        )
        if self._pause_asked:
            await news
            return
        await self.stop.unless(_awaited(news))

    def _show(self, look: Look) -> None:
        if look.report.role is ExecutorRole.STANDBY and look.report.holder != self._said:
            self._said = look.report.holder
            remark(f"{self._said} executes this plan; standing by to take its place")
        document = look.document()
        seen: object = document if self.as_json else look.line()
        if self.view.is_live or seen != self._shown:
            self._shown = seen
            self.view.show(document, look.line(), look.drawing)


async def _awaited(future: asyncio.Future[Any]) -> None:
    await future


class _StepObserver:
    """Asks the brokers of the current step how much they hold back."""

    def __init__(
        self, store: ZooKeeperStore, layout: Layout, credentials: Credentials | None
    ) -> None:
        self._store = store
        self._layout = layout
        self._observer = OverlayObserver({}, (), credentials)
        self._brokers: tuple[BrokerId, ...] = ()

    async def held(self, report: ExecutorReport) -> dict[str, int]:
        """Buffered messages by action id, as far as brokers tell."""
        brokers = tuple(sorted({b for action in report.actions for b in action.brokers}))
        if brokers != self._brokers:
            self._brokers = brokers
            self._observer.look_at(await self._addresses(brokers), ())
        if report.deployment is None or report.deployment.state is not DeploymentState.RUNNING:
            return {}
        held: dict[str, int] = {}
        for status in (await self._observer.snapshot(ANSWER_LIMIT_S)).up:
            if status.action is not None:
                id_ = status.action.id
                held[id_] = held.get(id_, 0) + status.action.held_messages
        return held

    async def _addresses(self, brokers: tuple[BrokerId, ...]) -> dict[BrokerId, Address]:
        found: dict[BrokerId, Address] = {}
        for broker in brokers:
            with contextlib.suppress(DocumentError, ValueError):
                if address := await read_address(self._store, self._layout, broker):
                    found[broker] = address
        return found

    async def __aenter__(self) -> _StepObserver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._observer.close()


async def _sum_up(
    store: ZooKeeperStore, layout: Layout, deployment: DeploymentDocument, seconds: float
) -> Ended:
    held_messages, held_s_max = 0, 0.0
    async for part in _parts(store, layout, deployment):
        held_messages += part.held_messages
        held_s_max = max(held_s_max, part.held_s)
    return Ended(deployment, seconds, held_messages, held_s_max)


async def _parts(
    store: ZooKeeperStore, layout: Layout, deployment: DeploymentDocument
) -> AsyncIterator[PartDocument]:
    """What all brokers reported of all actions."""
    top = layout.steps(deployment.deployment)
    for step in (await store.ask(List(top))).children:
        for place in (await store.ask(List(f"{top}/{step}"))).children:
            parts = layout.parts(f"{deployment.deployment}/{step}/{place}")
            for broker in (await store.ask(List(parts))).children:
                answer = await store.ask(Read(f"{parts}/{broker}"))
                with contextlib.suppress(DocumentError):
                    if answer.outcome is Outcome.OK:
                        yield decode(answer.data, PartDocument, f"{parts}/{broker}")
