"""Sizes within their limits, looked at after every event of every broker of a run.

What has a sum of its own is looked at each time, what would have to be counted only now and then
and at rest: then the sums, too, must be what they add up. A limit that a tick enforces may be
exceeded until the second tick after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from pubweave.core.broker import Broker
from pubweave.core.client import KEEP_BYTES, MAX_PUBLISHERS_REMEMBERED, ClientCore
from pubweave.core.dataplane.publishing import EARLY_SHARE, MAX_CACHED_ROUTES
from pubweave.core.mqtt.cluster import wildcard_replicator
from pubweave.core.mqtt.cluster.retained import CLEARED_MAX, RetainedStore
from pubweave.core.mqtt.connections import EARLY_PACKETS_MAX
from pubweave.core.mqtt.gateway import MqttGateway
from pubweave.core.mqtt.publish import HELD_BYTES_MAX, HELD_MAX
from pubweave.core.mqtt.redirect import HELD_MAX as REDIRECTED_MAX
from pubweave.core.mqtt.session import deduplicator, native_client
from pubweave.core.mqtt.session.inflight import PACKET_IDS
from pubweave.core.mqtt.session.session import TOPICS_MAX, MqttSession
from pubweave.core.routing.topic_connected.dropped_ranges import MAX_SPANS
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.access import EARLY_MESSAGES_MAX
from pubweave.core.session.session import Session
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.transformation.participant import Participant
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import Event
from pubweave.model.publications import Publication

if TYPE_CHECKING:
    from pubweave.sim.kernel.nodes import SimBroker

COUNT_EVERY = 256
"""Events of a broker between two times at which everything is counted."""
TICKS = 2
"""What is enforced by ticks may be exceeded for so many."""


class LimitsChecker:
    """Hears of every event of all brokers that it watches, and keeps what was found."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.checked = 0
        """Events after which limits were looked at."""
        self._watches: list[BrokerWatch] = []
        self._found: set[tuple[str, str]] = set()

    def watch(self, node: SimBroker) -> None:
        """Look at a broker after each of its events from now on."""
        self._watches.append(BrokerWatch(self, node))

    def at_rest(self, clients: Iterable[tuple[str, ClientCore]], now: float) -> None:
        """Count everything at all brokers and clients."""
        for watch in self._watches:
            if watch.node.core is not None:
                watch.count(watch.node.core, now)
        for name, core in clients:
            self.check_client(name, core, now)

    def check_client(self, name: str, core: ClientCore, now: float) -> None:
        """What a client keeps to send again, and whom it remembers."""
        buffer = core._acknowledged
        if buffer is not None:
            kept = [publication for _, publication in buffer._kept]
            self.most(name, "the resend buffer", _bytes_of(kept), KEEP_BYTES, now)
            self.same(name, "the resend buffer", buffer._size_bytes, _bytes_of(kept), now)
        remembered = len(core._last_seen)
        self.most(name, "remembered publishers", remembered, MAX_PUBLISHERS_REMEMBERED, now)
        _check_window(self, name, core.session, now)

    def most(self, who: str, what: str, size: float, limit: float, now: float) -> None:
        """Something may be as large as its limit."""
        if size > limit:
            self.violate(who, what, f"{what}: {size:g}, the limit is {limit:g}", now)

    def same(self, who: str, what: str, total: float, counted: float, now: float) -> None:
        """A sum must be what there is."""
        if total != counted:
            self.violate(who, f"{what}, sum", f"{what}: {counted:g}, and the sum is {total:g}", now)

    def violate(self, who: str, what: str, text: str, now: float) -> None:
        """Each once: what is too large usually stays so."""
        if (who, what) not in self._found:
            self._found.add((who, what))
            self.violations.append(f"{now:.3f} {who}: {text}")


