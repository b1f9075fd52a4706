"""A broker on this machine: its core between a listening socket, dialed neighbors and a timer.

All of the protocol is in `core.broker`; this module only carries events to it and effects away.
Links are added here when the broker starts, or by whoever knows them (`agent_host`), and by the
core itself while an action is carried out. Where a neighbor listens is asked before each dialing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

from pubweave.core.broker import Broker, no_journal
from pubweave.core.metering.metering import Metering
from pubweave.core.vocabulary.effects import (
    CloseConnection,
    CloseLink,
    DecideAction,
    Effect,
    EmitTelemetry,
    OpenLink,
    OrganizeEffect,
    PauseReading,
    ReportAction,
    ReportProblem,
    ReportRemap,
    Transmit,
    TransmitPackets,
    VerifyPassword,
)
from pubweave.core.vocabulary.events import (
    AccessChanged,
    AddressKnown,
    ConnectionClosed,
    ConnectionId,
    ConnectionOpened,
    DeadlineReached,
    DialRefused,
    DriverCounted,
    Event,
    HandlingFailed,
    HandlingMeasured,
    LeaveEnded,
    LeaveRequested,
    LinkAdded,
    LinkRemoved,
    LocalPauseEnded,
    MessagesReceived,
)
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Hello, Message, Role
from pubweave.model.records.access import AccessRules
from pubweave.model.telemetry import Record, with_driver_figures, with_matching_ms
from pubweave.runtime.broker.machine import Machine
from pubweave.runtime.broker.telemetry_writer import TelemetryWriter
from pubweave.runtime.entrance.gatekeeper import Gatekeeper
from pubweave.runtime.entrance.mqtt_listener import MqttListener
from pubweave.runtime.journal.host import BrokerJournal, patient
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import DeadlineTimer
from pubweave.runtime.net.connection import LINGER_S, Connection
from pubweave.runtime.net.dialer import Dialer
from pubweave.runtime.security.broker_files import secured
from pubweave.runtime.security.directory import broker_security
from pubweave.runtime.settings.tree import Settings

log = logging.getLogger(__name__)

LEAVE_LOOK_S = 0.02
HANDLING_EVERY_S = 1.0
"""How often the core is told how long a message takes to handle."""
SMOOTHING = 0.02
"""The weight of one more event in the mean time that a message takes."""
WILDCARDS = ("0.0.0.0", "::")
"""Where a broker listens on all interfaces: no address that a client could be sent to."""


class BrokerHost:
    """Runs one broker until `stop`. Of each link, the broker with the smaller id dials."""

    def __init__(
        self, settings: Settings, *, links_at_start: bool = True, machine: Machine | None = None
    ) -> None:
        """``links_at_start``: the neighbors of the settings are linked from the beginning; else
        somebody else says which are. OverlayError for security files that cannot be used."""
        self.settings = settings
        self.config = config = settings.broker
        self._security = broker_security(config.security, config.id)
        core = secured(settings.core_config(), self._security)
        self.core_config = core if config.journal_directory is None else patient(core)
        """What the core was told at its start."""
        self._links_at_start = links_at_start
        self.resolve: Callable[[BrokerId], Awaitable[Address | None]] = self.configured_address
        """Where a broker listens, as far as it is known at the moment."""
        self.on_action: Callable[[DecideAction | ReportAction | ReportRemap], None] = (
            _nobody_listens
        )
        self.on_organize: Callable[[OrganizeEffect], None] = _nobody_listens
        self._machine = machine or Machine()
        self._clock = self._machine.clock
        self._timer = DeadlineTimer(self._clock, self._on_deadline)
        self._connections: dict[ConnectionId, Connection] = {}
        self._dialers: dict[BrokerId, Dialer] = {}
        self._single_dials: dict[BrokerId, Dialer] = {}
        """Dialers that dial once, at brokers whose part it is to dial us."""
        self._told: dict[BrokerId, Address] = {}
        self._delay_lines: dict[ConnectionId, DelayLine] = {}
        self._handling_s = 0.0
        self._mean_handling_ms = 0.0
        self._handling_at = 0.0
        self._all_closed = asyncio.Event()
        self._journal: BrokerJournal | None = None
        if config.journal_directory is not None:
            self._journal = BrokerJournal(
                config.journal_directory,
                self.core_config,
                self._clock,
                self._machine.journal_policy,
                open_disk=self._machine.disk,
                thread=self._machine.thread("journal"),
            )
            self._journal.carry_out = self._carry_out
        self.is_back = False
        """The broker came back from its journal."""
        self.broker = self._make_broker(self._clock.epoch())
        self._feed = self._make_feed()
        self._doorway = Gatekeeper(
            self.broker,
            self._security,
            config.max_frame_bytes,
            self.handle,
            self._clock.now,
            self._machine.listening_sockets,
        )
        self._entrance: MqttListener | None = None
        if config.mqtt.listen is not None:
            self._entrance = MqttListener(config.mqtt, self._doorway, self._handle_packets)

    def _make_broker(self, epoch: int) -> Broker:
        config = self.config
        metering = None
        if config.telemetry_directory is not None:
            metering = Metering(config.id, config.telemetry.sample, epoch=epoch)
        back = None if self._journal is None else self._journal.recover(metering)
        self.is_back = back is not None
        made = replace(self.core_config, secret=self._machine.secret())
        status = no_journal if self._journal is None else self._journal.status
        return back or Broker(
            made, epoch=epoch, now=self._clock.now(), metering=metering, journal_status=status
        )

    def _make_feed(self) -> TelemetryFeed | None:
        config = self.config
        if config.telemetry_directory is None:
            return None
        writer = TelemetryWriter(config.telemetry_directory, config.id)
        return TelemetryFeed(writer, self.handle)

    @property
    def address(self) -> Address:
        """Where the broker listens, with the port it really got."""
        return self._doorway.address

    @property
    def is_secured(self) -> bool:
        """Whether connections run over TLS."""
        return self._security is not None

    @property
    def mqtt_address(self) -> Address | None:
        """Where the broker listens for MQTT clients; None: it does not."""
        return None if self._entrance is None else self._entrance.address

    async def configured_address(self, broker: BrokerId) -> Address | None:
        """Where a neighbor listens as we were told at the start, or by the core since."""
        return self._told.get(broker) or self.config.neighbors.get(broker)

    async def start(self) -> None:
        """Listen and dial. OSError if the address cannot be had."""
        if self._journal is not None:
            # Before anybody can come in: what is told from here on is in the journal.
            first = self._journal.begin(self.broker, self._clock.epoch(), is_back=self.is_back)
            # After this, for the agent begins behind the broker.
            asyncio.get_running_loop().call_soon(self._carry_out, first)
            # It came back with the rules that held when it was killed.
            self._apply_rules(self.core_config.access)
        assert self.config.listen is not None, "a broker listens somewhere"
        await self._doorway.start(self.config.listen, self, self._connections.values)
        if self._entrance is not None and self.config.mqtt.listen is not None:
            await self._entrance.start(self.config.mqtt.listen)
        reachable = self.config.advertise or self.address
        if reachable.host not in WILDCARDS and self.broker.sessions.address != str(reachable):
            self.handle(AddressKnown(str(reachable)))
        for neighbor in sorted(self.broker.sessions.links):
            self._dial(neighbor)
        if self._links_at_start:
            for neighbor in sorted(self.config.neighbors):
                self.handle(LinkAdded(neighbor))
        self._arm()

    def _change_link(self, effect: OpenLink | CloseLink) -> None:
        if isinstance(effect, CloseLink):
            self._dial_no_more(effect.neighbor)
            return
        if effect.address:
            self._told[effect.neighbor] = Address.parse(effect.address)
        if effect.dial_once:
            self._dial_once(effect.neighbor)
        else:
            self._dial(effect.neighbor)

    def _dial(self, neighbor: BrokerId) -> None:
        if neighbor in self._dialers or self.config.id > neighbor:
            return
        self._dialers[neighbor] = dialer = self._dialer(neighbor)
        dialer.start()

    def _dial_once(self, neighbor: BrokerId) -> None:
        before = self._single_dials.get(neighbor)
        if before is not None:
            before.cease()
        self._single_dials[neighbor] = dialer = self._dialer(neighbor, is_single=True)
        dialer.start()

    def _dialer(self, neighbor: BrokerId, *, is_single: bool = False) -> Dialer:
        async def addresses() -> tuple[Address, ...]:
            address = await self.resolve(neighbor)
            return () if address is None else (address,)

        dialer = Dialer(
            neighbor,
            addresses,
            self,
            max_frame_bytes=self.config.max_frame_bytes,
            is_single=is_single,
            context=self._doorway.dial_context,
        )
        if self.broker.parts.handles(DialRefused):
            dialer.on_refused = lambda: self.handle(DialRefused(neighbor))
        return dialer

    def _dial_no_more(self, neighbor: BrokerId) -> None:
        for dialers in (self._dialers, self._single_dials):
            dialer = dialers.pop(neighbor, None)
            if dialer is not None:
                dialer.cease()

    async def stop(self) -> None:
        """Close every connection and write out all telemetry."""
        self._timer.cancel()
        for dialer in (*self._dialers.values(), *self._single_dials.values()):
            await dialer.stop()
        self._doorway.close()
        if self._entrance is not None:
            self._entrance.close()
        for connection in list(self._connections.values()):
            connection.close("the broker stops")
        if self._connections:
            self._all_closed.clear()
        else:
            self._all_closed.set()
        with contextlib.suppress(TimeoutError):
            # Longer than they linger: what an end causes must still find the journal open.
            async with asyncio.timeout(LINGER_S + 1.0):
                await self._all_closed.wait()
                if self._entrance is not None:
                    await self._entrance.wait_closed()
        if self._feed is not None:
            await asyncio.to_thread(self._feed.close)
        if self._journal is not None:
            await self._journal.close()

    def reload(self) -> None:
        """Read certificates, revocations, passwords and rules again. Who is inside and may not be
        any more is told and let go. OverlayError if a file cannot be used: nothing has changed."""
        security = self._security
        if security is None:
            return
        fresh = secured(self.core_config, security)
        revoked = self._doorway.reload(security)
        for dialer in (*self._dialers.values(), *self._single_dials.values()):
            dialer.context = self._doorway.dial_context
        if self._entrance is not None:
            self._entrance.end_revoked(revoked)
        self._apply_rules(fresh.access)

    def _apply_rules(self, rules: AccessRules | None) -> None:
        if rules != self.broker.sessions.access.rules:
            self.handle(AccessChanged(rules))

    async def leave(self, limit_s: float) -> None:
        """In a topic-connected overlay: stay until the others are connected without us."""
        parts = self.broker.parts
        if not parts.handles(LeaveRequested):
            return
        self.handle(LeaveRequested())
        for _ in range(int(limit_s / LEAVE_LOOK_S)):
            if parts.may_go(self._clock.now()):
                break
            await asyncio.sleep(LEAVE_LOOK_S)
        self.handle(LeaveEnded())

    # --- from the connections --------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self._connections[connection.number] = connection
        dialers = (*self._dialers.values(), *self._single_dials.values())
        neighbor = next((d.remote for d in dialers if d.connection is connection), None)
        self.handle(ConnectionOpened(connection.number, neighbor, connection.certified))

    def messages_received(self, connection: Connection, messages: list[Message]) -> None:
        if connection.is_stranger:
            messages = self._doorway.greet(connection, messages)
            if not messages:
                return
        if self.config.distances_ms:
            line = self._delay_line(connection, messages[0])
            if line is not None:
                line.put(lambda: self._take(connection, messages))
                return
        self._take(connection, messages)

    def _delay_line(self, connection: Connection, message: Message) -> DelayLine | None:
        """The line of a connection to a broker at a distance: it says at first who it is."""
        if isinstance(message, Hello) and message.role is Role.BROKER:
            delay_ms = self.config.distances_ms.get(message.id, 0.0)
            if delay_ms > 0:
                self._delay_lines[connection.number] = DelayLine(delay_ms / 1000.0)
        return self._delay_lines.get(connection.number)

    def _take(self, connection: Connection, messages: list[Message]) -> None:
        now = self._now()
        event = MessagesReceived(connection.number, messages, now)
        try:
            effects = self.broker.handle(event, now)
        except Exception:
            # A bug of ours: whoever triggered it is cut off, everybody else is served on.
            log.exception("handling messages failed; closing the connection they came from")
            self._go_on_after(event, now)
            connection.abort()
            return
        handled_s = self._clock.now() - now
        leaving = self._noted(event, now, effects)
        self._note_handling(handled_s, len(messages))
        self._carry_out(leaving)
        if now >= self._handling_at:
            self._handling_at = now + HANDLING_EVERY_S
            self.handle(HandlingMeasured(self._mean_handling_ms))
        self._arm()

    def _go_on_after(self, event: Event, now: float) -> None:
        """An event raised: it is in the journal like any other, and the core is told."""
        self._carry_out(self._noted(event, now, []))
        self.handle(HandlingFailed())

    def _noted(self, event: Event, now: float, effects: list[Effect]) -> list[Effect]:
        """Those effects that need not wait for the journal."""
        return effects if self._journal is None else self._journal.noted(event, now, effects)

    def _note_handling(self, seconds: float, messages: int) -> None:
        self._handling_s = seconds / messages
        self._mean_handling_ms += SMOOTHING * (1000.0 * self._handling_s - self._mean_handling_ms)
        if self._journal is not None:
            self._journal.measured(seconds)

    def connection_closed(self, connection: Connection) -> None:
        line = self._delay_lines.pop(connection.number, None)
        if line is None:
            self._forget(connection)
        else:
            line.put(lambda: self._forget(connection))  # after what came before it

    def _forget(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)
        if not self._connections:
            self._all_closed.set()
        if connection.frame_error is not None:
            log.warning("closed a connection: %s", connection.frame_error)
            self.handle(DriverCounted("protocol_errors", 1))
        self._doorway.forget(connection)
        self.handle(ConnectionClosed(connection.number))

    # --- to and from the core --------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the core an event and carry out what it wants."""
        now = self._now()
        self._carry_out(self._noted(event, now, self.broker.handle(event, now)))
        if isinstance(event, LinkAdded):
            self._dial(event.neighbor)
        elif isinstance(event, LinkRemoved):
            self._dial_no_more(event.neighbor)
        self._arm()

    def _now(self) -> float:
        """The time of the next event. After a pause of this process the core hears of that first:
        whatever it is given next, it must not take its own sleep for others' silence."""
        now = self._clock.now()
        if paused_s := self._timer.take_pause(now):
            log.warning("this process did not run for %.1f s", paused_s)
            event = LocalPauseEnded(paused_s)
            self._carry_out(self._noted(event, now, self.broker.handle(event, now)))
        return now

    def _handle_packets(self, event: Event) -> bool:
        """The same for what an MQTT client sent; False: it cannot be handled."""
        try:
            self.handle(event)
        except Exception:
            # A bug of ours: whoever triggered it is cut off, everybody else is served on.
            log.exception("handling packets failed; closing the connection they came from")
            self._go_on_after(event, self._clock.now())
            return False
        return True

    def _on_deadline(self) -> None:
        self.handle(DeadlineReached())

    def _arm(self) -> None:
        self._timer.arm(self.broker.next_deadline())

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Transmit:
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    connection.write(effect.messages)
            elif isinstance(effect, TransmitPackets | PauseReading):
                if self._entrance is not None:
                    self._entrance.carry_out(effect)
            elif isinstance(effect, CloseConnection):
                self._close(effect)
            elif isinstance(effect, VerifyPassword):
                self._doorway.verify(effect)
            elif isinstance(effect, EmitTelemetry):
                if self._feed is not None:
                    self._feed.submit(effect.records, self._handling_s)
            else:
                self._change_overlay(effect)

    def _close(self, effect: CloseConnection) -> None:
        connection = self._connections.get(effect.connection)
        if connection is not None:
            log.info("closing a connection: %s", effect.reason)
            connection.close(effect.reason)
        elif self._entrance is not None:
            self._entrance.carry_out(effect)

    def _change_overlay(self, effect: Effect) -> None:
        if isinstance(effect, OpenLink | CloseLink):
            self._change_link(effect)
        elif isinstance(effect, DecideAction | ReportAction | ReportRemap):
            self.on_action(effect)
        elif isinstance(effect, OrganizeEffect):
            self.on_organize(effect)
        elif isinstance(effect, ReportProblem):
            log.warning("broker %s: %s", self.broker.config.id, effect.text)


