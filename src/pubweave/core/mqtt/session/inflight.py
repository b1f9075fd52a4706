"""In-flight window and queue of one MQTT session: its QoS 1 and 2 deliveries.

```
 put ─> waiting ─number─> SENT ─PubAck (1)──────────────> done
                           └───PubRec (2)─> RELEASED ─PubComp─> done
```

At most ``receive_max`` are numbered (in flight) at once. On the next connection they are sent again
in their order, as duplicates. All of it together is bounded. Beyond that nothing is dropped in
secret: the queue is overrun, and its session ends.
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
    """The client is a bridge: the delivery carries the mark of this overlay."""


class InflightDelivery(msgspec.Struct, frozen=True, rename={"delivery": "parcel"}):
    """A delivery with a packet id; ``is_released``: the client has it, only the id is in use.

    Gateways of other versions know the delivery as ``delivery``."""

    packet_id: int
    delivery: Delivery
    is_released: bool = False


class QueueBudget:
    """The bytes in all queues of a gateway. A publication in several queues counts for each."""

    def __init__(self) -> None:
        self.size_bytes = 0


class InflightQueue:
    """QoS 1 and 2 publications for one session; it outlives connections."""

    def __init__(self, messages_max: int, bytes_max: int, budget: QueueBudget) -> None:
        self.is_overrun = False
        """There was no room for a delivery: there is a gap, and nothing is accepted after it."""
        self._dropped = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._numbered: dict[int, InflightDelivery] = {}
        self._waiting: deque[Delivery] = deque()
        self._budget = budget
        self._size_bytes = 0
        """Of all that waits or is in flight."""
        self._last_id = 0

    @property
    def under_way(self) -> int:
        return len(self._numbered)

    @property
    def size_bytes(self) -> int:
        return self._size_bytes

    def close(self) -> None:
        """The session has ended: its deliveries no longer count in the budget."""
        self._budget.size_bytes -= self._size_bytes
        self._budget = QueueBudget()

    def _grow(self, size_bytes: int) -> None:
        self._size_bytes += size_bytes
        self._budget.size_bytes += size_bytes

    @property
    def last_id(self) -> int:
        return self._last_id

    def contents(self) -> tuple[list[InflightDelivery], list[Delivery]]:
        """What is in flight and what waits, in order."""
        return list(self._numbered.values()), list(self._waiting)

    def fill(self, numbered: list[InflightDelivery], waiting: list[Delivery], last_id: int) -> None:
        """Continue with the `contents` of another queue."""
        self._numbered = {one.packet_id: one for one in numbered}
        self._last_id = last_id
        self._waiting = deque(waiting)
        deliveries = [*waiting, *(one.delivery for one in numbered)]
        size_bytes = sum(delivery.publication.size_bytes for delivery in deliveries)
        self._grow(size_bytes - self._size_bytes)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def lost(self) -> int:
        """How many deliveries are lost if the session ends now, at most."""
        under_way = sum(not one.is_released for one in self._numbered.values())
        return self._dropped + len(self._waiting) + under_way

    def has_room_for(self, deliveries: list[Delivery]) -> bool:
        """Whether there is room for all of them. O(deliveries)."""
        sizes = [delivery.publication.size_bytes for delivery in deliveries if delivery.qos]
        return self._fits(len(sizes), sum(sizes))

    def _fits(self, count: int, size_bytes: int) -> bool:
        count += len(self._waiting) + len(self._numbered)
        return count <= self._messages_max and self._size_bytes + size_bytes <= self._bytes_max

    def put(self, delivery: Delivery) -> bool:
        """Queue a delivery; False if the queue is overrun, now or before."""
        size_bytes = delivery.publication.size_bytes
        if self.is_overrun or not self._fits(1, size_bytes):
            self.is_overrun = True
            self._dropped += 1
            return False
        self._waiting.append(delivery)
        self._grow(size_bytes)
        return True

    def pop(self, receive_max: int) -> Delivery | None:
        """The next delivery to send; None while the in-flight window is full."""
        if not self._waiting or len(self._numbered) >= min(receive_max, PACKET_IDS):
            return None
        delivery = self._waiting.popleft()
        self._grow(-delivery.publication.size_bytes)
        return delivery

    def number(self, delivery: Delivery) -> int:
        """Assign a packet id to a delivery. Ids are used in turn."""
        while True:
            self._last_id = self._last_id % PACKET_IDS + 1
            if self._last_id not in self._numbered:
                break
        self._numbered[self._last_id] = InflightDelivery(self._last_id, delivery)
        self._grow(delivery.publication.size_bytes)
        return self._last_id

    def acknowledged(self, packet_id: int) -> bool:
        """PubAck, or a PubRec that refuses; False if that id is not in flight."""
        known = self._numbered.get(packet_id)
        if known is None or known.is_released:
            return False
        self.discard(packet_id)
        return True

    def received(self, packet_id: int) -> bool:
        """PubRec: the publication will not be sent again, its id stays in use."""
        known = self._numbered.get(packet_id)
        if known is None or known.delivery.qos != 2:
            return False
        self._numbered[packet_id] = InflightDelivery(packet_id, known.delivery, is_released=True)
        return True

    def completed(self, packet_id: int) -> bool:
        """PubComp: the id is free."""
        known = self._numbered.get(packet_id)
        if known is None or not known.is_released:
            return False
        self.discard(packet_id)
        return True

    def expects(self, packet_id: int) -> type[PubAck | PubRec | PubComp] | None:
        """The packet expected next for an id; None if it is not in use."""
        known = self._numbered.get(packet_id)
        if known is None:
            return None
        if known.delivery.qos == 1:
            return PubAck
        return PubComp if known.is_released else PubRec

    def discard(self, packet_id: int) -> None:
        """Free an id: the client has the delivery, or cannot receive it."""
        known = self._numbered.pop(packet_id, None)
        if known is not None:
            self._grow(-known.delivery.publication.size_bytes)

    def unacknowledged(self) -> Iterator[InflightDelivery]:
        """What was in flight when the last connection ended, in order."""
        yield from list(self._numbered.values())