class BrokerWatch:
    """Looks at one broker after each of its events, through all its lives."""

    def __init__(self, checker: LimitsChecker, node: SimBroker) -> None:
        self.node = node
        self._checker = checker
        self._handle: Callable[[Event, float], list[Effect]] = node.core_effects
        node.core_effects = self._handle_and_check
        self._events = 0
        self._over: dict[str, tuple[int, float]] = {}
        """What exceeds a limit that ticks enforce: for how many ticks, and the next tick."""
        self._was_over: dict[str, tuple[int, float]] = {}
        """The same at the event before: what is not too large any more begins anew."""
        self._life = node.incarnation
        self._largest = 0
        """Of all publications that ever waited here."""
        self._releasable = 0
        """What gates and holds had before the current event, and may have let go in it."""

    def _handle_and_check(self, event: Event, now: float) -> list[Effect]:
        effects = self._handle(event, now)
        core = self.node.core
        if core is not None:
            self._checker.checked += 1
            self._events += 1
            if self._life != self.node.incarnation:
                self._life = self.node.incarnation
                self._over.clear()  # whoever comes back begins its intervals anew
            self._check(core, now)
            if not self._events % COUNT_EVERY:
                self.count(core, now)
        return effects

    # --- after each event ------------------------------------------------------------------

    def _check(self, core: Broker, now: float) -> None:
        sessions = core.sessions
        self._was_over, self._over = self._over, {}
        for group in (sessions.links, sessions.clients):
            for session in group.values():
                if session.pending:
                    self._violate("an unsent queue", f"{session.remote} was not flushed", now)
                if session.unacked_bytes > session.remote_window_bytes:
                    _check_window(self._checker, self.node.name, session, now)
                if session.waiting_bytes > session.limits.congested_bytes:
                    self._check_congested(core, session, now)
        routing = core.routing
        releasable = 0
        if isinstance(routing, TreeRouting):
            for link, gate in routing.sync.gates.items():
                releasable += gate.waiting_bytes
                limit = gate.limits.congested_bytes
                self._most(f"the gate of {link.remote}", gate.waiting_bytes, limit, now)
            actions = core.part(ActionCoordinator)
            if actions is not None and actions._part is not None:
                releasable += self._check_hold(core, actions._part, now)
        else:
            logs = getattr(routing, "logs", None)
            if logs is not None:
                self._until_ticks(
                    "topic logs", core, logs._size_bytes, core.config.topics.keep_bytes, now
                )
        self._releasable = max(releasable, self._early(core, now))
        if core.mqtt is not None:
            self._check_gateway(core.mqtt, now)

    def _early(self, core: Broker, now: float) -> int:
        early = core._early
        kept = early._size_bytes if early._kept else 0
        limit = EARLY_SHARE * core.config.limits.congested_bytes
        self._most("the early log", kept, limit, now)
        return kept

    def _check_congested(self, core: Broker, session: Session, now: float) -> None:
        """Whoever feeds a congested session is held up: it may send one window more, as may all
        others, and what was held back for the session may come on top. Table messages are bounded
        by the tables."""
        config = core.config
        if session.is_client:
            most = config.entry.queue_bytes_per_client
            self._until_ticks(
                f"the queue of {session.remote}", core, session.queue_bytes, most, now
            )
        sizes = [m.size_bytes for m in session.waiting if type(m) is Publication]
        self._largest = max([self._largest, *sizes])
        limit = session.limits.congested_bytes
        if not core._flow._holds_links:
            limit = max(limit, config.topics.queue_limit_bytes)
        feeders = len(core.sessions.links) + len(core.sessions.clients) + 1
        limit += feeders * (session.limits.window_bytes + self._largest) + self._releasable
        self._most(f"what waits for {session.remote}", sum(sizes), limit, now)

    def _check_hold(self, core: Broker, part: Participant, now: float) -> int:
        hold = part.hold
        if hold is None:
            return 0
        limit = core.config.hold_limit_bytes
        if hold.size_bytes > limit:
            if part._asked is None:
                self._violate("a full hold", "holds too much, and does not give up", now)
            feeders = len(core.sessions.links) + len(core.sessions.clients) + 1
            largest = max(item.publication.size_bytes for item in hold.items)
            limit += feeders * (core.config.limits.window_bytes + largest)
            self._most("a hold", hold.size_bytes, limit, now)
        return hold.size_bytes

    def _check_gateway(self, gateway: MqttGateway, now: float) -> None:
        sessions = gateway.sessions
        budget = sessions.budget
        self._most("the queues of all MQTT sessions", budget.size_bytes, budget.limit_bytes, now)
        if budget.overrun:
            self._violate("overrun sessions", f"{[*budget.overrun]} did not end", now)
        if gateway.connections.with_output:
            self._violate("MQTT outboxes", "packets were not sent at the end of an event", now)
        for session in sessions.by_name.values():
            queue = session.inflight
            if queue.numbered or queue.waiting or session.held:
                self._check_queue(session, now)
        config, retained = gateway.config, gateway.gossip.retained
        self._most("retained messages", len(retained), config.retained_messages, now)
        self._most("retained bytes", retained._bytes, config.retained_bytes, now)
        copies = gateway.replicator._recent_bytes
        self._most("kept for copies", copies, wildcard_replicator.KEEP_BYTES, now)

    def _check_queue(self, session: MqttSession, now: float) -> None:
        config, queue, held = session.config, session.inflight, session.held or ()
        in_flight, window, connection = len(queue.numbered), PACKET_IDS, session.connection
        if connection is not None and connection.connect is not None:
            window = min(connection.connect.receive_max, PACKET_IDS)
        if (
            in_flight + len(queue.waiting) > config.queue_messages
            or queue.size_bytes > config.queue_bytes
            or len(held) > config.queue_messages
            or session._held_bytes > config.queue_bytes
            or in_flight > window
        ):
            count = in_flight + len(queue.waiting)
            self._most(f"the queue of {session.name}", count, config.queue_messages, now)
            self._most(
                f"bytes queued for {session.name}", queue.size_bytes, config.queue_bytes, now
            )
            self._most(f"held for {session.name}", len(held), config.queue_messages, now)
            held_bytes = session._held_bytes
            self._most(f"bytes held for {session.name}", held_bytes, config.queue_bytes, now)
            self._most(f"in flight to {session.name}", in_flight, window, now)

    # --- now and then, and at rest ---------------------------------------------------------

    def count(self, core: Broker, now: float) -> None:
        """Count what has no sum, and compare the sums with what they are of. O(everything)."""
        for session in core.sessions:
            name = session.remote
            self._same(f"unacked to {name}", session.unacked_bytes, session.unacked, now)
            self._same(f"waiting for {name}", session.waiting_bytes, session.waiting, now)
        config = core.config
        self._most("clients", len(core.sessions.clients), config.max_clients, now)
        unknown = sum(number >= 0 for number in core.sessions._unknown)
        self._most("unknown connections", unknown, config.max_unknown_connections, now)
        logins = core.sessions.access._waiting
        self._most("waiting logins", len(logins), config.entry.logins_at_once, now)
        for early in logins.values():
            self._most("messages behind a login", len(early), EARLY_MESSAGES_MAX, now)
        for entries in core.sessions.access._entries.values():
            self._most("entries of a client", len(entries), config.entry.entries_per_client, now)
        for routes in core._publishing._routes.values():
            self._most("cached routes", len(routes), MAX_CACHED_ROUTES, now)
        gate = core.routing.gate
        for client, waiting in gate._waiting.items():
            limit = 4 * client.limits.window_bytes
            self._most(f"at the gate of {client.remote}", _bytes_of(waiting[:-1]), limit, now)
        self._same("the early log", core._early._size_bytes, core._early._kept, now, exact=False)
        self._count_routing(core, now)
        if core.mqtt is not None:
            self._count_gateway(core.mqtt, now)

    def _count_routing(self, core: Broker, now: float) -> None:
        routing = core.routing
        if isinstance(routing, TreeRouting):
            for link, gate in routing.sync.gates.items():
                what = f"the gate of {link.remote}"
                self._same(what, gate.waiting_bytes, gate.waiting, now)
        actions = core.part(ActionCoordinator)
        if actions is not None and actions._part is not None and actions._part.hold is not None:
            hold = actions._part.hold
            self._same("a hold", hold.size_bytes, [i.publication for i in hold.items], now)
        logs = getattr(routing, "logs", None)
        if logs is not None:
            kept = [p for log in logs._logs.values() for _, p, _ in log.kept]
            self._same("topic logs", logs._size_bytes, kept, now)
            for topic, log in logs._logs.items():
                spans = max(map(len, log.dropped.spans.values()), default=0)
                self._most(f"dropped ranges of {topic}", spans, MAX_SPANS, now)

    def _count_gateway(self, gateway: MqttGateway, now: float) -> None:
        sessions, config = gateway.sessions, gateway.config
        total = sum(session.inflight.size_bytes for session in sessions.by_name.values())
        self._checker.same(self.node.name, "MQTT's budget", sessions.budget.size_bytes, total, now)
        redirected = len(gateway.redirector._held_until)
        self._most("redirected clients", redirected, REDIRECTED_MAX, now)
        for session in sessions.by_name.values():
            name, queue = session.name, session.inflight
            queued = [*queue.waiting, *(one.delivery for one in queue.numbered.values())]
            self._same(f"queued for {name}", queue.size_bytes, [d.publication for d in queued], now)
            self._most(
                f"filters of {name}",
                len(session.subscriptions),
                config.subscriptions_per_session,
                now,
            )
            if session.connection is not None and session.connection.is_v5:
                under_way = len(session._incoming) + session._unanswered
                self._most(f"under way from {name}", under_way, config.receive_max, now)
            given = len(session.deduplicator._given)
            self._most(f"given to {name}", given, deduplicator.REMEMBERED_MAX, now)
            self._most(f"topics of {name}", len(session.advertised), TOPICS_MAX, now)
            if session.end is not None:
                seen = len(session.end._last_seen)
                most = native_client.MAX_PUBLISHERS_REMEMBERED
                self._most(f"publishers known to {name}", seen, most, now)
        for connection in gateway.connections.by_number.values():
            self._most("packets before ConnAck", len(connection.early), EARLY_PACKETS_MAX, now)
        for held in gateway._publishing._held.values():
            self._most("possible echoes", len(held.packets), HELD_MAX, now)
            self._most("bytes of possible echoes", held._size_bytes, HELD_BYTES_MAX, now)
        recent = [one.publication for one in gateway.replicator._recent]
        self._same("kept for copies", gateway.replicator._recent_bytes, recent, now)
        self._count_retained(gateway.gossip.retained, now)

    def _count_retained(self, retained: RetainedStore, now: float) -> None:
        kept = retained._by_topic.values()
        self._same("retained bytes", retained._bytes, kept, now)
        self._most("cleared topics", len(retained._cleared), CLEARED_MAX, now)

    # --- words -----------------------------------------------------------------------------

    def _most(self, what: str, size: float, limit: float, now: float) -> None:
        if size > limit:
            self._checker.most(self.node.name, what, size, limit, now)

    def _same(
        self, what: str, total: int, messages: Iterable[Any], now: float, exact: bool = True
    ) -> None:
        counted = _bytes_of(messages)
        if total != counted and (exact or counted):
            self._checker.same(self.node.name, what, total, counted, now)

    def _until_ticks(self, what: str, core: Broker, size: int, limit: int, now: float) -> None:
        """A limit that ticks enforce."""
        if size <= limit:
            return
        next_tick = core.maintenance.tick_at
        ticks, before = self._was_over.get(what, (0, next_tick))
        self._over[what] = ticks + (next_tick > before), next_tick
        if self._over[what][0] > TICKS:
            self._most(what, size, limit, now)

    def _violate(self, what: str, text: str, now: float) -> None:
        self._checker.violate(self.node.name, what, text, now)


def _check_window(checker: LimitsChecker, who: str, session: Session, now: float) -> None:
    """The last message under way may reach beyond the window; it must have begun within."""
    if session.unacked:
        before = session.unacked_bytes - session.unacked[-1].size_bytes
        limit = session.remote_window_bytes - 1
        checker.most(who, f"under way to {session.remote}", before, max(limit, 0), now)


def _bytes_of(messages: Iterable[Any]) -> int:
    return sum(message.size_bytes for message in messages)
