"""A topic-connected overlay of brokers whose subscriptions change: what DYNATOPS is compared with.

Whenever the subscribers of some topic are no longer connected, links change. *rebuilt* does what
the paper's comparison does, with Low-ODA in the place of DCB-M: the part of the overlay whose
subscriptions changed is built anew; with thousands of changes an hour that is all of it. *mended*
repairs around the changed brokers (`tco.churn`), once an hour; *each* does so after every single
topic that a broker begins or ends to want. The cost is the number of links that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import numpy as np
import numpy.typing as npt

from pubweave.design.dynatops._kernels import routed as kernels
from pubweave.design.dynatops._kernels.trees import Flags, Indices, Integers
from pubweave.design.dynatops.mapping.routed_overlay import Notified, Publications
from pubweave.design.tco.changes import ChurnSettings, Resubscribe
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tco.verify import verify


class RepairPolicy(Enum):
    """How an overlay follows its brokers' subscriptions."""

    REBUILT = "rebuilt"
    MENDED = "mended"
    EACH = "each"


def subscriptions_of(wanted: Flags) -> Subscriptions:
    """Brokers b0, b1, ... and topics t0, t1, ... of a matrix by broker and topic."""
    owners, topics = np.nonzero(wanted)
    names = [f"b{number}" for number in range(wanted.shape[0])]
    return Subscriptions.from_pairs(
        names, [f"t{number}" for number in range(wanted.shape[1])], owners, topics
    )


class ConnectedBrokers:
    """An overlay that is topic-connected after every `follow`.

    >>> brokers = ConnectedBrokers(np.array([[1, 0], [1, 1], [0, 1]], np.uint8), Upkeep.REBUILT)
    >>> brokers.links.tolist()
    [[1, 0], [1, 2]]
    >>> brokers.follow(np.array([[1, 1], [1, 0], [0, 1]], np.uint8))
    2
    """

    def __init__(self, wanted: Flags, upkeep: RepairPolicy, seed: int = 1) -> None:
        self._wanted = wanted.copy()
        subscriptions = subscriptions_of(wanted)
        self.links = build_overlay(subscriptions)
        self._mended = (
            MaintainedOverlay(
                subscriptions, self.links, ChurnSettings(), np.random.default_rng(seed)
            )
            if upkeep is not RepairPolicy.REBUILT
            else None
        )
        self._one_by_one = upkeep is RepairPolicy.EACH

    def follow(self, wanted: Flags) -> int:
        """Let brokers want other topics; returns how many links were removed and added."""
        if self._mended is None:
            changed = self._rebuild(wanted)
        else:
            changed = self._mend(self._mended, wanted)
        self._wanted = wanted.copy()
        return changed

    def _rebuild(self, wanted: Flags) -> int:
        subscriptions = subscriptions_of(wanted)
        if verify(subscriptions, self.links).is_connected:
            return 0
        before = _pairs(self.links)
        self.links = build_overlay(subscriptions)
        return len(before ^ _pairs(self.links))

    def _mend(self, overlay: MaintainedOverlay, wanted: Flags) -> int:
        changed = 0
        for changes in self._rounds(wanted):
            changed += overlay.apply(changes).changed
            overlay.update_backups()
            changed += overlay.tidy().changed
        _, self.links = overlay.snapshot()
        return changed

    def _rounds(self, wanted: Flags) -> Iterator[list[Resubscribe]]:
        """All changes at once, or one topic of one broker after the other."""
        begun, ended = wanted > self._wanted, wanted < self._wanted
        if self._one_by_one:
            for broker, topic in np.argwhere(begun).tolist():
                yield [Resubscribe(f"b{broker}", begun=(f"t{topic}",))]
            for broker, topic in np.argwhere(ended).tolist():
                yield [Resubscribe(f"b{broker}", ended=(f"t{topic}",))]
            return
        yield [
            Resubscribe(f"b{broker}", _names(begun[broker]), _names(ended[broker]))
            for broker in np.flatnonzero((begun | ended).any(axis=1)).tolist()
        ]

    def notify(self, users: Indices, publications: Publications) -> Notified:
        """Publications spread among the brokers that want them, each getting one message.

        O(publications * links)."""
        starts, neighbors = _adjacency(len(self._wanted), self.links)
        outcome = np.zeros(3)
        kernels.hops_within(
            starts, neighbors, self._wanted, publications.brokers, publications.topics, users,
            outcome,
        )  # fmt: skip
        messages, reached, hops = outcome.tolist()
        return Notified(len(publications.topics), messages, 0.0, hops, hops, reached)


def _names(topics: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(f"t{topic}" for topic in np.flatnonzero(topics))


def _pairs(links: Indices) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in links.tolist()}


def _adjacency(count: int, links: Indices) -> tuple[Integers, Indices]:
    ends = np.concatenate([links, links[:, ::-1]])
    order = np.argsort(ends[:, 0], kind="stable")
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends[:, 0], minlength=count), out=starts[1:])
    return starts, np.ascontiguousarray(ends[order, 1]).astype(np.int32)
