"""Churn on a maintained overlay, round by round, with a clock and the verifier."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from pubweave.design.tco.changes import Change, Join, Leave
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.verify import Gap, verify


@dataclass(frozen=True)
class RoundRecord:
    """One round: what changed, how long each step took, what the overlay is like after it."""

    number: int
    kind: str
    """join, leave, change, or batch where there are several."""
    topics: int | None
    """How many topics the node that joined or left has."""
    nodes: int
    links: int
    average_degree: float
    max_degree: int
    added: int
    removed: int
    """Both with those of tidying."""
    shadow_size: int
    repair_ms: float
    backups_ms: float
    backups_updated: int
    tidy_ms: float
    gap: Gap | None
    is_verified: bool
    """Whether the verifier was asked; without a gap the overlay is then topic-connected."""

    @property
    def changed(self) -> int:
        return self.added + self.removed

    def as_json(self) -> dict[str, Any]:
        document = asdict(self)
        document["gap"] = None if self.gap is None else str(self.gap)
        document["is_connected"] = (self.gap is None) if self.is_verified else None
        return document


def play(
    overlay: MaintainedOverlay,
    rounds: Iterable[Sequence[Change]],
    clock: Callable[[], float],
    *,
    verify_every: int = 1,
) -> Iterator[RoundRecord]:
    """Apply the rounds one after the other; every so many of them are verified."""
    for number, changes in enumerate(rounds, 1):
        topics = _topic_count(overlay, changes)
        began = clock()
        outcome = overlay.apply(changes)
        repaired = clock()
        updated = overlay.update_backups()
        has_backups = clock()
        tidied = overlay.tidy()
        ended = clock()
        is_verified = verify_every > 0 and number % verify_every == 0
        gaps = verify(*overlay.snapshot()).gaps if is_verified else ()
        yield RoundRecord(
            number=number,
            kind=_kind(changes),
            topics=topics,
            nodes=overlay.node_count,
            links=overlay.link_count,
            average_degree=round(overlay.average_degree, 4),
            max_degree=overlay.max_degree,
            added=len(outcome.added) + len(tidied.added),
            removed=len(outcome.removed) + len(tidied.removed),
            shadow_size=outcome.shadow_size,
            repair_ms=round(1e3 * (repaired - began), 4),
            backups_ms=round(1e3 * (has_backups - repaired), 4),
            backups_updated=updated,
            tidy_ms=round(1e3 * (ended - has_backups), 4),
            gap=gaps[0] if gaps else None,
            is_verified=is_verified,
        )


def _kind(changes: Sequence[Change]) -> str:
    if len(changes) != 1:
        return "batch"
    [change] = changes
    return (
        "join" if isinstance(change, Join) else "leave" if isinstance(change, Leave) else "change"
    )


def _topic_count(overlay: MaintainedOverlay, changes: Sequence[Change]) -> int | None:
    if len(changes) != 1:
        return None
    [change] = changes
    if isinstance(change, Join):
        return len(change.topics)
    return len(overlay.topics_of(change.node)) if change.node in overlay.state.number_of else None
