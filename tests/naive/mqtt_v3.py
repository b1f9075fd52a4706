"""MQTT 3.1.1 read the slow and obvious way: byte by byte, straight from the standard's text.

A packet is a dictionary of what it says. Knows nothing of pieces, of bounds or of MQTT 5.0."""

from __future__ import annotations

from typing import Any

NAMES = ["reserved", "connect", "connack", "publish", "puback", "pubrec", "pubrel", "pubcomp"]
NAMES += ["subscribe", "suback", "unsubscribe", "unsuback", "pingreq", "pingresp", "disconnect"]
FLAGS = {"pubrel": 2, "subscribe": 2, "unsubscribe": 2}
FROM_CLIENT = {"publish", "puback", "pubrec", "pubrel", "pubcomp", "subscribe", "unsubscribe"}
FROM_CLIENT |= {"pingreq", "disconnect"}


class NaiveError(Exception):
    """Not MQTT 3.1.1."""


def naive_client_stream(data: bytes) -> tuple[list[dict[str, Any]], bool]:
    """The packets of a client that sends CONNECT first, up to the first bad one or to the first
    unfinished one; whether there was a bad one."""
    rest = list(data)
    found: list[dict[str, Any]] = []
    while rest:
        try:
            packet = _packet(rest, expects_connect=not found)
        except NaiveError:
            return found, True
        if packet is None:
            break
        found.append(packet)
    return found, False


def _packet(rest: list[int], *, expects_connect: bool) -> dict[str, Any] | None:
    name = NAMES[rest[0] >> 4] if rest[0] >> 4 < len(NAMES) else "reserved"
    flags = rest[0] & 15
    if name not in ({"connect"} if expects_connect else FROM_CLIENT):
        raise NaiveError("a packet that cannot come now")
    if name == "publish":
        quality = flags // 2 % 4
        if quality == 3 or (quality == 0 and flags >= 8):
            raise NaiveError("flags of PUBLISH")
    elif flags != FLAGS.get(name, 0):
        raise NaiveError("flags")
    length, digits = 0, 0
    while True:
        if digits == 4:
            raise NaiveError("a length of more than four bytes")
        if 1 + digits >= len(rest):
            return None
        digit = rest[1 + digits]
        length += digit % 128 * 128**digits
        digits += 1
        if digit < 128:
            break
    if digits > 1 and digit == 0:
        raise NaiveError("a length written with too many bytes")
    if len(rest) < 1 + digits + length:
        return None
    body = rest[1 + digits : 1 + digits + length]
    packet = {"name": name, **_fields(name, flags, body)}
    if body:
        raise NaiveError("bytes left over")
    del rest[: 1 + digits + length]
    return packet


def _fields(name: str, flags: int, body: list[int]) -> dict[str, Any]:
    """Eats the body."""
    if name == "connect":
        return _connect(body)
    if name == "publish":
        return _publish(flags, body)
    if name in ("pingreq", "disconnect"):
        return {}
    fields: dict[str, Any] = {"packet_id": _packet_id(body)}
    if name in ("subscribe", "unsubscribe"):
        fields["filters"] = []
        while body or not fields["filters"]:
            pattern = _pattern(body)
            quality = 0 if name == "unsubscribe" else _byte(body)
            if quality > 2:
                raise NaiveError("QoS")
            fields["filters"].append((pattern, quality))
    return fields


def _connect(body: list[int]) -> dict[str, Any]:
    if _text(body) != "MQTT" or _byte(body) not in (4, 0x84):
        raise NaiveError("protocol")
    flags = _byte(body)
    has_will, has_name, has_password = flags & 4, flags & 128, flags & 64
    if flags & 1 or flags & 24 == 24:
        raise NaiveError("connect flags")
    if not has_will and flags & (8 + 16 + 32):
        raise NaiveError("flags of no will")
    if has_password and not has_name:
        raise NaiveError("password without name")
    packet: dict[str, Any] = {"clean": bool(flags & 2), "keep_alive": _number(body)}
    packet["client_id"] = _text(body)
    if has_will:
        packet["will"] = (_topic(body), _binary(body), flags // 8 % 4, bool(flags & 32))
    if has_name:
        packet["username"] = _text(body)
    if has_password:
        packet["password"] = _binary(body)
    if not packet["client_id"] and not packet["clean"]:
        raise NaiveError("no client identifier")
    return packet


def _publish(flags: int, body: list[int]) -> dict[str, Any]:
    quality = flags // 2 % 4
    packet: dict[str, Any] = {"topic": _topic(body)}
    if quality:
        packet["packet_id"] = _packet_id(body)
    packet |= {"qos": quality, "retain": bool(flags & 1), "duplicate": bool(flags & 8)}
    packet["payload"] = bytes(body)
    body.clear()
    return packet


def _byte(body: list[int]) -> int:
    if not body:
        raise NaiveError("too short")
    return body.pop(0)


def _number(body: list[int]) -> int:
    high = _byte(body)
    return high * 256 + _byte(body)


def _packet_id(body: list[int]) -> int:
    number = _number(body)
    if number == 0:
        raise NaiveError("packet identifier 0")
    return number


def _binary(body: list[int]) -> bytes:
    return bytes([_byte(body) for _ in range(_number(body))])


def _text(body: list[int]) -> str:
    try:
        text = _binary(body).decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise NaiveError("UTF-8") from None
    if "\0" in text:
        raise NaiveError("NUL")
    return text


def _topic(body: list[int]) -> str:
    topic = _text(body)
    if topic == "" or set(topic) & set("+#"):
        raise NaiveError("topic")
    return topic


def _pattern(body: list[int]) -> str:
    pattern = _text(body)
    levels = pattern.split("/")
    if pattern.startswith("$share/") or pattern == "$share":
        if len(levels) < 3 or levels[1] == "" or set(levels[1]) & set("+#"):
            raise NaiveError("group")
        levels = levels[2:]
    if "/".join(levels) == "":
        if len(levels) == 1:
            raise NaiveError("empty filter")
        return pattern
    for level in levels[:-1]:
        if "#" in level:
            raise NaiveError("# that is not last")
    for level in levels:
        if set(level) & set("+#") and len(level) > 1:
            raise NaiveError("a wildcard that shares its level")
    return pattern
