"""Libraries and programs that exist, as clients of two brokers of an overlay."""

from __future__ import annotations

import asyncio
import queue
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import aiomqtt
import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from tests.interop.mqtt_brokers import program_or_skip

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
HOST = "127.0.0.1"
COUNT = 200
SPREAD_S = 0.5
Doors = tuple[int, int]
VERSIONS = pytest.mark.parametrize("version", [paho.MQTTv311, paho.MQTTv5], ids=["3.1.1", "5.0"])


@contextmanager
def paho_client(door: int, name: str, version: int) -> Iterator[tuple[Any, queue.Queue[Any]]]:
    """A client whose loop runs in a thread, and what it is sent."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=version)
    messages: queue.Queue[Any] = queue.Queue()
    connected: queue.Queue[Any] = queue.Queue()
    client.on_message = lambda client, userdata, message: messages.put(message)
    client.on_connect = lambda client, userdata, flags, reason, properties: connected.put(reason)
    client.connect(HOST, door)
    client.loop_start()
    assert not connected.get(timeout=10).is_failure
    try:
        yield client, messages
    finally:
        client.disconnect()
        client.loop_stop()


@VERSIONS
@pytest.mark.parametrize("quality", [0, 1, 2])
def test_paho_publishes_at_one_broker_and_hears_at_another(
    doors: Doors, version: int, quality: int
) -> None:
    topic = f"paho/{version}/{quality}"
    with (
        paho_client(doors[1], f"ps-{version}-{quality}", version) as (hearer, messages),
        paho_client(doors[0], f"pp-{version}-{quality}", version) as (speaker, _),
    ):
        hearer.subscribe(f"{topic}/#", quality)
        time.sleep(2 * SPREAD_S)
        sent = [speaker.publish(f"{topic}/{n}", b"%d" % n, quality) for n in range(COUNT)]
        for each in sent:
            each.wait_for_publish(10)
        got = [messages.get(timeout=10) for _ in range(COUNT)]
        assert [(m.topic, m.payload) for m in got] == [
            (f"{topic}/{n}", b"%d" % n) for n in range(COUNT)
        ]
        assert {m.qos for m in got} == {quality}
        with pytest.raises(queue.Empty):
            messages.get(timeout=0.3)


def test_paho_asks_and_is_answered(doors: Doors) -> None:
    """Request and response (4.10) across brokers."""
    with (
        paho_client(doors[0], "asker", paho.MQTTv5) as (asker, answers),
        paho_client(doors[1], "answerer", paho.MQTTv5) as (answerer, questions),
    ):
        asker.subscribe("answers/asker", 1)
        answerer.subscribe("questions", 1)
        time.sleep(2 * SPREAD_S)
        told = Properties(PacketTypes.PUBLISH)
        told.ResponseTopic, told.CorrelationData = "answers/asker", b"17"
        told.UserProperty = [("unit", "m")]
        asker.publish("questions", b"how far?", 1, properties=told)
        question = questions.get(timeout=5)
        assert question.properties.UserProperty == [("unit", "m")]
        back = Properties(PacketTypes.PUBLISH)
        back.CorrelationData = question.properties.CorrelationData
        answerer.publish(question.properties.ResponseTopic, b"far", 1, properties=back)
        answer = answers.get(timeout=5)
        assert (answer.payload, answer.properties.CorrelationData) == (b"far", b"17")


@VERSIONS
def test_a_session_of_paho_goes_on_where_it_was(doors: Doors, version: int) -> None:
    topic, name = f"kept/{version}", f"keeper-{version}"
    kept: dict[str, Any] = {"clean_session": False}
    start: dict[str, Any] = {}
    if version == paho.MQTTv5:
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = 60
        kept, start = {}, {"clean_start": False, "properties": properties}
    got: queue.Queue[bytes] = queue.Queue()
    for turn in range(2):
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=version, **kept)
        present: queue.Queue[bool] = queue.Queue()
        client.on_connect = lambda c, u, flags, r, p, present=present: present.put(
            flags.session_present
        )
        client.on_message = lambda c, u, message: got.put(message.payload)
        client.connect(HOST, doors[0], **start)
        client.loop_start()
        assert present.get(timeout=5) is bool(turn)
        if turn == 0:
            client.subscribe(topic, 1)
            time.sleep(SPREAD_S)
        else:
            assert [got.get(timeout=5) for _ in range(5)] == [b"%d" % n for n in range(5)]
        client.disconnect()
        client.loop_stop()
        if turn == 0:
            with paho_client(doors[1], f"speaker-{version}", version) as (speaker, _):
                time.sleep(SPREAD_S)
                for n in range(5):
                    speaker.publish(topic, b"%d" % n, 1).wait_for_publish(5)
    assert got.empty()


@pytest.mark.parametrize("version", [aiomqtt.ProtocolVersion.V311, aiomqtt.ProtocolVersion.V5])
def test_aiomqtt_publishes_at_one_broker_and_hears_at_another(doors: Doors, version: Any) -> None:
    topic = f"aio/{version.value}"

    async def converse() -> list[tuple[str, Any]]:
        async with (
            aiomqtt.Client(HOST, doors[1], protocol=version) as hearer,
            aiomqtt.Client(HOST, doors[0], protocol=version) as speaker,
        ):
            await hearer.subscribe(f"{topic}/+", 1)
            await asyncio.sleep(2 * SPREAD_S)
            for n in range(50):
                await speaker.publish(f"{topic}/{n}", str(n), 1)
            got = []
            async with asyncio.timeout(10):
                async for message in hearer.messages:
                    got.append((str(message.topic), message.payload))
                    if len(got) == 50:
                        return got
        return got

    assert asyncio.run(converse()) == [(f"{topic}/{n}", b"%d" % n) for n in range(50)]


@pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
@pytest.mark.parametrize("quality", ["0", "1", "2"])
def test_mosquitto_pub_is_heard_by_mosquitto_sub(doors: Doors, version: str, quality: str) -> None:
    pub = program_or_skip("mosquitto_pub", "mosquitto-clients")
    sub = program_or_skip("mosquitto_sub", "mosquitto-clients")
    topic = f"cli/{version}/{quality}"
    both = ["-h", HOST, "-V", version, "-q", quality]
    hearer = subprocess.Popen(
        [sub, *both, "-p", str(doors[1]), "-t", f"{topic}/#", "-v", "-C", "20", "-W", "20"],
        stdout=subprocess.PIPE,
        text=True,
    )
    time.sleep(1.5)
    lines = "".join(f"message {n}\n" for n in range(20))
    speaker = subprocess.run(
        [pub, *both, "-p", str(doors[0]), "-t", f"{topic}/x", "-l"],
        input=lines,
        text=True,
        timeout=20,
        check=False,
    )
    heard, _ = hearer.communicate(timeout=25)
    assert (speaker.returncode, hearer.returncode) == (0, 0)
    assert heard.splitlines() == [f"{topic}/x message {n}" for n in range(20)]


def test_mosquitto_pub_retains_for_mosquitto_sub_elsewhere(doors: Doors) -> None:
    pub = program_or_skip("mosquitto_pub", "mosquitto-clients")
    sub = program_or_skip("mosquitto_sub", "mosquitto-clients")
    near = [pub, "-h", HOST, "-p", str(doors[0]), "-t", "cli/kept", "-q", "1", "-r"]
    subprocess.run([*near, "-m", "hello"], check=True, timeout=10)
    time.sleep(SPREAD_S)
    far = [sub, "-h", HOST, "-p", str(doors[1]), "-t", "cli/#", "-C", "1", "-W", "10"]
    heard = subprocess.run(
        [*far, "-F", "%r %t %p"], capture_output=True, text=True, timeout=15, check=False
    )
    subprocess.run([*near, "-n"], check=True, timeout=10)
    assert heard.stdout == "1 cli/kept hello\n"
