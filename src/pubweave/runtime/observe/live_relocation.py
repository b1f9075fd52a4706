"""Clients of a running overlay: publishers are traced, and clients go where they cost least."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

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
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.run_directory import read_live_state
from pubweave.runtime.security.directory import operator_credentials

LOOK_EVERY_S = 0.5
MOVE_LIMIT_S = 30.0
ROUND_LIMIT_S = 60.0
"""At most so long after the last trace until subscribers have been placed."""
QUIET_LOOKS = 4
"""Rounds are taken to be over when so many looks have brought nothing new."""

_publishers = msgspec.json.Decoder(PublishersStatus)


def observer_in(run_dir: Path) -> OverlayObserver:
    """Whom to ask in the overlay of a run directory, as its operator."""
    state = read_live_state(run_dir)
    addresses = {broker: Address.parse(known.address) for broker, known in state.brokers.items()}
    return OverlayObserver(addresses, (), operator_credentials(state.security))


@dataclass(frozen=True)
class ClientMove:
    """A client that was asked to move: where to, and how that ended."""

    client: ClientId
    selection: SelectionStatus
    problem: str = ""
    """Empty: it is there."""
    status: MoveStatus | None = None
    """What its old broker says of the way."""


class LiveRelocation:
    """Traces the publishers of an overlay, then moves them or their subscribers (GRAPE).

    relocation = LiveRelocation(observer, TraceRequest("load", 100.0, 100))
    await relocation.trace(wait_s=120.0)      # then `selections` has what brokers decided
    moves = await relocation.move()
    """

    def __init__(
        self,
        observer: OverlayObserver,
        request: TraceRequest,
        publishers: Collection[ClientId] = (),
        *,
        on_warning: Callable[[str], None] = lambda line: None,
    ) -> None:
        """Only these publishers; all, if there are none."""
        self._observer = observer
        self._request = request
        self._wanted = frozenset(publishers)
        self._warn = on_warning
        self._at: dict[ClientId, BrokerId] = {}
        self._all: set[ClientId] = set()
        """Publishers, also those that nobody asked for."""
        self._found: dict[ClientId, SelectionStatus] = {}
        self._placed: dict[ClientId, SelectionStatus] = {}
        """Subscribers, by what their brokers say."""
        self._moved: dict[ClientId, MoveStatus] = {}

    @property
    def selections(self) -> dict[ClientId, tuple[BrokerId, SelectionStatus | None]]:
        """Where each client is and what was decided for it; None as long as nothing was."""
        if self._request.subscribers:
            placed = sorted(self._placed.items())
            return {client: (status.publisher_at, status) for client, status in placed}
        return {each: (self._at[each], self._found.get(each)) for each in sorted(self._at)}

    async def trace(
        self, wait_s: float, on_progress: Callable[[int, int], None] = lambda done, all_: None
    ) -> None:
        """Have all publishers traced and wait for what comes of it. OverlayError if one of those
        that are wanted is not there."""
        subject = f"{RELOCATION_SUBJECT} {msgspec.json.encode(self._request).decode()}"
        await self._look(subject)
        missing = sorted(self._wanted - self._at.keys())
        if missing:
            raise OverlayError(f"no publisher {missing[0]!r} in the overlay: does it advertise?")
        until = time.monotonic() + wait_s
        while len(self._found) < len(self._at) and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(RELOCATION_SUBJECT)
            on_progress(len(self._found), len(self._at))
        if self._request.subscribers:
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
                self._warn(f"broker {broker} does not answer: its publishers are left out")
                continue
            try:
                told = _publishers.decode(answer)
            except msgspec.MsgspecError as error:
                raise OverlayError(f"broker {broker} knows of no relocation: {error}") from error
            everybody.update(told.publishers)
            at |= {p: broker for p in told.publishers if self._wants(p)}
            found |= {s.publisher: s for s in told.selections if self._wants(s.publisher)}
            placed |= {status.publisher: status for status in told.subscribers}
            self._moved |= {m.client: m for m in told.moves if m.outcome == "done"}
        self._all, self._at, self._found, self._placed = everybody, at, found, placed

    def _wants(self, publisher: ClientId) -> bool:
        return not self._wanted or publisher in self._wanted

    async def move(
        self, on_move: Callable[[ClientMove], None] = lambda move: None
    ) -> list[ClientMove]:
        """Ask the brokers to move clients, and see how each of them ends.

        What has been asked for goes on at the brokers, whether or not somebody watches."""
        known = self._placed if self._request.subscribers else self._found
        moving = {
            client: selection
            for client, selection in known.items()
            if selection.choice != selection.publisher_at
        }
        ended: list[ClientMove] = []

        def end(move: ClientMove) -> None:
            ended.append(move)
            on_move(move)

        left = dict(moving)
        for client, selection in moving.items():
            request = RelocateRequest(client, selection.choice)
            subject = f"{RELOCATE_SUBJECT} {msgspec.json.encode(request).decode()}"
            answer = await self._observer.query(selection.publisher_at, subject)
            if error := "its broker does not answer" if answer is None else _error(answer):
                end(ClientMove(client, left.pop(client), error))
        until = time.monotonic() + MOVE_LIMIT_S
        while left and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(RELOCATION_SUBJECT)
            for client in [c for c in left if self._is_gone(c, left[c])]:
                end(ClientMove(client, left.pop(client), "", self._moved.get(client)))
        for client, selection in left.items():
            end(ClientMove(client, selection, f"not there after {MOVE_LIMIT_S:.0f} s"))
        return ended

    def _is_gone(self, client: ClientId, selection: SelectionStatus) -> bool:
        """A publisher is known where it is, if it is an MQTT client by the name that it has there;
        of a subscriber its old broker knows nothing more."""
        if self._request.subscribers:
            return client not in self._placed
        there = native_id(session_of(client), selection.choice)
        return self._at.get(client) == selection.choice or there in self._all


def _error(answer: bytes) -> str:
    document: dict[str, Any] = msgspec.json.decode(answer)
    return str(document.get("error", ""))
