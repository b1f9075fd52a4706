"""A loop outside the overlay that no probe finds, over bridges of MQTT 5 that lose the mark: it is
counted, both bridges are named, and it is ended if that is wanted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mqtt_brokers import Running, ask, broker_chain
from tests.interop.raw_mqtt import RawClient, wait_until_linked

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
BRIDGE = {"no_local": True, "retain_as_published": True}
LOOP_S = 30.0
EVERY_S = 0.005
ADMINISTRATIVE_ACTION = 0x98


@contextlib.contextmanager
def loop(brokers: list[Running]) -> Iterator[tuple[RawClient, RawClient]]:
    """One bridge takes what the other one brings in; something is said at the first broker."""
    with contextlib.ExitStack() as stack:
        wait_until_linked([broker.port for broker in brokers])
        out, into, ann = (
            stack.enter_context(RawClient(broker.port)) for broker in (*brokers, brokers[0])
        )
        for client, name in ((out, "out"), (into, "into"), (ann, "ann")):
            client.connect(name)
        out.subscribe("lamp", qos=0, options=BRIDGE)
        into.subscribe("lamp/elsewhere", qos=0, options=BRIDGE)  # it is a bridge, too
        time.sleep(1.0)  # until both brokers know of both bridges
        ann.publish("lamp", b"on", 1)
        yield out, into


def go_round(out: RawClient, into: RawClient, brokers: list[Running]) -> int:
    """Until the loop is noticed; how often a copy went round."""
    rounds, ends, asked_at = 0, time.monotonic() + LOOP_S, time.monotonic()
    while time.monotonic() < ends:
        for packet in out.take_all(EVERY_S):
            into.publish(packet.topic, packet.payload)
            rounds += 1
        if time.monotonic() - asked_at > 1.0:
            asked_at = time.monotonic()
            if ask(brokers[1], "status")["mqtt"]["loops"]:
                return rounds
    raise AssertionError(f"nobody noticed {rounds} rounds in {LOOP_S:g} s")


@pytest.mark.parametrize("on_loop", ["warn", "refuse"])
def test_a_loop_is_noticed_and_ended_if_that_is_wanted(tmp_path: Path, on_loop: str) -> None:
    with (
        broker_chain(tmp_path, 2, "--set", f"broker.mqtt.on_loop={on_loop}") as brokers,
        loop(brokers) as (out, into),
    ):
        assert go_round(out, into, brokers) > 200
        found = ask(brokers[1], "status")["mqtt"]
        for text in (found["loop"], brokers[1].log.read_text()):
            assert "bridge 'into' brings back what bridge 'out' is sent on topic 'lamp'" in text
            assert "MQTT 5" in text
        if on_loop == "refuse":
            assert found["loops_refused"] == 1
            into.expect_closed(ADMINISTRATIVE_ACTION)
        else:
            assert found["loops_refused"] == 0
            into.publish("still", b"here", 1)
