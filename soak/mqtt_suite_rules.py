"""What mosquitto's test scripts use when their broker is pubweave's: how it starts, what is equal.

A script calls functions of the suite's ``mosq_test``; `install` puts these in their places. The
scripts compare bytes with mosquitto's own. Not compared: what a server says of itself in CONNACK,
unless its settings say it; reason strings; whether an answer or a publication comes first; which of
several reasons it is that all fit (`_EQUAL`). A DISCONNECT with a reason may come before the end.
"""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mqtt5

from soak.mqtt_suite_settings import read_settings, start, strange, wrapped

UNKNOWN_SETTING = 77
"""How a script ends that wants a setting which only mosquitto has."""
STARTED = "PUBWEAVE_SUITE_STARTED"
"""Names the file that says that a pubweave broker took part."""
REAL = "PUBWEAVE_SUITE_MOSQUITTO"
"""Names the real mosquitto, for the far ends of bridges."""
START_S = 60.0
_EQUAL: dict[type, tuple[set[int], ...]] = {
    mqtt5.DisconnectPacket: ({0x81, 0x82, 0x8F, 0x90},),
    mqtt5.PubAckPacket: ({0x00, 0x10},),
    mqtt5.PubRecPacket: ({0x00, 0x10},),
    # 3.7.2.1: that a number is unknown is no error when a client sends its PUBREL again.
    mqtt5.PubCompPacket: ({0x00, 0x92},),
    # A wrong password: 0x86 or 0x87. 3.1.3.1: 0x85 for a client id that is not taken.
    mqtt5.ConnAckPacket: ({0x86, 0x87}, {0x80, 0x85}),
}
"""Reasons that say the same, by packet."""
_OLD_REFUSALS = {bytes([0x20, 2, 0, 4]), bytes([0x20, 2, 0, 5])}
"""A wrong user or password in 3.1.1."""
_OF_THE_SERVER = {
    "topic_alias_max", "receive_max", "max_packet_size", "subscription_id_available",
    "wildcard_subscription_available", "session_expiry_interval", "shared_subscription_available",
}  # fmt: skip
_SAID_ONLY_IF = {
    "server_keep_alive": None, "retain_available": True, "max_qos": mqtt5.QoS.EXACTLY_ONCE
}  # fmt: skip
"""What CONNACK says where the settings do, with what it means to say nothing."""
_PUBLISH = 3
_early: dict[int, list[bytes]] = {}
"""By socket: what came before its turn."""


def install(suite: dict[str, Any]) -> None:
    """Called at the end of the suite's own module, with its names."""

    def expect_packet(sock: socket.socket, name: str, expected: bytes) -> bool:
        got = _expect(sock, expected, can_wait=name != "pingresp")
        if got is not None:
            suite["packet_matches"](name, got, expected)
            raise suite["TestError"]
        return True

    def receive_unordered(sock: socket.socket, one: bytes, other: bytes, error: str) -> None:
        expect_packet(sock, error, one)
        expect_packet(sock, error, other)

    def do_client_connect(
        connect: bytes,
        connack: bytes,
        hostname: str = "localhost",
        port: int = 1888,
        timeout: float = 10,
        connack_error: str = "connack",
    ) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", port), timeout)
        sock = wrapped(plain, port)
        sock.sendall(connect)
        expect_packet(sock, connack_error, connack)
        return sock

    suite |= {
        "do_client_connect": do_client_connect,
        "start_broker": start_broker,
        "expect_packet": expect_packet,
        "receive_unordered": receive_unordered,
    }


# --- starting ------------------------------------------------------------------------------


def start_broker(
    filename: str,
    cmd: list[str] | None = None,
    port: int = 0,
    use_conf: bool = False,
    expect_fail: bool = False,
) -> subprocess.Popen[bytes] | None:
    """As ``mosq_test`` has it; a broker that is to have bridges is a real mosquitto."""
    config = filename.replace(".py", ".conf") if use_conf or (cmd is None and not port) else ""
    if cmd is not None and "-c" in cmd:
        config = cmd[cmd.index("-c") + 1]
    settings = read_settings(config)
    port = port or 1888
    if "connection" in settings:
        command = [os.environ[REAL], "-v", "-c", config]
        broker = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    elif unknown := strange(settings):
        print("settings of mosquitto's own:", ", ".join(unknown))
        sys.exit(UNKNOWN_SETTING)
    else:
        Path(os.environ[STARTED]).touch()
        broker = start(port, settings)
    if _listens(broker, port):
        return broker
    if expect_fail:
        return None
    raise OSError("the broker does not listen")


