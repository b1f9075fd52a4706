"""A subscriber that does not read, beside one that does: it is told what it loses, nobody waits."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import mqtt5
import pytest

from tests.interop.mqtt_brokers import Running, ask, broker_chain
from tests.interop.raw_mqtt import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
COUNT = 3000
PAYLOAD_BYTES = 4000
QUOTA_EXCEEDED = 0x97
CONFIG = "[broker.mqtt]\nqueue_messages = 500\nunread_bytes = 65536\n"


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Running]:
    config = tmp_path / "broker.toml"
    config.write_text(CONFIG)
    with broker_chain(tmp_path, 1, "--config", str(config)) as (broker,):
        yield broker


def test_a_session_that_gets_too_much_ends_and_its_client_is_told(broker: Running) -> None:
    kept = {"session_expiry_interval": 60}
    with (
        RawClient(broker.port) as sluggard,
        RawClient(broker.port) as reader,
        RawClient(broker.port) as speaker,
    ):
        sluggard.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for client, name in ((sluggard, "sluggard"), (reader, "reader"), (speaker, "speaker")):
            client.connect(name, **kept)
        sluggard.subscribe("a", qos=1)
        reader.subscribe("a", qos=1)
        got = []
        for number in range(COUNT):
            payload = b"%d" % number
            speaker.publish("a", payload.ljust(PAYLOAD_BYTES), 1)
            got.append(reader.take().payload.strip())
        assert got == [b"%d" % number for number in range(COUNT)]
        numbers = []
        while isinstance(packet := sluggard.receive(), mqtt5.PublishPacket):
            numbers.append(int(packet.payload))
        assert int(packet.reason_code) == QUOTA_EXCEEDED
        assert numbers == list(range(len(numbers))), "no gap before the end"
        assert len(numbers) < COUNT
    with RawClient(broker.port) as sluggard:
        assert not sluggard.connect("sluggard", clean=False, **kept).session_present
    status = ask(broker, "status")["mqtt"]
    assert status["overrun"] == 1
    assert status["dropped"] >= 500
    assert status["connections"] <= 3
