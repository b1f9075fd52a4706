"""What an autopilot must never do, held against everything it did.

Knows the truth of a run: when the overlay was changed by the loop, by which decision, and what the
store holds. Shares no code with the gate or the history that it judges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pubweave.control.settings import ControlSettings
from pubweave.model.decisions import ControlMode, DecisionRecord, DecisionState, Verdict
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

DAY_S = 86_400.0


@dataclass(frozen=True)
class Deployed:
    """A decision's plan was handed over, and how far it came."""

    decision: DecisionRecord
    began_at: float
    ended_at: float
    before: Topology
    after: Topology
    is_whole: bool

    @property
    def added(self) -> frozenset[Link]:
        return self.after.links - self.before.links


class AutopilotChecker:
    """Judges a run while it goes on; ``violations`` is empty exactly if all was well."""

    def __init__(self, settings: ControlSettings) -> None:
        self._settings = settings
        self.violations: list[str] = []
        self.deployed: list[Deployed] = []

    def handed_over(self, change: Deployed) -> None:
        """The loop had a plan carried out."""
        decision, settings = change.decision, self._settings
        name = f"{change.began_at:.0f} decision {decision.id}"
        if settings.mode is ControlMode.OBSERVE:
            self._violation(f"{name} changed the overlay in mode observe")
        if settings.mode is ControlMode.APPROVE and not decision.reviewed_by:
            self._violation(f"{name} was carried out without anybody's consent")
        if any(change.decision.id == earlier.decision.id for earlier in self.deployed):
            self._violation(f"{name} was handed over twice")
        if decision.verdict is not Verdict.CHANGE or decision.inputs is None:
            self._violation(f"{name} was not decided on")
        elif decision.inputs.gaps:
            self._violation(f"{name} rests on an incomplete profile: {decision.inputs.gaps}")
        self._check_time(name, change)
        self._check_links(name, change)
        self.deployed.append(change)

    def _check_time(self, name: str, change: Deployed) -> None:
        decided_at = change.decision.decided_at
        if self.deployed:
            last = self.deployed[-1]
            if decided_at < last.ended_at + self._settings.free_period_s:
                self._violation(f"{name} came within the free period of {last.decision.id}")
            if not last.is_whole and decided_at < last.ended_at + self._settings.stand_down_s:
                self._violation(f"{name} came right after the failure of {last.decision.id}")
        limits = self._settings.limits
        minute = int((decided_at + limits.utc_offset_s) % DAY_S // 60)
        for span in limits.quiet_hours:
            begins, ends = int(span.begins_s // 60), int(span.ends_s // 60)
            is_quiet = begins <= minute < ends if begins < ends else not ends <= minute < begins
            if is_quiet:
                self._violation(f"{name} was decided in the quiet hours {span}")

    def _check_links(self, name: str, change: Deployed) -> None:
        limits = self._settings.limits
        lost = (change.before.links & limits.pinned) - change.after.links
        if lost and change.is_whole:
            self._violation(f"{name} removed the pinned link {min(lost)}")
        came = change.added & limits.forbidden
        if came:
            self._violation(f"{name} brought the forbidden link {min(came)}")
        cap = limits.max_degree
        if cap is not None and change.is_whole:
            for broker in sorted(change.after.brokers):
                if change.after.degree(broker) > cap:
                    self._violation(f"{name} gave {broker} more than {cap} links")
        most = limits.links_per_change
        if most is not None and change.is_whole and len(change.added) > most:
            self._violation(f"{name} changed {len(change.added)} links at once")
        if limits.links_per_day is not None and change.is_whole:
            since = change.decision.decided_at - DAY_S
            recent = [d for d in self.deployed if d.ended_at > since and d.is_whole]
            spent = len(change.added) + sum(len(each.added) for each in recent)
            if spent > limits.links_per_day:
                self._violation(f"{name} makes {spent} changed links within a day")

    def check_records(self, records: Sequence[DecisionRecord], now: float) -> None:
        """What the store holds, at any instant."""
        ids = [record.id for record in records]
        if ids != sorted(set(ids)):
            self._violation(f"{now:.0f} ids are not in order: {ids}")
        open_ = [record.id for record in records if not record.state.is_final]
        if len(open_) > 1:
            self._violation(f"{now:.0f} more than one decision is open: {open_}")

    def check_end(self, records: Sequence[DecisionRecord], now: float) -> None:
        """After the faults are over and some looks have gone by."""
        self.check_records(records, now)
        settings = self._settings
        # One may be made before those that are too many are dropped; a day's changes are kept.
        recent = sum(each.ended_at > now - DAY_S for each in self.deployed)
        if len(records) > settings.keep_records + recent + 1:
            self._violation(f"{now:.0f} {len(records)} records are kept")
        for record in records:
            if record.state in (DecisionState.DEPLOYING, DecisionState.APPROVED):
                self._violation(f"{now:.0f} decision {record.id} is still {record.state.value}")
        waits = any(record.state is DecisionState.WAITING for record in records)
        newest = max((record.decided_at for record in records), default=0.0)
        if not waits and newest < now - 4 * settings.period_s:
            self._violation(f"{now:.0f} the last look was at {newest:.0f}: the loop sleeps")
        ends = {record.id: record.state for record in records}
        for change in self.deployed:
            state = ends.get(change.decision.id)
            wanted = DecisionState.DEPLOYED if change.is_whole else DecisionState.FAILED
            if state is not None and state is not wanted:
                self._violation(
                    f"decision {change.decision.id} is {state.value}, not {wanted.value}"
                )

    def _violation(self, text: str) -> None:
        self.violations.append(text)