def _nobody_listens(
    effect: DecideAction | ReportAction | ReportRemap | OrganizeEffect,
) -> None:
    log.error("%s, and there is no agent to take it", effect)


# A delay line: what goes in comes out in the same order, each thing as late as the other.
#
# With one per link, brokers on one machine behave as if they were apart: what a neighbor sends is
# handled only after the time it would have been under way.


Deed = Callable[[], None]


class DelayLine:
    """Deeds that are done ``delay_s`` after they were put in. Memory is bounded by whoever puts
    them in: a link's window bounds what can be under way."""

    def __init__(self, delay_s: float) -> None:
        self.delay_s = delay_s
        self._waiting: deque[tuple[float, Deed]] = deque()
        self._loop = asyncio.get_running_loop()

    def put(self, deed: Deed) -> None:
        due = self._loop.time() + self.delay_s
        self._waiting.append((due, deed))
        if len(self._waiting) == 1:
            self._loop.call_at(due, self._come_out)

    def _come_out(self) -> None:
        # One timer for the first, so that equal instants cannot be served in another order.
        now = self._loop.time()
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting[0][1]()
            self._waiting.popleft()
        if self._waiting:
            self._loop.call_at(self._waiting[0][0], self._come_out)


class TelemetryFeed:
    """Completes records with handling time, processor time and drops, and submits them."""

    def __init__(self, writer: TelemetryWriter, handle: Callable[[Event], None]) -> None:
        """``handle`` gives the core an event."""
        self._writer = writer
        self._handle = handle
        self._dropped = 0
        self._cpu_s = time.process_time()

    def submit(self, records: Mapping[str, list[Record]], handling_s: float) -> None:
        """``handling_s`` is how long the core took per message of the event."""
        complete = dict(records)
        for table in ("publications", "hops"):
            if table in complete:
                complete[table] = with_matching_ms(complete[table], handling_s * 1000.0)
        if "broker_loads" in complete:
            dropped = self._writer.stats().dropped
            if dropped > self._dropped:
                event = DriverCounted("records_dropped", dropped - self._dropped)
                # Behind the effects that are carried out now.
                asyncio.get_running_loop().call_soon(self._handle, event)
                self._dropped = dropped
            complete["broker_loads"] = with_driver_figures(
                complete["broker_loads"], self._window_cpu_s(), dropped
            )
        self._writer.submit(complete)

    def _window_cpu_s(self) -> float:
        """Processor time of the whole process, whichever brokers run in it."""
        before, self._cpu_s = self._cpu_s, time.process_time()
        return self._cpu_s - before

    def close(self) -> None:
        """Write out everything; blocks."""
        self._writer.close()
