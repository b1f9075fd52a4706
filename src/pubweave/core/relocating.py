"""A broker's part in relocating publishers: POP and GRAPE, from the tag to the migration.

Every broker of a tree has one, because every broker may be asked by others what it delivered; it
begins traces of its own only for publishers that are to be relocated. `Publishing` shows it the
publications: local publishers' before they are passed on (`tag`), traced ones after (`routed`).

  tag > routed ... > TraceResult > pop_selection ─────────────────┐
  tag > routed ... > TraceInformation... > grape_selection ───────┴─> migrate(publisher, broker)
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from pubweave.core.broker_inside import BrokerInside
from pubweave.core.grape_selection import Choice, GrapeSelection
from pubweave.core.grape_tracing import GrapeTracing, TraceSession
from pubweave.core.migrations import MigrationEnd, MigrationOutcome
from pubweave.core.pop_selection import PopSelection
from pubweave.core.pop_tracing import PopTracing
from pubweave.core.relocation_config import MOST_TRACED, RelocationConfig, RelocationMode
from pubweave.core.session import Session
from pubweave.design.relocation_rules import Preference
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Publication
from pubweave.model.relocation_messages import (
    POP_TRACE,
    ProbeReply,
    RelocationAnswer,
    RelocationMessage,
    RelocationRequest,
    TraceInformationAnswer,
    TraceInformationRequest,
    TraceReport,
    TraceResult,
)
from pubweave.model.status import CandidateStatus, RelocationStatus, SelectionStatus

INPUT_SMOOTHING = 0.05
"""The weight of one more batch in the mean time that batches wait to be taken in."""
SWEEP_S = 60.0
"""How often publishers are forgotten that are here no more."""

Migrate = Callable[[ClientId, BrokerId, float, tuple[BrokerId, ...]], None]


class Relocator:
    """Traces publications, and has local publishers migrate where that is worth it."""

    def __init__(
        self, inside: BrokerInside, config: RelocationConfig, migrate: Migrate, now: float
    ) -> None:
        self.config = config
        self.handling_ms = 0.0
        """What a publication takes to handle; the driver keeps this current."""
        self.input_ms = 0.0
        """What a batch waits to be taken in."""
        self._inside = inside
        self._migrate = migrate
        self._asked_for: dict[ClientId, tuple[Preference, int]] = {}
        """Publishers whose candidates somebody wants to see; they stay where they are."""
        self.selections: dict[ClientId, SelectionStatus] = {}
        self._messages_out = self._bytes_out = 0
        self._decided = self._moves = 0
        self._deciding_s = 0.0
        self._sweep_at = now + SWEEP_S
        self.pop = PopTracing(
            window_s=config.pop_window_s,
            most_traced=config.pop_most_traced,
            answer_limit_s=config.answer_limit_s,
            send=self._send,
            on_result=self._on_pop_result,
        )
        self._pop_selection = PopSelection(
            inside.id,
            self.pop,
            threshold=config.pop_threshold,
            answer_limit_s=config.answer_limit_s,
            link=inside.link,
            send=self._send,
            on_closest=self._on_closest,
        )
        self.grape = GrapeTracing(
            answer_limit_s=config.answer_limit_s,
            make_report=self._report,
            link_stands=lambda link: inside.link(link.remote) is link,
            send=self._send,
            on_gathered=lambda *told: self._grape_selection.gathered(*told),
            on_failed=lambda publisher: None,
        )
        self._grape_selection = GrapeSelection(
            inside.id,
            preference_of=lambda p: self._asked_for.get(p, (config.preference, 0))[0],
            answer_limit_s=config.answer_limit_s,
            client=inside.sessions.clients.get,
            emit=inside.emit,
            on_chosen=self._on_chosen,
        )

    # --- publications ----------------------------------------------------------------------

    def tag(self, publication: Publication, now: float) -> Publication:
        """A local publisher's publication, marked if it is to be traced."""
        publisher = publication.publisher
        trace = 0
        asked_for = self._asked_for.get(publisher)
        if asked_for is not None:
            trace = self._mark(publication, asked_for[1], now)
        else:
            match self.config.mode_of(publisher):
                case RelocationMode.GRAPE:
                    trace = self._mark(publication, self.config.grape_threshold, now)
                case RelocationMode.POP if self.pop.is_tagged(publication, now):
                    trace = POP_TRACE
        if trace == publication.trace:
            return publication
        # Its frame is another one now; and no client traces by itself.
        return msgspec.structs.replace(publication, trace=trace, encoded=b"")

    def _mark(self, publication: Publication, count: int, now: float) -> int:
        if self._grape_selection.is_busy(publication.publisher):
            return 0
        trace = self.grape.mark(publication, count)
        if not trace:
            self.grape.end_sessions(now)  # the last one that belonged to it was refused
        return trace

    def routed(
        self, publication: Publication, origin: Session, route: tuple[Session, ...], now: float
    ) -> None:
        """A traced publication was queued for every session of ``route``. O(route)."""
        own, downstream, is_whole = 0, list[Session](), True
        for session in route:
            if session.is_client:
                own += 1
            elif self._inside.link(session.remote) is session:
                downstream.append(session)
            else:
                is_whole = False  # held back for neighbors that are not known yet
        upstream = None if origin.is_client else origin
        if publication.trace == POP_TRACE:
            if is_whole:
                self.pop.routed(publication, upstream, own, downstream, now)
        else:
            self.grape.routed(publication, upstream, own, downstream, is_whole=is_whole)
            if upstream is None:
                self.grape.end_sessions(now)

    def waited(self, waited_s: float) -> None:
        """A batch of messages waited so long to be taken in."""
        self.input_ms += INPUT_SMOOTHING * (1000.0 * waited_s - self.input_ms)

    # --- messages --------------------------------------------------------------------------

    def take(self, origin: Session, message: RelocationMessage, now: float) -> None:
        """A message about a trace came over a link. RemoteProtocolError if it is none."""
        match message:
            case TraceResult():
                self.pop.take_result(origin, message, now)
            case RelocationRequest():
                self._pop_selection.take_request(origin, message, now)
            case RelocationAnswer():
                self._pop_selection.take_answer(origin, message, now)
            case TraceInformationRequest():
                self.grape.take_request(origin, message, now)
            case TraceInformationAnswer():
                self.grape.take_answer(origin, message, now)

    def take_reply(self, client: Session, reply: ProbeReply, now: float) -> None:
        self._grape_selection.take_reply(client, reply, now)

    def _send(self, link: Session, message: RelocationMessage) -> None:
        self._messages_out += 1
        self._bytes_out += message.size_bytes
        self._inside.send(link, message)

    def _report(self, session: TraceSession) -> TraceReport:
        """This broker's payload of a TIA. Half a round trip is the way to a neighbor: what waits
        in the queue towards it, and the link, which the paper's figures leave out."""
        inside = self._inside
        links = [link for link in map(inside.link, sorted(inside.sessions.links)) if link]
        return TraceReport(
            broker=inside.id,
            output_ms=tuple((link.remote, (link.rtt_ms or 0.0) / 2) for link in links),
            bits=session.bits.to_bytes((session.bits.bit_length() + 7) // 8, "little"),
            deliveries=session.deliveries,
            input_ms=self.input_ms,
            matching_ms=self.handling_ms,
            client_ms=0.0,
            address=inside.sessions.address,
        )

    # --- decisions -------------------------------------------------------------------------

    def _on_pop_result(self, publisher: ClientId, now: float) -> None:
        if self.config.mode_of(publisher) is RelocationMode.POP:
            self._pop_selection.traced(publisher, now)

    def _on_closest(
        self, publisher: ClientId, path: tuple[BrokerId, ...], took_s: float, now: float
    ) -> None:
        moves = len(path) > 1
        reason = "most subscribers are there" if moves else "no neighbor has more than all others"
        self._remember(
            publisher,
            SelectionStatus(publisher, "pop", self._inside.id, path[-1], reason, now),
            took_s,
        )
        if moves:
            self._move(publisher, path, now)

    def _on_chosen(self, publisher: ClientId, choice: Choice, now: float) -> None:
        selection = choice.selection
        self._remember(
            publisher,
            SelectionStatus(
                publisher=publisher,
                rule=str(selection.preference),
                publisher_at=selection.publisher_at,
                choice=selection.choice,
                reason=selection.reason,
                at=now,
                has_pings=choice.has_pings,
                candidates=tuple(
                    CandidateStatus(c.broker, c.delay_ms, c.message_rate, c.normalized, c.is_kept)
                    for c in selection.candidates
                ),
            ),
            choice.took_s,
        )
        is_shown_only = self._asked_for.pop(publisher, None) is not None
        if selection.moves and not is_shown_only:
            self._move(publisher, choice.path, now)

    def _remember(self, publisher: ClientId, selection: SelectionStatus, took_s: float) -> None:
        self._decided += 1
        self._deciding_s += took_s
        self.selections[publisher] = selection

    def _move(self, publisher: ClientId, path: tuple[BrokerId, ...], now: float) -> None:
        self._moves += 1
        self._migrate(publisher, path[-1], now, path)

    def migration_ended(self, end: MigrationEnd, now: float) -> None:
        """A publisher has left for another broker, which traces it from there; or it stays, and
        the next trace tells whether it should."""
        if end.outcome is MigrationOutcome.DONE:
            self._forget_local(end.client)

    def _forget_local(self, publisher: ClientId) -> None:
        for part in (self.pop, self._pop_selection, self.grape, self._grape_selection):
            part.forget(publisher)
        self.selections.pop(publisher, None)
        self._asked_for.pop(publisher, None)

    # --- what others want to know -----------------------------------------------------------

    def publishers(self) -> list[ClientId]:
        """The attached clients that advertise anything. O(advertisements)."""
        entries = self._inside.routing.advertisements.values()
        return sorted({entry.hop.remote for entry in entries if entry.hop.is_client})

    def show(self, publishers: list[ClientId], preference: Preference, publications: int) -> None:
        """Trace these publishers once by GRAPE, over so many publications, so that `selections`
        has their candidates."""
        count = max(1, min(publications, MOST_TRACED))
        for publisher in publishers:
            self.selections.pop(publisher, None)
            self._asked_for[publisher] = (preference, count)

    @property
    def is_tagging(self) -> bool:
        """Whether publications of local publishers have to pass `tag`."""
        config = self.config
        return (
            config.mode is not RelocationMode.OFF
            or bool(config.publishers)
            or bool(self._asked_for)
        )

    def on_tick(self, now: float) -> None:
        for part in (self.pop, self._pop_selection, self.grape, self._grape_selection):
            part.give_up_late(now)
        if now >= self._sweep_at:
            self._sweep_at = now + SWEEP_S
            self._sweep()

    def _sweep(self) -> None:
        """Forget what is left of publishers that are gone, from here or altogether."""
        knows = self._inside.routing.knows_publisher
        for publisher in [p for p in {*self.pop.tables, *self.grape.sessions} if not knows(p)]:
            self.pop.forget(publisher)
            self.grape.forget(publisher)
        attached = self._inside.sessions.clients
        local = {*self.selections, *self._asked_for, *self.pop.local, *self.grape.local}
        for publisher in [p for p in local if p not in attached]:
            self._forget_local(publisher)

    def status(self) -> RelocationStatus:
        return RelocationStatus(
            mode=self.config.mode.value,
            preference=str(self.config.preference),
            decided=self._decided,
            deciding_s=self._deciding_s,
            moves=self._moves,
            given_up=self.pop.given_up + self.grape.given_up,
            without_pings=self._grape_selection.without_pings,
            messages_out=self._messages_out,
            bytes_out=self._bytes_out,
            memory_bytes=self.pop.memory_bytes + self.grape.memory_bytes,
        )
