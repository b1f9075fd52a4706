"""The ring of a running overlay: looked at, remapped, and remapped again whenever that pays."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from pubweave.control.remap_decision import ObservedRing, RemapDecider, RemapDecision
from pubweave.deploy.documents import Layout
from pubweave.deploy.remap.remapper import (
    RemapDocument,
    RemapRefusedError,
    read_remap,
    submit_remap,
)
from pubweave.deploy.store import List
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import RendezvousStatus
from pubweave.model.records.status import TOPICS_SUBJECT
from pubweave.runtime.client.observer import OverlayObserver
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.security.directory import operator_credentials
from pubweave.runtime.store.session import read_address, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

LOOK_EVERY_S = 0.1
OnStep = Callable[[RemapDocument], None]


class RingError(OverlayError):
    """A ring that cannot be looked at, or not be remapped so."""


async def ring_statuses(
    store: ZooKeeperStore, where: Coordination
) -> dict[BrokerId, RendezvousStatus]:
    """What every living broker says of ring and trees; RingError if one does not, or has none."""
    layout = Layout(where.overlay)
    addresses: dict[BrokerId, Address] = {}
    for broker in (await store.ask(List(layout.brokers))).children:
        if address := await read_address(store, layout, broker):
            addresses[broker] = address
    statuses = {}
    async with OverlayObserver(addresses, (), operator_credentials(where.security)) as observer:
        for broker in addresses:
            document = await observer.query(broker, TOPICS_SUBJECT)
            if document is None:
                raise RingError(f"broker {broker!r} does not answer: wait until it is back")
            try:
                statuses[broker] = msgspec.json.decode(document, type=RendezvousStatus)
            except msgspec.ValidationError as error:
                raise RingError(
                    f"overlay {where.overlay!r} has no ring: start it with --strategy rendezvous"
                ) from error
    return statuses


def observed_ring(statuses: dict[BrokerId, RendezvousStatus]) -> ObservedRing:
    """Positions, wishes, and rates as the topics' rendezvous see them."""
    return ObservedRing(
        positions={broker: status.own.position for broker, status in statuses.items()},
        topics={
            broker: tuple(tree.topic for tree in status.trees if tree.is_subscribed)
            for broker, status in statuses.items()
        },
        rates={
            tree.topic: tree.publications_per_s
            for status in statuses.values()
            for tree in status.trees
            if tree.is_rendezvous
        },
    )


async def remap_to(
    store: ZooKeeperStore, where: Coordination, mapping: Mapping[BrokerId, int]
) -> RemapDocument:
    """Begin to move brokers: position 0 of a mapping is the first on the ring that one has now.

    RingError if the mapping does not name every broker once."""
    statuses = await ring_statuses(store, where)
    if statuses.keys() != mapping.keys():
        odd = sorted(statuses.keys() ^ mapping.keys())
        which = "the mapping lacks" if odd[0] in statuses else "no broker runs that is called"
        raise RingError(f"{which} {odd[0]!r}: a mapping names every broker once")
    ids = sorted(status.own.position for status in statuses.values())
    positions = {broker: ids[place] for broker, place in mapping.items()}
    return await run_command(store, submit_remap(Layout(where.overlay), positions))


async def watch_remap(
    store: ZooKeeperStore, overlay: str, begun: RemapDocument, stop: StopRequest, on_step: OnStep
) -> RemapDocument:
    """Follow a remapping to its end, or until a stop is asked for."""
    last: RemapDocument | None = None
    while True:
        seen = await run_command(store, read_remap(Layout(overlay)))
        if seen is not None and seen.version == begun.version and seen != last:
            last = seen
            on_step(seen)
        if last is not None and (last.step.is_final or stop.is_set):
            return last
        await stop.wait(LOOK_EVERY_S)


async def remap_when_it_pays(
    store: ZooKeeperStore,
    where: Coordination,
    decider: RemapDecider,
    stop: StopRequest,
    *,
    rounds: int | None = None,
    on_decision: Callable[[RemapDecision], None],
    on_step: OnStep,
    on_trouble: Callable[[Exception], None],
) -> None:
    """Look once per period of the decider, ``rounds`` times or until a stop is asked for."""
    done = 0
    while rounds is None or done < rounds:
        if await stop.wait(decider.period_s):
            return
        done += 1
        try:
            decision = decider.decide(observed_ring(await ring_statuses(store, where)))
            on_decision(decision)
            if decision.positions is not None:
                command = submit_remap(Layout(where.overlay), decision.positions)
                begun = await run_command(store, command)
                await watch_remap(store, where.overlay, begun, stop, on_step)
        except (RingError, RemapRefusedError) as error:
            on_trouble(error)
