"""Publishers of a running overlay: have their brokers trace them, and move those that should."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from pubweave.cli.errors import FAILED, BadInput
from pubweave.cli.output import print_json, progress_bar, remark, warn
from pubweave.cli.relocate_report import print_publishers, status_document
from pubweave.model.status import (
    RELOCATE_SUBJECT,
    RELOCATION_SUBJECT,
    PublishersStatus,
    RelocateRequest,
    SelectionStatus,
    TraceRequest,
)

if TYPE_CHECKING:
    from pubweave.model.ids import BrokerId, ClientId
    from pubweave.runtime.overlay_observer import OverlayObserver

LOOK_EVERY_S = 0.5
MOVE_LIMIT_S = 30.0

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


async def relocate_overlay(run_dir: Path, asked: LiveRelocation) -> int:
    """Trace, show, and move unless it is a dry run; the exit code."""
    from pubweave.cli.signals import StopRequest
    from pubweave.runtime.addresses import Address
    from pubweave.runtime.overlay_observer import OverlayObserver
    from pubweave.runtime.overlay_run_directory import read_live_state

    state = read_live_state(run_dir)
    addresses = {broker: Address.parse(known.address) for broker, known in state.brokers.items()}
    async with StopRequest() as stop, OverlayObserver(addresses, ()) as observer:
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
        self._found: dict[ClientId, SelectionStatus] = {}
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

    async def _look(self, subject: str) -> None:
        brokers = list(self._observer.addresses)
        answers = await asyncio.gather(*(self._observer.query(b, subject) for b in brokers))
        at: dict[ClientId, BrokerId] = {}
        found: dict[ClientId, SelectionStatus] = {}
        for broker, answer in zip(brokers, answers, strict=True):
            if answer is None:
                warn(f"broker {broker} does not answer: its publishers are left out")
                continue
            try:
                told = _publishers.decode(answer)
            except msgspec.MsgspecError as error:
                raise BadInput(f"broker {broker} knows of no relocation: {error}") from error
            at |= {p: broker for p in told.publishers if self._asked.wants(p)}
            found |= {s.publisher: s for s in told.selections if self._asked.wants(s.publisher)}
        self._at, self._found = at, found

    def show(self) -> None:
        """All publishers: the candidates, the choice and why; or that there is no trace yet."""
        documents = [
            status_document(publisher, self._at[publisher], self._found.get(publisher))
            for publisher in sorted(self._at)
        ]
        if self._asked.as_json:
            for document in documents:
                print_json(document)
            return
        if not documents:
            remark("no publisher is attached to this overlay")
            return
        print_publishers(documents, in_detail=len(documents) == 1)

    async def move(self) -> None:
        """Ask the brokers to move publishers, and see how that ends."""
        moving = {
            publisher: selection
            for publisher, selection in self._found.items()
            if selection.choice != self._at[publisher]
        }
        for publisher, selection in moving.items():
            request = RelocateRequest(publisher, selection.choice)
            subject = f"{RELOCATE_SUBJECT} {msgspec.json.encode(request).decode()}"
            answer = await self._observer.query(self._at[publisher], subject)
            error = "its broker does not answer" if answer is None else _error(answer)
            if error:
                self.failed += 1
                self._tell(publisher, selection, error)
        await self._wait(moving)

    async def _wait(self, moving: dict[ClientId, SelectionStatus]) -> None:
        until = time.monotonic() + MOVE_LIMIT_S
        left = dict(moving)
        while left and time.monotonic() < until:
            await asyncio.sleep(LOOK_EVERY_S)
            await self._look(RELOCATION_SUBJECT)
            for publisher in [p for p in left if self._at.get(p) == left[p].choice]:
                self._tell(publisher, left.pop(publisher), "")
        for publisher, selection in left.items():
            self.failed += 1
            self._tell(publisher, selection, f"not there after {MOVE_LIMIT_S:.0f} s")

    def _tell(self, publisher: ClientId, selection: SelectionStatus, problem: str) -> None:
        if self._asked.as_json:
            print_json({
                "event": "moved" if not problem else "not_moved",
                "publisher": publisher,
                "from": selection.publisher_at,
                "to": selection.choice,
                "problem": problem,
            })  # fmt: skip
        elif problem:
            warn(f"{publisher} was not moved to {selection.choice}: {problem}")
        else:
            remark(f"{publisher} moved from {selection.publisher_at} to {selection.choice}")


def _error(answer: bytes) -> str:
    document: dict[str, Any] = msgspec.json.decode(answer)
    return str(document.get("error", ""))
