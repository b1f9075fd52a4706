"""What earlier decisions mean for the next one: read from their records, never remembered apart.

So a loop that was killed and started again, anywhere, is bound by the same free period, the same
budget and the same standing down as before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pubweave.control.alternatives import Allowed
from pubweave.control.settings import DAY_S, ControlSettings
from pubweave.model.decisions import DecisionRecord, DecisionState

_TOUCHED = frozenset(
    {
        DecisionState.DEPLOYING,
        DecisionState.DEPLOYED,
        DecisionState.FAILED,
        DecisionState.ABORTED,
    }
)
"""The overlay was changed, perhaps in part."""
_BAD = frozenset({DecisionState.FAILED, DecisionState.ABORTED})


@dataclass(frozen=True)
class History:
    """The decisions so far, the oldest first."""

    records: tuple[DecisionRecord, ...] = ()

    def with_record(self, record: DecisionRecord) -> History:
        """This history with a record that is new or has changed."""
        kept = tuple(each for each in self.records if each.id != record.id)
        return History(tuple(sorted((*kept, record), key=lambda each: each.id)))

    def without(self, ids: Sequence[str]) -> History:
        gone = frozenset(ids)
        return History(tuple(each for each in self.records if each.id not in gone))

    @property
    def open_record(self) -> DecisionRecord | None:
        """The decision that somebody has yet to end: there is at most one."""
        return next((each for each in reversed(self.records) if not each.state.is_final), None)

    @property
    def last_change(self) -> DecisionRecord | None:
        """The last decision that touched the overlay."""
        return next((each for each in reversed(self.records) if each.state in _TOUCHED), None)

    def changed_at(self) -> float | None:
        """When the overlay was last changed by a decision."""
        last = self.last_change
        if last is None:
            return None
        return last.ended_at if last.ended_at is not None else last.deploying_at

    def unmeasured(self) -> DecisionRecord | None:
        """The last change, if it was carried out and nobody has measured it yet."""
        last = self.last_change
        is_open = last is not None and last.state is DecisionState.DEPLOYED
        return last if is_open and last is not None and last.measured is None else None

    def free_until(self, settings: ControlSettings) -> float | None:
        changed_at = self.changed_at()
        return None if changed_at is None else changed_at + settings.free_period_s

    def stands_down_until(self) -> float | None:
        last = self.last_change
        return last.stands_down_until if last is not None and last.state in _BAD else None

    def next_stand_down_s(self, settings: ControlSettings) -> float:
        """How long to stand down after one more failure: doubled with each in a row."""
        in_a_row = 0
        for record in reversed(self.records):
            if record.state in _BAD:
                in_a_row += 1
            elif record.state is DecisionState.DEPLOYED:
                break
        return min(settings.stand_down_s * 2.0**in_a_row, settings.stand_down_s_max)

    def allowed(self, settings: ControlSettings, now: float) -> Allowed:
        """How many links may change now, by what is left of the budgets."""
        limits = settings.limits
        options: list[tuple[int, str]] = []
        if limits.links_per_change is not None:
            options.append(
                (
                    limits.links_per_change,
                    f"more than {limits.links_per_change} links at once are not allowed",
                )
            )
        if limits.links_per_day is not None:
            spent = self.links_changed_since(now - DAY_S)
            left = max(0, limits.links_per_day - spent)
            options.append(
                (left, f"{left} of the {limits.links_per_day} links a day are left to change")
            )
        if not options:
            return Allowed()
        return Allowed(*min(options))

    def links_changed_since(self, since: float) -> int:
        """How many links came by decisions since then."""
        return sum(
            len(chosen.added_links)
            for record in self.records
            if _counts_since(record, since) and (chosen := record.chosen_alternative) is not None
        )

    def rejected_since(self, plan_hash: str, since: float) -> DecisionRecord | None:
        """The decision by which a person declined this very plan."""
        for record in reversed(self.records):
            is_it = record.state is DecisionState.REJECTED and record.plan_hash == plan_hash
            if is_it and (record.reviewed_at or 0.0) > since:
                return record
        return None

    def surplus(self, keep: int, now: float) -> tuple[str, ...]:
        """Ids to drop so that about ``keep`` are left: those of looks that led to nothing first.

        Kept in any case: the newest half, whatever they led to, what is open, and the changes of
        the last day, which the budget counts."""
        excess = len(self.records) - keep
        if excess <= 0:
            return ()
        older = self.records[: len(self.records) - keep // 2]
        final = [
            each for each in older if each.state.is_final and not _counts_since(each, now - DAY_S)
        ]
        ordered = sorted(final, key=lambda each: (each.state is not DecisionState.CLOSED, each.id))
        return tuple(each.id for each in ordered[:excess])


def _counts_since(record: DecisionRecord, since: float) -> bool:
    """Whether a decision touched the overlay after an instant."""
    touched_at = record.ended_at or record.deploying_at or record.decided_at
    return record.state in _TOUCHED and touched_at > since
