"""The standard's rules for connections and sessions, held against a door.

Written from the text of MQTT 5.0 and 3.1.1; the numbers in brackets are its statements."""

from __future__ import annotations

import time
from pathlib import Path

import mqtt5
import pytest

from pubweave.wire.mqtt.codec import V3, V5
from tests.interop.mqtt_brokers import broker_chain
from tests.interop.raw_mqtt import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
BOTH = pytest.mark.parametrize("version", [V3, V5])
Doors = tuple[int, int]


def kept(version: int, seconds: int = 60) -> dict[str, object]:
    """Fields of a CONNECT whose session is to be kept."""
    return {"clean": False, "session_expiry_interval": seconds if version == V5 else 0xFFFFFFFF}


def leave_behind(door: int, version: int, name: str, topic: str) -> None:
    """A kept session that wants the topic, and nobody there."""
    with RawClient(door, version) as client:
        client.connect(name, **kept(version))
        client.subscribe(topic)
        client.send(mqtt5.DisconnectPacket())


# --- connecting ----------------------------------------------------------------------------------


@BOTH
def test_a_new_client_is_welcome(doors: Doors, version: int) -> None:
    with RawClient(doors[0], version) as client:
        answer = client.connect(f"new-{version}")
        assert (int(answer.reason_code), answer.session_present) == (0, False)
        client.send(mqtt5.PingReqPacket())
        client.expect(mqtt5.PingRespPacket)


def test_the_first_packet_is_a_connect_or_the_last(doors: Doors) -> None:
    """[MQTT-3.1.0-1]"""
    with RawClient(doors[0], V3) as client:
        client.send(mqtt5.PingReqPacket())
        client.expect_closed()


@BOTH
def test_a_second_connect_ends_the_connection(doors: Doors, version: int) -> None:
    """[MQTT-3.1.0-2]"""
    with RawClient(doors[0], version) as client:
        client.connect(f"twice-{version}")
        client.send(mqtt5.ConnectPacket(f"twice-{version}"))
        client.expect_closed(0x82)


def test_an_unknown_version_is_refused_by_name(doors: Doors) -> None:
    """[MQTT-3.1.2-2]"""
    with RawClient(doors[0], V3) as client:
        client.send_bytes(b"\x10\x0d\0\x04MQTT\x03\x02\0\x0a\0\x01x")
        assert int(client.expect(mqtt5.ConnAckPacket).reason_code) == 0x84
        assert client.receive() is None


def test_old_devices_speak_31(doors: Doors) -> None:
    with RawClient(doors[0], V3) as client:
        client.send_bytes(b"\x10\x0f\0\x06MQIsdp\x03\x02\0\x0a\0\x01x")
        assert int(client.expect(mqtt5.ConnAckPacket).reason_code) == 0
        client.send(mqtt5.PingReqPacket())
        client.expect(mqtt5.PingRespPacket)


def test_a_nameless_client_gets_a_name_and_each_another(doors: Doors) -> None:
    """[MQTT-3.1.3-6], [MQTT-3.1.3-7]"""
    names = []
    for _ in range(2):
        with RawClient(doors[0]) as client:
            names.append(client.connect("").assigned_client_id)
    assert all(names)
    assert names[0] != names[1]
    with RawClient(doors[0], V3) as client:
        assert int(client.connect("").reason_code) == 0


def test_a_nameless_client_of_311_cannot_keep_a_session(doors: Doors) -> None:
    """[MQTT-3.1.3-8] of 3.1.1"""
    with RawClient(doors[0], V3) as client:
        assert int(client.connect("", clean=False).reason_code) == 0x85
        assert client.receive() is None


@BOTH
@pytest.mark.parametrize("other", [0, 1])
def test_a_second_client_of_the_same_name_takes_over(
    doors: Doors, version: int, other: int
) -> None:
    """[MQTT-3.1.4-3]; at one broker, or at two of the overlay."""
    name = f"double-{version}-{other}"
    with RawClient(doors[0], version) as old, RawClient(doors[other], version) as new:
        old.connect(name)
        new.connect(name)
        old.expect_closed(0x8E)
        new.send(mqtt5.PingReqPacket())
        new.expect(mqtt5.PingRespPacket)


def test_enhanced_authentication_is_refused_cleanly(doors: Doors) -> None:
    """4.12: a method that the server does not have."""
    with RawClient(doors[0]) as client:
        answer = client.connect("auth", authentication_method="SCRAM-SHA-1")
        assert int(answer.reason_code) == 0x8C
        assert client.receive() is None


def test_malformed_bytes_cost_their_own_connection_only(doors: Doors) -> None:
    """4.13"""
    with RawClient(doors[0]) as good, RawClient(doors[0]) as bad:
        good.connect("good")
        good.subscribe("good/#")
        bad.connect("bad")
        bad.send_bytes(b"\x32\x05\0\x01\xff\0\x01")
        bad.expect_closed(0x81)
        good.publish("good/1", b"still here", 1)
        assert good.take().payload == b"still here"


