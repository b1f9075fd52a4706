"""Which actions of a plan concern one broker, and what each has to wait for."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.deploy.documents import PlanDocument
from pubweave.deploy.layout import action_id
from pubweave.deploy.topology_state import earlier_sharing, leader_of
from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.plans import Action, Append, Shift


@dataclass(frozen=True)
class OwnAction:
    """An action that a broker takes part in. Its starters are told to start it: the leader, and
    a broker that joins the overlay, because nobody else can tell it."""

    step: int
    action: Action
    is_leader: bool
    is_starter: bool
    waits_for: tuple[ActionId, ...] = ()
    neighbor_to_be: BrokerId | None = None
    """Whom a shift that has to wait will give the broker a link to."""


def own_actions(plan: PlanDocument, deployment: str, broker: BrokerId) -> dict[ActionId, OwnAction]:
    """The broker's actions by id, in the order of the plan."""
    found: dict[ActionId, OwnAction] = {}
    for number, step in enumerate(plan.plan().steps):
        for place, action in enumerate(step):
            if broker not in action.brokers:
                continue
            is_leader = leader_of(action) == broker
            is_starter = is_leader or isinstance(action, Append)
            before = earlier_sharing(step, place)
            found[action_id(deployment, number, place)] = OwnAction(
                number,
                action,
                is_leader,
                is_starter,
                tuple(action_id(deployment, number, earlier) for earlier in before)
                if is_starter
                else (),
                _neighbor_to_be(action, broker) if before else None,
            )
    return found


def _neighbor_to_be(action: Action, broker: BrokerId) -> BrokerId | None:
    if isinstance(action, Shift) and broker in action.added_link:
        return action.added_link.far_end(broker)
    return None
