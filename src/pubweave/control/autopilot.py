"""The loop: monitor, analyse, decide, plan, deploy, measure; again and again.

A generator of `requests`, without I/O and without a clock: ``Autopilot(...).run(now)``. It may be
closed or killed at any instant and run again from the store's records alone:

- a decision is recorded before anything is done about it,
- a decision that is DEPLOYING when the loop starts is gone on with, and one that is WAITING or
  APPROVED is picked up as if nothing had happened,
- without the store nothing is decided, because nobody would know.

Trouble (no profile, no store, a search that failed) ends a look, never the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeVar

import msgspec

from pubweave.control import handover
from pubweave.control.alternatives import Option
from pubweave.control.evidence import Evidence, shortcomings
from pubweave.control.gate import History, decide, not_now, nothing_weighed, outdated
from pubweave.control.records import (
    Change,
    append_decision,
    drop_decisions,
    find_decision,
    list_decisions,
)
from pubweave.control.requests import (
    AskStore,
    CarriedOut,
    CarryOut,
    Reply,
    Request,
    Rest,
    TakeProfile,
    Tell,
    Trouble,
    Weigh,
)
from pubweave.control.settings import ControlSettings
from pubweave.deploy.commands import Script
from pubweave.deploy.documents import Layout
from pubweave.model.decisions import (
    AutopilotPhase,
    AutopilotStatus,
    DecisionRecord,
    DecisionState,
    Measurement,
    Verdict,
)
from pubweave.model.files.plan import topology_hash

# How the loop talks: one request at a time, what it says of itself, and how it bears trouble.
#
# The part of the loop that has no policy. Every request goes through `_ask`, which keeps the
# time; whatever is told goes into the status first, so that the store and a person hear the same.


T = TypeVar("T")
Part = Generator[Request, Reply, T]

STORE_RETRY_S = 5.0
"""How soon what must be read or written is tried again."""


class RequestDialogue:
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


SETTLE_S = 20.0
"""How long it takes until what was published is in files, and the profile sees it as settled."""


class Autopilot(RequestDialogue):
    """One control loop of one overlay."""

    def __init__(self, overlay: str, name: str, settings: ControlSettings) -> None:
        super().__init__(name, settings)
        self.layout = Layout(overlay)
        self.settings = settings
        self.history = History()
        self._next_look_at = 0.0
        self._is_unsure = False
        """The store may hold a decision that we do not know of."""

    def run(self, now: float) -> Part[None]:
        """Go on for ever; close it to stop."""
        self._begin(now)
        yield from self._recall()
        self._next_look_at = max(self._now, self._visible_at())
        while True:
            yield from self._rest()
            yield from self._look()
            # A slow look does not move all later ones; those missed are not made up for.
            overdue = max(0.0, self._now - self._next_look_at) // self.settings.period_s
            planned = self._next_look_at + (1 + overdue) * self.settings.period_s
            self._next_look_at = max(planned, self._visible_at())

    def _visible_at(self) -> float:
        """From when on a profile can show what the last change has brought."""
        changed_at = self.history.changed_at()
        if changed_at is None:
            return 0.0
        return changed_at + self.settings.demands.window_s + SETTLE_S

    def _be(self, phase: AutopilotPhase) -> Part[None]:
        yield from self._enter(phase, self._next_look_at, self.history.stands_down_until())

    # --- at the start ------------------------------------------------------------------------

    def _recall(self) -> Part[None]:
        """Read what was decided before, and end what was under way."""
        records = yield from self._stored(lambda: list_decisions(self.layout))
        self.history = History(records)
        last = self.history.open_record
        if last is None:
            yield from self._tell(f"{len(records)} earlier decisions found")
            return
        yield from self._tell(f"decision {last.id} is {last.state.value}: going on with it")
        if last.state in (DecisionState.DEPLOYING, DecisionState.APPROVED):
            yield from self._deploy(last)

    # --- between looks -----------------------------------------------------------------------

    def _rest(self) -> Part[None]:
        """Until the next look; what is open is seen to meanwhile."""
        while self._now < self._next_look_at:
            open_ = self.history.open_record
            until = self._next_look_at
            if open_ is not None:
                is_lost = open_.state is DecisionState.DEPLOYING
                wait_s = STORE_RETRY_S if is_lost else self.settings.review_poll_s
                until = min(until, self._now + wait_s)
            yield from self._be(self._resting_phase(open_))
            yield from self._ask(Rest(until))
            if open_ is not None:
                yield from self._see_to(open_)

    def _resting_phase(self, open_: DecisionRecord | None) -> AutopilotPhase:
        if open_ is not None:
            is_lost = open_.state is DecisionState.DEPLOYING
            return AutopilotPhase.DEPLOYING if is_lost else AutopilotPhase.AWAITING_REVIEW
        until = self.history.stands_down_until()
        is_down = until is not None and self._now < until
        return AutopilotPhase.STANDING_DOWN if is_down else AutopilotPhase.RESTING

    def _see_to(self, open_: DecisionRecord) -> Part[None]:
        """See whether somebody has answered; go on with what we lost sight of."""
        seen = yield from self._ask(AskStore(find_decision(self.layout, open_.id)))
        if isinstance(seen, Trouble):
            yield from self._trouble(f"cannot see decision {open_.id}", seen)
            return
        yield from self._recovered()
        if seen is None:
            self.history = self.history.without([open_.id])
            yield from self._tell(f"decision {open_.id} is gone: somebody cleared the store")
            return
        self.history = self.history.with_record(seen)
        if seen.state is DecisionState.APPROVED:
            yield from self._tell(f"decision {seen.id} was approved by {seen.reviewed_by}")
            yield from self._deploy(seen)
        elif seen.state is DecisionState.DEPLOYING:
            yield from self._deploy(seen)
        elif seen.state is DecisionState.REJECTED:
            yield from self._tell(f"decision {seen.id} was rejected by {seen.reviewed_by}")
        elif seen.expires_at is not None and self._now >= seen.expires_at:
            yield from self._expire(seen, "nobody answered in time")

    def _expire(self, record: DecisionRecord, why: str) -> Part[None]:
        now = self._now
        yield from self._change(record, lambda r: handover.expired(r, now, why))
        yield from self._tell(f"decision {record.id} has expired: {why}")

    # --- a look ------------------------------------------------------------------------------

    def _look(self) -> Part[None]:
        """Profile, weigh, decide, and do what was decided."""
        if self._is_unsure:
            yield from self._recall()
            self._is_unsure = False
            if self._now < self._visible_at():
                return  # it was stored, and is carried out by now
        open_ = self.history.open_record
        if open_ is not None and open_.state is DecisionState.DEPLOYING:
            return  # nobody knows what the overlay looks like before that has ended
        yield from self._be(AutopilotPhase.PROFILING)
        changed_at = self.history.changed_at()
        window_s = max(self.settings.demands.window_s, self.settings.period_s)
        since = max(self._now - window_s, changed_at if changed_at is not None else 0.0)
        evidence = yield from self._ask(TakeProfile(since, "" if open_ is None else open_.id))
        if evidence is None:
            return  # an answer came; it is seen to at once
        if isinstance(evidence, Trouble):
            yield from self._trouble("no profile", evidence)
            yield from self._record_nothing(f"there is no profile: {evidence.reason}")
            return
        gaps = shortcomings(evidence, self.settings.demands, self._now)
        if gaps:
            yield from self._record_nothing("; ".join(gaps), evidence, gaps=gaps)
            return
        yield from self._measure(evidence)
        if open_ is not None and (yield from self._still_stands(open_, evidence)):
            return
        obstacle = not_now(self.history, self.settings, self._now)
        if obstacle:
            yield from self._record_nothing(obstacle, evidence, Verdict.HOLD)
            return
        yield from self._be(AutopilotPhase.WEIGHING)
        allowed = self.history.allowed(self.settings, self._now)
        options = yield from self._ask(Weigh(evidence, allowed))
        if isinstance(options, Trouble):
            yield from self._trouble("cannot weigh alternatives", options)
            yield from self._record_nothing(options.reason, evidence, gaps=(options.reason,))
            return
        yield from self._decide(evidence, options)

    def _decide(self, evidence: Evidence, options: tuple[Option, ...]) -> Part[None]:
        drafted = decide(
            self.layout.overlay, evidence, options, self.history, self.settings, self._now
        )
        record = yield from self._keep(drafted)
        if record is not None and record.state is DecisionState.DEPLOYING:
            yield from self._deploy(record)

    def _still_stands(self, waiting: DecisionRecord, evidence: Evidence) -> Part[bool]:
        """Whether a proposal that a person has before them is still worth an answer; else it
        expires. It is not replaced by every slightly better one."""
        why = outdated(waiting, evidence, self.settings)
        if not why:
            return True
        yield from self._expire(waiting, why)
        return self.history.open_record is not None  # answered in the last moment

    def _record_nothing(
        self,
        reason: str,
        evidence: Evidence | None = None,
        verdict: Verdict = Verdict.NO_EVIDENCE,
        gaps: tuple[str, ...] = (),
    ) -> Part[None]:
        overlay = self.layout.overlay
        yield from self._keep(
            nothing_weighed(overlay, self.settings, self._now, verdict, reason, evidence, gaps)
        )

    def _measure(self, evidence: Evidence) -> Part[None]:
        """Hold the last change against what this profile says."""
        done = self.history.unmeasured()
        if done is None or done.prediction is None or done.ended_at is None:
            return
        # Whoever has changed the overlay since is not our affair, and neither is what it costs.
        is_ours = topology_hash(evidence.topology) == done.plan_record().target_hash
        if evidence.window_started_at < done.ended_at or not is_ours:
            return
        inputs = evidence.inputs(())
        predicted = done.prediction.cost_ms_per_notification
        error = inputs.cost_ms_per_notification / predicted - 1.0 if predicted else 0.0
        measured = Measurement(
            profile_id=evidence.profile_id,
            measured_at=self._now,
            cost_ms_per_s=inputs.cost_ms_per_s,
            cost_ms_per_notification=inputs.cost_ms_per_notification,
            prediction_error=error,
            latency_ms_mean=inputs.latency_ms_mean,
        )
        yield from self._change(done, lambda r: msgspec.structs.replace(r, measured=measured))
        yield from self._tell(
            f"decision {done.id} measured: {inputs.cost_ms_per_notification:.3g} ms per "
            f"notification, predicted {predicted:.3g} ({error:+.1%})"
        )

    # --- carrying out ------------------------------------------------------------------------

    def _deploy(self, record: DecisionRecord) -> Part[None]:
        """Carry a decision out; its record says how that ended."""
        if record.state is DecisionState.APPROVED:
            now, limit_s = self._now, self.settings.review_s
            record = yield from self._change(record, lambda r: handover.taken_up(r, now, limit_s))
            if record.state is not DecisionState.DEPLOYING:
                yield from self._tell(f"decision {record.id} is {record.state.value}")
                return
        yield from self._be(AutopilotPhase.DEPLOYING)
        yield from self._tell(f"decision {record.id}: carrying its plan out")
        ended = yield from self._ask(CarryOut(record))
        if isinstance(ended, Trouble):
            # It may be under way: the record stays as it is, and the next look asks again.
            yield from self._trouble(f"lost sight of decision {record.id}", ended)
            return
        yield from self._end(record, ended)

    def _end(self, record: DecisionRecord, ended: CarriedOut) -> Part[None]:
        state, now = handover.state_after(ended), self._now
        down_until = None
        if state in handover.BAD_ENDS:
            down_until = now + self.history.next_stand_down_s(self.settings)
        yield from self._change(record, lambda r: handover.ended(r, ended, now, down_until))
        if down_until is None:
            why = f": {ended.reason}" if ended.reason else ""
            yield from self._tell(f"decision {record.id} is {state.value}{why}")
            return
        wait_s = down_until - self._now
        reason = f"{ended.reason}; standing down for {wait_s:.0f} s"
        yield from self._trouble(f"decision {record.id} is {state.value}", Trouble(reason))

    # --- the store ---------------------------------------------------------------------------

    def _keep(self, drafted: DecisionRecord) -> Part[DecisionRecord | None]:
        """Store a new decision; None if the store does not say that it has it: then nothing is
        done, and the next look begins with what the store knows."""
        stored = yield from self._ask(AskStore(append_decision(self.layout, drafted)))
        if isinstance(stored, Trouble):
            self._is_unsure = True
            yield from self._trouble("nobody knows whether the decision was stored", stored)
            return None
        record: DecisionRecord = stored
        self.history = self.history.with_record(record)
        yield from self._tell(
            f"decision {record.id}: {record.verdict.value.replace('_', ' ')}: {record.reason}",
            notice=None if record.verdict is Verdict.NO_EVIDENCE else "",
        )
        surplus = self.history.surplus(self.settings.keep_records, self._now)
        if surplus:
            yield from self._ask(AskStore(drop_decisions(self.layout, surplus)))
            self.history = self.history.without(surplus)
        return record

    def _change(self, record: DecisionRecord, change: Change) -> Part[DecisionRecord]:
        """Change a stored decision, however long the store is away."""
        changed = yield from self._stored(lambda: handover.changed(self.layout, record, change))
        self.history = self.history.with_record(changed)
        return changed
