"""The dashboard's view of a real overlay: brokers asked, store read, telemetry followed.

Each of the three may be away; then the snapshot says so in words and since when, and shows what
the others tell. An overlay that is stopped and started again is found again, wherever its new
ZooKeeper listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from pubweave.dashboard.snapshot import (
    Alert,
    BrokerView,
    DeploymentView,
    LinkView,
    Severity,
    Snapshot,
)
from pubweave.deploy.documents import action_id
from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.records.status import BrokerStatus
from pubweave.runtime.client.observer import OverlayObserver, OverlayStatuses
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.observe.rates import OverlayRates
from pubweave.runtime.observe.telemetry_tail import RecentTelemetry, TelemetryTail
from pubweave.runtime.overlay.run_directory import (
    TELEMETRY_DIRECTORY,
    OverlayCondition,
    read_state,
    read_store_login,
)
from pubweave.runtime.security.credentials import Credentials
from pubweave.runtime.security.directory import operator_credentials
from pubweave.runtime.store.session import StoreUnreachable
from pubweave.runtime.store.view import StoreReader, StoreView
from pubweave.runtime.store.zookeeper_target import Coordination, parse_target

TELEMETRY_QUIET_S = 30.0
NAMED_AT_MOST = 6


@dataclass(frozen=True)
class FoundOverlay:
    """An overlay, as far as it is known without asking it. ``addresses`` and ``links`` None: the
    store knows them."""

    overlay: str
    strategy: str
    coordination: Coordination | None
    telemetry: Path | None
    addresses: Mapping[BrokerId, Address] | None = None
    links: tuple[Link, ...] | None = None
    security: str | None = None
    """The directory that secures it; None: it is open."""

    @property
    def has_store_login(self) -> bool:
        """Whether it is known by a store that asks for a login. A server of our own always does."""
        is_ours = self.addresses is not None
        return not is_ours and self.coordination is not None and bool(self.coordination.target.auth)


class Finder(Protocol):
    """Knows where the overlay is; OverlayError says in words why there is none."""

    def find(self) -> FoundOverlay: ...


@dataclass(frozen=True)
class InRunDirectory:
    """The overlay that `pubweave up` keeps in a run directory."""

    run_dir: Path
    auth: str | None = None

    def find(self) -> FoundOverlay:
        state = read_state(self.run_dir)
        if state.condition is OverlayCondition.STOPPED:
            raise OverlayError(
                f"the overlay {state.overlay} was stopped; shown is what was last seen of it"
            )
        login = self.auth or read_store_login(self.run_dir, state)
        target = None if state.zookeeper is None else parse_target(state.zookeeper, login)
        return FoundOverlay(
            state.overlay,
            state.strategy,
            None if target is None else Coordination(state.overlay, target),
            self.run_dir / TELEMETRY_DIRECTORY,
            {broker: Address.parse(known.address) for broker, known in state.brokers.items()},
            tuple(Link.between(a, b) for a, b in state.links),
            state.security,
        )


@dataclass(frozen=True)
class InStore:
    """An overlay of brokers on several machines, which only the store knows."""

    where: Coordination
    telemetry: Path | None = None

    def find(self) -> FoundOverlay:
        where = self.where
        return FoundOverlay(where.overlay, "", where, self.telemetry, security=where.security)


class TroubleBook:
    """Remembers since when something is wrong; what is not told again is over."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}
        self._told: dict[str, Alert] = {}

    def report(self, kind: str, severity: Severity, text: str, now: float) -> None:
        since = self._since.get(kind, now)
        self._told[kind] = Alert(kind, severity, text, since)

    def close(self) -> tuple[Alert, ...]:
        """All that was told since the last time, the gravest first."""
        told, self._told = self._told, {}
        self._since = {kind: trouble.since for kind, trouble in told.items()}
        order = list(Severity)
        return tuple(sorted(told.values(), key=lambda t: -order.index(t.severity)))


def mqtt_loop(brokers: Iterable[BrokerStatus]) -> str:
    """What the first broker that knows of a loop of MQTT bridges says of it; empty: none does."""
    return next((s.mqtt.loop for s in brokers if s.mqtt is not None and s.mqtt.loop), "")


