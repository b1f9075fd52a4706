"""Clients of a running overlay: have publishers traced, and move those that should be elsewhere."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from pubweave.cli.errors import FAILED, BadInput
from pubweave.cli.output import print_json, progress_bar, remark, warn
from pubweave.cli.relocate.view import show_clients, status_document
from pubweave.core.mqtt.session.session import native_id, session_of
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.records.status import (
    RELOCATE_SUBJECT,
    RELOCATION_SUBJECT,
    MoveStatus,
    PublishersStatus,
    RelocateRequest,
    SelectionStatus,
    TraceRequest,
)
from pubweave.runtime.client.observer import OverlayObserver
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.overlay.run_directory import read_live_state
from pubweave.runtime.security.directory import operator_credentials

LOOK_EVERY_S = 0.5
MOVE_LIMIT_S = 30.0
ROUND_LIMIT_S = 60.0
"""At most so long after the last trace until subscribers have been placed."""
QUIET_LOOKS = 4
"""Rounds are taken to be over when so many looks have brought nothing new."""

_publishers = msgspec.json.Decoder(PublishersStatus)


class LiveRelocation(NamedTuple):
    """What is asked of a running overlay."""

    trace: TraceRequest
    publishers: Collection[ClientId]
    """Only these; all, if empty."""
    wait_s: float
    dry_run: bool
    as_json: bool

    def wants(self, publisher: ClientId) -> bool:
        return not self.publishers or publisher in self.publishers

    @property
    def role(self) -> str:
        """Of those who are to be moved."""
        return "subscriber" if self.trace.subscribers else "publisher"


async def relocate_overlay(run_dir: Path, asked: LiveRelocation) -> int:
    """Trace, show, and move unless it is a dry run; the exit code."""
    state = read_live_state(run_dir)
    credentials = operator_credentials(state.security)
    addresses = {broker: Address.parse(known.address) for broker, known in state.brokers.items()}
    async with StopRequest() as stop, OverlayObserver(addresses, (), credentials) as observer:
        session = _Session(observer, asked)
        if not await stop.unless(session.trace()):
            return stop.exit_code
        session.show()
        if asked.dry_run:
            return 0
        # What has been asked for goes on at the brokers, whether or not somebody watches.
        await stop.unless(session.move())
        return stop.exit_code or (FAILED if session.failed else 0)


class _Session:
    """One run of the verb."""

    def __init__(self, observer: OverlayObserver, asked: LiveRelocation) -> None:
        self._observer = observer
        self._asked = asked
        self._at: dict[ClientId, BrokerId] = {}
        self._all: set[ClientId] = set()
        """Publishers, also those that nobody asked for."""
        self._found: dict[ClientId, SelectionStatus] = {}
        self._placed: dict[ClientId, SelectionStatus] = {}
        """Subscribers, by what their brokers say."""
        self._moved: dict[ClientId, MoveStatus] = {}
        self.failed = 0

    async def trace(self) -> None:
        """Have all publishers traced and wait for what comes of it."""
        asked = self._asked
        subject = f"{RELOCATION_SUBJECT} {msgspec.json.encode(asked.trace).decode()}"
        await self._look(subject)
        missing = sorted(set(asked.publishers) - set(self._at))
        if missing:
            raise BadInput(f"no publisher {missing[0]!r} in the overlay: does it advertise?")
        until = time.monotonic() + asked.wait_s
        title = f"tracing {asked.trace.publications} publications of each publisher"
        with progress_bar(title, len(self._at), shown=not asked.as_json) as advance:
            while len(self._found) < len(self._at) and time.monotonic() < until:
                await asyncio.sleep(LOOK_EVERY_S)
                await self._look(RELOCATION_SUBJECT)
                advance.to(len(self._found))
        if asked.trace.subscribers:
            await self._wait_for_rounds()

    async def _wait_for_rounds(self) -> None:
        """The rounds are under way when all traces are in."""
        until = time.monotonic() + ROUND_LIMIT_S
        placed, quiet = -1, 0
        while quiet < QUIET_LOOKS and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(RELOCATION_SUBJECT)
            quiet = quiet + 1 if len(self._placed) == placed else 0
            placed = len(self._placed)

    async def _look(self, subject: str) -> None:
        brokers = list(self._observer.addresses)
        answers = await asyncio.gather(*(self._observer.query(b, subject) for b in brokers))
        everybody: set[ClientId] = set()
        at: dict[ClientId, BrokerId] = {}
        found: dict[ClientId, SelectionStatus] = {}
        placed: dict[ClientId, SelectionStatus] = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if answer is None:
                warn(f"broker {broker} does not answer: its publishers are left out")
                continue
            try:
                told = _publishers.decode(answer)
            except msgspec.MsgspecError as error:
                raise BadInput(f"broker {broker} knows of no relocation: {error}") from error
            everybody.update(told.publishers)
            at |= {p: broker for p in told.publishers if self._asked.wants(p)}
            found |= {s.publisher: s for s in told.selections if self._asked.wants(s.publisher)}
            placed |= {status.publisher: status for status in told.subscribers}
            self._moved |= {m.client: m for m in told.moves if m.outcome == "done"}
        self._all, self._at, self._found, self._placed = everybody, at, found, placed

    def show(self) -> None:
        """All publishers, or subscribers: the candidates, the choice and why; or that there is no
        trace yet."""
        role = self._asked.role
        if role == "subscriber":
            documents = [
                status_document(client, status.publisher_at, status, role)
                for client, status in sorted(self._placed.items())
            ]
        else:
            documents = [
                status_document(publisher, self._at[publisher], self._found.get(publisher))
                for publisher in sorted(self._at)
            ]
        if documents or self._asked.as_json:
            show_clients(documents, role, self._asked.as_json)
        else:
            remark(f"no {role} of a traced publisher is attached to this overlay")

    async def move(self) -> None:
        """Ask the brokers to move clients, and see how that ends."""
        known = self._placed if self._asked.trace.subscribers else self._found
        moving = {
            client: selection
            for client, selection in known.items()
            if selection.choice != selection.publisher_at
        }
        for client, selection in moving.items():
            request = RelocateRequest(client, selection.choice)
            subject = f"{RELOCATE_SUBJECT} {msgspec.json.encode(request).decode()}"
            answer = await self._observer.query(selection.publisher_at, subject)
            error = "its broker does not answer" if answer is None else _error(answer)
            if error:
                self.failed += 1
                self._tell(client, selection, error)
        await self._wait(moving)

    async def _wait(self, moving: dict[ClientId, SelectionStatus]) -> None:
        until = time.monotonic() + MOVE_LIMIT_S
        left = dict(moving)
        while left and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(RELOCATION_SUBJECT)
            for client in [c for c in left if self._is_gone(c, left[c])]:
                self._tell(client, left.pop(client), "")
        for client, selection in left.items():
            self.failed += 1
            self._tell(client, selection, f"not there after {MOVE_LIMIT_S:.0f} s")

    def _is_gone(self, client: ClientId, selection: SelectionStatus) -> bool:
        """A publisher is known where it is, if it is an MQTT client by the name that it has there;
        of a subscriber its old broker knows nothing more."""
        if self._asked.trace.subscribers:
            return client not in self._placed
        there = native_id(session_of(client), selection.choice)
        return self._at.get(client) == selection.choice or there in self._all

    def _tell(self, client: ClientId, selection: SelectionStatus, problem: str) -> None:
        move = None if problem else self._moved.get(client)
        if self._asked.as_json:
            print_json({
                "event": "moved" if not problem else "not_moved",
                self._asked.role: client,
                "from": selection.publisher_at,
                "to": selection.choice,
                "problem": problem,
                **({} if move is None else {"hops": move.hops, "paused_ms": move.paused_ms}),
            })  # fmt: skip
        elif problem:
            warn(f"{client} was not moved to {selection.choice}: {problem}")
        else:
            waited = f", it waited {move.paused_ms:.0f} ms over {move.hops} hops" if move else ""
            remark(f"{client} moved from {selection.publisher_at} to {selection.choice}{waited}")


def _error(answer: bytes) -> str:
    document: dict[str, Any] = msgspec.json.decode(answer)
    return str(document.get("error", ""))
