"""A broker's doorway: everything between the listening socket and the core that keeps watch.

Lets connections in (`listener`), keeps strangers to short frames until they have said who they
are, has passwords compared without letting the core see them, and breaks off frames that never
end. The core counts what it refuses (`EntryRefused`).
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import ssl
from collections.abc import Callable, Iterable
from pathlib import Path

from pubweave.core.broker import Broker
from pubweave.core.session.admission import Admission, Refusal
from pubweave.core.vocabulary.effects import VerifyPassword
from pubweave.core.vocabulary.events import (
    ConnectionId,
    EntryRefused,
    Event,
    LoginReceived,
    PasswordVerified,
)
from pubweave.model.messages.session import Disconnect, Login, Message
from pubweave.runtime.entrance.listener import Bind, Listener
from pubweave.runtime.net.addresses import Address, bound_sockets
from pubweave.runtime.net.connection import Connection, ConnectionOwner
from pubweave.runtime.net.mqtt_connection import MqttSocket
from pubweave.runtime.net.tls import client_context, server_context
from pubweave.runtime.security.broker_files import BrokerSecurity, read_revoked
from pubweave.runtime.security.passwords import PasswordVerifier, read_passwords
from pubweave.runtime.security.scram import ScramKeys
from pubweave.wire.codec import encode

Connections = Callable[[], Iterable[Connection]]


class Gatekeeper:
    """Stands between the network and one broker; ``handle`` gives the core an event."""

    def __init__(
        self,
        broker: Broker,
        security: BrokerSecurity | None,
        max_frame_bytes: int,
        handle: Callable[[Event], None],
        now: Callable[[], float],
        bind: Bind = bound_sockets,
    ) -> None:
        """OverlayError if a file of certificates or passwords cannot be used."""
        self.dial_context: ssl.SSLContext | None = None
        """What neighbors are dialed with."""
        self._broker = broker
        self._entry = broker.config.entry
        self._max_frame_bytes = max_frame_bytes
        self._handle = handle
        self._now = now
        self._bind = bind
        self._admission = Admission(self._entry)
        self._passwords: dict[ConnectionId, str] = {}
        self._challenges: dict[ConnectionId, Callable[[], None]] = {}
        """What is done, in the place of comparing passwords, with who proves a name otherwise."""
        self._verifier: PasswordVerifier | None = None
        self._context: ssl.SSLContext | None = None
        if security is not None:
            self._context = server_context(security.tls)
            self.dial_context = client_context(security.tls)
            if security.passwords is not None:
                self._verifier = PasswordVerifier(read_passwords(Path(security.passwords)))
        self._listener: Listener | None = None
        self._all: Connections = tuple
        self._listeners: list[Listener] = []
        """All ways in."""
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def address(self) -> Address:
        assert self._listener is not None, "start() first"
        return self._listener.address

    @property
    def connections(self) -> int:
        """How many stand that came in here."""
        return self._admission.connections

    async def start(self, address: Address, owner: ConnectionOwner, all_: Connections) -> None:
        """Listen; OSError if the address cannot be had."""
        limits = self._broker.config.limits

        def make(on_lost: Callable[[], None]) -> Connection:
            return Connection(
                owner,
                max_frame_bytes=self._max_frame_bytes,
                hello_frame_bytes=self._entry.hello_frame_bytes,
                is_known=self._is_known,
                unread_bytes=8 * limits.window_bytes + 4 * self._max_frame_bytes,
                on_lost=on_lost,
            )

        self._listener = self.listener(make, lambda reason: encode(Disconnect(reason)))
        await self._listener.start(address)
        self._all = all_
        self._look_at()

    def listener(
        self,
        make: Callable[[Callable[[], None]], Connection | MqttSocket],
        farewell: Callable[[str], bytes],
    ) -> Listener:
        """One more way in, under the same limits and certificates."""
        listener = Listener(
            make,
            self._admission,
            self.count,
            self._now,
            context=self._context,
            handshake_s=self._entry.handshake_s,
            handshakes_per_address=self._entry.handshakes_per_address,
            farewell=farewell,
            bind=self._bind,
        )
        self._listeners.append(listener)
        return listener

    @property
    def stalled_frame_s(self) -> float:
        return self._entry.stalled_frame_s

    def reload(self, security: BrokerSecurity) -> frozenset[int]:
        """Read the files again, for all who come from here on; the numbers of revoked certificates,
        whose connections end. OverlayError if a file cannot be used: then nothing has changed."""
        revoked = read_revoked(security.tls)
        context, dial_context = server_context(security.tls), client_context(security.tls)
        if self._verifier is not None and security.passwords is not None:
            self._verifier.replace(read_passwords(Path(security.passwords)))
        self._context, self.dial_context = context, dial_context
        for listener in self._listeners:
            listener.context = context
        for connection in list(self._all()):
            if connection.serial in revoked:
                connection.close("its certificate was revoked")
        return revoked

    def close(self) -> None:
        """Let nobody in any more."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            self._listener.close()
        if self._verifier is not None:
            self._verifier.close()

    def count(self, refusal: Refusal) -> None:
        self._handle(EntryRefused(refusal.value))

    # --- strangers ---------------------------------------------------------------------------

    def greet(self, connection: Connection, messages: list[Message]) -> list[Message]:
        """What of a stranger's messages is for the core; a password is not."""
        if not isinstance(messages[0], Login):
            return messages
        login = messages[0]
        if connection.number not in self._passwords:
            self._passwords[connection.number] = login.password
            self._handle(LoginReceived(connection.number, login.user))
        return messages[1:]

    def keep_password(self, number: ConnectionId, password: str) -> None:
        """The password that came on a connection, until it is compared."""
        self._passwords.setdefault(number, password)

    def forget_password(self, number: ConnectionId) -> None:
        self._passwords.pop(number, None)
        self._challenges.pop(number, None)

    @property
    def has_scram(self) -> bool:
        """Whether any user can prove a password without sending it."""
        return self._verifier is not None and self._verifier.has_scram

    def scram_keys(self, user: str) -> ScramKeys:
        """What checks such a proof; for unknown users, keys that none fits."""
        assert self._verifier is not None, "ask has_scram first"
        return self._verifier.scram_keys(user)

    def challenge(self, number: ConnectionId, begin: Callable[[], None]) -> None:
        """A connection is going to prove its user without sending a password: ``begin`` is called
        when that is its turn, and `settle` says how it ended."""
        self._challenges[number] = begin

    def settle(self, number: ConnectionId, user: str | None) -> None:
        """Whom a connection has proven to be; None: nobody. Heard after what is handled now."""
        loop = asyncio.get_running_loop()
        loop.call_soon(lambda: self._handle(PasswordVerified(number, user)))

    def _is_known(self, number: ConnectionId) -> bool:
        session = self._broker.sessions.of(number)
        return session is not None and session.is_established

    def forget(self, connection: Connection) -> None:
        """A connection is gone."""
        self._passwords.pop(connection.number, None)
        if connection.frame_error is not None:
            self.count(connection.refusal)

    def verify(self, effect: VerifyPassword) -> None:
        """Have a password compared; `PasswordVerified` follows."""
        challenge = self._challenges.pop(effect.connection, None)
        if challenge is not None:
            challenge()
            return
        password = self._passwords.pop(effect.connection, None)
        if self._verifier is None or password is None:
            asyncio.get_running_loop().call_soon(self._verified, effect, False)
            return
        loop = asyncio.get_running_loop()

        def tell(done: concurrent.futures.Future[bool]) -> None:
            if not done.cancelled() and not loop.is_closed():
                is_right = done.exception() is None and done.result()
                loop.call_soon_threadsafe(self._verified, effect, is_right)

        self._verifier.submit(effect.user, password).add_done_callback(tell)

    def _verified(self, effect: VerifyPassword, is_right: bool) -> None:
        self._handle(PasswordVerified(effect.connection, effect.user if is_right else None))

    # --- frames that never end ---------------------------------------------------------------

    def _look_at(self) -> None:
        limit_s = self._entry.stalled_frame_s
        for connection in list(self._all()):
            connection.check_progress(limit_s)
        self._sweep = asyncio.get_running_loop().call_later(limit_s, self._look_at)
