"""Judges what native clients have seen: exactly once, in order, and nothing missing that is due.

It knows only what clients did and were told. A publication is due to a subscription that was
acknowledged, and had settled, before it, and was not taken back by its client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.model.filters.filter import Filter
from pubweave.model.publications import Publication


@dataclass
class Wish:
    """One subscription of one client."""

    client: str
    filter: Filter
    settled_at: float | None = None
    """From here on everything is due."""
    withdrawn_at: float | None = None
    got: dict[bytes, float] = field(default_factory=dict)
    last: dict[str, tuple[int, bytes]] = field(default_factory=dict)
    """Of each publisher, the latest sequence and what it was."""

    def is_due(self, attempt: Attempt, publication: Publication) -> bool:
        return (
            self.withdrawn_at is None
            and self.settled_at is not None
            and self.settled_at <= attempt.began_at
            and self.filter.matches(publication)
        )


@dataclass
class Attempt:
    """One publication; payloads are unique and name it."""

    client: str
    payload: bytes
    began_at: float
    publication: Publication | None = None
    """None: the call has not returned."""
    is_acknowledged: bool = False
    is_judged: bool = False


class NativeHistory:
    """What all clients of a run did and saw."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.wishes: list[Wish] = []
        self.attempts: dict[bytes, Attempt] = {}
        self.deliveries = 0
        self.due = 0
        self.excused = 0
        self.told_missed = 0
        """Missing, but the client was told that so many are lost."""

    def delivered(self, wish: Wish, publication: Publication, now: float) -> None:
        self.deliveries += 1
        attempt = self.attempts.get(publication.payload)
        name = publication.payload[:40].decode()
        where = f"{now:.3f} {wish.client} got {name}"
        if attempt is None or attempt.client != publication.publisher:
            self.violations.append(f"{where}, which nobody published")
            return
        if publication.payload in wish.got:
            self.violations.append(f"{where} twice")
        wish.got[publication.payload] = now
        sequence, before = wish.last.get(publication.publisher, (-1, b""))
        if publication.sequence < sequence:
            after = before[:40].decode()
            self.violations.append(f"{where} after {after}: out of order")
        wish.last[publication.publisher] = publication.sequence, publication.payload
        if not wish.filter.matches(publication):
            self.violations.append(f"{where}, which it did not ask for")

    def judge(self, now: float, told: Mapping[str, int], *, memory_was_lost: bool) -> None:
        """All is at rest: what was due must be there. ``told``: how many publications each client
        was told to have missed since the last time. ``memory_was_lost``: a broker without a
        journal was killed since then, so something may be missing; it is counted."""
        missing: dict[str, set[bytes]] = {}
        for attempt in self.attempts.values():
            if attempt.is_judged:
                continue
            attempt.is_judged = True
            name = attempt.payload[:40].decode()
            publication = attempt.publication
            if publication is None or not attempt.is_acknowledged:
                self.violations.append(f"{now:.3f} {name} was never acknowledged")
                continue
            for wish in self.wishes:
                if not wish.is_due(attempt, publication):
                    continue
                self.due += 1
                if attempt.payload not in wish.got:
                    missing.setdefault(wish.client, set()).add(attempt.payload)
        for client, payloads in missing.items():
            if memory_was_lost:
                self.excused += len(payloads)
            elif len(payloads) <= told.get(client, 0):
                self.told_missed += len(payloads)
            else:
                names = sorted(payload[:40].decode().rstrip(".") for payload in payloads)
                text = f"{client} never got {len(names)}: {', '.join(names[:5])}"
                self.violations.append(f"{now:.3f} {text}; told of {told.get(client, 0)}")
