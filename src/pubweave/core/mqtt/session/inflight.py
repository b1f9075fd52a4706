"""What is on its way to one MQTT client: numbered QoS 1 and 2 publications, and those that wait.

```
 put ─> waiting ─number─> SENT ─PubAck (1)──────────────> gone
                           └───PubRec (2)─> RELEASED ─PubComp─> gone
```

At most ``receive_max`` are numbered at once. On the next connection, numbered ones go again in
their order, as duplicates. All of it together is bounded. Beyond that nothing is dropped in secret:
the outbox is overrun, and its session ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import msgspec

from pubweave.model.mqtt_packets import PubAck, PubComp, PubRec
from pubweave.model.publications import Publication

PACKET_IDS = 65_535


class Delivery(msgspec.Struct, frozen=True):
    """A publication for one client, as its subscriptions want it."""

    publication: Publication
    qos: int
    retain: bool = False
    subscription_ids: tuple[int, ...] = ()
    is_marked: bool = False
    """The client passes it on, perhaps to this overlay: it is told where it comes from."""


class InflightDelivery(msgspec.Struct, frozen=True):
    """A parcel under way; ``is_released``: the client has it, only the number is in use."""

    packet_id: int
    parcel: Delivery
    is_released: bool = False


class QueueBudget:
    """The bytes in all outboxes of a door. One publication in several counts for each."""

    def __init__(self) -> None:
        self.size_bytes = 0


class InflightQueue:
    """QoS 1 and 2 publications for one session; it outlives connections."""

    def __init__(self, messages_max: int, bytes_max: int, tally: QueueBudget) -> None:
        self.is_overrun = False
        """More came than there was room for: there is a gap, and nothing is taken after it."""
        self._dropped = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._numbered: dict[int, InflightDelivery] = {}
        self._waiting: deque[Delivery] = deque()
        self._tally = tally
        self._size_bytes = 0
        """Of all that waits or is numbered."""
        self._last_id = 0

    @property
    def under_way(self) -> int:
        return len(self._numbered)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        """The session is over: what is in here counts no longer."""
        self._tally.size_bytes -= self._size_bytes
        self._tally = QueueBudget()

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        self._tally.size_bytes += size_bytes

    @property
    def last_id(self) -> int:
        return self._last_id

    def contents(self) -> tuple[list[InflightDelivery], list[Delivery]]:
        """What is under way and what waits, in order."""
        return list(self._numbered.values()), list(self._waiting)

    def fill(self, numbered: list[InflightDelivery], waiting: list[Delivery], last_id: int) -> None:
        """Go on where another outbox was (`contents`)."""
        self._numbered = {one.packet_id: one for one in numbered}
        self._last_id = last_id
        self._waiting = deque(waiting)
        parcels = [*waiting, *(one.parcel for one in numbered)]
        size_bytes = sum(parcel.publication.size_bytes for parcel in parcels)
        self._grow(size_bytes - self._size_bytes)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def lost(self) -> int:
        """How many the client may never get if this ends now."""
        under_way = sum(not one.is_released for one in self._numbered.values())
        return self._dropped + len(self._waiting) + under_way

    def has_room_for(self, parcels: list[Delivery]) -> bool:
        """Whether all of them could wait. O(parcels)."""
        sizes = [parcel.publication.size_bytes for parcel in parcels if parcel.qos]
        return self._fits(len(sizes), sum(sizes))

    def _fits(self, count: int, size_bytes: int) -> bool:
        count += len(self._waiting) + len(self._numbered)
        return count <= self._messages_max and self._size_bytes + size_bytes <= self._bytes_max

    def put(self, parcel: Delivery) -> bool:
        """Let a parcel wait; False: the outbox is overrun, now or before."""
        size_bytes = parcel.publication.size_bytes
        if self.is_overrun or not self._fits(1, size_bytes):
            self.is_overrun = True
            self._dropped += 1
            return False
        self._waiting.append(parcel)
        self._grow(size_bytes)
        return True

    def pop(self, receive_max: int) -> Delivery | None:
        """The next that may be sent; None while enough are under way."""
        if not self._waiting or len(self._numbered) >= min(receive_max, PACKET_IDS):
            return None
        parcel = self._waiting.popleft()
        self._grow(-parcel.publication.size_bytes)
        return parcel

    def number(self, parcel: Delivery) -> int:
        """The packet id under which a parcel is sent. Ids are used in turn."""
        while True:
            self._last_id = self._last_id % PACKET_IDS + 1
            if self._last_id not in self._numbered:
                break
        self._numbered[self._last_id] = InflightDelivery(self._last_id, parcel)
        self._grow(parcel.publication.size_bytes)
        return self._last_id

    def acknowledged(self, packet_id: int) -> bool:
        """PubAck, or a PubRec that refuses; False: nothing of that number was under way."""
        known = self._numbered.get(packet_id)
        if known is None or known.is_released:
            return False
        self.discard(packet_id)
        return True

    def received(self, packet_id: int) -> bool:
        """PubRec: the publication will not be sent again, its number stays in use."""
        known = self._numbered.get(packet_id)
        if known is None or known.parcel.qos != 2:
            return False
        self._numbered[packet_id] = InflightDelivery(packet_id, known.parcel, is_released=True)
        return True

    def completed(self, packet_id: int) -> bool:
        """PubComp: the number is free."""
        known = self._numbered.get(packet_id)
        if known is None or not known.is_released:
            return False
        self.discard(packet_id)
        return True

    def expects(self, packet_id: int) -> type[PubAck | PubRec | PubComp] | None:
        """The answer that is due for a number; None: it is not in use."""
        known = self._numbered.get(packet_id)
        if known is None:
            return None
        if known.parcel.qos == 1:
            return PubAck
        return PubComp if known.is_released else PubRec

    def discard(self, packet_id: int) -> None:
        """A number is free: the client has what was sent under it, or cannot have it."""
        known = self._numbered.pop(packet_id, None)
        if known is not None:
            self._grow(-known.parcel.publication.size_bytes)

    def again(self) -> Iterator[InflightDelivery]:
        """What was under way when the last connection ended, in its order."""
        yield from list(self._numbered.values())