def test_a_silent_client_is_given_up_after_one_and_a_half_keep_alives(doors: Doors) -> None:
    """[MQTT-3.1.2-22]"""
    with RawClient(doors[0]) as client:
        client.connect("silent", keep_alive=1)
        began = time.monotonic()
        packet = client.receive(4.0)
        assert packet is None or int(packet.reason_code) == 0x8D
        assert 1.0 < time.monotonic() - began < 3.0


# --- sessions ------------------------------------------------------------------------------------


@BOTH
def test_a_kept_session_has_its_subscriptions_and_what_came_meanwhile(
    doors: Doors, version: int
) -> None:
    """[MQTT-3.1.2-5], 4.4"""
    name, topic = f"away-{version}", f"away/{version}"
    leave_behind(doors[0], version, name, topic)
    with RawClient(doors[0], version) as publisher:
        publisher.connect("to-away")
        for quality in (1, 2):
            publisher.publish(topic, b"%d" % quality, quality)
    with RawClient(doors[0], version) as client:
        assert client.connect(name, **kept(version)).session_present
        assert [packet.payload for packet in client.take_all()] == [b"1", b"2"]


@BOTH
def test_a_clean_start_forgets(doors: Doors, version: int) -> None:
    """[MQTT-3.1.2-4]"""
    name, topic = f"clean-{version}", f"clean/{version}"
    leave_behind(doors[0], version, name, topic)
    with RawClient(doors[0], version) as client:
        assert not client.connect(name).session_present
        client.publish(topic, b"nobody", 1)
        client.expect_nothing()


def test_a_session_ends_when_its_time_is_over(doors: Doors) -> None:
    """3.1.2.11.2"""
    with RawClient(doors[0]) as client:
        client.connect("brief", **kept(V5, seconds=1))
        client.subscribe("brief")
        client.send(mqtt5.DisconnectPacket())
    time.sleep(2.5)
    with RawClient(doors[0]) as client:
        assert not client.connect("brief", **kept(V5)).session_present


def test_disconnect_can_change_how_long_a_session_lasts(doors: Doors) -> None:
    with RawClient(doors[0]) as client:
        client.connect("shorter", **kept(V5))
        client.send(mqtt5.DisconnectPacket(session_expiry_interval=0))
    time.sleep(0.3)
    with RawClient(doors[0]) as client:
        assert not client.connect("shorter", **kept(V5)).session_present


def test_disconnect_cannot_bring_a_session_to_life(doors: Doors) -> None:
    """3.14.2.2.2: from 0 to something else is a protocol error."""
    with RawClient(doors[0]) as client:
        client.connect("longer", clean=True, session_expiry_interval=0)
        client.send(mqtt5.DisconnectPacket(session_expiry_interval=5))
        client.expect_closed(0x82)


@BOTH
@pytest.mark.parametrize("quality", [1, 2])
def test_what_was_not_confirmed_comes_again_and_says_so(
    doors: Doors, version: int, quality: int
) -> None:
    """[MQTT-4.4.0-1], [MQTT-3.3.1-1]"""
    name = topic = f"again-{version}-{quality}"
    with RawClient(doors[0], version) as client:
        client.connect(name, **kept(version))
        client.subscribe(topic)
        client.publish(topic, b"once", quality)
        first = client.expect(mqtt5.PublishPacket)
        assert not first.duplicate
    with RawClient(doors[0], version) as client:
        assert client.connect(name, **kept(version)).session_present
        again = client.take()
        assert (again.payload, again.duplicate) == (b"once", True)
        assert again.packet_id == first.packet_id
        client.expect_nothing()


def test_a_release_that_was_not_completed_comes_again(doors: Doors) -> None:
    """[MQTT-4.4.0-1]: PUBREL, too."""
    with RawClient(doors[0]) as client:
        client.connect("release", **kept(V5))
        client.subscribe("release")
        client.publish("release", b"", 2)
        packet = client.expect(mqtt5.PublishPacket)
        client.send(mqtt5.PubRecPacket(packet.packet_id))
        client.expect(mqtt5.PubRelPacket)
    with RawClient(doors[0]) as client:
        client.connect("release", **kept(V5))
        assert client.expect(mqtt5.PubRelPacket).packet_id == packet.packet_id
        client.send(mqtt5.PubCompPacket(packet.packet_id))
        client.expect_nothing()


@BOTH
def test_a_repeated_publication_of_qos_2_is_delivered_once(doors: Doors, version: int) -> None:
    """[MQTT-4.3.3-10]: also over two connections of one session."""
    name = topic = f"exactly-{version}"
    publication = mqtt5.PublishPacket(topic, b"x", qos=mqtt5.QoS.EXACTLY_ONCE, packet_id=9)
    repeated = mqtt5.PublishPacket(
        topic, b"x", qos=mqtt5.QoS.EXACTLY_ONCE, packet_id=9, duplicate=True
    )
    with RawClient(doors[0], version) as subscriber:
        subscriber.connect(name + "-s")
        subscriber.subscribe(topic)
        with RawClient(doors[0], version) as publisher:
            publisher.connect(name, **kept(version))
            publisher.send(publication)
            publisher.expect(mqtt5.PubRecPacket)
            publisher.send(repeated)
            publisher.expect(mqtt5.PubRecPacket)
        with RawClient(doors[0], version) as publisher:
            publisher.connect(name, **kept(version))
            publisher.send(repeated)
            publisher.expect(mqtt5.PubRecPacket)
            publisher.send(mqtt5.PubRelPacket(9))
            publisher.expect(mqtt5.PubCompPacket)
        assert len(subscriber.take_all()) == 1


