"""A broker with a journal that is away for longer than publications are kept otherwise."""

from __future__ import annotations

from functools import partial

import pytest

from pubweave.core.broker_config import BrokerConfig
from pubweave.core.session import SessionLimits
from pubweave.core.topic_config import TopicConfig
from pubweave.model.filter_text import parse_filter
from pubweave.model.topology import Topology
from pubweave.sim import churn_setting
from pubweave.sim.churn_overlay import ChurnOverlay
from pubweave.sim.disk import DiskSetting
from pubweave.sim.nodes import HandlingTime
from pubweave.sim.scenarios import run_seed
from pubweave.sim.world import World

AWAY_S = 40.0
PUBLICATIONS = 40
SILENCE_LIMIT_S = 2.0


class Absence:
    """Broker b3, with a subscriber, is killed while a publisher at b1 goes on; b2 looks on."""

    def __init__(self, config: TopicConfig) -> None:
        self.world = World(1)
        self.overlay = ChurnOverlay(
            self.world,
            Topology.from_links([("b1", "b2"), ("b2", "b3")]),
            make_config=lambda name: BrokerConfig(
                name,
                strategy="topic_connected",
                ping_every_s=0.5,
                silence_limit_s=SILENCE_LIMIT_S,
                topics=config.patient(),
            ),
            handling=HandlingTime(0.0, 0.0),
            disk=DiskSetting(),
        )
        self.got: list[int] = []
        wanted = parse_filter("class = 't'")
        for name, home in (("pub", "b1"), ("other", "b2"), ("sub", "b3")):
            self.overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
            client = self.overlay.clients[name]
            self.overlay.checker.subscribed(name, client.core.subscribe(wanted), wanted)
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

    def be_away(self, away_s: float) -> list[int]:
        """What was published meanwhile."""
        sent: list[int] = []

        def publish() -> None:
            sent.append(self.publisher.core.publish("t", {}, b"x" * 100, self.world.now).sequence)
            self.publisher.flush()

        self.overlay.brokers["b3"].crash()
        for number in range(PUBLICATIONS):
            self.world.after(0.5 + 0.1 * number, publish)
        self.world.run_until(self.world.now + away_s)
        self.overlay.brokers["b3"].start()
        self.world.run_until(self.world.now + 10.0)
        return sent

    @property
    def counted(self) -> int:
        nodes = self.overlay.brokers.values()
        return sum(node.broker.counters.publications_lost for node in nodes)


def test_what_is_published_while_a_broker_with_a_journal_is_away_is_kept_for_it() -> None:
    absence = Absence(TopicConfig(keep_s=5.0))
    sent = absence.be_away(AWAY_S)
    assert absence.got == sent
    assert absence.counted == 0


def test_what_was_let_go_because_it_became_too_much_is_counted_once() -> None:
    absence = Absence(TopicConfig(keep_s=5.0, keep_bytes=2000))
    sent = absence.be_away(AWAY_S)
    missing = [sequence for sequence in sent if sequence not in absence.got]
    assert absence.got == sent[len(missing) :]
    assert len(missing) > PUBLICATIONS // 2
    assert absence.counted == len(missing)


def test_what_is_let_go_when_others_forget_it_is_counted() -> None:
    absence = Absence(TopicConfig(keep_s=5.0, forget_after_s=20.0))
    sent = absence.be_away(AWAY_S)
    assert absence.got == []
    assert absence.counted == len(sent)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 5])
def test_churn_with_brokers_that_are_away_for_longer_than_anything_is_kept_otherwise(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """These seeds lost publications that nobody counted."""
    monkeypatch.setattr(churn_setting, "TopicConfig", partial(TopicConfig, keep_s=2.0))
    result = run_seed("churn", seed, durability="journal", max_brokers=6, fault="none")
    assert not result.violations
