"""Publish and subscribe: two clients at two brokers, in one program.

    python examples/publish_and_subscribe.py

To use an overlay that runs already (`pubweave up tree.json`), give its address to `connect`.
"""

import asyncio
import tempfile
from pathlib import Path

import pubweave


async def main(folder: Path) -> None:
    topology = pubweave.Topology.from_links([("b1", "b2"), ("b2", "b3")])
    spec = pubweave.make_spec(topology, base_port=0)  # 0: any free ports
    async with pubweave.Overlay(spec, pubweave.RunDirectory(folder), in_process=True) as overlay:
        at = overlay.observer.addresses
        async with pubweave.connect(at["b1"]) as seller, pubweave.connect(at["b3"]) as buyer:
            await seller.advertise("class = 'STOCK'")
            quotes = await buyer.subscribe("class = 'STOCK' and volume > 1000")
            await asyncio.sleep(0.3)  # the subscription is on its way to b1
            for volume in (500, 2000, 3000):
                await seller.publish("STOCK", {"symbol": "ACME", "volume": volume}, b"a quote")
            for _ in range(2):
                quote = await anext(quotes)
                print(f"{quote.topic} {dict(quote.attributes)} {quote.payload.decode()}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
