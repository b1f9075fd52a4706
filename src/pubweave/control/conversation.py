"""How the loop talks: one request at a time, what it says of itself, and how it bears trouble.

The part of the loop that has no policy. Every request goes through `_ask`, which keeps the time;
whatever is told goes into the status first, so that the store and a person hear the same.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from pubweave.control.requests import AskStore, Reply, Request, Rest, Tell, Trouble
from pubweave.control.settings import ControlSettings
from pubweave.deploy.commands import Script
from pubweave.model.decisions import AutopilotPhase, AutopilotStatus

T = TypeVar("T")
Part = Generator[Request, Reply, T]

STORE_RETRY_S = 5.0
"""How soon what must be read or written is tried again."""


class Conversation:
    """Requests and replies, and the status that others see."""

    def __init__(self, name: str, settings: ControlSettings) -> None:
        self._now = 0.0
        self._status = AutopilotStatus(
            name=name,
            mode=settings.mode,
            started_at=0.0,
            phase=AutopilotPhase.RESTING,
            phase_since=0.0,
        )

    def _begin(self, now: float) -> None:
        self._now = now
        self._status = msgspec.structs.replace(self._status, started_at=now, phase_since=now)

    def _ask(self, request: Request) -> Part[Any]:
        reply = yield request
        self._now = reply.now
        return reply.value

    def _stored(self, script: Callable[[], Script[T]]) -> Part[T]:
        """What a script returns, as soon as the store answers."""
        while True:
            answer: T | Trouble = yield from self._ask(AskStore(script()))
            if not isinstance(answer, Trouble):
                yield from self._recovered()
                return answer
            yield from self._trouble("the store cannot be used", answer)
            yield from self._ask(Rest(self._now + STORE_RETRY_S))

    def _enter(
        self, phase: AutopilotPhase, next_look_at: float, stands_down_until: float | None
    ) -> Part[None]:
        """Say what is being done now."""
        is_new = phase is not self._status.phase
        status = msgspec.structs.replace(
            self._status,
            phase=phase,
            phase_since=self._now if is_new else self._status.phase_since,
            next_look_at=next_look_at,
            stands_down_until=stands_down_until,
        )
        if status != self._status:
            self._status = status
            yield from self._ask(Tell(status))

    def _tell(self, line: str, notice: str | None = None) -> Part[None]:
        if notice is not None and notice != self._status.notice:
            self._status = msgspec.structs.replace(
                self._status, notice=notice, noticed_at=self._now
            )
        yield from self._ask(Tell(self._status, line))

    def _trouble(self, what: str, trouble: Trouble) -> Part[None]:
        words = f"{what}: {trouble.reason}"
        is_new = words != self._status.notice
        yield from self._tell(words if is_new else "", notice=words)

    def _recovered(self) -> Part[None]:
        if self._status.notice:
            yield from self._tell("that is over; going on", notice="")
