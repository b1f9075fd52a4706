"""What a broker decided last about where each of its clients should be, and how often it did."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.grape_selection import Choice, Rule
from pubweave.core.relocation_config import MOST_TRACED
from pubweave.design.relocation_rules import Preference, Selection
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.status import CandidateStatus, SelectionStatus, TraceRequest


@dataclass(frozen=True)
class Asked:
    """What somebody wants to see of a publisher; nobody moves for it."""

    rule: Rule
    publications: int
    subscribers: bool

    @classmethod
    def by(cls, request: TraceRequest, preference: Preference) -> Asked:
        count = max(1, min(request.publications, MOST_TRACED))
        return cls(Rule(preference, request.least_gain), count, request.subscribers)


class Decisions:
    """The last decision on each client, for those who ask."""

    def __init__(self) -> None:
        self.selections: dict[ClientId, SelectionStatus] = {}
        """Of publishers."""
        self.placements: dict[ClientId, SelectionStatus] = {}
        """Of subscribers."""
        self.decided = 0
        self.deciding_s = 0.0

    def by_pop(
        self, publisher: ClientId, path: tuple[BrokerId, ...], took_s: float, now: float
    ) -> None:
        """POP goes along a path; one of a single broker means staying."""
        reason = (
            "most subscribers are there"
            if len(path) > 1
            else "no neighbor has so many more than all others"
        )
        status = SelectionStatus(publisher, "pop", path[0], path[-1], reason, now)
        self._remember(publisher, status, took_s)

    def by_grape(self, publisher: ClientId, choice: Choice, now: float) -> None:
        status = as_status(publisher, choice.selection, choice.has_pings, now)
        self._remember(publisher, status, choice.took_s)

    def _remember(self, publisher: ClientId, status: SelectionStatus, took_s: float) -> None:
        self.decided += 1
        self.deciding_s += took_s
        self.selections[publisher] = status

    def placed(self, client: ClientId, selection: Selection, has_pings: bool, now: float) -> None:
        self.placements[client] = as_status(client, selection, has_pings, now)

    def forget(self, client: ClientId) -> None:
        self.selections.pop(client, None)
        self.placements.pop(client, None)


def as_status(
    client: ClientId, selection: Selection, has_pings: bool, now: float
) -> SelectionStatus:
    """A decision as it is told to others."""
    return SelectionStatus(
        publisher=client,
        rule=str(selection.preference),
        publisher_at=selection.publisher_at,
        choice=selection.choice,
        reason=selection.reason,
        at=now,
        has_pings=has_pings,
        candidates=tuple(
            CandidateStatus(c.broker, c.delay_ms, c.message_rate, c.normalized, c.is_kept)
            for c in selection.candidates
        ),
    )
