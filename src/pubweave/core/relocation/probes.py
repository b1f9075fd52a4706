"""How far clients are from brokers: the questions under way, and who waits for the answers.

A client is asked for round trips to some brokers and answers when its library has measured them
(the paper's pings, GRAPE 4.2). One that does not answer in time has told nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.relocation import ProbeReply, ProbeRequest

OnPings = Callable[[ClientId, dict[BrokerId, float], float], None]
"""Whose round trips in ms, by broker, and the instant; none, if it did not answer."""


@dataclass(frozen=True)
class _Question:
    client: ClientId
    asker: str
    until: float


class Probing:
    """Asks clients of this broker; several questions to one client may be under way.

    Who asks is named, and the answers go to the listener of that name: what is under way are plain
    values, which a broker's journal can keep."""

    def __init__(self, emit: Callable[[Effect], None], answer_limit_s: float) -> None:
        self._emit = emit
        self._answer_limit_s = answer_limit_s
        self._numbers = 0
        self._open: dict[int, _Question] = {}
        self.listeners: dict[str, OnPings] = {}

    def ask(
        self,
        client: Session,
        brokers: Iterable[tuple[BrokerId, str]],
        asker: str,
        now: float,
    ) -> bool:
        """Ask for the way to brokers, each with its address; False if the client cannot be."""
        if not client.can_move or client.connection is None or client.local is not None:
            return False
        self._numbers += 1
        until = now + self._answer_limit_s
        self._open[self._numbers] = _Question(client.remote, asker, until)
        self._emit(Transmit(client.connection, (ProbeRequest(self._numbers, tuple(brokers)),)))
        return True

    def receive_reply(self, client: Session, reply: ProbeReply, now: float) -> None:
        question = self._open.get(reply.number)
        if question is None or question.client != client.remote:
            return
        del self._open[reply.number]
        ping_ms = {broker: rtt for broker, rtt in reply.rtt_ms if 0 <= rtt < float("inf")}
        self.listeners[question.asker](client.remote, ping_ms, now)

    def discard(self, client: ClientId) -> None:
        for number in [n for n, question in self._open.items() if question.client == client]:
            del self._open[number]

    def give_up_late(self, now: float) -> None:
        for number in [n for n, question in self._open.items() if question.until <= now]:
            question = self._open.pop(number)
            self.listeners[question.asker](question.client, {}, now)
