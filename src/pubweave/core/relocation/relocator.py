"""A broker's part in relocating clients: POP and GRAPE, from the tag to the migration.

Every broker of a tree has one, because every broker may be asked by others what it delivered; it
begins traces of its own only for publishers that are to be relocated. `Publishing` shows it the
publications: local publishers' before they are passed on (`tag`), traced ones after (`routed`).

  tag > routed ... > TraceResult > pop_selection ─────────────────┐
  tag > routed ... > TraceInformation... > grape_selection ───────┴─> migrate(publisher, broker)
                                           └ stays > subscriber_rounds > migrate(subscriber, ...)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

import msgspec

from pubweave.core.config.relocation import MOST_TRACED, RelocationMode
from pubweave.core.dataplane.part import BrokerPart, EventHandler, MessageHandler
from pubweave.core.migration.coordinator import (
    MigrationCoordinator,
    MigrationEnd,
    MigrationOutcome,
)
from pubweave.core.relocation.grape_selection import Choice, GrapeSelection, SelectionRule
from pubweave.core.relocation.grape_tracing import GrapeTracing, TraceSession
from pubweave.core.relocation.pop_selection import PopSelection
from pubweave.core.relocation.pop_tracing import PopTracing
from pubweave.core.relocation.probes import Probing
from pubweave.core.relocation.subscriber_rounds import SubscriberRounds
from pubweave.core.session.access import GATEWAY_CLIENT
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.events import HandlingMeasured
from pubweave.design.relocation.rules import Preference, Priority, Selection
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.relocation import (
    POP_TRACE,
    PlacementRound,
    ProbeReply,
    RelocationAnswer,
    RelocationMessage,
    RelocationRequest,
    TraceInformationAnswer,
    TraceInformationRequest,
    TraceReport,
    TraceResult,
)
from pubweave.model.publications import Publication
from pubweave.model.records.status import (
    RELOCATION_SUBJECT,
    CandidateStatus,
    PublishersStatus,
    RelocationStatus,
    SelectionStatus,
    TraceRequest,
)

INPUT_SMOOTHING = 0.05
"""The weight of one more batch in the mean time that batches wait to be taken in."""
SWEEP_S = 60.0
"""How often publishers are forgotten that are here no more."""


class Relocator(BrokerPart):
    """Traces publications, and has local clients migrate where that is worth it."""

    def __init__(self, services: TreeServices, migrations: MigrationCoordinator) -> None:
        self.config = config = services.config.relocation
        self.tracer = self
        migrations.observe(self)
        self.handling_ms = 0.0
        """What a publication takes to handle; the driver keeps this current."""
        self.input_ms = 0.0
        """What a batch waits to be taken in."""
        self._services = services
        self._migrations = migrations
        self._asked_for: dict[ClientId, Asked] = {}
        """Publishers whose candidates somebody wants to see; they stay where they are."""
        self._rule = SelectionRule(config.preference, config.least_gain)
        self._rests: dict[ClientId, float] = {}
        """Clients that have come from elsewhere, and until when they are left alone."""
        self._idle_until: dict[ClientId, float] = {}
        """Publishers whose next session is some time away: most of what they publish passes."""
        self.decisions = Decisions()
        self._messages_out = self._bytes_out = self._moves = 0
        self._sweep_at = services.started_at + SWEEP_S
        self._probing = Probing(services.emit, config.answer_limit_s)
        self.pop = PopTracing(
            window_s=config.pop_window_s,
            most_traced=config.pop_most_traced,
            answer_limit_s=config.answer_limit_s,
            send=self._send,
            on_result=self._on_pop_result,
        )
        self._pop_selection = PopSelection(
            services.id,
            self.pop,
            threshold=config.pop_threshold,
            least_gain=config.least_gain,
            answer_limit_s=config.answer_limit_s,
            link=services.link,
            send=self._send,
            on_closest=self._on_closest,
        )
        self.grape = GrapeTracing(
            answer_limit_s=config.answer_limit_s,
            every_s=config.grape_every_s,
            make_report=self._report,
            link_stands=lambda link: services.link(link.remote) is link,
            with_subscribers=self._places_subscribers,
            send=self._send,
            on_gathered=lambda *told: self._grape_selection.gathered(*told),
            on_noted=lambda publisher: self.rounds.drop(publisher),
        )
        self._grape_selection = GrapeSelection(
            services.id,
            rule_of=self._rule_of,
            client=services.sessions.clients.get,
            probing=self._probing,
            on_chosen=self._on_chosen,
        )
        self.rounds = SubscriberRounds(
            services,
            config,
            self._probing,
            send=self._send,
            migrate=migrations.begin,
            may_move=self._may_move_subscriber,
            on_placed=self.decisions.placed,
        )

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        return {HandlingMeasured: self._measured}

    def _measured(self, event: HandlingMeasured, now: float) -> None:
        self.handling_ms = event.message_ms

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return dict.fromkeys(get_args(RelocationMessage), self.receive) | {
            ProbeReply: self.receive_reply
        }

    # --- publications ----------------------------------------------------------------------

    def tag(self, publication: Publication, now: float) -> Publication:
        """A local publisher's publication, marked if it is to be traced."""
        publisher = publication.publisher
        if now < self._idle_until.get(publisher, now):
            return publication
        trace = 0
        asked_for = self._asked_for.get(publisher)
        if asked_for is not None:
            trace = self._mark(publication, asked_for.publications, now, at_once=True)
        elif not self._is_resting(publisher, now):
            match self.config.mode_of(publisher):
                case RelocationMode.GRAPE:
                    trace = self._mark(publication, self.config.grape_threshold, now)
                case RelocationMode.POP if self.pop.is_tagged(publication, now):
                    trace = POP_TRACE
        if trace == publication.trace:
            return publication
        # Its frame is another one now; and no client traces by itself.
        return msgspec.structs.replace(publication, trace=trace, encoded=b"")

    def _mark(
        self, publication: Publication, count: int, now: float, *, at_once: bool = False
    ) -> int:
        publisher = publication.publisher
        if self._grape_selection.is_busy(publisher) or self.rounds.is_busy(publisher, now):
            return 0
        trace = self.grape.mark(publication, count, now, at_once=at_once)
        if not trace:
            self._idle_until[publisher] = self.grape.idle_until(publisher, now)
            self.grape.end_sessions(now)  # the last one that belonged to it was refused
        return trace

    def routed(
        self, publication: Publication, origin: Session, route: tuple[Session, ...], now: float
    ) -> None:
        """A traced publication was queued for every session of ``route``. O(route)."""
        own, downstream, is_whole = list[ClientId](), list[Session](), True
        for session in route:
            if session.is_client:
                own.append(session.remote)
            elif self._services.link(session.remote) is session:
                downstream.append(session)
            else:
                is_whole = False  # held back for neighbors that are not known yet
        upstream = None if origin.is_client else origin
        if publication.trace == POP_TRACE:
            if is_whole:
                self.pop.routed(publication, upstream, len(own), downstream, now)
        else:
            self.grape.routed(publication, upstream, len(own), downstream, is_whole=is_whole)
            if own:
                self.rounds.note(publication, own)
            if upstream is None:
                self.grape.end_sessions(now)

    def waited(self, waited_s: float) -> None:
        """A batch of messages waited so long to be taken in."""
        self.input_ms += INPUT_SMOOTHING * (1000.0 * waited_s - self.input_ms)

    # --- messages --------------------------------------------------------------------------

    def receive(self, origin: Session, message: RelocationMessage, now: float) -> None:
        """A message about a trace came over a link. RemoteProtocolError if it is none."""
        match message:
            case TraceResult():
                self.pop.receive_result(origin, message, now)
            case RelocationRequest():
                self._pop_selection.receive_request(origin, message, now)
            case RelocationAnswer():
                self._pop_selection.receive_answer(origin, message, now)
            case TraceInformationRequest():
                self.grape.receive_request(origin, message, now)
            case TraceInformationAnswer():
                self.grape.receive_answer(origin, message, now)
            case PlacementRound():
                self.rounds.receive(origin, message, now)

    def receive_reply(self, client: Session, reply: ProbeReply, now: float) -> None:
        if not client.is_client:
            raise RemoteProtocolError("unexpected ProbeReply")
        self._probing.receive_reply(client, reply, now)

    def _send(self, link: Session, message: RelocationMessage) -> None:
        self._messages_out += 1
        self._bytes_out += message.size_bytes
        self._services.send(link, message)

    def _report(self, session: TraceSession) -> TraceReport:
        """This broker's payload of a TIA. Half a round trip is the way to a neighbor: what waits
        in the queue towards it, and the link, which the paper's figures leave out."""
        services = self._services
        links = [link for link in map(services.link, sorted(services.sessions.links)) if link]
        return TraceReport(
            broker=services.id,
            output_ms=tuple((link.remote, (link.rtt_ms or 0.0) / 2) for link in links),
            bits=session.bits.to_bytes((session.bits.bit_length() + 7) // 8, "little"),
            deliveries=session.deliveries,
            input_ms=self.input_ms,
            matching_ms=self.handling_ms,
            client_ms=0.0,
            address=services.sessions.address,
            clients=len(services.sessions.clients),
        )

    # --- decisions -------------------------------------------------------------------------

    def _on_pop_result(self, publisher: ClientId, now: float) -> None:
        if self.config.mode_of(publisher) is RelocationMode.POP:
            self._pop_selection.traced(publisher, now)

    def _on_closest(
        self, publisher: ClientId, path: tuple[BrokerId, ...], took_s: float, now: float
    ) -> None:
        self.decisions.by_pop(publisher, path, took_s, now)
        if len(path) > 1:
            self._move(publisher, path, now)

    def _rule_of(self, publisher: ClientId) -> SelectionRule:
        asked = self._asked_for.get(publisher)
        return self._rule if asked is None else asked.rule

    def _places_subscribers(self, publisher: ClientId) -> bool:
        asked = self._asked_for.get(publisher)
        return self.config.subscribers if asked is None else asked.subscribers

    def _on_chosen(self, publisher: ClientId, choice: Choice, now: float) -> None:
        rule, places_subscribers = self._rule_of(publisher), self._places_subscribers(publisher)
        self.decisions.by_grape(publisher, choice, now)
        asked = self._asked_for.pop(publisher, None)
        client = self._services.sessions.clients.get(publisher)
        if asked is None and choice.selection.moves and client is not None and client.can_move:
            self._move(publisher, choice.path, now)
        elif places_subscribers:
            session = self.grape.last_session(publisher)
            self.rounds.begin(
                publisher, session, choice.reports, rule, is_shown_only=asked is not None, now=now
            )

    def _may_move_subscriber(self, client: ClientId, now: float) -> bool:
        """Publishers are placed by their own traces; and who has just come stays a while."""
        session = self._services.sessions.clients.get(client)
        if session is None or not session.can_move or self._is_resting(client, now):
            return False
        return not self._services.routing.from_hop(session)[0]

    def _move(self, publisher: ClientId, path: tuple[BrokerId, ...], now: float) -> None:
        self._moves += 1
        self._migrations.begin(publisher, path[-1], now, path, 0)

    def migration_ended(self, end: MigrationEnd, now: float) -> None:
        """A publisher has left for another broker, which traces it from there; or it stays, and
        the next trace tells whether it should."""
        if end.outcome is MigrationOutcome.DONE:
            self._forget_local(end.client)

    def client_arrived(self, client: ClientId, now: float) -> None:
        """It has just been moved here: it is left alone for a while, and so is not traced."""
        self._rests[client] = now + self.config.rest_s

    def _is_resting(self, client: ClientId, now: float) -> bool:
        return bool(self._rests) and self._rests.get(client, now) > now

    def _forget_local(self, client: ClientId) -> None:
        for part in (self.pop, self._pop_selection, self.grape, self._grape_selection):
            part.discard(client)
        self._probing.discard(client)
        self.rounds.discard(client)
        self.decisions.discard(client)
        self._asked_for.pop(client, None)
        self._rests.pop(client, None)
        self._idle_until.pop(client, None)

    # --- what others want to know -----------------------------------------------------------

    def publishers(self) -> list[ClientId]:
        """The attached clients that advertise anything; a broker's own door is none of them.
        O(advertisements)."""
        entries = self._services.routing.advertisements.values()
        clients = {entry.hop.remote for entry in entries if entry.hop.is_client}
        return sorted(client for client in clients if not client.startswith(GATEWAY_CLIENT))

    def show(
        self, publishers: list[ClientId], preference: Preference, request: TraceRequest
    ) -> None:
        """Trace these publishers once by GRAPE, so that `decisions` have their candidates, and
        those of their subscribers, if these are asked for, too."""
        asked = Asked.by(request, preference)
        self.decisions.placements.clear()
        for publisher in publishers:
            self.decisions.discard(publisher)
            self._asked_for[publisher] = asked
            self._idle_until.pop(publisher, None)

    @property
    def is_tagging(self) -> bool:
        """Whether publications of local publishers have to pass `tag`."""
        config = self.config
        is_off = config.mode is RelocationMode.OFF
        return not is_off or bool(config.publishers or self._asked_for)

    def on_tick(self, now: float) -> None:
        for part in (self.pop, self._pop_selection, self.grape, self._probing):
            part.give_up_late(now)
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            self._sweep(now)

    def _sweep(self, now: float) -> None:
        """Forget what is left of clients that are gone, from here or altogether."""
        knows = self._services.routing.knows_publisher
        known = {*self.pop.tables, *self.grape.sessions, *self.rounds.publishers}
        for publisher in [p for p in known if not knows(p)]:
            self.pop.discard(publisher)
            self.grape.discard(publisher)
            self.rounds.discard(publisher)
        self._rests = {client: until for client, until in self._rests.items() if until > now}
        attached = self._services.sessions.clients
        local = {*self.decisions.selections, *self._asked_for, *self.pop.local, *self.grape.local}
        local |= self.decisions.placements.keys() | self.rounds.subscribers
        for publisher in [p for p in local if p not in attached]:
            self._forget_local(publisher)

    def status(self, now: float) -> dict[str, Any]:
        return {"relocation": self.counted()}

    def answer(self, verb: str, argument: str, now: float) -> Any:
        """``relocation`` tells of the publishers attached here; with a `TraceRequest` each of them
        is traced, and stays where it is."""
        if verb != RELOCATION_SUBJECT:
            return None
        publishers = self.publishers()
        if argument:
            try:
                request = msgspec.json.decode(argument, type=TraceRequest)
                preference = Preference(Priority(request.priority), request.weight)
            except ValueError as error:  # msgspec's own errors are ValueErrors, too
                return {"error": f"relocation: {error}"}
            self.show(publishers, preference, request)
        selections = self.decisions.selections
        return PublishersStatus(
            self.counted(),
            tuple(publishers),
            tuple(selections[p] for p in publishers if p in selections),
            tuple(self.decisions.placements.values()),
            tuple(self._migrations.last_moves),
        )

    def counted(self) -> RelocationStatus:
        return RelocationStatus(
            mode=self.config.mode.value,
            preference=str(self.config.preference),
            decided=self.decisions.decided,
            deciding_s=self.decisions.deciding_s,
            moves=self._moves,
            given_up=self.pop.given_up + self.grape.given_up,
            without_pings=self._grape_selection.without_pings,
            messages_out=self._messages_out,
            bytes_out=self._bytes_out,
            memory_bytes=self.pop.memory_bytes + self.grape.memory_bytes + self.rounds.memory_bytes,
            rounds=self.rounds.begun,
            subscriber_moves=self.rounds.moves,
        )


@dataclass(frozen=True)
class Asked:
    """What somebody wants to see of a publisher; nobody moves for it."""

    rule: SelectionRule
    publications: int
    subscribers: bool

    @classmethod
    def by(cls, request: TraceRequest, preference: Preference) -> Asked:
        count = max(1, min(request.publications, MOST_TRACED))
        return cls(SelectionRule(preference, request.least_gain), count, request.subscribers)


class Decisions:
    """The last decision on each client, for those who ask."""

    def __init__(self) -> None:
        self.selections: dict[ClientId, SelectionStatus] = {}
        """Of publishers."""
        self.placements: dict[ClientId, SelectionStatus] = {}
        """Of subscribers."""
        self.decided = 0
        self.deciding_s = 0.0

    def by_pop(
        self, publisher: ClientId, path: tuple[BrokerId, ...], took_s: float, now: float
    ) -> None:
        """POP goes along a path; one of a single broker means staying."""
        reason = (
            "most subscribers are there"
            if len(path) > 1
            else "no neighbor has so many more than all others"
        )
        status = SelectionStatus(publisher, "pop", path[0], path[-1], reason, now)
        self._remember(publisher, status, took_s)

    def by_grape(self, publisher: ClientId, choice: Choice, now: float) -> None:
        status = as_status(publisher, choice.selection, choice.has_pings, now)
        self._remember(publisher, status, choice.took_s)

    def _remember(self, publisher: ClientId, status: SelectionStatus, took_s: float) -> None:
        self.decided += 1
        self.deciding_s += took_s
        self.selections[publisher] = status

    def placed(self, client: ClientId, selection: Selection, has_pings: bool, now: float) -> None:
        self.placements[client] = as_status(client, selection, has_pings, now)

    def discard(self, client: ClientId) -> None:
        self.selections.pop(client, None)
        self.placements.pop(client, None)


def as_status(
    client: ClientId, selection: Selection, has_pings: bool, now: float
) -> SelectionStatus:
    """A decision as it is told to others."""
    return SelectionStatus(
        publisher=client,
        rule=str(selection.preference),
        publisher_at=selection.publisher_at,
        choice=selection.choice,
        reason=selection.reason,
        at=now,
        has_pings=has_pings,
        candidates=tuple(
            CandidateStatus(c.broker, c.delay_ms, c.message_rate, c.normalized, c.is_kept)
            for c in selection.candidates
        ),
    )
