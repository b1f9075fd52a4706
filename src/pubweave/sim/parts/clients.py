"""Clients of the native protocol: those that come and go and do all they can, and others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import partial
from random import Random
from typing import Any

from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId
from pubweave.sim.kernel.nodes import SimClient
from pubweave.sim.kernel.random_content import random_content, random_filter, random_payload
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.journals import check_replays, journal_counts
from pubweave.sim.parts.run import SimPart, SimRun

BURST = 20
BUSY_S = 0.03
"""A client that has to move looks so often whether all it said has arrived."""


class RandomClients(SimPart):
    """Clients that join, leave, subscribe, advertise and publish at random."""

    def __init__(
        self,
        run: SimRun,
        *,
        draw_filter: Callable[[World], Filter] = random_filter,
        draw_content: Callable[[World, Filter], tuple[str, dict[str, Any]] | None] = random_content,
    ) -> None:
        """``draw_filter``: what a client subscribes to, or advertises; ``draw_content``: topic and
        attributes of a publication that matches an advertisement."""
        self.run = run
        self.world = run.world
        self.overlay = run.overlay
        self.draw_filter: Callable[[], Filter] = partial(draw_filter, self.world)
        self.draw_content = draw_content
        self.stay: Collection[str] = ()
        """Clients that do not come and go."""
        self.take_turn: Callable[[], bool] = lambda: False
        """Does something else in place of a client's action; False if it did not."""
        self.on_left: Callable[[SimClient], None] = lambda client: None
        self.on_unadvertised: Callable[[], None] = lambda: None
        self._sizes = Random(f"payload sizes {self.world.seed}")
        """Draws payloads, so that how large they are changes nothing else that is drawn."""
        self._numbers = 0

    def start(self) -> None:
        for _ in range(self.run.setting.clients):
            self.join()

    def begin(self, end: float) -> None:
        world = self.world
        for _ in range(self.run.setting.actions_per_round):
            world.at(world.uniform(world.now, end), self._act)

    def stop(self) -> bool:
        for client in self.overlay.clients.values():
            self._catch_up(client)
        return True

    def at_rest(self) -> Iterable[str]:
        self.overlay.check_deliveries()
        return self.overlay.check_tables()

    def burst(self) -> None:
        for _ in range(BURST):
            self.publish()

    def after_burst(self) -> Iterable[str]:
        self.overlay.check_deliveries()
        return ()

    def violations(self) -> Iterable[str]:
        return [*self.overlay.judge.violations, *check_replays(self.overlay)]

    def counts(self) -> dict[str, int]:
        judge = self.overlay.judge
        names = (
            "publications",
            "deliveries",
            "wanted",
            "due",
            "excused",
            "counted",
            "sessions_lost",
        )
        return {
            **{name: getattr(judge, name) for name in names},
            **{f"lost_{how}": count for how, count in judge.tally.items()},
            **journal_counts(self.overlay),
        }

    # --- actions ---------------------------------------------------------------------------

    def _act(self) -> None:
        """One random action of one random client."""
        if self.take_turn():
            return
        dice = self.world.random()
        for share, action in (
            (0.51, self.publish),
            (0.04, self._publish_many),
            (0.15, self._subscribe),
            (0.08, self._unsubscribe),
            (0.06, self._advertise),
            (0.03, self._unadvertise),
            (0.04, self.join),
            (0.02, self._leave),
            (0.03, self._drop),
            (0.04, self._lag),
        ):
            if dice < share:
                action()
                return
            dice -= share

    def _client(self) -> SimClient | None:
        """One of those that come and go."""
        names = [name for name in self.overlay.clients if name not in self.stay]
        return self.overlay.clients[self.world.choice(names)] if names else None

    def next_name(self) -> str:
        self._numbers += 1
        return f"k{self._numbers}"

    def join(self) -> None:
        world = self.world
        name, home = self.next_name(), world.choice(self.run.homes())
        latency_s = world.uniform(0.0005, 0.005)
        client = self.overlay.join(name, home, latency_s=latency_s, limits=self.run.setting.limits)
        if world.chance(0.7):
            client.core.advertise(self.draw_filter())
        if world.chance(0.7):
            self.overlay.subscribe(client, self.draw_filter())
        client.flush()

    def _leave(self) -> None:
        client = self._client()
        # As the client library does: first everything it sent is acknowledged, then goodbye.
        if (
            client is not None
            and client.core.session.is_established
            and not client.core.session.queue_messages
        ):
            self.overlay.leave(client.name)
            self.on_left(client)

    def _subscribe(self) -> None:
        client = self._client()
        if client is not None:
            self.overlay.subscribe(client, self.draw_filter())
            client.flush()

    def _unsubscribe(self) -> None:
        client = self._client()
        if client is None or not client.core.subscriptions:
            return
        self.overlay.unsubscribe(client, self.world.choice(list(client.core.subscriptions)))

    def _advertise(self) -> None:
        client = self._client()
        if client is not None:
            client.core.advertise(self.draw_filter())
            client.flush()

    def _unadvertise(self) -> None:
        client = self._client()
        if client is not None and client.core.advertisements:
            client.core.unadvertise(self.world.choice(list(client.core.advertisements)))
            client.flush()
        self.on_unadvertised()

    def _drop(self) -> None:
        client = self._client()
        if client is not None and client.link.connection is not None:
            self.overlay.network.drop(client.link.connection)

    def _lag(self) -> None:
        """An application falls behind for a while: its client withholds acknowledgements."""
        client = self._client()
        if client is not None:
            client.core.hold()
            self.world.after(self.world.uniform(0.1, 3.0), self._catch_up, client)

    def _catch_up(self, client: SimClient) -> None:
        client.carry_out(client.core.release(), client.incarnation)

    def publish(self, clients: Collection[SimClient] = ()) -> None:
        """One of these publishes, or any at all."""
        clients = clients or self.overlay.clients.values()
        advertisers = [client for client in clients if client.core.advertisements]
        if not advertisers:
            return
        client = self.world.choice(advertisers)
        offered = self.world.choice(list(client.core.advertisements.values()))
        content = self.draw_content(self.world, offered)
        if content is None or client.core.session.is_congested:
            return
        self.overlay.publish(client, *content, random_payload(self._sizes))

    def _publish_many(self) -> None:
        """A publisher with a lot to say at once: queues fill, and back-pressure has to work."""
        for _ in range(self.world.integer(20, 60)):
            self.publish()


