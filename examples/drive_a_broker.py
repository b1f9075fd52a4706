"""Drive a broker by hand: events go in, effects come out. No sockets, no clock, no threads.

    python examples/drive_a_broker.py

The simulator, the tests and the asyncio driver all use the same core in this way. Here two clients
are connected to one broker, and what one side transmits is an event of the other.
"""

from collections import deque
from collections.abc import Iterable

from pubweave import parse_filter
from pubweave.core.broker import Broker
from pubweave.core.client import ClientCore
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.effects import Effect, Notify, Transmit
from pubweave.core.vocabulary.events import ConnectionOpened, Event, MessagesReceived

NOW = 0.0
BROKER = 0
"""Everybody has a number: the broker this one, a client that of its connection."""


def main() -> None:
    broker = Broker(BrokerConfig("b1"), epoch=1, now=NOW)
    seller, buyer = (ClientCore(name, epoch=1, now=NOW) for name in ("seller", "buyer"))
    everybody: dict[int, Broker | ClientCore] = {BROKER: broker, 1: seller, 2: buyer}
    names = {BROKER: "b1", 1: "seller", 2: "buyer"}
    queue: deque[tuple[int, Event]] = deque()

    def carry(whose: int, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Transmit):
                to = effect.connection if whose == BROKER else BROKER
                kinds = ", ".join(type(message).__name__ for message in effect.messages)
                print(f"  {names[whose]} -> {names[to]}: {kinds}")
                queue.append((to, MessagesReceived(effect.connection, effect.messages, NOW)))
            elif isinstance(effect, Notify):
                texts = [f"{each.topic} {dict(each.attributes)}" for each in effect.publications]
                print(f"  {names[whose]} is notified: {'; '.join(texts)}")
        while queue:
            to, event = queue.popleft()
            carry(to, everybody[to].handle(event, NOW))

    for number, client in ((1, seller), (2, buyer)):
        print(f"{client.id} connects")
        carry(BROKER, broker.handle(ConnectionOpened(number), NOW))
        carry(number, client.handle(ConnectionOpened(number, "b1"), NOW))
    print("what is offered, what is wanted, and what is published")
    seller.advertise(parse_filter("class = 'STOCK'"))
    carry(1, seller.flush())
    buyer.subscribe(parse_filter("class = 'STOCK' and volume > 1000"))
    carry(2, buyer.flush())
    for volume in (500, 2000):
        seller.publish("STOCK", {"volume": volume}, b"", NOW)
    carry(1, seller.flush())


if __name__ == "__main__":
    main()