def test_a_release_of_nothing_is_answered(doors: Doors) -> None:
    """3.7.2.1: packet identifier not found."""
    with RawClient(doors[0]) as client:
        client.connect("nothing")
        client.send(mqtt5.PubRelPacket(77))
        assert int(client.expect(mqtt5.PubCompPacket).reason_code) == 0x92


# --- wills ---------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("door", [0, 1])
def test_a_client_that_is_cut_off_leaves_its_will(doors: Doors, version: int, door: int) -> None:
    """[MQTT-3.1.2-8]"""
    topic = f"will/{version}/{door}"
    will = mqtt5.Will(topic, payload=b"gone", qos=mqtt5.QoS.AT_LEAST_ONCE)
    with RawClient(doors[door], version) as heir:
        heir.connect(f"heir-{version}-{door}")
        heir.subscribe(topic)
        time.sleep(0.5 * door)
        with RawClient(doors[0], version) as client:
            client.connect(f"mortal-{version}-{door}", will=will)
        assert heir.take().payload == b"gone"


@BOTH
def test_a_client_that_says_goodbye_leaves_none(doors: Doors, version: int) -> None:
    """[MQTT-3.14.4-3]"""
    topic = f"no-will/{version}"
    with RawClient(doors[0], version) as heir, RawClient(doors[0], version) as client:
        heir.connect(f"no-heir-{version}")
        heir.subscribe(topic)
        client.connect(f"polite-{version}", will=mqtt5.Will(topic, payload=b"gone"))
        client.send(mqtt5.DisconnectPacket())
        client.expect_closed()
        heir.expect_nothing()


def test_a_client_can_leave_with_its_will(doors: Doors) -> None:
    """3.14.2.1: reason 0x04."""
    with RawClient(doors[0]) as heir, RawClient(doors[0]) as client:
        heir.connect("heir-04")
        heir.subscribe("will/04")
        client.connect("leaver", will=mqtt5.Will("will/04", payload=b"gone"))
        client.send(mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode(4)))
        assert heir.take().payload == b"gone"


def test_a_will_can_wait_and_be_taken_back(doors: Doors) -> None:
    """3.1.3.2.2: the delay; [MQTT-3.1.3-9]: not if the session goes on in time."""
    will = mqtt5.Will("will/late", payload=b"late", will_delay_interval=1)
    with RawClient(doors[0]) as heir:
        heir.connect("heir-late")
        heir.subscribe("will/late")
        for comes_back in (True, False):
            with RawClient(doors[0]) as client:
                client.connect("late", will=will, **kept(V5))
            if comes_back:
                with RawClient(doors[0]) as client:
                    client.connect("late", **kept(V5))
                    heir.expect_nothing(2.0)
                    client.send(mqtt5.DisconnectPacket())
            else:
                heir.expect_nothing(0.5)
                assert heir.take(3.0).payload == b"late"


def test_a_will_does_not_outwait_its_session(doors: Doors) -> None:
    """3.1.3.2.2: at the delay or the end of the session, whichever is first."""
    will = mqtt5.Will("will/end", payload=b"end", will_delay_interval=60)
    with RawClient(doors[0]) as heir:
        heir.connect("heir-end")
        heir.subscribe("will/end")
        with RawClient(doors[0]) as client:
            client.connect("ending", will=will, clean=False, session_expiry_interval=1)
        assert heir.take(4.0).payload == b"end"


def test_a_will_can_be_kept_for_who_comes_later(doors: Doors) -> None:
    """[MQTT-3.1.2-15]"""
    will = mqtt5.Will("will/kept", payload=b"kept", retain=True, user_properties=[("a", "b")])
    with RawClient(doors[0]) as client:
        client.connect("keeper", will=will)
    time.sleep(0.3)
    with RawClient(doors[0]) as heir:
        heir.connect("heir-kept")
        heir.subscribe("will/kept")
        packet = heir.take()
        assert (packet.payload, packet.retain) == (b"kept", True)
        assert packet.user_properties == [("a", "b")]
        heir.publish("will/kept", b"", 1, retain=True)


def test_a_broker_that_stops_says_so(tmp_path: Path) -> None:
    """0x8B, to those that are in and understand it."""
    with (
        broker_chain(tmp_path, 1) as (broker,),
        RawClient(broker.port) as new,
        RawClient(broker.port, V3) as old,
        RawClient(broker.port) as silent,
    ):
        new.connect("stays-5")
        old.connect("stays-3")
        broker.stop()
        new.expect_closed(0x8B)
        old.expect_closed()
        assert silent.receive() is None
