"""The agent of one broker of a rendezvous overlay: what the store says of remappings becomes its
events, and what it has done becomes nodes. Without I/O, as `deploy.agent` is for trees.

The broker is registered as living (an ephemeral node), so that a remapping knows whom to wait for.
"""

from __future__ import annotations

from pubweave.core.effects import ReportRemap
from pubweave.core.events import RemapAnnounced
from pubweave.deploy.agent import AgentConfig
from pubweave.deploy.documents import BrokerDocument, PartDocument, encode
from pubweave.deploy.layout import Layout, validate_name
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.remap_documents import RemapDocument
from pubweave.deploy.store import Create, Delete, StoreEvent, StoreRequest
from pubweave.model.remaps import RemapStep

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
            self._mirror.take(event, now)
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
        mirror, path = self._mirror, self._layout.broker(self.config.broker)
        if mirror.is_settled(path):
            there = mirror.document(path, BrokerDocument)
            if there is None:
                mirror.send(Create(path, encode(self._self()), ephemeral=True))
            elif there != self._self() and there.epoch <= self.config.epoch:
                mirror.send(Delete(path, mirror.version(path)))

    def _write_part(self) -> None:
        """Say once that the broker has done a step."""
        if self._reported is not None:
            path = self._part(*self._reported)
            if self._mirror.is_settled(path) and not self._mirror.is_there(path):
                self._mirror.send(Create(path, encode(PartDocument(done=True))))