def as_operator(found: FoundOverlay) -> Credentials | None:
    """The operator of the overlay's own security directory; None: nobody is asked there."""
    return operator_credentials(found.security)


class OverlaySource:
    """A source of snapshots: ``async with OverlaySource(finder) as source``. ``credentials`` says
    as whom the brokers of an overlay are asked; OverlayError if it cannot."""

    def __init__(
        self,
        finder: Finder,
        credentials: Callable[[FoundOverlay], Credentials | None] = as_operator,
    ) -> None:
        self._finder = finder
        self._credentials = credentials
        self._troubles = TroubleBook()
        self._observer = OverlayObserver({}, ())
        self._rates = OverlayRates()
        self.reader: StoreReader | None = None
        """The session with the store, if the overlay has one."""
        self._reader_stack = contextlib.AsyncExitStack()
        self._tail: tuple[Path, TelemetryTail] | None = None
        self._last: Snapshot | None = None
        self._view = StoreView()

    async def snapshot(self) -> Snapshot:
        now = time.time()
        try:
            found = self._finder.find()
            self._observer.credentials = self._credentials(found)
        except OverlayError as error:
            self._troubles.report("no_overlay", Severity.ERROR, str(error), now)
            await self._let_go()
            return _stopped(self._last or Snapshot(now, ""), now, self._close())
        view = await self._look_at_store(found, now)
        await self._look_at_brokers_of(found, view)
        seen = await self._observer.snapshot()
        self._tell_down(seen, now)
        if loop := mqtt_loop(seen.up):
            self._troubles.report("mqtt_loop", Severity.WARNING, loop, now)
        self._rates.take(seen)
        self._last = await self._put_together(found, view, seen, now)
        return self._last

    async def wait_for_news(self, limit_s: float) -> None:
        """Until a plan or a decision changed in the store, or the time is over."""
        if self.reader is None:
            await asyncio.sleep(limit_s)
            return
        news = self.reader.has_news
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await news.wait()
        news.clear()

    async def _put_together(
        self, found: FoundOverlay, view: StoreView, seen: OverlayStatuses, now: float
    ) -> Snapshot:
        rates = self._rates
        telemetry = await self._telemetry(found, now)
        strategy = found.strategy or next((status.strategy for status in seen.up), "")
        return Snapshot(
            taken_at=now,
            overlay=found.overlay,
            strategy=strategy,
            brokers=tuple(sorted(rates.brokers, key=lambda b: natural_order(b.id))),
            links=rates.links,
            latency=None if telemetry is None else telemetry.latency,
            cost_per_s=None if telemetry is None else rates.cost_per_s(telemetry.processing_ms),
            totals=rates.totals,
            publications_per_s=rates.publications_per_s,
            deliveries_per_s=rates.deliveries_per_s,
            deployment=_with_held(view.deployment, seen),
            decisions=view.decisions,
            autopilot=view.autopilot,
            troubles=self._close(),
        )

    def _close(self) -> tuple[Alert, ...]:
        return self._troubles.close()

    # --- the store ---------------------------------------------------------------------------

    async def _look_at_store(self, found: FoundOverlay, now: float) -> StoreView:
        """What the store says, or said when it was last there."""
        if found.coordination is None:
            text = "this overlay runs without ZooKeeper: it has no plans and no decisions"
            self._troubles.report("no_zookeeper", Severity.NOTE, text, now)
            await self._let_go_of_store()
            return StoreView()
        if self.reader is None or self.reader.where != found.coordination:
            await self._let_go_of_store()
            reader = StoreReader(found.coordination)
            self.reader = await self._reader_stack.enter_async_context(reader)
        try:
            self._view = await self.reader.look(with_addresses=found.addresses is None)
            if self._view.problem:
                kind = "decision_unreadable"
                self._troubles.report(kind, Severity.WARNING, self._view.problem, now)
        except StoreUnreachable as error:
            text = f"{error}; plans and decisions are shown as they were last seen"
            self._troubles.report("zookeeper_away", Severity.WARNING, text, now)
        except ValueError as error:
            self._troubles.report("store_unreadable", Severity.ERROR, str(error), now)
        return self._view

    async def _let_go_of_store(self) -> None:
        self.reader, self._view = None, StoreView()
        await self._reader_stack.aclose()

    # --- brokers -----------------------------------------------------------------------------

    async def _look_at_brokers_of(self, found: FoundOverlay, view: StoreView) -> None:
        links = found.links or ()
        if view.topology is not None:
            links = tuple(view.topology.links)
        addresses = found.addresses if found.addresses is not None else view.addresses
        before = self._observer.addresses
        if any(addresses.get(broker, at) != at for broker, at in before.items()):
            await self._observer.close()  # started again elsewhere: the old connections are void
        self._observer.look_at(addresses, links)

    def _tell_down(self, seen: OverlayStatuses, now: float) -> None:
        down = sorted(seen.down, key=natural_order)
        if not seen.statuses:
            self._troubles.report("no_brokers", Severity.WARNING, "no broker is known yet", now)
        elif not seen.up:
            text = "no broker answers: the overlay is starting, or it was killed"
            self._troubles.report("brokers_down", Severity.ERROR, text, now)
        elif down:
            more = f" and {len(down) - NAMED_AT_MOST} more" if len(down) > NAMED_AT_MOST else ""
            named = ", ".join(down[:NAMED_AT_MOST]) + more
            text = f"broker {named} does not" if len(down) == 1 else f"brokers {named} do not"
            text += " answer"
            self._troubles.report("brokers_down", Severity.WARNING, text, now)

    # --- telemetry ---------------------------------------------------------------------------

    async def _telemetry(self, found: FoundOverlay, now: float) -> RecentTelemetry | None:
        if found.telemetry is None:
            text = "where the telemetry is was not said (--telemetry): latency and cost are missing"
            self._troubles.report("no_telemetry", Severity.NOTE, text, now)
            return None
        if self._tail is None or self._tail[0] != found.telemetry:
            self._tail = found.telemetry, TelemetryTail(found.telemetry)
        recent = await asyncio.to_thread(self._tail[1].read, now)
        last = recent.last_record_at
        if last is None:
            text = "no telemetry of publications yet: latency and cost are missing"
            self._troubles.report("no_telemetry", Severity.NOTE, text, now)
        elif now - last > TELEMETRY_QUIET_S and self._rates.publications_per_s:
            text = "the telemetry brings nothing new although clients publish"
            self._troubles.report("telemetry_quiet", Severity.WARNING, text, now)
        return recent

    # --- beginning and end -------------------------------------------------------------------

    async def _let_go(self) -> None:
        """Of an overlay that is gone: the next one is another."""
        await self._let_go_of_store()
        await self._observer.close()
        self._rates = OverlayRates()
        self._tail = None

    async def __aenter__(self) -> OverlaySource:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._let_go()


