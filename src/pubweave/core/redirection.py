"""A client on its way to another broker: what it has to show there, and how long it waited."""

from __future__ import annotations

from pubweave.core.effects import ReportMove
from pubweave.model.migration_messages import Redirect


class Redirection:
    """The redirection that a client follows at the moment, if any."""

    def __init__(self) -> None:
        self._redirect: Redirect | None = None
        self._since = 0.0

    @property
    def token(self) -> str:
        """Shows the new broker that the old one has let go."""
        return "" if self._redirect is None else self._redirect.token

    def follow(self, redirect: Redirect, now: float) -> None:
        """The old broker says where to go; it may say so again."""
        if self._redirect is None or self._redirect.token != redirect.token:
            self._redirect, self._since = redirect, now

    def arrived(self, broker: str, now: float) -> list[ReportMove]:
        """A session stands: the move is over, if it is with the new broker. The old one was
        silent for its part of the wait, and told how long."""
        redirect = self._redirect
        if redirect is None or broker != redirect.broker:
            return []
        self._redirect = None
        wait_s = redirect.paused_ms / 1000.0 + now - self._since
        return [ReportMove(broker, wait_s, redirect.hops)]
