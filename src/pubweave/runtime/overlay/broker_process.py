"""One broker as a process of its own: what happens between its start and its exit.

The same for a broker forked by `overlay/fork_server` and for ``pubweave broker``: an event loop
by uvloop, a stop on SIGTERM, nothing of any other broker.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import msgspec
import uvloop

from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.relocation.relocator import Relocator
from pubweave.core.self_organizing.organizer import Organizer
from pubweave.core.strategies import find_strategy
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.broker.loss_estimate import LossNotes
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.settings.text import changes
from pubweave.runtime.settings.tree import Settings
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


class StartBroker(msgspec.Struct, frozen=True):
    """What the process of a broker is given."""

    settings: Settings
    """The overlay's, with this broker's own addresses and places in them."""
    log_file: str
    coordination: Coordination | None = None


def run_forked(order: StartBroker, parent: int, listening: Callable[[Address], None]) -> NoReturn:
    """Be this broker until SIGTERM; never returns into the code that forked."""
    code = 1
    try:
        _become(order, parent)
        uvloop.run(serve(order.settings, order.coordination, listening))
        code = 0
    except OverlayError as error:
        log.error("%s", error)
    except BaseException:
        log.exception("broker %s died", order.settings.broker.id)
    finally:
        logging.shutdown()
        os._exit(code)


class BrokerService:
    """A broker, and its agent where there is a store."""

    def __init__(self, settings: Settings, coordination: Coordination | None = None) -> None:
        broker = settings.broker
        is_free = coordination is None or not find_strategy(broker.strategy).needs_tree
        self.host = BrokerHost(settings, links_at_start=is_free)
        self._notes: LossNotes | None = None
        if broker.journal.held_file is not None and broker.journal_directory is None:
            self._notes = LossNotes(broker.journal.held_file, self.host.broker, self.host.handle)
        self.agent = None if coordination is None else _make_agent(self.host, coordination)
        self.organizer = self._make_organizer(coordination)
        if self.host.broker.part(Relocator) is None and settings.relocation != RelocationConfig():
            raise OverlayError(
                f"publishers of an overlay that routes by {broker.strategy!r} cannot move"
            )

    def _make_organizer(self, coordination: Coordination | None) -> OrganizerHost | None:
        config = self.host.settings.self_organizing
        if not config.enabled:
            return None
        if self.agent is None or coordination is None:
            raise OverlayError(
                "a self-organizing overlay needs a store, where changes are decided: "
                "give it one with --zookeeper"
            )
        if self.host.broker.part(Organizer) is None:
            strategy = self.host.config.strategy
            raise OverlayError(f"an overlay that routes by {strategy!r} cannot organize itself")
        from pubweave.runtime.coordination.organizer_host import OrganizerHost

        return OrganizerHost(self.host, self.agent.store, coordination.overlay, config)

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
        name = self.host.config.id
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

    is_ring = host.config.strategy == RENDEZVOUS_PROTOCOL
    make = RemapAgentHost if is_ring else AgentHost
    return make(host, coordination.target, coordination.overlay)


async def serve(
    settings: Settings,
    coordination: Coordination | None,
    listening: Callable[[Address], None],
) -> None:
    """Run one broker until SIGTERM; tell where it listens once it does.

    OverlayError if it cannot listen there."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    service = BrokerService(settings, coordination)
    host = service.host
    # The parent is asked to stop; its brokers hear of a closed terminal, too, and need not.
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload)
    try:
        log.info("settings: %s", json.dumps(changes(settings), sort_keys=True))
        await service.start()
        log.info("broker %s listens at %s", host.config.id, host.address)
        listening(host.address)
        await stop.wait()
        await host.leave(LEAVE_LIMIT_S)
    finally:
        await service.stop()
        log.info("broker %s stopped: %s", host.config.id, host.broker.counters.status())


class CannotListenError(OverlayError):
    """A broker's address cannot be had."""


async def start_host(host: BrokerHost) -> None:
    """Start a broker; CannotListenError in words if its address cannot be had."""
    try:
        await host.start()
    except OSError as error:
        broker, listen = host.config.id, host.config.listen
        raise CannotListenError(
            f"broker {broker!r} cannot listen at {listen}: {error.strerror or error}"
        ) from error


def _become(order: StartBroker, parent: int) -> None:
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
    _prctl(_PR_SET_NAME, ctypes.c_char_p(f"pw {order.settings.broker.id}".encode()[:15]))
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))
    if os.getppid() != parent:
        raise ProcessLookupError("the parent was gone before this broker began")


def _prctl(option: int, value: ctypes.c_char_p | ctypes.c_ulong) -> None:
    """Linux only, and only a convenience: without it the parent still ends its children."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "prctl"):
        libc.prctl(ctypes.c_int(option), value, 0, 0, 0)
