"""A broker that is away for longer than publications are kept otherwise: it was killed and has a
journal, or it was stopped and goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.vocabulary.effects import ReportMissed
from pubweave.design.dynatops.mapping.ring import RING_SIZE, key_of
from pubweave.model.filters.text import parse_filter
from pubweave.model.topology import Topology
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.rendezvous import FAST, ring_overlay
from pubweave.sim.overlays.topic_connected import TopicOverlay
from pubweave.sim.parts.churn import ChurnSetting
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios import topics
from pubweave.sim.simulate import run_seed

AWAY_S = 40.0
PUBLICATIONS = 40
SILENCE_LIMIT_S = 2.0
LATER_S = 8.0
"""After so long nobody offers a publisher's topics any more who has gone."""
STOPS = pytest.mark.parametrize("stops", [False, True], ids=["killed", "stopped"])


class Absence:
    """Broker b3, with a subscriber, is killed or ``stops`` while a publisher at b1 goes on; b2
    looks on."""

    make_overlay: Callable[..., TopicOverlay] = TopicOverlay
    strategy = "topic_connected"

    def __init__(self, config: TopicConfig, *, stops: bool = False) -> None:
        self.world = World(1)
        self._stops = stops
        self.overlay = self.make_overlay(
            self.world,
            Topology.from_links([("b1", "b2"), ("b2", "b3")]),
            make_config=lambda name: BrokerConfig(
                name,
                strategy=self.strategy,
                ping_every_s=0.5,
                silence_limit_s=SILENCE_LIMIT_S,
                topics=config if stops else config.patient(),
                rendezvous=self.on_ring(name),
            ),
            handling=HandlingTime(0.0, 0.0),
            disk=None if stops else DiskSetting(),
        )
        self.got: list[int] = []
        wanted = parse_filter("class = 't'")
        for name, home in (("pub", "b1"), ("other", "b2"), ("sub", "b3")):
            self.overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
            client = self.overlay.clients[name]
            self.overlay.subscribe(client, wanted)
            client.flush()
        self.publisher = self.overlay.clients["pub"]
        self.publisher.core.advertise(wanted)
        self.publisher.flush()
        self.world.run_until(3.0)
        deliver = self.overlay.clients["sub"]._on_notification

        def note(client: object, publication: object) -> None:
            self.got.append(publication.sequence)  # type: ignore[attr-defined]
            deliver(client, publication)  # type: ignore[arg-type]

        self.overlay.clients["sub"]._on_notification = note
        self.told: list[ReportMissed] = []
        self.overlay.clients["sub"].on_missed = lambda client, missed: self.told.append(missed)

    def on_ring(self, broker: str) -> RendezvousConfig:
        return FAST

    def be_away(
        self, away_s: float, every_s: float = 0.1, meanwhile: Callable[[], None] = lambda: None
    ) -> list[int]:
        """What was published meanwhile; when all was, something else may happen."""
        sent: list[int] = []

        def publish() -> None:
            sent.append(self.publisher.core.publish("t", {}, b"x" * 100, self.world.now).sequence)
            self.publisher.flush()

        node = self.overlay.brokers["b3"]
        if self._stops:
            node.busy_until = self.world.now + away_s
        else:
            node.crash()
        for number in range(PUBLICATIONS):
            self.world.after(0.5 + every_s * number, publish)
        self.world.after(1.0 + every_s * PUBLICATIONS, meanwhile)
        self.world.run_until(self.world.now + away_s)
        if not self._stops:
            node.start()
        self.world.run_until(self.world.now + 10.0)
        return sent

    @property
    def counted(self) -> int:
        """By all brokers; what the client was told is the same."""
        nodes = [*self.overlay.brokers.values(), *self.overlay.gone.values()]
        counters = [core.counters for node in nodes if (core := node.known_core)]
        assert not any(c.publications_lost_at_most for c in counters)
        assert not any(c.notifications_lost_at_most for c in counters)
        counted = sum(c.notifications_lost for c in counters)
        assert sum(missed.count for missed in self.told) == counted
        assert not any(missed.at_most for missed in self.told)
        return counted

    def check_missing(self, sent: list[int]) -> None:
        """Most of what was published did not come, and just that is counted. What was under way
        when a broker stopped waits for it."""
        missing = [sequence for sequence in sent if sequence not in self.got]
        assert self.got == [sequence for sequence in sent if sequence not in missing]
        assert len(missing) > PUBLICATIONS // 2
        assert self.counted == len(missing)


