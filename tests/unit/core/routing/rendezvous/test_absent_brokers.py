"""Who is taken for away on a ring, who hears of it, and for how long its topics are kept."""

from __future__ import annotations

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.routing.rendezvous.absent_brokers import RingAbsences
from pubweave.model.messages.rendezvous import RingMember
from pubweave.model.messages.session import SequencedMessage

CONFIG = TopicConfig(keep_s=30.0, forget_after_s=120.0)


class Heard(RingAbsences):
    """Broker b1, with neighbors b2 and b3, and what it tells them."""

    def __init__(self, config: TopicConfig = CONFIG) -> None:
        self.told: list[tuple[str, RingMember]] = []
        self.around = ["b2", "b3"]
        settings = BrokerConfig("b1", topics=config)
        super().__init__(settings, self._write_down, lambda: self.around)

    def _write_down(self, neighbor: str, message: SequencedMessage) -> None:
        assert isinstance(message, RingMember)
        self.told.append((neighbor, message))

    def said(self) -> list[tuple[str, RingMember]]:
        said, self.told = self.told, []
        return said


def there(number: int, *topics: str, broker: str = "b2") -> RingMember:
    return RingMember(broker, number, topics)


def away(number: int, *topics: str, broker: str = "b2", away_s: float = 0.0) -> RingMember:
    return RingMember(broker, number, topics, away_s)


def test_a_broker_tells_its_neighbors_what_it_wants_and_not_all_the_time() -> None:
    absences = Heard()
    absences.check(("x",), 1.0)
    absences.check(("x",), 1.1)
    mine = there(1, "x", broker="b1")
    assert absences.said() == [("b2", mine), ("b3", mine)]
    absences.check(("x", "y"), 1.2)
    assert absences.said() == []
    absences.check(("x", "y"), 2.0)
    assert [message.number for _, message in absences.said()] == [2, 2]


def test_whoever_is_lost_is_away_and_others_hear_of_it_once() -> None:
    absences = Heard()
    absences.receive("b2", there(1, "x"), 0.0)
    assert absences.said() == []
    absences.lost("b2", 10.0)
    assert absences.said() == [("b3", away(1, "x"))]
    absences.receive("b3", away(1, "x"), 10.1)
    assert absences.said() == []
    assert list(absences.missed) == ["x"]
    assert list(absences.clean_up(100.0)) == ["x"]


def test_one_that_left_is_not_waited_for() -> None:
    absences = Heard()
    absences.receive("b2", there(2), 0.0)
    absences.lost("b2", 10.0)
    absences.lost("b3", 10.0)
    assert absences.said() == []
    assert not absences.clean_up(11.0)


def test_a_new_neighbor_hears_who_is_away_and_for_how_long() -> None:
    absences = Heard()
    absences.receive("b2", away(4, "x", broker="b7", away_s=20.0), 30.0)
    absences.said()
    absences.link_began("b5", 40.0)
    assert absences.said() == [("b5", away(4, "x", broker="b7", away_s=30.0))]


def test_only_its_own_word_brings_a_broker_back_and_then_it_has_the_time_of_any_link() -> None:
    absences = Heard()
    absences.receive("b3", away(4, "x", broker="b7"), 0.0)
    absences.said()
    absences.receive("b2", there(4, "x", broker="b7"), 50.0)
    assert absences.known["b7"].is_away
    assert absences.said() == []
    absences.receive("b2", there(5, "x", broker="b7"), 60.0)
    assert absences.said() == [("b3", there(5, "x", broker="b7"))]
    assert list(absences.clean_up(89.0)) == ["x"]
    assert not absences.clean_up(91.0)
    assert not absences.known


def test_who_tells_what_is_old_hears_what_is_new() -> None:
    absences = Heard()
    absences.receive("b2", there(5, "x"), 0.0)
    absences.receive("b3", away(4, "x"), 1.0)
    assert absences.said() == [("b3", there(5, "x"))]
    assert not absences.known["b2"].is_away


def test_a_broker_that_is_taken_for_away_says_that_it_is_there() -> None:
    absences = Heard()
    absences.check(("x",), 0.0)
    absences.said()
    absences.receive("b3", away(1, "x", broker="b1"), 1.0)
    assert absences.said() == [(name, there(2, "x", broker="b1")) for name in ("b2", "b3")]
    absences.receive("b2", away(1, "x", broker="b1"), 1.1)
    assert absences.said() == [("b2", there(2, "x", broker="b1"))]


def test_one_that_has_lost_its_journal_outlives_what_is_said_of_its_earlier_life() -> None:
    absences = Heard()
    absences.receive("b2", away(7, "x", broker="b1"), 1.0)
    assert {message.number for _, message in absences.said()} == {8}


def test_one_that_was_away_itself_has_heard_nobody_meanwhile() -> None:
    absences = Heard()
    absences.receive("b2", away(1, "x", broker="b7"), 0.0)
    absences.excuse(200.0)
    absences.restored(210.0)
    assert list(absences.clean_up(310.0)) == ["x"]
    assert not absences.clean_up(321.0)


def test_one_that_is_away_for_too_long_is_forgotten() -> None:
    absences = Heard()
    absences.receive("b2", away(1, "x", broker="b7"), 10.0)
    assert list(absences.clean_up(129.0)) == ["x"]
    assert not absences.clean_up(131.0)
    assert not absences.known
