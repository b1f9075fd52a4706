"""What a conformance run takes for equal, and what it does not: it must not pass by itself."""

from __future__ import annotations

import base64
import hashlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mqtt5
import pytest
from soak.mqtt_suite_reasons import EDITS
from soak.mqtt_suite_rules import install, is_same
from soak.mqtt_suite_settings import _rules, known_password, read_settings, strange
from soak.run_mqtt_conformance import Outcome, is_unexplained

from pubweave.model.files.access import read_access_file
from pubweave.model.filters.text import format_filter
from pubweave.wire.mqtt.codec import V5, encode


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


# --- settings --------------------------------------------------------------------------------


def refusal(reason: int) -> bytes:
    return wire(mqtt5.ConnAckPacket(reason_code=mqtt5.ConnAckReasonCode(reason)))


def test_reasons_are_alike_where_the_standard_leaves_the_choice() -> None:
    assert is_same(refusal(0x86), refusal(0x87))
    assert is_same(refusal(0x85), refusal(0x80))
    assert not is_same(refusal(0x85), refusal(0x87))
    assert not is_same(refusal(0x00), refusal(0x87))
    assert is_same(bytes([0x20, 2, 0, 4]), bytes([0x20, 2, 0, 5]))
    assert not is_same(bytes([0x20, 2, 0, 0]), bytes([0x20, 2, 0, 5]))


def test_what_the_settings_say_has_to_be_said() -> None:
    plain, bare = mqtt5.ConnAckPacket(), mqtt5.ConnAckPacket(retain_available=False)
    assert is_same(wire(bare), wire(bare))
    assert not is_same(wire(plain), wire(bare))
    assert is_same(wire(mqtt5.ConnAckPacket(topic_alias_max=64)), wire(plain))


def test_settings_of_mosquitto_become_ours(tmp_path: Path) -> None:
    config, rights = tmp_path / "x.conf", tmp_path / "x.acl"
    rights.write_text("topic read a/#\nuser ann\ntopic b\n")
    config.write_text(f"listener 1883\nlistener 1884\nallow_anonymous true\nacl_file {rights}\n")
    settings = read_settings(str(config))
    assert settings["listener"] == ["1883", "1884"]
    assert strange(settings) == []
    assert strange({**settings, "plugin": ["x.so"]}) == ["plugin"]
    rules, _ = read_rules(_rules(settings, ["ann"]), tmp_path)
    everybody, ann = rules.users["anonymous"], rules.users["ann"]
    assert rules.anonymous
    assert not everybody.publish
    assert [format_filter(f) for f in everybody.subscribe] == ["class prefix 'a/'", "class = 'a'"]
    assert [format_filter(f) for f in ann.publish] == ["class = 'b'"]


def read_rules(text: str, folder: Path) -> Any:
    (folder / "access.toml").write_text(text)
    return read_access_file(folder / "access.toml")


def test_a_password_is_known_by_its_hash() -> None:
    salt, hashed = (
        base64.b64encode(part).decode()
        for part in (b"salt", hashlib.sha512(b"passwordsalt").digest())
    )
    assert known_password(f"$6${salt}${hashed}") == "password"
    with pytest.raises(StopIteration):
        known_password(f"$6${hashed}${hashed}")
