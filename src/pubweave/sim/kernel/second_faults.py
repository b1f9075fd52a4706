"""What is under way at a broker, so that a second fault can strike it there."""

from __future__ import annotations

from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.sim.kernel.nodes import SimBroker

NOTABLE_PAUSE_S = 0.1


def under_way(node: SimBroker) -> str:
    """What is under way, in a word; empty: nothing that a second fault would meet."""
    core = node.core
    if core is None:
        return "crash"
    if node.busy_until > node.world.now + NOTABLE_PAUSE_S:
        return "pause"
    actions, migrations = core.part(ActionCoordinator), core.part(MigrationCoordinator)
    if actions is not None and actions.is_busy:
        return "action"
    if migrations is not None and not migrations.is_idle:
        return "migration"
    if core.mqtt is not None and core.mqtt.handover.is_busy:
        return "handover"
    routing = core.routing
    if isinstance(routing, TreeRouting) and routing.sync.gates:
        return "restart"
    if isinstance(routing, TopicRouting) and routing.topics.keys() - routing.claimed.keys():
        return "fading"
    return ""
