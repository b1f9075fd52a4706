"""What a conformance run takes for equal, and what it does not: it must not pass by itself."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from typing import Any

import mqtt5
import pytest
from benchmarks.mqtt_suite_reasons import EDITS
from benchmarks.mqtt_suite_rules import install, is_same
from benchmarks.run_mqtt_conformance import Outcome, is_unexplained

from pubweave.wire.mqtt_codec import V5, encode


class TestError(Exception):
    """As the suite has it."""


TestError.__test__ = False  # type: ignore[attr-defined]


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = socket.socketpair()
    near.settimeout(5)
    with near, far:
        yield near, far


@pytest.fixture
def suite() -> dict[str, Any]:
    names = {"packet_matches": lambda *_: False, "TestError": TestError}
    install(names)
    return names


def wire(packet: Any) -> bytes:
    return encode(packet, V5)


ACK, PUBLISH = wire(mqtt5.PubAckPacket(1)), wire(mqtt5.PublishPacket("a", b"x"))
Ends = tuple[socket.socket, socket.socket]


def test_an_answer_and_a_publication_may_come_in_either_order(
    ends: Ends, suite: dict[str, Any]
) -> None:
    near, far = ends
    far.sendall(PUBLISH + ACK)
    assert suite["expect_packet"](near, "puback", ACK)
    assert suite["expect_packet"](near, "publish", PUBLISH)


def test_what_was_not_expected_fails(ends: Ends, suite: dict[str, Any]) -> None:
    near, far = ends
    far.sendall(wire(mqtt5.PublishPacket("a", b"y")))
    with pytest.raises(TestError):
        suite["expect_packet"](near, "publish", PUBLISH)
    far.sendall(ACK)
    with pytest.raises(TestError):
        suite["expect_packet"](near, "closed", b"")


def test_a_goodbye_counts_as_the_end(ends: Ends, suite: dict[str, Any]) -> None:
    near, far = ends
    far.sendall(wire(mqtt5.DisconnectPacket(reason_code=mqtt5.DisconnectReasonCode(0x82))))
    assert suite["expect_packet"](near, "closed", b"")
    far.close()
    assert suite["expect_packet"](near, "closed", b"")


def test_a_reason_counts_unless_several_would_do() -> None:
    def goodbye(reason: int, text: str | None = None) -> bytes:
        code = mqtt5.DisconnectReasonCode(reason)
        return wire(mqtt5.DisconnectPacket(reason_code=code, reason_str=text))

    assert is_same(goodbye(0x81, "malformed"), goodbye(0x82))
    assert not is_same(goodbye(0x93), goodbye(0x82))
    assert not is_same(PUBLISH, wire(mqtt5.PublishPacket("a", b"x", retain=True)))


def test_a_failure_is_explained_or_told() -> None:
    assert is_unexplained(Outcome("x", "passed", "failed"))
    assert not is_unexplained(Outcome("x", "passed", "failed", "because"))
    assert not is_unexplained(Outcome("x", "failed", "failed"))


def test_the_edits_are_regular_expressions() -> None:
    for _, (pattern, replacement) in EDITS:
        assert re.sub(pattern, replacement, "", flags=re.S) == ""
