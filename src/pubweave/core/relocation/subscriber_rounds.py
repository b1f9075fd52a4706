"""Subscribers that move by themselves: the half that GRAPE's paper leaves as future work.

After a trace session whose publisher stays, a round goes through the brokers of its tree, depth
first, one broker after the other. Each knows from the reports what is wanted where, and from its
own notes what each of its subscribers got; it places these by the publisher's own rule
(`design.relocation.subscriber`), has those migrate that should be elsewhere, and writes into the
reports what the next brokers will find. So no two brokers decide by the same state of affairs, and
every move is a step down of what GRAPE itself minimises. Publishers and subscribers take turns: a
publisher that moves begins no round, and no session begins before the round is back.

  publisher's broker   begin > place > first child ... > parent ... > is back
  a broker             take  > place (it may ask clients for pings) > next child or parent
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from pubweave.core.config.relocation import MOST_TRACED, RelocationConfig
from pubweave.core.relocation.grape_selection import SelectionRule, path_between
from pubweave.core.relocation.probes import Probing
from pubweave.core.relocation.subscriber_choice import Settled, SubscriberChoice
from pubweave.core.session.session import Session
from pubweave.core.transformation.services import TreeServices
from pubweave.design.relocation.rules import Selection
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.relocation import PlacementRound, TraceReport
from pubweave.model.publications import Publication
from pubweave.model.topology import TopologyError

MOST_NOTED = 4_096
"""Publishers whose subscribers a broker notes at most."""
MOST_PLACED = 256
"""Subscribers that a broker places in one round."""
NOTE_BYTES = 32
"""What the note of one subscriber is taken to occupy."""
ASKER = "subscribers"
ROUND_LIMIT_S = 60.0
"""A round that is not back after this time is lost."""
PINGS_FOR_S = 1_800.0
"""So long a subscriber is taken to be as far from brokers as it said."""

Migrate = Callable[[ClientId, BrokerId, float, tuple[BrokerId, ...], int], None]
OnPlaced = Callable[[ClientId, Selection, bool, float], None]


@dataclass(slots=True)
class _Noted:
    """What subscribers got of a session that goes on."""

    first_sequence: int
    bits: dict[ClientId, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Waiting:
    """A round that waits here for pings of some subscribers."""

    message: PlacementRound
    asked: set[ClientId]


class SubscriberRounds:
    """One broker's part in placing the subscribers of traced publishers."""

    def __init__(
        self,
        services: TreeServices,
        config: RelocationConfig,
        probing: Probing,
        *,
        send: Callable[[Session, PlacementRound], None],
        migrate: Migrate,
        may_move: Callable[[ClientId, float], bool],
        on_placed: OnPlaced,
    ) -> None:
        self._services = services
        self._config = config
        self._probing = probing
        probing.listeners[ASKER] = self._on_pings
        self._send = send
        self._migrate = migrate
        self._may_move = may_move
        self._on_placed = on_placed
        self._noted: dict[ClientId, _Noted] = {}
        self._settled: dict[ClientId, Settled] = {}
        self._pings: dict[ClientId, tuple[dict[BrokerId, float], float]] = {}
        self._waiting: dict[ClientId, _Waiting] = {}
        self._under_way: dict[ClientId, float] = {}
        self.begun = self.moves = 0

    # --- what subscribers get --------------------------------------------------------------

    def note(self, publication: Publication, clients: Iterable[ClientId]) -> None:
        """A publication of a trace session was delivered to these. O(clients)."""
        publisher, first = publication.publisher, publication.trace
        place = publication.sequence - first
        if not 0 <= place < MOST_TRACED:
            return  # no session is so long: a neighbor made it up
        noted = self._noted.get(publisher)
        if noted is None or noted.first_sequence != first:
            if noted is None and len(self._noted) >= MOST_NOTED:
                return
            self._noted[publisher] = noted = _Noted(first)
        for client in clients:
            noted.bits[client] = noted.bits.get(client, 0) | 1 << place

    def drop(self, publisher: ClientId) -> None:
        """No round will come for what was noted."""
        self._noted.pop(publisher, None)

    # --- the way of a round ----------------------------------------------------------------

    def is_busy(self, publisher: ClientId, now: float) -> bool:
        """Whether a round of a local publisher is under way."""
        return self._under_way.get(publisher, now) > now

    def begin(
        self,
        publisher: ClientId,
        session: tuple[int, float],
        reports: tuple[TraceReport, ...],
        rule: SelectionRule,
        *,
        is_shown_only: bool,
        now: float,
    ) -> None:
        """``session`` is the first sequence and the rate of a local publisher's trace."""
        message = PlacementRound(
            publisher,
            *session,
            rule.preference.priority.value,
            rule.preference.weight,
            rule.least_gain,
            is_shown_only,
            reports,
        )
        self.begun += 1
        self._under_way[publisher] = now + ROUND_LIMIT_S
        self._visit(message, now)

    def receive(self, origin: Session, message: PlacementRound, now: float) -> None:
        """A round comes from the neighbor on the publisher's side, or back from another one."""
        above, below = self._neighbors(message)
        if origin.remote == above:
            self._visit(message, now)
        elif origin.remote in below:
            self._pass_on(message, below.index(origin.remote) + 1)

    def _neighbors(self, message: PlacementRound) -> tuple[BrokerId | None, list[BrokerId]]:
        """Of the tree: towards the publisher, and the others in their order. O(brokers)."""
        own, reports = self._services.id, {r.broker: r for r in message.reports}
        root = next(iter(reports), own)
        if own not in reports:
            return None, []
        try:
            above = None if own == root else path_between(reports, own, root)[1]
        except KeyError:
            return None, []  # the tree has changed since they reported
        around = sorted(n for n, _ in reports[own].output_ms if n in reports and n != above)
        return above, around

    def _pass_on(self, message: PlacementRound, place: int = 0) -> None:
        """To the neighbor at this place, then back; a round whose way is gone ends here."""
        above, below = self._neighbors(message)
        following = below[place] if place < len(below) else above
        if following is None:
            self._under_way.pop(message.publisher, None)
            return
        link = self._services.link(following)
        if link is not None:
            self._send(link, message)

    # --- placing ---------------------------------------------------------------------------

    def _visit(self, message: PlacementRound, now: float) -> None:
        """Ask for the pings that are missing, or place at once."""
        publisher = message.publisher
        noted = self._noted.pop(publisher, None)
        if noted is None or noted.first_sequence != message.first_sequence:
            self._settled.pop(publisher, None)
            self._pass_on(message)
            return
        self._settled[publisher] = Settled(message, noted.bits)
        waiting = _Waiting(message, set())
        choice = self._choice(message, now)
        for client in choice.clients if choice is not None else ():
            session = self._services.sessions.clients.get(client)
            if choice is None or session is None or self._known_pings(client, now):
                continue
            candidates = choice.worth_asking(client)
            if candidates and self._probing.ask(session, candidates, ASKER, now):
                waiting.asked.add(client)
        if waiting.asked:
            self._waiting[publisher] = waiting
        else:
            self._place(message, choice, now)

    def _on_pings(self, client: ClientId, ping_ms: dict[BrokerId, float], now: float) -> None:
        if ping_ms:
            self._pings[client] = (ping_ms, now + PINGS_FOR_S)
        for publisher, waiting in list(self._waiting.items()):
            waiting.asked.discard(client)
            if not waiting.asked:
                del self._waiting[publisher]
                self._place(waiting.message, self._choice(waiting.message, now), now)

    def _known_pings(self, client: ClientId, now: float) -> dict[BrokerId, float]:
        ping_ms, until = self._pings.get(client, ({}, now))
        return ping_ms if until > now else {}

    def _choice(self, message: PlacementRound, now: float) -> SubscriberChoice | None:
        """None where there is nothing to choose."""
        settled = self._settled.get(message.publisher)
        if settled is None:
            return None
        movable = [
            client
            for client in settled.bits
            if self._may_move(client, now) and not self._is_open(client)
        ][:MOST_PLACED]
        pings = {client: self._known_pings(client, now) for client in movable}
        try:
            return SubscriberChoice(
                self._services.id, message, self._settled, pings, self._config.most_clients
            )
        except (DesignError, TopologyError, KeyError):
            return None  # the tree has changed since they reported

    def _is_open(self, client: ClientId) -> bool:
        """Whether it gets something of a publisher that nothing is known of yet: the next round
        of that one tells."""
        return any(
            client in noted.bits and publisher not in self._settled
            for publisher, noted in self._noted.items()
        )

    def _place(self, message: PlacementRound, choice: SubscriberChoice | None, now: float) -> None:
        if choice is None:
            self._pass_on(message)
            return
        for client in choice.clients:
            selection = choice.select(client)
            if selection is None:
                continue
            self._on_placed(client, selection, choice.has_pings(client), now)
            # Without pings nothing is known of what the client itself would gain or lose.
            if selection.moves and choice.has_pings(client):
                path = choice.move(client, selection.choice)
                if not message.is_shown_only:
                    self.moves += 1
                    most_clients = self._config.most_clients
                    self._migrate(client, selection.choice, now, path, most_clients)
        if not message.is_shown_only:
            message = msgspec.structs.replace(message, reports=choice.reports())
        self._pass_on(message)

    # --- ends ------------------------------------------------------------------------------

    def discard(self, client: ClientId) -> None:
        """A client has left this broker, or is gone altogether."""
        for known in (self._noted, self._settled, self._pings, self._waiting, self._under_way):
            known.pop(client, None)
        for settled in self._settled.values():
            settled.bits.pop(client, None)
        for noted in self._noted.values():
            noted.bits.pop(client, None)

    @property
    def subscribers(self) -> set[ClientId]:
        """Those of which anything is kept between rounds."""
        settled = {client for known in self._settled.values() for client in known.bits}
        return settled | self._pings.keys()

    @property
    def memory_bytes(self) -> int:
        """What notes and rounds occupy, by their contents."""
        noted = sum(NOTE_BYTES * len(each.bits) for each in self._noted.values())
        return noted + sum(
            each.message.size_bytes + NOTE_BYTES * len(each.bits) for each in self._settled.values()
        )

    @property
    def publishers(self) -> set[ClientId]:
        """Those of which anything is noted here."""
        return {*self._noted, *self._settled}
