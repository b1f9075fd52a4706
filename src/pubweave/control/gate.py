"""The gate: whether something is worth doing, and whether it may be done now.

DYNATOPS' Algorithm 2: change if Bft(X, X') > Cst(X, X'), with a free period between changes; then
what the operator allows. Pure: what is known goes in, a record with its reason in words comes out,
not yet numbered. A refusal says what would have been done, so that nobody has to guess.
"""

from __future__ import annotations

import msgspec

from pubweave.control.alternatives import STAY, Option, best_option
from pubweave.control.evidence import Evidence
from pubweave.control.history import History
from pubweave.control.settings import ControlSettings, quiet_until, time_of_day
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
