"""An exchange of two links that brokers agreed on, as a plan of the overlay: submitted by the
broker that decided it, and carried out like an operator's.

There is one lock for changes of the topology, whoever asks for them: the store's plan node. An
exchange is refused while any plan is under way, also an operator's, and where the ring is no
longer as the brokers knew it; both are read in the same compare-and-set cycle. So brokers need no
truth of their own: the worst that a stale agreement can do is to be refused.

These are scripts as in `commands`; the driver runs them and hosts the executor.
"""

from __future__ import annotations

from pubweave.deploy.commands import DeploymentError, Script, read_topology, submit, sweep
from pubweave.deploy.documents import DeploymentDocument, decode
from pubweave.deploy.layout import Layout
from pubweave.deploy.store import Outcome, Read
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Move, Plan

RETRY_S = 0.25
"""How soon an exchange that had to wait for another one is handed over again."""


class ExchangeBusy(DeploymentError):
    """Another exchange is under way: this one can be handed over when that is over."""


def patience_s(lock_s: float) -> float:
    """How long an exchange may wait for others: its ring is locked meanwhile."""
    return lock_s / 2


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


def find_abandoned(layout: Layout) -> Script[str]:
    """The deployment of a broker that nobody executes; empty if there is none. Operators' plans
    are theirs to resume."""
    current = yield from _under_way(layout)
    if current is None or not current.by or current.state is DeploymentState.PAUSED:
        return ""
    executor = yield Read(layout.executor)
    return current.deployment if executor.outcome is Outcome.MISSING else ""


def is_operated(layout: Layout) -> Script[bool]:
    """Whether a plan of an operator is under way."""
    current = yield from _under_way(layout)
    return current is not None and not current.by


def _under_way(layout: Layout) -> Script[DeploymentDocument | None]:
    answer = yield Read(layout.plan)
    if answer.outcome is not Outcome.OK:
        return None
    current = decode(answer.data, DeploymentDocument, layout.plan)
    return None if current.state.is_final else current
