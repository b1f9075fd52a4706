"""What ``pubweave remap`` sees of a ring: how a remapping goes; whether one pays (Algorithm 2)."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgspec

from pubweave.cli.errors import BadInput
from pubweave.cli.output import print_json, remark, warn
from pubweave.control.remap_decision import ObservedRing, RemapDecider, RemapDecision
from pubweave.deploy.layout import Layout
from pubweave.deploy.remap.documents import (
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
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.security.directory import operator_credentials
from pubweave.runtime.store.session import opened_store, read_address, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

LOOK_EVERY_S = 0.1


@dataclass(frozen=True)
class LoopChoice:
    """How often to look, by what weight, and when to end (None: on Ctrl-C)."""

    every_s: float
    delay_weight: float
    rounds: int | None


async def observe(store: ZooKeeperStore, where: Coordination) -> dict[BrokerId, RendezvousStatus]:
    """What every living broker says of ring and trees; BadInput if one does not, or has none."""
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
                raise BadInput(f"broker {broker!r} does not answer: wait until it is back")
            try:
                statuses[broker] = msgspec.json.decode(document, type=RendezvousStatus)
            except msgspec.ValidationError as error:
                raise BadInput(
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


async def watch_remap(
    store: ZooKeeperStore, overlay: str, begun: RemapDocument, stop: StopRequest, as_json: bool
) -> RemapDocument:
    """Follow a remapping to its end, or until a stop is asked for."""
    last: RemapDocument | None = None
    while True:
        seen = await run_command(store, read_remap(Layout(overlay)))
        if seen is not None and seen.version == begun.version and seen != last:
            last = seen
            if as_json:
                print_json({"event": "step", **remap_document(seen)})
            elif not seen.step.is_final:
                remark(f"remapping {seen.version}: {seen.step.value}")
        if last is not None and (last.step.is_final or stop.is_set):
            return last
        await stop.wait(LOOK_EVERY_S)


def remap_document(remap: RemapDocument) -> dict[str, object]:
    return {
        "version": remap.version,
        "step": remap.step.value,
        "brokers": len(remap.mapping),
        "reason": remap.reason or None,
    }


async def keep_remapping(where: Coordination, loop: LoopChoice, as_json: bool) -> int:
    """Look once per period until a stop is asked for; the exit code."""
    decider = RemapDecider(loop.every_s, loop.delay_weight)
    rounds = 0
    async with StopRequest() as stop, opened_store(where.target) as store:
        while not stop.is_set and (loop.rounds is None or rounds < loop.rounds):
            await stop.wait(loop.every_s)
            if stop.is_set:
                break
            rounds += 1
            try:
                decision = decider.decide(observed_ring(await observe(store, where)))
                _tell(decision, as_json)
                if decision.positions is not None:
                    begun = await run_command(
                        store, submit_remap(Layout(where.overlay), decision.positions)
                    )
                    await watch_remap(store, where.overlay, begun, stop, as_json)
            except (BadInput, RemapRefusedError) as error:
                warn(f"{error}; trying again in {loop.every_s:g} s")
    return stop.exit_code


def _tell(decision: RemapDecision, as_json: bool) -> None:
    if as_json:
        print_json({"event": "decision", **asdict(decision)})
        return
    text = f"cost {decision.cost_now:,.0f} per period: {decision.reason}"
    if decision.cost_then is not None:
        text += (
            f"; {decision.cost_then:,.0f} after moving {decision.moved} brokers, "
            f"benefit {decision.benefit:,.0f} for {decision.reconfiguration_cost:,.0f} messages"
        )
    remark(text)
