"""Who sees a remapping through: step by step, through the store alone (DYNATOPS' manager).

No I/O, no clock, and nothing to remember: what it does next follows from what stands in the store,
so it can die anywhere and another one goes on. One at a time holds the ephemeral node; every write
is a compare-and-set, so one that has not noticed that it lost its session does no harm.

A step is over when every broker of the mapping that lives has done it. Brokers that are gone are
not waited for: the ring does without them. A step that takes too long is the last: before FINISH
everybody returns to the old version, after it there is nothing left that could be in the way.

The store holds one document. Whoever changes it compares and sets, so a remapping has one history,
and the step that stands there is the decision: as long as it is before FINISH it can be aborted.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import dataclass

import msgspec

from pubweave.core.vocabulary.effects import ReportRemap
from pubweave.core.vocabulary.events import RemapAnnounced
from pubweave.deploy.agent import AgentConfig
from pubweave.deploy.documents import (
    BrokerDocument,
    Document,
    ExecutorDocument,
    Layout,
    PartDocument,
    decode,
    encode,
    validate_name,
)
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.store import (
    Create,
    List,
    Outcome,
    Read,
    StoreAnswer,
    StoreEvent,
    StoreRequest,
    Write,
)
from pubweave.model.deployment import RemapStep, step_after
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import Occupant

FIRST_VERSION = 1
"""The version of an overlay that nobody has remapped yet."""

Script = Generator[StoreRequest, StoreAnswer, "RemapDocument"]
"""Requests to the store, each of which is sent its answer; at the end, what stands there."""


class RemapRefusedError(ValueError):
    """What was asked for cannot be; says why, and what to do."""


class RemapDocument(Document, frozen=True, kw_only=True):
    """The last remapping: which, how far, and who is to be where."""

    version: int
    step: RemapStep
    mapping: tuple[Occupant, ...]
    reason: str = ""
    """Why it was aborted."""

    def next(self) -> RemapDocument:
        """All brokers have done the step."""
        return msgspec.structs.replace(self, step=step_after(self.step))

    def aborted(self, reason: str) -> RemapDocument:
        assert not self.step.is_decided, self.step
        return msgspec.structs.replace(self, step=RemapStep.ABORTED, reason=reason)


def submit_remap(layout: Layout, positions: Mapping[BrokerId, int]) -> Script:
    """Have every living broker take its position. O(brokers) requests.

    Raises `RemapRefusedError` if one is under way, or if brokers and positions do not fit."""
    if len(set(positions.values())) < len(positions):
        raise RemapRefusedError("the mapping gives one position to two brokers")
    answer = yield Read(layout.remap)
    last = _found(answer)
    if last is not None and not last.step.is_final:
        raise RemapRefusedError(
            f"remapping {last.version} is under way ({last.step.value}): wait for it, or abort it"
        )
    mapping = yield from _occupants(layout, positions)
    version = FIRST_VERSION + 1 if last is None else last.version + 1
    document = RemapDocument(version=version, step=RemapStep.INIT, mapping=mapping)
    change: StoreRequest = Create(layout.remap, encode(document))
    if last is not None:
        change = Write(layout.remap, encode(document), answer.version)
    written = yield change
    if written.outcome is not Outcome.OK:
        raise RemapRefusedError("somebody else submitted a remapping just now: look, and try again")
    return document


def _occupants(
    layout: Layout, positions: Mapping[BrokerId, int]
) -> Generator[StoreRequest, StoreAnswer, tuple[Occupant, ...]]:
    living = (yield List(layout.brokers)).children
    missing = [broker for broker in living if broker not in positions]
    if missing:
        raise RemapRefusedError(f"the mapping has no position for {', '.join(missing)}")
    found = []
    for broker in living:
        path = layout.broker(broker)
        answer = yield Read(path)
        if answer.outcome is Outcome.OK:
            address = decode(answer.data, BrokerDocument, path).address
            found.append(Occupant(positions[broker], broker, address))
    if not found:
        raise RemapRefusedError("no broker is registered in the store")
    return tuple(found)


def abort_remap(layout: Layout, reason: str) -> Script:
    """Return to the old version; `RemapRefusedError` if it is too late, or nothing runs."""
    while True:
        answer = yield Read(layout.remap)
        last = _found(answer)
        if last is None or last.step.is_final:
            raise RemapRefusedError("no remapping is under way")
        if last.step.is_decided:
            raise RemapRefusedError(f"remapping {last.version} is past its last step back")
        document = last.aborted(reason)
        written = yield Write(layout.remap, encode(document), answer.version)
        if written.outcome is Outcome.OK:
            return document


def read_remap(layout: Layout) -> Generator[StoreRequest, StoreAnswer, RemapDocument | None]:
    """The last remapping, if there was one."""
    return _found((yield Read(layout.remap)))


def _found(answer: StoreAnswer) -> RemapDocument | None:
    if answer.outcome is not Outcome.OK:
        return None
    return decode(answer.data, RemapDocument, answer.request.path)


@dataclass(frozen=True)
class RemapperConfig:
    """``name`` tells remappers apart: no two that live at the same time have the same."""

    overlay: str
    name: str
    step_limit_s: float = 30.0
    retry_s: float = 0.5


class RemapProgress(msgspec.Struct, frozen=True):
    """Where things stand; told whenever it changed."""

    is_leading: bool
    remap: RemapDocument | None
    waits_for: tuple[BrokerId, ...] = ()


RemapperEffect = StoreRequest | RemapProgress


class Remapper:
    """One of them. The first event is `SessionChanged(CONNECTED)`."""

    def __init__(self, config: RemapperConfig) -> None:
        self.config = config
        self._layout = Layout(config.overlay)
        self._mirror = Mirror(config.retry_s)
        self._step: tuple[int, RemapStep] | None = None
        self._step_since = 0.0
        self._told: RemapProgress | None = None
        self._looked_at = -math.inf
        self._is_leading = False

    def handle(self, event: StoreEvent, now: float) -> list[RemapperEffect]:
        """Take an event in; return what is to be asked, and what to tell if that changed."""
        self._looked_at = now
        self._mirror.handle(event, now)
        self._watch()
        self._is_leading = is_leading = self._mirror.is_connected and self._elect()
        self._watch()  # what the others have done concerns only whoever leads
        remap = self._remap()
        waits_for: tuple[BrokerId, ...] = ()
        if not is_leading or remap is None or remap.step.is_final:
            self._step = None
        else:
            waits_for = self._advance(remap, now)
        effects: list[RemapperEffect] = list(self._mirror.flush(now))
        progress = RemapProgress(is_leading, remap, waits_for)
        if progress != self._told:
            self._told = progress
            effects.append(progress)
        return effects

    def next_deadline(self) -> float:
        """When `TimerFired` is due; infinite: never."""
        limit = math.inf if self._step is None else self._step_since + self.config.step_limit_s
        # What was due already has been looked at; what held it up comes as an event of its own.
        return min(limit if limit > self._looked_at else math.inf, self._mirror.next_deadline())

    def _remap(self) -> RemapDocument | None:
        return self._mirror.document(self._layout.remap, RemapDocument)

    def _watch(self) -> None:
        layout, remap = self._layout, self._remap()
        children = [layout.brokers]
        if self._is_leading and remap is not None and not remap.step.is_final:
            children.append(layout.remap_parts(remap.version, remap.step.value))
        self._mirror.watch([layout.remapper, layout.remap], children)

    # --- one at a time ---------------------------------------------------------------------

    def _elect(self) -> bool:
        """Whether this one leads. Whoever has the ephemeral node does."""
        own = ExecutorDocument(name=self.config.name, session=self._mirror.sessions)
        path = self._layout.remapper
        return self._mirror.hold(path, own, lambda holder: holder.name == own.name) is True

    # --- step by step ----------------------------------------------------------------------

    def _advance(self, remap: RemapDocument, now: float) -> tuple[BrokerId, ...]:
        """Go on if all have done the step, or give up; whom it waits for."""
        layout, mirror = self._layout, self._mirror
        if self._step != (remap.version, remap.step):
            self._step, self._step_since = (remap.version, remap.step), now
        living = mirror.children(layout.brokers)
        done = mirror.children(layout.remap_parts(remap.version, remap.step.value))
        if living is None or done is None or not mirror.is_settled(layout.remap):
            return ()
        mapped = [occupant.broker for occupant in remap.mapping]
        waits_for = tuple(b for b in mapped if b in living and b not in done)
        is_late = now >= self._step_since + self.config.step_limit_s
        if not waits_for or (is_late and remap.step.is_decided):
            self._write(remap.next())
        elif is_late:
            names = ", ".join(waits_for)
            self._write(remap.aborted(f"step {remap.step.value} timed out, waiting for {names}"))
        return waits_for

    def _write(self, remap: RemapDocument) -> None:
        path = self._layout.remap
        self._mirror.send(Write(path, encode(remap), self._mirror.version(path)))


# The agent of one broker of a rendezvous overlay: what the store says of remappings becomes its
# events, and what it has done becomes nodes. Without I/O, as `deploy.agent` is for trees.
#
# The broker is registered as living (an ephemeral node), so that a remapping knows whom to wait
# for.


RemapAgentEffect = StoreRequest | RemapAnnounced


class RemapAgent:
    """One broker's agent. The first event is `SessionChanged(CONNECTED)`."""

    def __init__(self, config: AgentConfig) -> None:
        validate_name(config.broker, "the broker's id")
        self.config = config
        self._layout = Layout(config.overlay)
        self._mirror = Mirror(config.retry_s)
        self._told: tuple[int, RemapStep] | None = None
        self._reported: tuple[int, RemapStep] | None = None
        """The last step that the core has done."""

    @property
    def is_ready(self) -> bool:
        """Everybody can see that the broker lives, and it has heard of the last remapping."""
        path = self._layout.broker(self.config.broker)
        is_told = self._told is not None or self._mirror.is_settled(self._layout.remap)
        return is_told and self._mirror.document(path, BrokerDocument) == self._self()

    def handle(self, event: StoreEvent | ReportRemap, now: float) -> list[RemapAgentEffect]:
        """Take an event in; return what to tell the core and what to ask the store, in order."""
        if isinstance(event, ReportRemap):
            self._reported = event.version, event.step
        else:
            self._mirror.handle(event, now)
        told: list[RemapAgentEffect] = []
        if self._mirror.is_connected:
            self._watch()
            told += self._announce()
            self._register()
            self._write_part()
        return [*told, *self._mirror.flush(now)]

    def next_deadline(self) -> float:
        """When `TimerFired` is due; infinite: never."""
        return self._mirror.next_deadline()

    def _watch(self) -> None:
        nodes = [self._layout.remap, self._layout.broker(self.config.broker)]
        if self._reported is not None:
            nodes.append(self._part(*self._reported))
        self._mirror.watch(nodes)

    def _part(self, version: int, step: RemapStep) -> str:
        return self._layout.remap_part(version, step.value, self.config.broker)

    def _announce(self) -> list[RemapAgentEffect]:
        remap = self._mirror.document(self._layout.remap, RemapDocument)
        if remap is None or self._told == (remap.version, remap.step):
            return []
        self._told = remap.version, remap.step
        return [RemapAnnounced(remap.version, remap.step, remap.mapping)]

    def _self(self) -> BrokerDocument:
        config = self.config
        return BrokerDocument(
            address=config.address, epoch=config.epoch, session=self._mirror.sessions
        )

    def _register(self) -> None:
        """Keep the node that says that this broker lives in place, and no older one's."""
        path, epoch = self._layout.broker(self.config.broker), self.config.epoch
        self._mirror.hold(path, self._self(), lambda there: there.epoch <= epoch)

    def _write_part(self) -> None:
        """Say once that the broker has done a step."""
        if self._reported is not None:
            path = self._part(*self._reported)
            if self._mirror.is_settled(path) and not self._mirror.is_there(path):
                self._mirror.send(Create(path, encode(PartDocument(done=True))))
