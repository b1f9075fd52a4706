"""Packets of the wire as values and back, over the codec; and the option that lets clients in."""

from __future__ import annotations

from dataclasses import replace

import mqtt5
import pytest

from pubweave.cli import main
from pubweave.core.config.mqtt import MqttConfig
from pubweave.model import mqtt_packets as model
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.mqtt_packets import received, to_send
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.settings.tree import BrokerTable, MqttTable, Settings
from pubweave.wire.mqtt.codec import V3, V5, MqttDecoder, encode

SAID = model.Content(True, 60, "text/plain", "re", b"\x00\xff", (("k", "1"), ("k", "2")))
TO_CLIENT = [
    model.ConnAck(0, True, 10, "me", 30, 100, 5, 1000, "well", None),
    model.Publish("a/b", b"x", 2, True, 7, True, SAID, (3, 4), 9),
    model.PubAck(1, model.Reason.NOT_AUTHORIZED, "no"),
    model.PubRec(1),
    model.PubRel(1, model.Reason.PACKET_ID_NOT_FOUND),
    model.PubComp(1),
    model.SubAck(1, (0, 2, model.Reason.NOT_AUTHORIZED), "no"),
    model.UnsubAck(1, (0, model.Reason.NO_SUBSCRIPTION_EXISTED)),
    model.PingResp(),
    model.Disconnect(model.Reason.USE_ANOTHER_SERVER, None, "go", "10.0.0.9:1883"),
]


@pytest.mark.parametrize("packet", TO_CLIENT, ids=lambda packet: type(packet).__name__)
def test_what_is_sent_says_the_same(packet: model.ToClient) -> None:
    (got,) = MqttDecoder(10_000, version=V5).feed(encode(to_send(packet), V5))
    if isinstance(packet, model.Publish):
        assert (got.topic, got.payload, got.qos, got.retain) == ("a/b", b"x", mqtt5.QoS(2), True)
        assert (got.packet_id, got.duplicate, got.topic_alias) == (7, True, 9)
        assert got.subscription_ids == [3, 4]
        assert got.user_properties == [("k", "1"), ("k", "2")]
        assert (got.correlation_data, got.message_expiry_interval) == (b"\x00\xff", 60)
    elif isinstance(packet, model.ConnAck):
        assert (got.session_present, got.assigned_client_id) == (True, "me")
        assert (got.server_keep_alive, got.receive_max, got.topic_alias_max) == (30, 100, 5)
        assert (got.session_expiry_interval, got.max_packet_size) == (10, 1000)
    elif isinstance(packet, model.SubAck | model.UnsubAck):
        assert [code.value for code in got.reason_codes] == list(packet.reasons)
    elif not isinstance(packet, model.PingResp):
        assert got.reason_code.value == packet.reason
        assert got.reason_str == packet.reason_text


@pytest.mark.parametrize("version", [V3, V5])
def test_connect_in_both_versions(version: int) -> None:
    will = mqtt5.Will("w", payload=b"gone", qos=mqtt5.QoS.AT_LEAST_ONCE, retain=True)
    packet = mqtt5.ConnectPacket(
        "me",
        username="ann",
        password=b"secret",
        keep_alive=30,
        clean_start=False,
        session_expiry_interval=9 if version == V5 else 0xFFFFFFFF,
        will=will,
    )
    decoder = MqttDecoder(1000)
    (came,) = decoder.feed(encode(packet, version))
    value = received(came, decoder.version)
    assert value == model.Connect(
        "me",
        version,
        clean_start=False,
        keep_alive_s=30,
        session_expiry_s=9 if version == V5 else 0xFFFFFFFF,
        username="ann",
        has_password=True,
        will=model.Will("w", b"gone", 1, True),
    )
    assert "secret" not in repr(value)


def test_subscriptions_keep_their_options() -> None:
    wish = mqtt5.TopicFilter(
        "a/#",
        max_qos=mqtt5.QoS.AT_LEAST_ONCE,
        no_local=True,
        retain_as_published=True,
        retain_handling=mqtt5.RetainHandling.SEND_NEVER,
    )
    packet = mqtt5.SubscribePacket(
        3, [wish], subscription_id=5, user_properties=[("filter", "a > 1")]
    )
    assert received(packet, V5) == model.Subscribe(
        3, (model.TopicFilter("a/#", 1, True, True, 2),), 5, (("filter", "a > 1"),)
    )


# --- the option ------------------------------------------------------------------------------


def test_a_wrong_address_is_told_in_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["broker", "--id", "b1", "--listen", "7001", "--mqtt", "x:y"]) == 2
    assert "--mqtt: broker.mqtt.listen: 'x:y' is no address" in capsys.readouterr().err


def test_a_broker_lets_mqtt_clients_in_where_it_is_told_to() -> None:
    assert Settings(BrokerTable(id="b1")).core_config().mqtt is None
    mqtt = MqttTable(listen=Address("127.0.0.1", 1883), on_loop="refuse", receive_max=7)
    told = Settings(BrokerTable(id="b1", mqtt=mqtt)).core_config().mqtt
    assert told == MqttConfig(address="127.0.0.1:1883", on_loop="refuse", receive_max=7)
    reached = Settings(BrokerTable(id="b1", mqtt=replace(mqtt, address="there:1"))).core_config()
    assert reached.mqtt is not None
    assert reached.mqtt.address == "there:1"


def test_mqtt_ports_of_an_overlay_count_on_from_the_first() -> None:
    pair = Topology.from_links([Link("b1", "b2")])

    def ports(port: int, **brokers: BrokerTable) -> list[int]:
        table = BrokerTable(mqtt=MqttTable(listen=Address("::1", port)))
        spec = make_spec(pair, Settings(table, brokers=brokers))
        return [address.port for address in spec.mqtt.values()]

    assert ports(1883) == [1883, 1884]
    assert ports(0) == [0, 0]
    assert ports(1883, b2=BrokerTable(mqtt=MqttTable(listen=Address("::1", 99)))) == [1883, 99]
    with pytest.raises(OverlayError, match="do not fit"):
        ports(65535)