def _stopped(last: Snapshot, now: float, troubles: tuple[Alert, ...]) -> Snapshot:
    """What was last seen of an overlay that is gone: its shape and history, and nothing alive."""
    return msgspec.structs.replace(
        last,
        taken_at=now,
        brokers=tuple(BrokerView(broker.id, is_up=False) for broker in last.brokers),
        links=tuple(LinkView(link.a, link.b, is_up=False) for link in last.links),
        latency=None,
        cost_per_s=None,
        publications_per_s=None,
        deliveries_per_s=None,
        autopilot=None,
        troubles=troubles,
    )


def _with_held(deployment: DeploymentView | None, seen: OverlayStatuses) -> DeploymentView | None:
    """The messages that brokers keep back for each action of the step under way."""
    if deployment is None or not deployment.actions:
        return deployment
    held: dict[str, int] = {}
    for status in seen.up:
        if status.action is not None:
            id_ = status.action.id
            held[id_] = held.get(id_, 0) + status.action.held_messages
    actions = []
    for place, action in enumerate(deployment.actions):
        kept = held.get(action_id(deployment.id, deployment.steps_done, place), 0)
        actions.append(msgspec.structs.replace(action, held_messages=kept))
    return msgspec.structs.replace(deployment, actions=tuple(actions))
