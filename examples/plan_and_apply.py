"""Plan from one tree to another, and walk a running overlay through the plan.

    python examples/plan_and_apply.py

Needs ZooKeeper's jars and Java, as every overlay that can be changed; docs/operating.md says where
they are looked for. Publications go on while links change, and none is lost.
"""

import asyncio
import tempfile
from pathlib import Path

import pubweave
from pubweave import planning

CHAIN = pubweave.Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
STAR = pubweave.Topology.from_links([("b1", "b2"), ("b1", "b3"), ("b1", "b4")])


async def main(folder: Path) -> None:
    result = planning.solve(CHAIN, STAR)
    record = result.record(CHAIN, STAR)
    for number, step in enumerate(record.plan.steps, 1):
        print(f"step {number}: {', '.join(map(str, step))}")
    spec = pubweave.make_spec(CHAIN, base_port=0)
    store = pubweave.StoreChoice()  # a ZooKeeper of its own
    run_directory = pubweave.RunDirectory(folder)
    async with pubweave.Overlay(spec, run_directory, store=store) as overlay:
        at = overlay.observer.addresses
        async with pubweave.connect(at["b1"]) as seller, pubweave.connect(at["b4"]) as buyer:
            await seller.advertise("class = 'STOCK'")
            quotes = await buyer.subscribe("class = 'STOCK'")
            await asyncio.sleep(0.5)
            where = pubweave.Coordination(spec.name, overlay.zookeeper)
            applying = asyncio.create_task(pubweave.apply_plan(where, record))
            published = 0
            while not applying.done():
                await seller.publish("STOCK", {"number": published})
                published += 1
                await asyncio.sleep(0.02)
            ended = await applying
            numbers = [(await anext(quotes)).attributes["number"] for _ in range(published)]
        print(f"plan {ended.deployment.state.value}")
        print(f"all {published} publications arrived in order: {numbers == list(range(published))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
