"""The questions of `routing.tree.confirmation` between brokers, and the time that they take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pubweave.core.dataplane.part import BrokerPart, MessageHandler
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.model.messages.session import ConfirmReply, ConfirmRequest


class Confirming(BrokerPart):
    """Hands questions and answers to the strategy, and looks at those that are open once per
    tick."""

    def __init__(self, services: BrokerServices[TreeRouting]) -> None:
        self._confirmation = services.routing.confirmation

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return {ConfirmRequest: self._on_request, ConfirmReply: self._on_reply}

    def _on_request(self, origin: Session, message: ConfirmRequest, now: float) -> None:
        self._confirmation.asked_by(origin, message)

    def _on_reply(self, origin: Session, message: ConfirmReply, now: float) -> None:
        self._confirmation.answered_by(origin, message)

    def on_tick(self, now: float) -> None:
        self._confirmation.on_tick()
