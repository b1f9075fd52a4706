"""What the store holds of a remapping, and what an operator does to it: submit, abort.

There is one document. Whoever changes it compares and sets, so a remapping has one history, and
the step that stands there is the decision: as long as it is before FINISH it can be aborted.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping

import msgspec

from pubweave.deploy.documents import BrokerDocument, Document, decode, encode
from pubweave.deploy.layout import Layout
from pubweave.deploy.store import Create, List, Outcome, Read, StoreAnswer, StoreRequest, Write
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import Occupant
from pubweave.model.remaps import RemapStep, step_after

FIRST_VERSION = 1
"""The version of an overlay that nobody has remapped yet."""

Script = Generator[StoreRequest, StoreAnswer, "RemapDocument"]
"""Requests to the store, each of which is sent its answer; at the end, what stands there."""


class RemapRefusedError(Exception):
    """What was asked for cannot be; says why, and what to do."""


class RemapDocument(Document, frozen=True, kw_only=True):
    """The last remapping: which, how far, and who is to be where."""

    version: int
    step: RemapStep
    mapping: tuple[Occupant, ...]
    reason: str = ""
    """Why it was aborted."""

    def next(self) -> RemapDocument:
        """All brokers have done the step."""
        return msgspec.structs.replace(self, step=step_after(self.step))

    def aborted(self, reason: str) -> RemapDocument:
        assert not self.step.is_decided, self.step
        return msgspec.structs.replace(self, step=RemapStep.ABORTED, reason=reason)


def submit_remap(layout: Layout, positions: Mapping[BrokerId, int]) -> Script:
    """Have every living broker take its position. O(brokers) requests.

    Raises `RemapRefusedError` if one is under way, or if brokers and positions do not fit."""
    if len(set(positions.values())) < len(positions):
        raise RemapRefusedError("the mapping gives one position to two brokers")
    answer = yield Read(layout.remap)
    last = _found(answer)
    if last is not None and not last.step.is_final:
        raise RemapRefusedError(
            f"remapping {last.version} is under way ({last.step.value}): wait for it, or abort it"
        )
    mapping = yield from _occupants(layout, positions)
    version = FIRST_VERSION + 1 if last is None else last.version + 1
    document = RemapDocument(version=version, step=RemapStep.INIT, mapping=mapping)
    change: StoreRequest = Create(layout.remap, encode(document))
    if last is not None:
        change = Write(layout.remap, encode(document), answer.version)
    written = yield change
    if written.outcome is not Outcome.OK:
        raise RemapRefusedError("somebody else submitted a remapping just now: look, and try again")
    return document


def _occupants(
    layout: Layout, positions: Mapping[BrokerId, int]
) -> Generator[StoreRequest, StoreAnswer, tuple[Occupant, ...]]:
    living = (yield List(layout.brokers)).children
    missing = [broker for broker in living if broker not in positions]
    if missing:
        raise RemapRefusedError(f"the mapping has no position for {', '.join(missing)}")
    found = []
    for broker in living:
        path = layout.broker(broker)
        answer = yield Read(path)
        if answer.outcome is Outcome.OK:
            address = decode(answer.data, BrokerDocument, path).address
            found.append(Occupant(positions[broker], broker, address))
    if not found:
        raise RemapRefusedError("no broker is registered in the store")
    return tuple(found)


def abort_remap(layout: Layout, reason: str) -> Script:
    """Return to the old version; `RemapRefusedError` if it is too late, or nothing runs."""
    while True:
        answer = yield Read(layout.remap)
        last = _found(answer)
        if last is None or last.step.is_final:
            raise RemapRefusedError("no remapping is under way")
        if last.step.is_decided:
            raise RemapRefusedError(f"remapping {last.version} is past its last step back")
        document = last.aborted(reason)
        written = yield Write(layout.remap, encode(document), answer.version)
        if written.outcome is Outcome.OK:
            return document


def read_remap(layout: Layout) -> Generator[StoreRequest, StoreAnswer, RemapDocument | None]:
    """The last remapping, if there was one."""
    return _found((yield Read(layout.remap)))


def _found(answer: StoreAnswer) -> RemapDocument | None:
    if answer.outcome is not Outcome.OK:
        return None
    return decode(answer.data, RemapDocument, answer.request.path)
