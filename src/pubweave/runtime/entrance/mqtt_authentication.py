"""MQTT 5's enhanced authentication (4.12) at a door, by SCRAM-SHA-256.

```
 CONNECT + client-first ─> LoginReceived ─> core ─VerifyPassword─> AUTH 0x18 + server-first
 AUTH 0x18 + client-final ─> PasswordVerified ─> core ─> CONNACK, + server-final
```

To the core it is a login whose verdict takes a while. It never sees what proves a password: events
are written down. A client that is in may prove itself again (AUTH 0x19) while everything goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pubweave.core.vocabulary.events import ConnectionId, Event, LoginReceived
from pubweave.model.mqtt_packets import Auth, Connect, FromClient, Reason
from pubweave.runtime.entrance.gatekeeper import Gatekeeper
from pubweave.runtime.net.mqtt_connection import MqttSocket, Withheld
from pubweave.runtime.security.scram import METHOD, ScramError, ScramExchange


@dataclass
class _ScramLogin:
    """Where one connection is with proving its user."""

    exchange: ScramExchange | None
    """The one that is under way."""
    user: str = ""
    """Who it is since the last that went well; empty: it was none yet."""


class MqttAuthentication:
    """The exchanges of one door; ``handle`` gives the core an event."""

    def __init__(self, doorway: Gatekeeper, handle: Callable[[Event], bool]) -> None:
        self._doorway = doorway
        self._handle = handle
        self._proofs: dict[ConnectionId, _ScramLogin] = {}

    def begin(self, connection: MqttSocket, connect: Connect, data: bytes | None) -> None:
        """A client names a way to prove itself. Where it is none of ours, the core says so."""
        if connect.authentication_method != METHOD or not self._doorway.has_scram:
            return
        exchange = ScramExchange(self._doorway.scram_keys)
        try:
            answer: bytes | None = exchange.first(data or b"")
        except ScramError:
            answer = None
        self._proofs[connection.number] = _ScramLogin(exchange)

        def challenge() -> None:
            if answer is None or not connection.write_auth(Reason.CONTINUE, METHOD, answer):
                self._doorway.settle(connection.number, None)

        self._doorway.challenge(connection.number, challenge)
        self._handle(LoginReceived(connection.number, exchange.user))

    def take_out(
        self, connection: MqttSocket, packets: list[FromClient], withheld: Withheld
    ) -> list[FromClient]:
        """The packets without what belongs to an exchange; that is gone on with."""
        proof = self._proofs.get(connection.number)
        if proof is None:
            return packets
        left: list[FromClient] = []
        for place, packet in enumerate(packets):
            if isinstance(packet, Auth) and packet.method == METHOD:
                told = self._go_on(connection, proof, packet, withheld.data[place] or b"")
                left += [] if told is None else [told]
            else:
                left.append(packet)
        return left

    def _go_on(
        self, connection: MqttSocket, proof: _ScramLogin, packet: Auth, data: bytes
    ) -> Auth | None:
        """What the core has to hear of; it knows none of these packets, so whatever it hears
        ends the connection."""
        try:
            if packet.reason == Reason.RE_AUTHENTICATE and proof.user and proof.exchange is None:
                proof.exchange = ScramExchange(self._doorway.scram_keys)
                answer = proof.exchange.first(data)
                is_written = connection.write_auth(Reason.CONTINUE, METHOD, answer)
                return None if is_written else Auth(Reason.NOT_AUTHORIZED)
            if packet.reason == Reason.CONTINUE and proof.exchange is not None:
                exchange, proof.exchange = proof.exchange, None
                return self._end(connection, proof, exchange, data)
        except ScramError:
            return Auth(Reason.NOT_AUTHORIZED)
        return packet

    def _end(
        self, connection: MqttSocket, proof: _ScramLogin, exchange: ScramExchange, data: bytes
    ) -> Auth | None:
        if not proof.user:
            try:
                connection.proof = exchange.final(data)
                proof.user = exchange.user
            except ScramError:
                pass
            self._doorway.settle(connection.number, proof.user or None)
            return None
        answer = exchange.final(data)
        if exchange.user != proof.user:
            return Auth(Reason.NOT_AUTHORIZED)  # [MQTT-4.12.1-2] it would be somebody else
        is_written = connection.write_auth(Reason.SUCCESS, METHOD, answer)
        return None if is_written else Auth(Reason.NOT_AUTHORIZED)

    def forget(self, connection: MqttSocket) -> None:
        self._proofs.pop(connection.number, None)
