"""A broker's part in remapping all brokers to other positions (DYNATOPS section 5.1.2).

While it lasts the broker has two versions of its control plane. The second one is silent in INIT,
has its ring from OVERLAY on, and its trees from TREES on. From then on the broker wants a topic
of all whom either version names: what comes by both is dropped once, and nothing depends on when
exactly anybody switches. So a publication needs no tag: each wish belongs to a version, and a
publication travels by every version that is wanted.

Steps are announced, and done ones reported (`ReportRemap`). Whoever has missed steps catches up,
and until FINISH the second version can be dropped at any moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from pubweave.core.routing.rendezvous.control_plane import ControlPlane
from pubweave.core.vocabulary.effects import Effect, ReportRemap
from pubweave.core.vocabulary.events import RemapAnnounced
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.deployment import STEPS, RemapStep
from pubweave.model.messages.rendezvous import Occupant

if TYPE_CHECKING:
    from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance

PATIENCE_S = 2.0
"""How long a broker waits for the places of its new position: whoever had it may be gone. Trees
are mended without them, only with more messages."""


class Remapping:
    """The remapping under way at one broker, if any."""

    def __init__(self, maintenance: RendezvousMaintenance, emit: Callable[[Effect], None]) -> None:
        self._maintenance = maintenance
        self._emit = emit
        self.version = 0
        """Of the remapping that was heard of last."""
        self.entered = -1
        """The place in `STEPS` of the step that the broker is in."""
        self._reported = -1
        self._waits_until = 0.0

    @property
    def plane(self) -> ControlPlane | None:
        """The second version, while there are two."""
        return self._maintenance.planes.get(self.version) if self.is_under_way else None

    @property
    def is_under_way(self) -> bool:
        return self.version > self._maintenance.default

    def announced(self, event: RemapAnnounced, now: float) -> None:
        """Do everything up to a step."""
        maintenance = self._maintenance
        maintenance.check_soon(now)
        if event.version < max(self.version, maintenance.default):
            return
        if event.version == maintenance.default:
            self._move_late(event.mapping)
            self._emit(ReportRemap(event.version, RemapStep.FINISH))
            return
        if event.step is RemapStep.ABORTED:
            sometimes(Branch.REMAP_ABORTED)
            self.version = event.version
            maintenance.planes.pop(event.version, None)
            return
        if event.version > self.version:
            if self.is_under_way:
                sometimes(Branch.REMAP_SUPERSEDED)
                maintenance.planes.pop(self.version, None)
            self.version, self.entered, self._reported = event.version, -1, -1
        for place in range(self.entered + 1, STEPS.index(event.step) + 1):
            self.entered = place
            self._enter(STEPS[place], event.mapping, now)

    def _move_late(self, mapping: tuple[Occupant, ...]) -> None:
        """This broker followed the others before it knew its position."""
        plane = self._maintenance.plane
        for occupant in mapping:
            if occupant.broker == self._maintenance.id and not plane.chord.holds:
                plane.chord.holds = True
                plane.chord.move(occupant.position)

    def _enter(self, step: RemapStep, mapping: tuple[Occupant, ...], now: float) -> None:
        maintenance = self._maintenance
        match step:
            case RemapStep.INIT:
                self._copy()
            case RemapStep.OVERLAY:
                self._take_position(mapping)
            case RemapStep.TABLES:
                self._hand_over(now)
            case RemapStep.TREES:
                plane = maintenance.planes[self.version]
                plane.is_live = True
                plane.trees.compare(maintenance.subscribed, now)
            case RemapStep.FINISH:
                maintenance.switch(self.version, now)
                self._emit(ReportRemap(self.version, RemapStep.FINISH))

    def _copy(self) -> None:
        """STEP1: a second version, which nobody uses yet."""
        maintenance = self._maintenance
        first = maintenance.plane.table
        plane = maintenance.add_plane(self.version, first.own.position)
        plane.is_active = plane.is_live = plane.chord.is_default = False
        for occupant in first.known:
            plane.table.know(occupant)

    def _take_position(self, mapping: tuple[Occupant, ...]) -> None:
        """STEP2: everybody is where the mapping says. Brokers do not leave and join one by one as
        in the paper: where nearly all move there would be no ring left to join."""
        maintenance, plane = self._maintenance, self._maintenance.planes[self.version]
        plane.is_active = True
        own = maintenance.id
        for occupant in mapping:
            if occupant.broker == own:
                plane.chord.holds = True
                plane.table.move(occupant.position)
            elif maintenance.is_lost(occupant.broker):
                sometimes(Branch.REMAP_WITHOUT_LOST)
            else:
                plane.table.know(occupant)
        plane.trees.mapped = {occupant.position: occupant.broker for occupant in mapping}
        for neighbor in maintenance.linked():
            plane.chord.greet(neighbor)

    def _hand_over(self, now: float) -> None:
        """STEP3.1: the places of this broker's old position go to whoever has that now."""
        first, plane = self._maintenance.plane, self._maintenance.planes[self.version]
        position = first.table.own.position
        plane.trees.hand_over(position, first.trees.entries(), now)
        self._waits_until = now + PATIENCE_S

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long."""
        self._waits_until += seconds

    def restored(self) -> None:
        """This broker was away: what it had reported may not have been heard."""
        self._reported = -1

    def check(self, subscribed: Collection[str], offered: Collection[str], now: float) -> None:
        """Report what has been done."""
        plane = self.plane
        if plane is None or self._reported == self.entered:
            return
        match STEPS[self.entered]:
            case RemapStep.OVERLAY:
                is_done = plane.is_standing
            case RemapStep.TABLES:
                is_done = plane.trees.has_tables or now > self._waits_until
            case RemapStep.TREES:
                is_done = plane.trees.is_settled(
                    subscribed, offered
                ) and self._maintenance.topics.is_fed(plane)
            case _:
                is_done = True
        if is_done:
            self._reported = self.entered
            self._emit(ReportRemap(self.version, STEPS[self.entered]))
