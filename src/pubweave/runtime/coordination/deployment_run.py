"""A plan being carried out: an executor of our own, what it reports, and how it ended.

This process may be killed at any moment: the store knows all that the next one needs.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pubweave.deploy.commands import DeploymentError, Script, read_topology, request_pause, submit
from pubweave.deploy.documents import (
    DeploymentDocument,
    DocumentError,
    Layout,
    PartDocument,
    decode,
)
from pubweave.deploy.executor import ExecutorConfig, ExecutorReport, ExecutorRole
from pubweave.deploy.store import List, Outcome, Read
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.ids import BrokerId
from pubweave.runtime.client.observer import OverlayObserver
from pubweave.runtime.coordination.executor_host import ExecutorHost, executor_name
from pubweave.runtime.coordination.mismatch import refuse_misfit
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.security.credentials import Credentials
from pubweave.runtime.security.directory import operator_credentials
from pubweave.runtime.store.session import opened_store, read_address, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

STEP_TIMEOUT_S = 60.0
"""A step that takes longer is aborted, unless another limit is given."""
LOOK_EVERY_S = 0.25
ANSWER_LIMIT_S = 1.0


@dataclass(frozen=True)
class Look:
    """What is known at one instant; ``held`` are buffered messages by action id."""

    report: ExecutorReport
    held: Mapping[str, int]
    elapsed_s: float

    @property
    def held_messages(self) -> int:
        return sum(self.held.values())

    @property
    def done(self) -> int:
        return sum(action.state is ActionState.DONE for action in self.report.actions)

    def document(self) -> dict[str, Any]:
        """For programs; without times, so that an unchanged look gives an equal document."""
        report = self.report
        return {
            "event": "progress",
            "role": report.role.value,
            "executor": report.holder or None,
            **deployment_document(report.deployment),
            "actions": [
                {
                    "action": action.text,
                    "state": action.state.value,
                    "held_messages": self.held.get(action.action_id, 0),
                    "reason": action.reason or None,
                }
                for action in report.actions
            ],
            "held_messages": self.held_messages,
            "missing_brokers": list(report.missing),
            "problem": report.problem or None,
        }

    def line(self) -> str:
        """One line for a log."""
        deployment = self.report.deployment
        if deployment is None:
            return self.report.role.value
        text = f"{deployment.state.value}: "
        if deployment.steps_done < deployment.step_count:
            text += f"step {deployment.steps_done + 1} of {deployment.step_count}"
            if self.report.actions:
                text += f", {self.done} of {len(self.report.actions)} actions done"
        else:
            text += f"all {deployment.step_count} steps done"
        if self.held_messages:
            text += f", {self.held_messages} messages buffered"
        return text + self.troubles()

    def troubles(self) -> str:
        """What stands in the way, to be put behind a sentence."""
        report = self.report
        text = f"; waiting for {', '.join(report.missing)}" if report.missing else ""
        if report.problem:
            text += f"; {report.problem}"
        if report.role is ExecutorRole.STANDBY:
            text += f"; standing by, {report.holder} executes"
        return text


@dataclass(frozen=True)
class EndedDeployment:
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

    @property
    def is_aborted(self) -> bool:
        return self.deployment.state is DeploymentState.ABORTED

    @property
    def is_paused(self) -> bool:
        return self.deployment.state is DeploymentState.PAUSED

    def __str__(self) -> str:
        d = self.deployment
        text = end_in_words(d.state, d.steps_done, d.step_count, d.reason)
        text += f" ({self.seconds:.1f} s"
        if self.held_messages:
            text += f"; {self.held_messages:,} messages waited, at most {self.held_s_max:.2f} s"
        return text + ")"


OnLook = Callable[[Look], None]


def ignore_look(look: Look) -> None:
    """Nobody watches."""


async def carry_out(
    where: Coordination,
    begin: Callable[[Layout], Script[DeploymentDocument]],
    stop: StopRequest | None = None,
    *,
    step_timeout_s: float = STEP_TIMEOUT_S,
    on_look: OnLook = ignore_look,
) -> EndedDeployment:
    """Begin a deployment or go on with one, and be its executor until it ends or pauses.

    ``begin`` is a command such as `deploy.commands.submit` or ``resume``; a stop pauses it after
    the step under way."""
    layout, began = Layout(where.overlay), time.monotonic()
    config = ExecutorConfig(where.overlay, executor_name(), step_timeout_s=step_timeout_s)
    async with ExecutorHost(where.target, config) as host:
        begun = await run_command(host.store, begin(layout))
        credentials = operator_credentials(where.security)
        async with _StepObserver(host.store, layout, credentials) as observer:
            watch = ExecutorWatch(host, layout, begun, stop or StopRequest())
            async for report in watch.reports():
                on_look(Look(report, await observer.held(report), time.monotonic() - began))
        return await _sum_up(host.store, layout, watch.last, time.monotonic() - began)


async def apply_plan(
    where: Coordination,
    record: PlanRecord,
    stop: StopRequest | None = None,
    *,
    purpose: str = "",
    step_timeout_s: float = STEP_TIMEOUT_S,
    on_look: OnLook = ignore_look,
) -> EndedDeployment:
    """Walk a running overlay through a plan, step by step, while it delivers.

    MisfitError if the plan was made for another topology; DeploymentError if another plan is under
    way."""
    async with opened_store(where.target) as store:
        current = await run_command(store, read_topology(Layout(where.overlay)))
    refuse_misfit(record, current, None, where.overlay)
    return await carry_out(
        where,
        lambda layout: submit(layout, record, purpose=purpose),
        stop,
        step_timeout_s=step_timeout_s,
        on_look=on_look,
    )


@dataclass
class ExecutorWatch:
    """Follows an executor until its deployment rests: has ended, or pauses for a person or us."""

    host: ExecutorHost
    layout: Layout
    begun: DeploymentDocument
    stop: StopRequest
    waits_out_pauses: bool = False
    """A pause that somebody else asked for is no rest."""
    _pause_asked: bool = False

    def __post_init__(self) -> None:
        self.last = self.begun

    async def reports(self) -> AsyncIterator[ExecutorReport]:
        """What the executor says, at least every `LOOK_EVERY_S`; then `last` is where it rests."""
        while True:
            report = await self.host.wait_until(lambda report: True)
            assert report is not None
            yield report
            if self._rests(report):
                return
            await self._ask_for_pause()
            await self._wait_for_news(report)

    def _rests(self, report: ExecutorReport) -> bool:
        """What the executor saw before we began is old."""
        seen = report.deployment
        if seen is None or seen.deployment != self.begun.deployment:
            return False
        self.last = seen
        if seen.state is not DeploymentState.PAUSED:
            return seen.state.is_final
        is_paused_anew = seen.steps_done > self.begun.steps_done
        return is_paused_anew if not self.waits_out_pauses else self._pause_asked

    async def _ask_for_pause(self) -> None:
        if self.stop.is_set and not self._pause_asked:
            self._pause_asked = True
            with contextlib.suppress(DeploymentError):  # it has ended meanwhile
                await run_command(self.host.store, request_pause(self.layout))

    async def _wait_for_news(self, seen: ExecutorReport) -> None:
        news = self.host.wait_until(lambda report: report is not seen, LOOK_EVERY_S)
        if self._pause_asked:
            await news
        else:
            await self.stop.unless(news)


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
) -> EndedDeployment:
    held_messages, held_s_max = 0, 0.0
    async for part in _parts(store, layout, deployment):
        held_messages += part.held_messages
        held_s_max = max(held_s_max, part.held_s)
    return EndedDeployment(deployment, seconds, held_messages, held_s_max)


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


def deployment_document(deployment: DeploymentDocument | None) -> dict[str, Any]:
    """Which deployment it is and how far, for programs; all is None of none."""
    names = ("deployment", "state", "steps_done", "step_count")
    found = {name: getattr(deployment, name, None) for name in names}
    return found if deployment is None else {**found, "state": deployment.state.value}


def end_in_words(state: DeploymentState, steps_done: int, step_count: int, reason: str) -> str:
    """How a deployment ended or where it rests."""
    steps = f"{steps_done} of {step_count} steps done"
    match state:
        case DeploymentState.DONE:
            return f"done: {step_count} step{'' if step_count == 1 else 's'}"
        case DeploymentState.PAUSED:
            return f"paused: {steps}; go on with 'pubweave plan resume'"
        case DeploymentState.ABORTED:
            return f"aborted: {steps}" + (f": {reason}" if reason else "")
        case _:
            return f"{state.value}: {steps}"
