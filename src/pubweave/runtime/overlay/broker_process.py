"""One broker as a process of its own: what happens between its start and its exit.

The same for a broker forked by `overlay/fork_server` and for ``pubweave broker``: an event loop
by uvloop, a stop on SIGTERM, nothing of any other broker. Orders are plain values that travel as
JSON.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import msgspec
import uvloop

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig, OnLoop
from pubweave.core.config.placement import PlacementConfig
from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.strategies import GRAPHS
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.broker.host_config import HostConfig
from pubweave.runtime.broker.loss_estimate import LossNotes
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.security.broker_files import BrokerSecurity, secured
from pubweave.runtime.store.zookeeper_target import Coordination

if TYPE_CHECKING:
    from pubweave.runtime.coordination.agent_host import AgentHost
    from pubweave.runtime.coordination.organizer_host import OrganizerHost

log = logging.getLogger(__name__)

LOG_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
LEAVE_LIMIT_S = 2.0
"""How long a broker that is stopped waits for others to get on without it."""
_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15


class BrokerOrder(msgspec.Struct, frozen=True):
    """A broker to start, in a form that travels to another process."""

    broker: BrokerId
    listen: Address
    neighbors: dict[BrokerId, Address]
    strategy: str
    log_file: str
    telemetry_directory: str | None = None
    sample_ratio: float = 1.0
    coordination: Coordination | None = None
    advertised: Address | None = None
    organize: OrganizeConfig | None = None
    relocation: RelocationConfig = RelocationConfig()
    distances_ms: dict[BrokerId, float] = {}
    security: BrokerSecurity | None = None
    journal_directory: str | None = None
    position: int | None = None
    ring: tuple[BrokerId, ...] = ()
    placement: PlacementConfig = PlacementConfig()
    mqtt: Address | None = None
    mqtt_on_loop: OnLoop = "warn"

    def host_config(self) -> HostConfig:
        directory = self.telemetry_directory
        config = BrokerConfig(
            id=self.broker,
            strategy=self.strategy,
            organize=self.organize,
            relocation=self.relocation,
            rendezvous=RendezvousConfig(position=self.position),
            topics=TopicConfig(ring=self.ring),
            placement=self.placement,
            mqtt=None
            if self.mqtt is None
            else MqttConfig(address=str(self.mqtt), on_loop=self.mqtt_on_loop),
        )
        return HostConfig(
            broker=secured(config, self.security),
            security=self.security,
            listen=self.listen,
            neighbors=self.neighbors,
            links_at_start=self.coordination is None or self.strategy in GRAPHS,
            advertised=self.advertised,
            telemetry_directory=None if directory is None else Path(directory),
            sample_ratio=self.sample_ratio,
            distances_ms=self.distances_ms,
            mqtt_listen=self.mqtt,
            journal_directory=None
            if self.journal_directory is None
            else Path(self.journal_directory),
            held_file=Path(self.log_file).with_suffix(".held"),
        )


def run_forked(order: BrokerOrder, parent: int, listening: Callable[[Address], None]) -> NoReturn:
    """Be this broker until SIGTERM; never returns into the code that forked."""
    code = 1
    try:
        _become(order, parent)
        uvloop.run(serve(order.host_config(), order.coordination, listening))
        code = 0
    except OverlayError as error:
        log.error("%s", error)
    except BaseException:
        log.exception("broker %s died", order.broker)
    finally:
        logging.shutdown()
        os._exit(code)


class BrokerService:
    """A broker, and its agent where there is a store."""

    def __init__(self, config: HostConfig, coordination: Coordination | None = None) -> None:
        self.host = BrokerHost(config)
        self._notes: LossNotes | None = None
        if config.held_file is not None and config.journal_directory is None:
            self._notes = LossNotes(config.held_file, self.host.broker)
        self.agent = None if coordination is None else _make_agent(self.host, coordination)
        self.organizer = self._make_organizer(coordination)
        if self.host.broker.relocator is None and config.broker.relocation != RelocationConfig():
            strategy = config.broker.strategy
            raise OverlayError(f"publishers of an overlay that routes by {strategy!r} cannot move")

    def _make_organizer(self, coordination: Coordination | None) -> OrganizerHost | None:
        config = self.host.config.broker.organize
        if config is None:
            return None
        if self.agent is None or coordination is None:
            raise OverlayError(
                "a self-organizing overlay needs a store, where changes are decided: "
                "give it one with --zookeeper"
            )
        if self.host.broker.organizer is None:
            strategy = self.host.config.broker.strategy
            raise OverlayError(f"an overlay that routes by {strategy!r} cannot organize itself")
        from pubweave.runtime.coordination.organizer_host import OrganizerHost

        return OrganizerHost(self.host, self.agent, coordination, config)

    async def start(self) -> None:
        """OverlayError if it cannot listen where it should. An agent connects later by itself."""
        await start_host(self.host)
        if self._notes is not None:
            self._notes.start()
        if self.agent is not None:
            await self.agent.start()
        if self.organizer is not None:
            self.organizer.start()

    def reload(self) -> None:
        """Read the security files again; if they cannot be used, everything stays as it was."""
        name = self.host.config.broker.id
        try:
            self.host.reload()
        except OverlayError as error:
            log.error("broker %s goes on as before: %s", name, error)
        else:
            log.warning("broker %s has read its security files again", name)

    async def stop(self) -> None:
        if self.organizer is not None:
            await self.organizer.stop()
        if self.agent is not None:
            await self.agent.stop()
        await self.host.stop()
        if self._notes is not None:
            self._notes.stop()


def _make_agent(host: BrokerHost, coordination: Coordination) -> AgentHost:
    # Imported late: brokers without a store do without kazoo.
    from pubweave.runtime.coordination.agent_host import AgentHost, RemapAgentHost

    is_ring = host.config.broker.strategy == RENDEZVOUS_PROTOCOL
    make = RemapAgentHost if is_ring else AgentHost
    return make(host, coordination.target, coordination.overlay)


async def serve(
    config: HostConfig,
    coordination: Coordination | None,
    listening: Callable[[Address], None],
) -> None:
    """Run one broker until SIGTERM; tell where it listens once it does.

    OverlayError if it cannot listen there."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    service = BrokerService(config, coordination)
    host = service.host
    # The parent is asked to stop; its brokers hear of a closed terminal, too, and need not.
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload)
    try:
        await service.start()
        log.info("broker %s listens at %s", config.broker.id, host.address)
        listening(host.address)
        await stop.wait()
        await host.leave(LEAVE_LIMIT_S)
    finally:
        await service.stop()
        log.info("broker %s stopped: %s", config.broker.id, host.broker.counters.status())


class CannotListenError(OverlayError):
    """A broker's address cannot be had."""


async def start_host(host: BrokerHost) -> None:
    """Start a broker; CannotListenError in words if its address cannot be had."""
    try:
        await host.start()
    except OSError as error:
        broker, listen = host.config.broker.id, host.config.listen
        raise CannotListenError(
            f"broker {broker!r} cannot listen at {listen}: {error.strerror or error}"
        ) from error


def _become(order: BrokerOrder, parent: int) -> None:
    """Leave behind what was forked: signals, standard streams, name."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever coordinates
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(order.log_file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for source, target in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(written)
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, force=True)
    _prctl(_PR_SET_NAME, ctypes.c_char_p(f"pw {order.broker}".encode()[:15]))
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))
    if os.getppid() != parent:
        raise ProcessLookupError("the parent was gone before this broker began")


def _prctl(option: int, value: ctypes.c_char_p | ctypes.c_ulong) -> None:
    """Linux only, and only a convenience: without it the parent still ends its children."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(ctypes.c_int(option), value, 0, 0, 0)