class TreeCounters(SimPart):
    """What brokers on a tree count, and that without crashes they see nothing twice and refuse
    nothing."""

    def __init__(self, run: SimRun) -> None:
        self.run = run

    def violations(self) -> Iterable[str]:
        overlay, crashes = self.run.overlay, self.run.faults.counts.get("broker_crash", 0)
        if overlay.judge.sessions_lost or (crashes and not self.run.is_durable):
            return
        if dropped := self.counts()["duplicates_dropped"]:
            yield f"brokers saw {dropped} publications twice though none crashed"
        yield from (f"refused: {text}" for text in overlay.refusals)

    def counts(self) -> dict[str, int]:
        overlay = self.run.overlay
        counters = [n.broker.counters for n in overlay.brokers.values() if n.is_up()]
        return {
            "duplicates_dropped": sum(c.duplicates_dropped for c in counters),
            "holds": sum(c.holds for c in counters),
        }


class SteadyClients(SimPart):
    """Clients that stay put, on a topology that changes under them."""

    def __init__(self, run: SimRun, clients: RandomClients, count: int) -> None:
        self.names: set[str] = set()
        self._run = run
        self._clients = clients
        self._count = count
        clients.stay = self.names
        run.overlay.on_told_to_move = self._move

    def start(self) -> None:
        for number in range(self._count):
            self.join(f"steady{number}")

    def join(
        self, name: str, *, publishes: bool = True, subscribes: bool = True, can_move: bool = True
    ) -> None:
        """One more that stays."""
        run, world = self._run, self._run.world
        home, latency_s = world.choice(run.homes()), world.uniform(0.0005, 0.005)
        client = run.overlay.join(
            name, home, latency_s=latency_s, limits=run.setting.limits, can_move=can_move
        )
        self.names.add(name)
        if publishes:
            client.core.advertise(self._clients.draw_filter())
        for _ in range(world.integer(1, 3) if subscribes else 0):
            run.overlay.subscribe(client, self._clients.draw_filter())
        client.flush()

    def homes(self) -> set[BrokerId]:
        """Brokers where one of them is."""
        return {self._run.overlay.clients[name].home.name for name in self.names}

    def _move(self, client: SimClient) -> None:
        """Its broker leaves: it says goodbye there when all is said, and somebody joins anew."""
        overlay = self._run.overlay
        if overlay.clients.get(client.name) is not client:
            return
        session = client.core.session
        if session.is_established and session.queue_messages:
            self._run.world.after(BUSY_S, self._move, client)
        else:
            overlay.leave(client.name)
            # Also one that was to stay: it had moved to a broker that a plan takes out since.
            self.names.discard(client.name)
            self._clients.join()
