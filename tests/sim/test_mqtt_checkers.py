"""The checkers of MQTT's promises: each finds what it is for, in a history written by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pubweave.model.mqtt_packets import (
    VERSION_5,
    ConnAck,
    Connect,
    Content,
    Disconnect,
    PubAck,
    Publish,
    Reason,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
    Will,
)
from pubweave.sim.checkers.mqtt import MqttChecker
from pubweave.sim.checkers.mqtt_wishes import matches


class Told:
    """Tells a checker a history, a tenth of a second at a time."""

    def __init__(self, **options: Any) -> None:
        self.checker = MqttChecker(**options)
        self.now = 0.0
        self.connect("s")
        self.connect("p")

    def tick(self) -> float:
        self.now += 0.1
        return self.now

    def connect(
        self,
        client: str,
        *,
        broker: str = "b1",
        will: Will | None = None,
        present: bool = False,
        clean: bool | None = None,
        expiry_s: int = 3600,
    ) -> None:
        is_clean = not present if clean is None else clean
        packet = Connect(client, VERSION_5, is_clean, session_expiry_s=expiry_s, will=will)
        self.checker.connecting(client, packet, broker, self.tick())
        self.checker.connected(client, ConnAck(session_present=present), self.tick())

    def close(self, client: str) -> None:
        self.checker.closed(client, self.tick())

    def subscribe(self, pattern: str = "a", qos: int = 2, client: str = "s", **more: Any) -> None:
        id_ = more.pop("id", 1)
        request = Subscribe(1, (TopicFilter(pattern, qos, **more),), id_)
        self.checker.asking(client, request, self.tick())
        self.checker.answered(client, request, SubAck(1, (qos,)), self.tick())

    def unsubscribe(self, pattern: str = "a", client: str = "s") -> None:
        request = Unsubscribe(1, (pattern,))
        self.checker.asking(client, request, self.tick())
        self.checker.answered(client, request, UnsubAck(1, (0,)), self.tick())

    def rest(self) -> None:
        self.checker.check_all_delivered(self.tick())

    def publish(
        self, qos: int = 2, *, retain: bool = False, expiry_s: int | None = None, size: int = 0
    ) -> Publish:
        packet = Publish("a", b"", qos, retain, content=Content(expiry_s=expiry_s))
        packet = self.checker.publishing("p", packet, self.tick(), size)
        self.checker.answered("p", packet, PubAck(1), self.tick())
        return packet

    def deliver(self, packet: Publish, client: str = "s", ids: tuple[int, ...] = (1,)) -> None:
        got = msgspec.structs.replace(packet, subscription_ids=ids)
        self.checker.delivered(client, got, self.tick())

    @property
    def found(self) -> list[str]:
        return [text.split(" ", 1)[1] for text in self.checker.violations]


@pytest.fixture
def told() -> Told:
    made = Told()
    made.subscribe()
    made.rest()
    return made


def calm() -> Told:
    made = Told(is_calm=True)
    made.subscribe(qos=0)
    made.rest()
    return made


def test_a_history_without_faults_has_no_violation(told: Told) -> None:
    told.deliver(told.publish())
    told.rest()
    assert told.found == []
    counts = told.checker.all_counts()
    assert [counts[n] for n in ("wanted", "due", "excused", "missing")] == [1, 1, 0, 0]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_loss_is_seen(told: Told, qos: int) -> None:
    told.publish(qos)
    told.rest()
    assert "never came to s" in told.found[0]
    assert told.checker.all_counts()["missing"] == 1


def test_qos_0_is_due_where_nothing_is_broken() -> None:
    made = calm()
    made.publish(0)
    made.rest()
    assert "never came to s" in made.found[0]
    made = calm()
    made.publish(0)
    made.close("s")
    made.rest()
    assert made.found == [], "who has no connection is owed none"


@pytest.mark.parametrize("qos", [1, 2])
def test_what_comes_twice_is_seen(told: Told, qos: int) -> None:
    packet = told.publish(qos)
    told.deliver(packet)
    told.deliver(packet)
    assert "2 times" in told.found[0]


def test_at_qos_1_a_lost_connection_may_double(told: Told) -> None:
    packet = told.publish(1)
    told.deliver(packet)
    told.close("s")
    told.connect("s", present=True)
    told.deliver(packet)
    assert told.found == []


def test_order_and_strays_are_seen(told: Told) -> None:
    told.connect("t")
    first, second = told.publish(), told.publish()
    told.deliver(second)
    told.deliver(first)
    told.deliver(first, "t", ())
    assert "after a later one" in told.found[0]
    assert "never asked for" in told.found[1]


def test_order_over_topics_is_promised_while_nothing_is_broken() -> None:
    for topic, is_troubled, is_seen in (("a", True, True), ("b", True, False), ("b", False, True)):
        made = Told(is_troubled=lambda: is_troubled)  # noqa: B023
        made.subscribe("#")
        made.rest()
        packets = [
            made.checker.publishing("p", Publish(name, b"", 2), made.tick())
            for name in ("a", topic)
        ]
        for packet in reversed(packets):
            made.deliver(packet)
        assert bool(made.found) == is_seen


def test_what_was_published_after_an_unsubscribe_is_seen(told: Told) -> None:
    under_way = told.publish()
    told.unsubscribe()
    told.deliver(under_way)
    assert told.found == []
    told.deliver(told.publish())
    assert "after it had unsubscribed" in told.found[0]


def test_what_is_unsubscribed_is_not_wanted_any_more(told: Told) -> None:
    told.publish()
    told.unsubscribe()
    told.rest()
    assert told.found == []
    assert told.checker.all_counts()["wanted"] == 0


def test_everything_must_come_that_is_published_after_a_suback() -> None:
    made = Told()
    made.subscribe()
    made.publish()
    made.rest()
    assert "never came to s" in made.found[0]


def test_a_suback_that_waited_for_too_long_promises_nothing() -> None:
    made = Told(suback_wait_s=0.05)
    made.subscribe()
    made.publish()
    made.rest()
    counts = made.checker.all_counts()
    assert (made.found, counts["wanted"], counts["unconfirmed"]) == ([], 1, 1)
    assert counts["excused"] == 0


def test_what_is_too_large_for_a_session_may_end_it() -> None:
    made = Told(queue_bytes=1000)
    made.subscribe()
    made.publish(size=1001)
    made.close("s")
    made.connect("s", clean=False)
    made.rest()
    counts = made.checker.all_counts()
    assert (made.found, counts["wanted"], counts["excused"]) == ([], 1, 1)
    made.checker.counts["excused"] += 11
    made.checker.check_excused(0.5, made.now)
    assert "are excused" in made.found[0]


def test_a_wrong_subscription_identifier_is_seen(told: Told) -> None:
    told.deliver(told.publish(), ids=())
    assert "without its subscription 1" in told.found[0]
    told.deliver(told.publish(), ids=(1, 7))
    assert "for subscription 7" in told.found[1]


def test_what_its_own_client_published_is_seen() -> None:
    made = Told()
    made.subscribe(client="p", no_local=True)
    made.rest()
    made.deliver(made.publish(), "p")
    assert "never asked for" in made.found[0]


def test_a_better_quality_than_asked_for_is_seen() -> None:
    made = Told()
    made.subscribe(qos=1)
    made.deliver(made.publish(2))
    assert "at QoS 2" in made.found[0]


def test_a_group_gets_each_once() -> None:
    made = Told()
    made.connect("t")
    made.subscribe("$share/g/#")
    made.subscribe("$share/g/#", client="t")
    made.subscribe("#", client="p", id=2)
    made.rest()
    packet = made.publish()
    made.deliver(packet)
    made.deliver(packet, "p", (2,))
    made.checker.check_shared("a", made.now)
    assert made.found == []
    made.deliver(packet, "t")
    made.checker.check_shared("a", made.now)
    assert "came 2 times to the group" in made.found[0]


# --- expiry ------------------------------------------------------------------------------------


def test_what_has_expired_is_seen(told: Told) -> None:
    packet = told.publish(expiry_s=1)
    told.now += 0.5
    told.deliver(packet)
    assert told.found == []
    late = told.publish(expiry_s=1)
    told.now += 1.5
    told.deliver(late)
    assert "which had expired" in told.found[0]


def test_what_a_cut_held_up_may_have_expired_meanwhile() -> None:
    for ended_at, is_late in ((3.0, True), (4.0, False)):
        made = Told(cuts=lambda broker, client: [(1.0, ended_at)])  # noqa: B023
        made.subscribe()
        packet = made.publish(expiry_s=1)
        made.now = 4.0
        made.deliver(packet)
        assert bool(made.found) == is_late


def test_an_expiry_that_is_not_counted_down_is_seen(told: Told) -> None:
    packet = told.publish(expiry_s=30)
    told.now += 10.0
    told.deliver(packet)
    assert "30 s left of 30" in told.found[0]


# --- sessions ----------------------------------------------------------------------------------


def test_a_session_that_cannot_be_present_is_seen(told: Told) -> None:
    told.connect("new", present=True)
    assert "never had one" in told.found[0]
    told.close("s")
    told.connect("s", present=True, clean=True)
    assert "asked for a new one" in told.found[1]


def test_an_expired_session_that_is_present_is_seen() -> None:
    made = Told()
    made.connect("short", expiry_s=2)
    made.close("short")
    made.now += 60.0
    made.connect("short", present=True)
    assert "came too late" in made.found[0]


def test_a_session_that_is_gone_is_seen(told: Told) -> None:
    told.close("s")
    told.connect("s", present=False, clean=False)
    assert "lost its session at b1, for no reason" in told.found[0]


def test_a_session_that_has_got_too_much_may_be_gone_and_must_be() -> None:
    made = Told(queue_messages=2)
    made.subscribe()
    made.rest()
    made.close("s")
    for _ in range(3):
        made.publish()
    made.connect("s", present=False, clean=False)
    made.rest()
    assert made.found == []
    assert made.checker.all_counts()["sessions_lost"] == 1
    made.checker.told("s", Disconnect(Reason.QUOTA_EXCEEDED), made.tick())
    made.close("s")
    made.connect("s", present=True)
    assert "it had ended" in made.found[0]


def test_who_moves_while_something_is_broken_may_lose_its_session() -> None:
    for is_troubled in (True, False):
        made = Told(is_troubled=lambda: is_troubled)  # noqa: B023
        made.close("s")
        made.connect("s", broker="b2", present=False, clean=False)
        assert bool(made.found) != is_troubled


@pytest.mark.parametrize(
    ("heard_at", "is_lost", "is_told"), [(9.0, 0, False), (0.55, 1, False), (0.0, 1, True)]
)
def test_a_session_is_out_of_reach_while_its_broker_hears_nothing(
    heard_at: float, is_lost: int, is_told: bool
) -> None:
    made = Told(
        is_troubled=lambda: not is_told,
        heard_at=lambda broker, other, said_at: max(said_at, heard_at),
    )
    made.close("s")
    made.connect("s", broker="b2", present=False, clean=False)
    assert bool(made.found) == is_told
    assert made.checker.sessions.counts["sessions_out_of_reach"] == 1 - is_lost


def test_a_session_expires_early_by_what_its_brokers_clock_jumped() -> None:
    for jumped_s, is_lost in ((60.0, False), (0.0, True)):
        made = Told(jumped_s=lambda broker, since: jumped_s)  # noqa: B023
        made.connect("short", expiry_s=30)
        made.close("short")
        made.connect("short", present=False, clean=False)
        assert bool(made.found) == is_lost


def test_a_session_expires_when_its_broker_has_noticed_that_its_client_is_gone() -> None:
    for heard_at, is_late in ((50.0, True), (59.0, False)):
        made = Told(heard_at=lambda broker, client, said_at: heard_at)  # noqa: B023
        made.connect("short", expiry_s=2)
        made.close("short")
        made.now = 60.0
        made.connect("short", present=True)
        assert bool(made.found) == is_late


# --- wills -------------------------------------------------------------------------------------


def mourned(delay_s: int = 0, **options: Any) -> Told:
    made = Told(**options)
    made.subscribe("wills", client="p")
    made.rest()
    made.connect("w", will=Will("wills", b"will/w/1", 2, delay_s=delay_s))
    return made


def came(made: Told, payload: bytes = b"will/w/1") -> None:
    made.deliver(Publish("wills", payload, 2), "p")


def test_a_forgotten_will_is_seen() -> None:
    made = mourned()
    made.close("w")
    made.rest()
    assert "b'will/w/1' never came to p" in made.found[0]


def test_a_will_that_comes_is_fine_and_once_only() -> None:
    made = mourned()
    made.close("w")
    came(made)
    assert made.found == []
    came(made)
    assert "2 times" in made.found[0]


def test_a_will_after_a_goodbye_is_seen() -> None:
    made = mourned()
    made.checker.disconnecting("w", Disconnect(), made.tick())
    made.close("w")
    came(made)
    assert "a will that was void" in made.found[0]


def test_a_goodbye_that_did_not_arrive_voids_no_will() -> None:
    for is_lost in (True, False):
        made = mourned()
        made.checker.disconnecting("w", Disconnect(), made.tick(), lambda: is_lost)  # noqa: B023
        made.close("w")
        came(made)
        assert bool(made.found) != is_lost


def test_a_goodbye_that_its_client_overtakes_voids_no_will() -> None:
    for ended_at, is_overtaken in ((9.0, True), (1.3, False)):
        made = mourned(cuts=lambda broker, client: [(0.9, ended_at)])  # noqa: B023
        made.checker.disconnecting("w", Disconnect(), made.tick())
        made.close("w")
        made.now += 0.5
        made.connect("w")
        came(made)
        assert bool(made.found) != is_overtaken


def test_a_will_may_come_early_by_what_its_brokers_clock_jumped() -> None:
    for jumped_s, is_early in ((0.5, True), (60.0, False)):
        made = mourned(4, jumped_s=lambda broker, since: jumped_s)  # noqa: B023
        made.close("w")
        came(made)
        assert bool(made.found) == is_early


def test_a_will_of_who_is_there_is_seen() -> None:
    made = mourned()
    came(made)
    made.now += 1.0
    made.rest()
    assert "while w was there" in made.found[0]


def test_a_delayed_will_waits_and_is_void_when_its_client_is_back() -> None:
    made = mourned(delay_s=5)
    made.close("w")
    came(made)
    assert "before its delay was over" in made.found[0]
    made = mourned(delay_s=5)
    made.close("w")
    made.connect("w", present=True)
    made.rest()
    assert made.found == []
    came(made)
    assert "a will that was void" in made.found[0]


def test_a_delayed_will_is_due_when_the_delay_is_over_or_the_session() -> None:
    for wait_s, is_anew in ((9.0, False), (0.1, True)):
        made = mourned(delay_s=5)
        made.close("w")
        made.now += wait_s
        made.connect("w", present=not is_anew)
        made.rest()
        assert "b'will/w/1' never came to p" in made.found[0]


# --- retained ----------------------------------------------------------------------------------


def retaining() -> Told:
    made = Told()
    made.publish(retain=True)
    made.rest()
    return made


def retained(payload: bytes) -> Publish:
    return Publish("a", payload, 2, retain=True)


@pytest.mark.parametrize(("last_qos", "is_first_again"), [(2, True), (1, False)])
def test_what_is_said_again_at_qos_1_may_be_retained_last(
    last_qos: int, is_first_again: bool
) -> None:
    made = Told()
    made.checker.retained.is_at_rest = False
    for qos in (1, last_qos):
        packet = Publish("a", b"", qos, retain=True)
        made.checker.publishing("p", packet, made.tick())
    made.close("p")
    made.connect("p", present=True)
    made.rest()
    made.checker.retained.is_at_rest = True
    made.subscribe()
    made.deliver(retained(b"p/1/1"))
    assert bool(made.found) != is_first_again


def test_with_wrong_clocks_what_was_retained_before_may_be_the_newest() -> None:
    for are_clocks_right in (True, False):
        made = Told(are_clocks_right=are_clocks_right)
        for _ in range(2):
            made.checker.retained.is_at_rest = True
            made.publish(retain=True)
            made.rest()
        made.subscribe()
        made.deliver(retained(b"p/1/2"))
        assert bool(made.found) == are_clocks_right


@pytest.mark.parametrize(("handling", "is_due"), [(0, True), (1, True), (2, False)])
def test_a_retained_publication_that_does_not_come_is_seen(handling: int, is_due: bool) -> None:
    made = retaining()
    made.subscribe(retain_handling=handling)
    made.rest()
    assert bool(made.found) == is_due
    made = retaining()
    made.subscribe(retain_handling=handling)
    made.deliver(retained(b"p/1/2"))
    made.rest()
    assert bool(made.found) != is_due


def test_who_subscribes_again_gets_it_again_unless_it_asks_for_new_ones_only() -> None:
    for handling, is_due in ((0, True), (1, False)):
        made = retaining()
        for _ in range(2):
            made.subscribe(retain_handling=handling)
            if (
                not made.checker.counts["deliveries"]
                and not made.checker.retained.counts["retained"]
            ):
                made.deliver(retained(b"p/1/2"))
            made.rest()
        assert bool(made.found) == is_due


def test_what_is_not_retained_any_more_is_seen() -> None:
    made = retaining()
    made.publish(retain=True)
    made.rest()
    made.subscribe()
    made.deliver(retained(b"p/1/2"))
    assert "which is not" in made.found[0]
    made = retaining()
    made.publish(retain=True, size=-1)
    made.rest()
    made.subscribe()
    made.rest()
    assert made.found == [], "a deleted one is due to nobody"
    made.deliver(retained(b"p/1/2"))
    assert "which is not" in made.found[0]


@pytest.mark.parametrize(
    ("pattern", "topic", "is_match"),
    [
        ("a/+/c", "a/b/c", True),
        ("a/+", "a", False),
        ("a/#", "a", True),
        ("+", "/a", False),
        ("#", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("a", "a/", False),
    ],
)
def test_patterns_match_by_the_standard(pattern: str, topic: str, is_match: bool) -> None:
    assert matches(pattern, topic) == is_match
