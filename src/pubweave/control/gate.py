"""The gate: whether something is worth doing, and whether it may be done now.

DYNATOPS' Algorithm 2: change if Bft(X, X') > Cst(X, X'), with a free period between changes; then
what the operator allows. Pure: what is known goes in, a record with its reason in words comes out,
not yet numbered. A refusal says what would have been done, so that nobody has to guess.

What earlier decisions mean for the next one is read from their records, never remembered apart: a
loop that was killed and started again is bound by the same free period, budget and standing down.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from pubweave.control.alternatives import STAY, Allowed, Option, best_option
from pubweave.control.evidence import Evidence
from pubweave.control.settings import DAY_S, ControlSettings, quiet_until, time_of_day
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.model.decisions import (
    Alternative,
    ControlMode,
    DecisionRecord,
    DecisionState,
    Prediction,
    Verdict,
    hash_of,
)
from pubweave.model.files.plan import plan_to_json, topology_hash

_TOUCHED = frozenset(
    {DecisionState.DEPLOYING, DecisionState.DEPLOYED, DecisionState.FAILED, DecisionState.ABORTED}
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


UNNUMBERED = ""
KEPT_SHARE = 0.5
"""A proposal stands as long as it would save half of what it promised."""


def nothing_weighed(
    overlay: str,
    settings: ControlSettings,
    now: float,
    verdict: Verdict,
    reason: str,
    evidence: Evidence | None,
    gaps: tuple[str, ...] = (),
) -> DecisionRecord:
    """Nothing was weighed: the profile is not good enough, there is none, or the time is wrong.

    Weighing takes a processor from the brokers, so it is not done in vain (DYNATOPS' step 2)."""
    return DecisionRecord(
        id=UNNUMBERED,
        overlay=overlay,
        decided_at=now,
        mode=settings.mode,
        verdict=verdict,
        reason=reason,
        state=DecisionState.CLOSED,
        inputs=None if evidence is None else evidence.inputs(gaps),
    )


def decide(
    overlay: str,
    evidence: Evidence,
    options: tuple[Option, ...],
    history: History,
    settings: ControlSettings,
    now: float,
) -> DecisionRecord:
    """The decision by these options."""
    stay = options[0].alternative
    best = best_option(options)
    verdict, reason = _verdict(stay, best, options, history, settings, now)
    state = _first_state(verdict, settings.mode)
    inputs = evidence.inputs(())
    record = DecisionRecord(
        id=UNNUMBERED,
        overlay=overlay,
        decided_at=now,
        mode=settings.mode,
        verdict=verdict,
        reason=reason,
        state=state,
        inputs=inputs,
        alternatives=tuple(option.alternative for option in options),
        chosen=best.alternative.name,
        deploying_at=now if state is DecisionState.DEPLOYING else None,
        expires_at=now + settings.review_s if state is DecisionState.WAITING else None,
    )
    if best.plan is None:
        return record
    return _with_plan(record, best, stay)


def _with_plan(record: DecisionRecord, best: Option, stay: Alternative) -> DecisionRecord:
    assert best.plan is not None
    assert record.inputs is not None
    ratio = best.alternative.cost_ms_per_s / stay.cost_ms_per_s
    return msgspec.structs.replace(
        record,
        plan=plan_to_json(best.plan),
        plan_hash=hash_of(best.plan),
        prediction=Prediction(
            cost_ms_per_s=best.alternative.cost_ms_per_s,
            # What is measured besides the model (queues, relays of old tables) stays as it is.
            cost_ms_per_notification=record.inputs.cost_ms_per_notification * ratio,
            saving_share=1.0 - ratio,
        ),
    )


def _verdict(
    stay: Alternative,
    best: Option,
    options: tuple[Option, ...],
    history: History,
    settings: ControlSettings,
    now: float,
) -> tuple[Verdict, str]:
    if best.alternative.name == STAY:
        return Verdict.STAY, _why_stay(options, settings)
    gain = in_words(best.alternative, stay, settings.horizon_s)
    share = 1.0 - best.alternative.cost_ms_per_s / stay.cost_ms_per_s
    if share < settings.least_saving:
        return Verdict.STAY, f"{gain}: less than the {settings.least_saving:.0%} it must be"
    rejection = _rejection(best, history, settings, now)
    if rejection:
        return Verdict.HOLD, f"{gain}; but {rejection}"
    return Verdict.CHANGE, gain


def _why_stay(options: tuple[Option, ...], settings: ControlSettings) -> str:
    stay, others = options[0].alternative, [option.alternative for option in options[1:]]
    if not others:
        return "no tree within the limits is cheaper for this traffic"
    best = max(others, key=lambda each: (not each.refusal, each.net_ms))
    if best.refusal:
        return f"{in_words(best, stay, settings.horizon_s)}; but {best.refusal}"
    return f"{in_words(best, stay, settings.horizon_s)}: not worth it"


def not_now(history: History, settings: ControlSettings, now: float) -> str:
    """Why nothing may be changed now, whatever it would save; empty if something may."""
    offset = settings.limits.utc_offset_s
    down_until = history.stands_down_until()
    if down_until is not None and now < down_until:
        return f"the last plan failed: standing down until {time_of_day(down_until, offset)}"
    free_until = history.free_until(settings)
    if free_until is not None and now < free_until:
        return f"the free period after the last change ends at {time_of_day(free_until, offset)}"
    until = quiet_until(settings.limits.quiet_hours, now, offset)
    if until is not None:
        return f"these are quiet hours, until {time_of_day(until, offset)}"
    return ""


def outdated(waiting: DecisionRecord, evidence: Evidence, settings: ControlSettings) -> str:
    """Why a proposal is no longer worth an answer, by what is known now; empty if it is."""
    planned = waiting.plan_record()
    if planned.source_hash != topology_hash(evidence.topology):
        return "the overlay has changed since the plan was made"
    target = evidence.topology
    for step in planned.plan.steps:
        target = apply_actions(target, spell_out_step(target, step))
    saving = 1.0 - evidence.cost_of(target).total / evidence.cost_of(evidence.topology).total
    promised = 0.0 if waiting.prediction is None else waiting.prediction.saving_share
    if saving < max(settings.least_saving, KEPT_SHARE * promised):
        return f"by now it would save {saving:.1%} instead of {promised:.1%}"
    return ""


def _rejection(best: Option, history: History, settings: ControlSettings, now: float) -> str:
    assert best.plan is not None
    rejected = history.rejected_since(hash_of(best.plan), now - settings.review_s)
    if rejected is None:
        return ""
    return f"{rejected.reviewed_by} rejected this very plan (decision {rejected.id})"


def in_words(alternative: Alternative, stay: Alternative, horizon_s: float) -> str:
    """What an alternative would bring and take.

    >>> stay = Alternative(name="stay", cost_ms_per_s=100.0)
    >>> change = Alternative(name="global", cost_ms_per_s=75.0, benefit_ms=22500.0,
    ...                      change_cost_ms=1200.0, added_links=(("a", "b"),), action_count=2)
    >>> in_words(change, stay, 900.0)
    '1 new link by 2 actions saves 25.0% (22,500 ms in 900 s) for 1,200 ms of change'
    """
    count = len(alternative.added_links)
    links, verb = ("link", "saves") if count == 1 else ("links", "save")
    share = 1.0 - alternative.cost_ms_per_s / stay.cost_ms_per_s if stay.cost_ms_per_s else 0.0
    way = f" by {alternative.action_count} actions" if alternative.action_count else ""
    price = f" for {alternative.change_cost_ms:,.0f} ms of change" if way else ""
    return (
        f"{count} new {links}{way} {verb} {share:.1%} "
        f"({alternative.benefit_ms:,.0f} ms in {horizon_s:,.0f} s){price}"
    )


def _first_state(verdict: Verdict, mode: ControlMode) -> DecisionState:
    if verdict is not Verdict.CHANGE:
        return DecisionState.CLOSED
    return {
        ControlMode.OBSERVE: DecisionState.OBSERVED,
        ControlMode.APPROVE: DecisionState.WAITING,
        ControlMode.AUTO: DecisionState.DEPLOYING,
    }[mode]