def _listens(broker: subprocess.Popen[bytes], port: int) -> bool:
    deadline = time.monotonic() + START_S
    while broker.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.05)
            continue
        time.sleep(0.1)
        return True
    return False


# --- comparing -----------------------------------------------------------------------------


def _expect(sock: socket.socket, expected: bytes, *, can_wait: bool) -> bytes | None:
    """What came instead; None: what was expected."""
    if not expected:
        got = _receive(sock)
        is_goodbye = got[:1] == b"\xe0" or (got[:1] == b"\x20" and got[3] != 0)
        return None if not got or is_goodbye else got
    for wanted in _split(expected):
        early = _early.setdefault(id(sock), [])
        known = next((packet for packet in early if is_same(packet, wanted)), None)
        if known is not None:
            early.remove(known)
            continue
        while not is_same(got := _receive(sock), wanted):
            is_other_kind = (got[:1] and got[0] >> 4 == _PUBLISH) != (wanted[0] >> 4 == _PUBLISH)
            if not (got and is_other_kind and can_wait and got[0] != 0xE0):
                return got
            early.append(got)
    return None


def _receive(sock: socket.socket) -> bytes:
    """The next packet; empty at the end."""
    try:
        head = sock.recv(1)
        while head and (len(head) < 2 or head[-1] > 127):
            more = sock.recv(1)
            if not more:
                return head
            head += more
        packet = head
        while len(packet) < len(head) + _length(head):
            more = sock.recv(len(head) + _length(head) - len(packet))
            if not more:
                break
            packet += more
    except (ConnectionResetError, BrokenPipeError, ssl.SSLError):
        return b""
    return packet


def _length(head: bytes) -> int:
    return sum((digit & 127) << 7 * index for index, digit in enumerate(head[1:]))


def _split(data: bytes) -> list[bytes]:
    """
    >>> _split(bytes([0xD0, 0, 0x40, 2, 0, 1]))
    [b'\\xd0\\x00', b'@\\x02\\x00\\x01']
    """
    packets = []
    while data:
        end = 2
        while data[end - 1] > 127:
            end += 1
        length = end + _length(data[:end])
        packets.append(data[:length])
        data = data[length:]
    return packets


def is_same(got: bytes, wanted: bytes) -> bool:
    """Whether a packet says what the script wants to hear, though not in mosquitto's bytes.

    >>> is_same(bytes([0x40, 3, 0, 1, 16]), bytes([0x40, 2, 0, 1]))
    True
    >>> is_same(bytes([0x40, 3, 0, 1, 0x87]), bytes([0x40, 2, 0, 1]))
    False
    """
    if got == wanted or {got, wanted} == _OLD_REFUSALS:
        return True
    if not got or got[0] != wanted[0]:
        return False
    try:
        ours: Any = mqtt5.read(memoryview(got))[0]
        theirs: Any = mqtt5.read(memoryview(wanted))[0]
    except (ValueError, IndexError):
        return False
    fields = {name for name in dir(ours) if not name.startswith("_") and name != "write"}
    skipped = _not_compared(ours, theirs)
    return all(getattr(ours, name) == getattr(theirs, name) for name in fields - skipped)


def _not_compared(ours: Any, theirs: Any) -> set[str]:
    skipped = {"reason_str"}
    for alike in _EQUAL.get(type(ours), ()):
        if {int(ours.reason_code), int(theirs.reason_code)} <= alike:
            skipped.add("reason_code")
    if isinstance(ours, mqtt5.ConnAckPacket):
        skipped |= _OF_THE_SERVER
        if theirs.assigned_client_id and ours.assigned_client_id:
            skipped.add("assigned_client_id")
        for name, silent in _SAID_ONLY_IF.items():
            if getattr(theirs, name) == silent:
                skipped.add(name)
    return skipped
