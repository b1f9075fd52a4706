"""One broker's part in the migration of a client; `migration/source` has those of the ends of its
path, `migration/states` the stages that every broker of the path goes through.

A neighbor that has forgotten everything is told at once that it takes part (`hold`), and again
whatever it may have taken along: the update from the side of the source, `moved` from the side of
the destination. So the stages survive any crash but that of all brokers that knew of them. Updates
and `moved` are marks, too: they wait behind publications that wait at a gate.
"""

from __future__ import annotations

from pubweave.core.migration.states import PATH, Stage
from pubweave.core.migration.tables import (
    ClientEntries,
    move_advertisements,
    move_subscriptions,
)
from pubweave.core.migration.uncertainty import MigrationUncertainty
from pubweave.core.routing.tree.link_table import LinkTable
from pubweave.core.session.session import Session
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, SubscriptionId
from pubweave.model.messages.migration import (
    DECIDED,
    PASSED,
    SWITCHED,
    TURNED,
    Migration,
    MigrationComplete,
    MigrationEntries,
    MigrationMessage,
    MigrationSignal,
    MigrationStep,
    MigrationUpdate,
)
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    TableMessage,
    Unadvertise,
    Unsubscribe,
)


class MigrationParticipant:
    """The part of a broker on the path; its ends have `MigrationSource` and
    `MigrationDestination`."""

    states = PATH

    def __init__(self, inside: TreeServices, migration: Migration) -> None:
        place = migration.path.index(inside.id)
        self.inside = inside
        self.migration = migration
        self.stage = self.states.first
        self.before: BrokerId | None = migration.path[place - 1] if place else None
        """The next broker towards the source."""
        self.after: BrokerId | None = migration.path[place + 1] if place < migration.hops else None
        """The next broker towards the destination."""
        self.address = ""
        """Of the destination, as `moved` told it."""
        self._entries = ClientEntries()
        self._wanted: dict[SubscriptionId, Filter] = {}
        """The client's subscriptions that came from the destination's side so far."""
        self._owes_update = False
        self._missing: dict[SubscriptionId, None] = {}
        """What the destination was asked to look for again."""
        self._is_waiting = False
        """It was asked, and has not answered yet; publications wait so long."""
        self._is_asked_again = False
        """On behalf of a broker towards the source."""
        self._complete: MigrationComplete | None = None
        """The source's last word, if it has come."""
        self._was_told = False
        """That it is decided, after a restart."""
        self._is_passed_beyond = False
        """The update has, as was told after a restart."""
        self._is_turned_beyond = False
        """So has `moved`, and it is said again."""
        self.doubt = MigrationUncertainty(inside)
        """After a restart: whether `moved` had passed here is not known yet."""

    # --- what comes ------------------------------------------------------------------------

    def receive(self, message: MigrationEntries | MigrationUpdate) -> None:
        """The update, or what it is about."""
        if isinstance(message, MigrationEntries):
            self._entries.add(message)
        elif self.stage is Stage.RESERVED:
            self._owes_update = True
        elif self.stage is Stage.MOVED:
            self._say_moved()  # it got lost on its way back

    @property
    def is_completed(self) -> bool:
        return self._complete is not None

    @property
    def is_decided(self) -> bool:
        """Whether there is no way back, as far as this broker knows."""
        return self._was_told or self.stage is not Stage.RESERVED

    def told(self, neighbor: BrokerId, how_far: str) -> None:
        """A neighbor says that the migration is decided. So does this one: a source that has the
        client back has to know."""
        if neighbor == self.after and how_far == TURNED:
            self._is_turned_beyond = True
        elif neighbor == self.after:
            self.doubt.end()  # `moved` has not been said, so it had not passed here
        if not how_far:
            return
        is_news = not self.is_decided
        if neighbor == self.after and how_far != DECIDED and not self._has_passed:
            self._is_passed_beyond = is_news = True
        if is_news:
            self._was_told = True
            for other in (self.before, self.after):
                if other is not None and other != neighbor:
                    self._hold(other)
        if how_far == SWITCHED and self.stage is not Stage.MOVED and self._has_after:
            # `moved` passed here before the crash. What the source's side sends here for the
            # client is behind it, and must not wait until `moved` is told again.
            self._move()
            self._settle_doubt()

    @property
    def _has_passed(self) -> bool:
        """Whether the update has come here, or further."""
        return self._owes_update or self._is_passed_beyond or self.stage is not Stage.RESERVED

    def _settle_doubt(self, moved: MigrationSignal | None = None) -> bool:
        """`moved` has passed: what waits goes where it belongs. False if nothing waits."""
        if not self.doubt.is_open:
            return False
        return self.doubt.settle(self._known().subscriptions, moved)

    def _hold(self, neighbor: BrokerId) -> None:
        how_far = DECIDED if self.is_decided else ""
        if neighbor == self.after and self.stage is Stage.MOVED:
            how_far = SWITCHED
        elif neighbor == self.before and (self._is_turned_beyond or self.stage is Stage.MOVED):
            how_far = TURNED
        elif neighbor == self.before and self._has_passed:
            how_far = PASSED
        self.send(neighbor, self.signal(MigrationStep.HOLD, how_far))

    def moved(self, address: str) -> None:
        """The next broker towards the destination sends what is for the client there. This has to
        be done in its place among the publications: those behind it the client gets there."""
        self.address = address
        if self.stage is not Stage.MOVED:
            self._move()
            if not self._settle_doubt(self.signal(MigrationStep.MOVED, self.address)):
                self._say_moved()
            if self._missing:
                self._ask_again()
            return
        self._settle()
        if self._is_asked_again:
            self._is_asked_again = False
            self._say_moved()

    def _move(self) -> None:
        known, after = self._known(), self._session(self.after)
        subscriptions = known.subscriptions
        if self.stage is Stage.PASSED:
            # A source that was restarted may have told more than the update is about.
            subscriptions = {**self._entries.subscriptions, **subscriptions}
            known = self._entries
        move_advertisements(self.inside.routing, known.advertisements, after)
        self._move_subscriptions(subscriptions, self._wanted, after)

    def _ask_again(self) -> None:
        """An advertisement that calls for a subscription of the client is on its way to the
        destination: it is to say `moved` again, behind that. Publications wait so long."""
        after = self._session(self.after)
        self._is_waiting = True
        sometimes(Branch.MOVED_SAID_AGAIN)
        self.inside.send(after, self.signal(MigrationStep.AGAIN))
        self.inside.routing.set_gate(after, is_shut=True)

    def _settle(self) -> None:
        """Whatever is called for has been passed on from the destination's side by now."""
        if not self._is_waiting:
            return
        self._is_waiting = False
        after = self._session(self.after)
        for id_ in self._missing:
            self.inside.routing.receive(after, Unsubscribe(id_))
        self._missing = {}
        self.inside.routing.set_gate(after, is_shut=False)

    def again(self) -> None:
        """A broker towards the source lacks subscriptions that are called for there."""
        if self.after is not None:
            self._is_asked_again = True
            self.send(self.after, self.signal(MigrationStep.AGAIN))
        else:
            self._say_moved()  # also after a restart: then the client tells everything again

    def keeps(self, origin: Session, message: TableMessage) -> bool:
        """Whether a table message about the client is out of date, or too early to be taken."""
        if origin.remote == self.after and self.stage is not Stage.MOVED:
            return self._notes(message)
        if origin.remote == self.after and isinstance(message, Subscribe):
            self._missing.pop(message.id, None)
        if origin.remote != self.before or not self.is_decided:
            return False
        if isinstance(message, Unadvertise):
            # What it withdrew before it moved may come behind its publications of then.
            known = self.inside.routing.advertisements.get(message.id)
            return known is None or known.hop is not origin
        # A restarted source that has the client back does not know yet that it has moved.
        return self.stage is Stage.MOVED or isinstance(message, Advertise)

    def _notes(self, message: TableMessage) -> bool:
        """What `moved` will need: until then the client's subscriptions lead to the source."""
        if isinstance(message, Subscribe):
            self._wanted[message.id] = message.filter
        elif isinstance(message, Unsubscribe):
            self._wanted.pop(message.id, None)
        else:
            return False
        return True

    def link_began(self, neighbor: BrokerId) -> None:
        """A neighbor on the path has forgotten everything."""
        self.guard()
        if neighbor == self.after:
            self._wanted.clear()
            self._hold(neighbor)
            if self.stage is Stage.PASSED:
                self._owes_update = True
            elif self._is_waiting:
                self._ask_again()
            elif self._is_asked_again:
                self.again()
            if self._complete is not None:
                self.send(neighbor, self._complete)
        elif neighbor == self.before:
            self._hold(neighbor)
            if not self.is_decided:
                self.send(neighbor, self.signal(MigrationStep.ASK))

    # --- what follows ----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether no answer of the destination is missing."""
        return not (self._is_waiting or self._is_asked_again or self.doubt.is_open)

    @property
    def is_eager(self) -> bool:
        """Whether something waits for its moment."""
        return self._owes_update or self.doubt.is_open

    def check(self, now: float) -> None:
        """Pass on what is owed, if the link it goes over is fit for it."""
        self.doubt.check(now)
        if self._owes_update and self._is_fit(self.after):
            self._owes_update = False
            self._pass_update()

    def _pass_update(self) -> None:
        """The paper's operations 1 to 3; what they send to the next broker is before the update."""
        after = self._session(self.after)
        move_advertisements(self.inside.routing, self._entries.advertisements, after)
        for part in self._entries.parts(self.migration):
            self.inside.send(after, part)
        self.inside.send(after, MigrationUpdate(self.migration))
        self.stage = self.states.after(self.stage, "update passed on")

    def _say_moved(self) -> None:
        """In its place among the publications for that link, also where these wait."""
        if self.before is not None and self.inside.is_linked(self.before):
            way = self.inside.routing.stand_in_for(self._session(self.before))
            self.inside.send(way, self.signal(MigrationStep.MOVED, self.address))

    def remark(self, neighbor: BrokerId, under_way: list[SequencedMessage]) -> None:
        """A neighbor has forgotten everything and gets again what was ``under_way``: if `moved`
        is not among it, all of that is behind it. What the client published is in front of the
        update that follows: until then it comes from here."""
        if neighbor == self.after and self.stage is Stage.PASSED:
            for id_, filter_ in self._entries.advertisements.items():
                self.inside.send(self._session(neighbor), Advertise(id_, filter_))
        if neighbor != self.before or self.stage is not Stage.MOVED:
            return
        gate = self.inside.routing.sync.gates.get(self._session(neighbor))
        queued = [*under_way, *gate.waiting, *gate.pending] if gate is not None else under_way
        moved = self.signal(MigrationStep.MOVED, self.address)
        if moved not in [m for m in queued if isinstance(m, MigrationSignal)]:
            under_way.insert(0, moved)

    def _move_subscriptions(
        self,
        known: dict[SubscriptionId, Filter],
        wanted: dict[SubscriptionId, Filter],
        after: Session,
    ) -> None:
        missing = move_subscriptions(self.inside.routing, known, wanted, after)
        self._missing = dict.fromkeys(missing)
        self.stage = self.states.after(self.stage, "moved")
        self._owes_update = False  # who says `moved` has it

    def completed(self, message: MigrationComplete, now: float) -> None:
        """The source has let the client go: nothing of the migration is left here. A broker that
        was restarted may hear that before anything else: if `moved` had passed here, it comes
        again, behind what the tables lack."""
        self._complete = message
        if not self.doubt.is_open:
            self.finish()

    def finish(self) -> None:
        """Without `moved`, if it has not come: nothing of it will."""
        if self.stage is not Stage.MOVED and self._has_after:
            self._move()
            self._settle_doubt()
            if self._missing:
                self._ask_again()

    # --- links -----------------------------------------------------------------------------

    @property
    def _has_after(self) -> bool:
        return self.after is not None and self.inside.is_linked(self.after)

    def guard(self) -> None:
        """On the links of the path the client's subscriptions stand in for no others: at their
        far ends they may lead elsewhere already."""
        for table in self._tables():
            table.set_migrating(self.migration.client)

    def unguard(self) -> None:
        for table in self._tables():
            table.migrating.discard(self.migration.client)

    def _tables(self) -> list[LinkTable]:
        """Of the links of the path that are there."""
        neighbors = [n for n in (self.before, self.after) if n is not None]
        return [self._table(n) for n in neighbors if self.inside.is_linked(n)]

    def signal(self, step: MigrationStep, text: str = "") -> MigrationSignal:
        return MigrationSignal(self.migration, step, text)

    def send(self, broker: BrokerId, message: MigrationMessage) -> None:
        session = self.inside.link(broker)
        if session is not None:
            self.inside.send(session, message)

    def _is_fit(self, broker: BrokerId | None) -> bool:
        """Whether what is sent to a neighbor now comes there after all publications before it."""
        if broker is None:
            return True
        if not self.inside.is_linked(broker):
            return False
        session = self._session(broker)
        routing = self.inside.routing
        return session not in routing.sync.gates and not routing.links[session].is_held

    def _session(self, broker: BrokerId | None) -> Session:
        session = self.inside.link(broker) if broker is not None else None
        assert session is not None, f"{self.inside.id} lost its link to {broker}"
        return session

    def _table(self, broker: BrokerId | None) -> LinkTable:
        return self.inside.routing.links[self._session(broker)]

    def _known(self) -> ClientEntries:
        return ClientEntries.known(self.inside.routing, self.migration.client)
