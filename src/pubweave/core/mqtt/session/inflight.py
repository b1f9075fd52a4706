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
from math import inf

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

    @property
    def expected(self) -> type[PubAck | PubRec | PubComp]:
        """The packet that the client sends next."""
        if self.delivery.qos == 1:
            return PubAck
        return PubComp if self.is_released else PubRec


class QueueBudget:
    """The bytes in all queues of a gateway. A publication in several queues counts for each."""

    def __init__(self, limit_bytes: float = inf) -> None:
        self.limit_bytes = limit_bytes
        self.size_bytes = 0
        self.overrun: dict[str, None] = {}
        """Sessions whose own queue has exceeded its limit."""


class InflightQueue:
    """QoS 1 and 2 publications for one session; it outlives connections."""

    def __init__(self, messages_max: int, bytes_max: int, budget: QueueBudget) -> None:
        self.is_overrun = False
        """There was no room for a delivery: there is a gap, and nothing is accepted after it."""
        self._dropped = 0
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self.numbered: dict[int, InflightDelivery] = {}
        """Deliveries in flight, by packet id."""
        self.waiting: deque[Delivery] = deque()
        self._budget = budget
        self.size_bytes = 0
        """Of all that waits or is in flight."""
        self.last_id = 0

    def close(self) -> None:
        """The session has ended: its deliveries no longer count in the budget."""
        self._budget.size_bytes -= self.size_bytes
        self._budget = QueueBudget()

    def fill(self, numbered: list[InflightDelivery], waiting: list[Delivery], last_id: int) -> None:
        """Continue with the `contents` of another queue."""
        self.numbered = {one.packet_id: one for one in numbered}
        self.last_id = last_id
        self.waiting = deque(waiting)
        deliveries = [*waiting, *(one.delivery for one in numbered)]
        self._budget.size_bytes -= self.size_bytes
        self.size_bytes = sum(delivery.publication.size_bytes for delivery in deliveries)
        self._budget.size_bytes += self.size_bytes

    @property
    def lost(self) -> int:
        """How many deliveries are lost if the session ends now, at most."""
        under_way = sum(not one.is_released for one in self.numbered.values())
        return self._dropped + len(self.waiting) + under_way

    def has_room_for(self, deliveries: list[Delivery]) -> bool:
        """Whether there is room for all of them. O(deliveries)."""
        sizes = [delivery.publication.size_bytes for delivery in deliveries if delivery.qos]
        count = len(sizes) + len(self.waiting) + len(self.numbered)
        return count <= self._messages_max and self.size_bytes + sum(sizes) <= self._bytes_max

    def put(self, delivery: Delivery) -> bool:
        """Queue a delivery; False if the queue is overrun, now or before."""
        size_bytes = self.size_bytes + delivery.publication.size_bytes
        count = len(self.waiting) + len(self.numbered)
        if self.is_overrun or count >= self._messages_max or size_bytes > self._bytes_max:
            self.is_overrun = True
            self._dropped += 1
            return False
        self.waiting.append(delivery)
        self._budget.size_bytes += size_bytes - self.size_bytes
        self.size_bytes = size_bytes
        return True

    def next(self, receive_max: int) -> InflightDelivery | None:
        """The next delivery to send, with a packet id; ids are used in turn. None while the
        in-flight window is full."""
        if not self.waiting or len(self.numbered) >= min(receive_max, PACKET_IDS):
            return None
        number = self.last_id % PACKET_IDS + 1
        while number in self.numbered:
            number = number % PACKET_IDS + 1
        self.last_id = number
        found = self.numbered[number] = InflightDelivery(number, self.waiting.popleft())
        return found

    def received(self, packet_id: int) -> bool:
        """PubRec: the publication will not be sent again, its id stays in use."""
        known = self.numbered.get(packet_id)
        if known is None or known.delivery.qos != 2:
            return False
        self.numbered[packet_id] = InflightDelivery(packet_id, known.delivery, is_released=True)
        return True

    def discard(self, packet_id: int) -> None:
        """Free an id: the client has the delivery, or cannot receive it."""
        known = self.numbered.pop(packet_id, None)
        if known is not None:
            size_bytes = known.delivery.publication.size_bytes
            self.size_bytes -= size_bytes
            self._budget.size_bytes -= size_bytes