class RingAbsence(Absence):
    """The same on a ring, where ``rendezvous`` is the topic's."""

    make_overlay = ring_overlay
    strategy = "rendezvous"

    def __init__(self, config: TopicConfig, rendezvous: str, *, stops: bool = False) -> None:
        self._rendezvous = rendezvous
        super().__init__(config, stops=stops)

    def on_ring(self, broker: str) -> RendezvousConfig:
        """Places around the ring in the order of names, from the rendezvous on; b4 is before it."""
        behind = (int(broker[1:]) - int(self._rendezvous[1:])) % 3
        eighths = 0 if broker == "b4" else 1 << behind
        return replace(FAST, position=(key_of("t") + eighths * (RING_SIZE // 8)) % RING_SIZE)

    def move_rendezvous(self) -> None:
        """The publisher goes, and later a broker comes that is the rendezvous from then on."""
        self.overlay.leave("pub")
        self.world.after(LATER_S, self.overlay.join_broker, "b4", ["b2"])

    def kill_rendezvous(self) -> None:
        """The same, but whom b3 had above it is gone for good."""
        self.move_rendezvous()
        self.world.after(LATER_S - 3.0, self.overlay.remove_broker, self._rendezvous)


@STOPS
def test_what_is_published_while_a_broker_is_away_is_kept_for_it(stops: bool) -> None:
    absence = Absence(TopicConfig(keep_s=5.0), stops=stops)
    sent = absence.be_away(AWAY_S)
    assert absence.got == sent
    assert absence.counted == 0


@STOPS
def test_what_was_let_go_because_it_became_too_much_is_counted_once(stops: bool) -> None:
    absence = Absence(TopicConfig(keep_s=5.0, keep_bytes=2000), stops=stops)
    sent = absence.be_away(AWAY_S, every_s=0.45)
    absence.check_missing(sent)


@STOPS
def test_what_is_let_go_when_others_forget_it_is_counted(stops: bool) -> None:
    absence = Absence(TopicConfig(keep_s=5.0, forget_after_s=20.0), stops=stops)
    sent = absence.be_away(AWAY_S, every_s=0.45)
    absence.check_missing(sent)


@STOPS
@pytest.mark.parametrize("rendezvous", ["b1", "b2", "b3"])
def test_on_a_ring_it_is_kept_wherever_the_rendezvous_is(rendezvous: str, stops: bool) -> None:
    absence = RingAbsence(TopicConfig(keep_s=5.0), rendezvous, stops=stops)
    sent = absence.be_away(AWAY_S)
    assert absence.got == sent
    assert absence.counted == 0


@pytest.mark.parametrize("rendezvous", ["b1", "b2", "b3"])
def test_on_a_ring_it_is_kept_though_the_rendezvous_moves(rendezvous: str) -> None:
    absence = RingAbsence(TopicConfig(keep_s=5.0), rendezvous)
    sent = absence.be_away(AWAY_S, meanwhile=absence.move_rendezvous)
    assert absence.got == sent
    assert absence.counted == 0


def test_on_a_ring_it_is_kept_though_the_rendezvous_is_killed_too_and_another_one_comes() -> None:
    absence = RingAbsence(TopicConfig(keep_s=5.0), "b1")
    sent = absence.be_away(AWAY_S, meanwhile=absence.kill_rendezvous)
    assert absence.got == sent
    assert absence.counted == 0


@STOPS
@pytest.mark.parametrize("rendezvous", ["b1", "b2", "b3"])
def test_on_a_ring_what_became_too_much_is_counted(rendezvous: str, stops: bool) -> None:
    absence = RingAbsence(TopicConfig(keep_s=5.0, keep_bytes=2000), rendezvous, stops=stops)
    sent = absence.be_away(AWAY_S, every_s=0.45)
    absence.check_missing(sent)


@STOPS
@pytest.mark.parametrize("rendezvous", ["b1", "b2", "b3"])
def test_on_a_ring_what_is_let_go_when_others_forget_it_is_counted(
    rendezvous: str, stops: bool
) -> None:
    """Also what was published right before they do, and is let go later."""
    absence = RingAbsence(TopicConfig(keep_s=5.0, forget_after_s=20.0), rendezvous, stops=stops)
    sent = absence.be_away(AWAY_S, every_s=0.45)
    absence.check_missing(sent)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_churn_with_brokers_that_are_away_for_longer_than_anything_is_kept_otherwise(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These seeds lost publications that nobody counted."""
    monkeypatch.setattr(topics, "TopicConfig", partial(TopicConfig, keep_s=2.0))
    result = run_seed("churn", seed, durability="journal", max_brokers=6, fault="none")
    assert not result.violations


@pytest.mark.slow
@pytest.mark.parametrize("seed", [102, 107, 110, 115])
def test_a_ring_with_brokers_that_are_away_for_longer_than_anything_is_kept_otherwise(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So did these."""
    draw = topics.draw_churn

    def draw_longer(world: World, options: Options) -> ChurnSetting:
        setting = draw(world, options)
        return replace(
            setting,
            round_s=20.0,
            config=replace(setting.config, keep_s=4.0),
            faults=replace(setting.faults, broker_down_s=(5.0, 15.0)),
        )

    monkeypatch.setattr(topics, "draw_churn", draw_longer)
    result = run_seed("rendezvous", seed, durability="journal", max_brokers=6, fault="none")
    assert not result.violations
