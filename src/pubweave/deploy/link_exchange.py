"""Exchanges of links that brokers agreed on, as plans: submitted by the broker that decided one,
and carried out like an operator's.

There is one lock for changes of the topology, whoever asks for them: the store's plan node. An
exchange is refused while any plan is under way, also an operator's, and where the ring is no
longer as the brokers knew it; both are read in the same compare-and-set cycle. So brokers need no
truth of their own: the worst that a stale agreement can do is to be refused.

`OrganizerEngine` has the rules of what stands beside a self-organizing broker, as scripts with
more steps than those of `commands`. `runtime.coordination` and `sim.hosts` drive it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, TypeVar

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.vocabulary.effects import ProposeExchange
from pubweave.core.vocabulary.events import ExchangeEnded, OrganizingPaused
from pubweave.deploy.commands import DeploymentError, Script, read_topology, submit, sweep
from pubweave.deploy.documents import DeploymentDocument, DocumentError, Layout, decode
from pubweave.deploy.store import Outcome, Read, StoreRequest
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Move, Plan

T = TypeVar("T")
RETRY_S = 0.1
"""How soon an exchange that had to wait for another one is handed over again."""
LOOK_EVERY_INTERVALS = 4
PROBE_LIMIT_S = 1.0
"""A broker that has not answered for so long is out of reach."""


class ExchangeBusy(DeploymentError):
    """Another exchange is under way: this one can be handed over when that is over."""


def submit_exchange(
    layout: Layout, ring: tuple[BrokerId, ...], removed: Link, by: BrokerId
) -> Script[DeploymentDocument]:
    """Hand an exchange over; DeploymentError if it is out of date or an operator's plan goes
    before, ExchangeBusy if it may be handed over in a moment."""
    current = yield from _under_way(layout)
    if current is not None and current.by:
        raise ExchangeBusy(f"exchange {current.deployment} of {current.by} is under way")
    if current is not None:
        raise DeploymentError(f"the plan {current.deployment} of an operator is under way")
    topology = yield from read_topology(layout)
    ends = ring[0], ring[-1]
    if not topology.brokers.issuperset(ring) or topology.path(*ends) != ring:
        raise DeploymentError("the overlay has changed since the brokers agreed")
    move = Move(removed.a, removed.b, *ends)
    # The hash makes `submit` refuse if somebody changes the topology between here and there.
    record = PlanRecord(Plan(((move,),)), source_hash=topology_hash(topology))
    purpose = f"brokers agreed to exchange {removed} for {move.added_link}"
    submitted = yield from submit(layout, record, by=by, purpose=purpose)
    # Nobody else can hand a plan over before this one is over, so what is swept is nobody's.
    yield from sweep(layout)
    return submitted


def _under_way(layout: Layout) -> Script[DeploymentDocument | None]:
    answer = yield Read(layout.plan)
    if answer.outcome is not Outcome.OK:
        return None
    current = decode(answer.data, DeploymentDocument, layout.plan)
    return None if current.state.is_final else current


# --- beside a self-organizing broker -------------------------------------------------------------


@dataclass(frozen=True)
class WaitFor:
    """Answered after so many seconds, with the time then."""

    seconds: float


@dataclass(frozen=True)
class HostExecutor:
    """Host an executor until the deployment that it reports ``is_over``, which is the answer; None
    if the executor died before that."""

    deployment: str

    def is_over(self, seen: DeploymentDocument | None) -> bool:
        """Ours has ended; or another one has begun, and before that ours must have."""
        return seen is not None and (seen.deployment != self.deployment or seen.state.is_final)


Step = StoreRequest | WaitFor | HostExecutor | ExchangeEnded | OrganizingPaused
"""What a driver does for the engine; events are for the broker. Where that cannot be done, the
driver throws a DeploymentError in that says why."""
Errand = Generator[Step, Any, T]


class OrganizerEngine:
    """Carries out what a broker has agreed to, and looks after what others do, one at a time.

    Drivers begin an errand at each `ProposeExchange`, and one to `look` every ``look_every_s`` from
    a random moment on. The engine ends with the broker's incarnation."""

    def __init__(self, layout: Layout, broker: BrokerId, config: OrganizeConfig) -> None:
        self.is_operated = False
        """A plan of an operator was under way at the last look: this broker asks for nothing."""
        self.look_every_s = LOOK_EVERY_INTERVALS * config.interval_s
        self._layout = layout
        self._broker = broker
        self._lock_s = config.lock_s
        self._is_busy = False

    def carry_out(self, effect: ProposeExchange, now: float) -> Errand[None]:
        """Hand an exchange over, after those that are under way, and see it through."""
        until = now + self._lock_s / 2  # its ring is locked while it waits
        while True:
            try:
                done, reason = yield from self._alone(self._exchange(effect))
                break
            except (DeploymentError, DocumentError) as error:
                done, reason = False, str(error)
                if not isinstance(error, ExchangeBusy) or now >= until:
                    break
            # Not busy meanwhile: what it waits for may be an exchange that somebody left.
            now = yield WaitFor(RETRY_S)
        yield ExchangeEnded(effect.request_id, done, reason)

    def look(self) -> Errand[None]:
        """Stand aside for operators, and finish what a broker that died has left. DeploymentError
        or DocumentError if that cannot be done now."""
        yield from self._alone(self._look())

    def _alone(self, errand: Errand[T]) -> Errand[T]:
        if self._is_busy:
            raise DeploymentError("another exchange is under way here")
        self._is_busy = True
        try:
            return (yield from errand)
        finally:
            self._is_busy = False

    def _exchange(self, effect: ProposeExchange) -> Errand[tuple[bool, str]]:
        made = yield from submit_exchange(self._layout, effect.ring, effect.removed, self._broker)
        ended = yield from _execute(made.deployment)
        if ended.deployment != made.deployment:
            return False, "another plan came after it, its end was missed"
        return ended.state is DeploymentState.DONE, ended.reason

    def _look(self) -> Errand[None]:
        current = yield from _under_way(self._layout)
        is_operated = current is not None and not current.by
        if is_operated != self.is_operated:
            self.is_operated = is_operated
            yield OrganizingPaused(is_operated)
        if current is None or is_operated or current.state is DeploymentState.PAUSED:
            return
        executor = yield Read(self._layout.executor)
        if executor.outcome is Outcome.MISSING:
            # If who submitted it is about to execute it, one of the two stands by.
            yield from _execute(current.deployment)


def _execute(deployment: str) -> Errand[DeploymentDocument]:
    ended: DeploymentDocument | None = None
    while ended is None:
        ended = yield HostExecutor(deployment)
    return ended
