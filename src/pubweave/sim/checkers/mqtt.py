"""What MQTT promises, held against what the clients of a run got.

A publication that was acknowledged reaches every client that subscribed to it in good time, at
QoS 1 once or more, at QoS 2 once; at either, one publisher's publications keep their order. Who
lost a session was told so (the flag of ConnAck), and is owed nothing that was under way.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass
class _Sent:
    publisher: str
    number: int
    qos: int
    due: dict[str, int]
    """The clients that must get it, each with the quality that it asked for."""
    allowed: set[str]
    """Those that may."""
    orders: Mapping[str, str]
    """Within what it is in its publisher's order, where that is not everything."""
    got: dict[str, int] = field(default_factory=dict)
    may_double: bool = False


class MqttChecker:
    """Knows everything that was published, by its payload."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.deliveries = 0
        self.doubled = 0
        self.excused = 0
        self._sent: dict[bytes, _Sent] = {}
        self._moved: set[str] = set()
        self._unsettled: set[str] = set()
        """Who has subscribed anew since the last rest, and may not be known everywhere."""
        self._numbers: dict[str, int] = {}
        self._last: dict[tuple[str, str, int, str], int] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def publishing(
        self,
        publisher: str,
        qos: int,
        due: Mapping[str, int],
        allowed: Iterable[str] = (),
        orders: Mapping[str, str] | None = None,
    ) -> bytes:
        """A client is about to publish; its payload. ``due`` has who must get it, and with which
        quality at most, ``allowed`` who may, ``orders`` within what each gets it in order."""
        number = self._numbers[publisher] = self._numbers.get(publisher, 0) + 1
        payload = f"{publisher}/{number}/{qos}".encode()
        self._sent[payload] = _Sent(
            publisher,
            number,
            qos,
            {c: min(qos, wanted) for c, wanted in due.items() if c not in self._unsettled},
            {*due, *allowed},
            orders or {},
        )
        return payload

    def delivered(self, client: str, payload: bytes, now: float) -> None:
        sent = self._sent.get(payload)
        if sent is None:
            return  # retained, from before
        self.deliveries += 1
        times = sent.got[client] = sent.got.get(client, 0) + 1
        if client not in sent.allowed:
            self._violated(now, f"{client} got {payload!r}, which it never asked for")
        if times > 1:
            self.doubled += 1
            is_excused = sent.may_double or client in self._unsettled
            if sent.due.get(client, sent.qos) == 2 and not is_excused:
                self._violated(now, f"{client} got {payload!r} {times} times, at QoS 2")
            return
        stream = client, sent.publisher, sent.qos, sent.orders.get(client, "")
        is_still = not self._moved & {client, sent.publisher}
        if sent.qos and sent.number < self._last.get(stream, 0) and is_still:
            self._violated(now, f"{client} got {payload!r} after a later one")
        self._last[stream] = max(sent.number, self._last.get(stream, 0))

    def moved(self, client: str) -> None:
        """A client goes to another broker: should the old one be away, what it still has, from or
        for the client, comes later than it should."""
        self._moved.add(client)

    def session_lost(self, client: str) -> None:
        """A client has been told that its session is gone: what was under way to it may be lost,
        and what it had under way may be doubled."""
        self._unsettled.add(client)
        for sent in self._sent.values():
            if client in sent.due and client not in sent.got:
                del sent.due[client]
                self.excused += 1
            if sent.publisher == client:
                sent.may_double = True

    def check_all_delivered(self, now: float) -> None:
        """At rest: nothing is under way any more."""
        for payload, sent in self._sent.items():
            missing = sorted(c for c, qos in sent.due.items() if qos and c not in sent.got)
            if missing:
                self._violated(now, f"{payload!r} never came to {', '.join(missing)}")
        self._sent.clear()
        self._last.clear()
        self._unsettled.clear()
        self._moved.clear()

    def check_shared(self, payloads: Iterable[bytes], now: float) -> None:
        """Of publications at rest, exactly one of a group got each."""
        for payload in payloads:
            got = self._sent[payload].got
            if sum(got.values()) != 1:
                self._violated(now, f"{payload!r} went to {dict(got)}, not to one of its group")

    def _violated(self, now: float, text: str) -> None:
        self.violations.append(f"{now:.3f} {text}")
