"""An overlay of five brokers in this process: started, looked at, used, stopped.

    python examples/overlay_in_process.py

Without `in_process=True` each broker is a process of its own, as with `pubweave up`.
"""

import asyncio
import tempfile
from pathlib import Path

import pubweave
from pubweave.plots import draw_tree

LINKS = [("b1", "b2"), ("b1", "b3"), ("b3", "b4"), ("b3", "b5")]


async def main(folder: Path) -> None:
    topology = pubweave.Topology.from_links(LINKS)
    print("\n".join(draw_tree(topology, "b1")))
    spec = pubweave.make_spec(topology, name="small", base_port=0)
    async with pubweave.Overlay(spec, pubweave.RunDirectory(folder), in_process=True) as overlay:
        at = overlay.observer.addresses
        async with pubweave.connect(at["b2"]) as sensor, pubweave.connect(at["b5"]) as screen:
            await sensor.advertise("class prefix 'sensor/'")
            readings = await screen.subscribe("class = 'sensor/heat' and celsius > 20")
            await asyncio.sleep(0.3)
            for celsius in range(15, 25):
                await sensor.publish("sensor/heat", {"celsius": celsius})
            warm = [(await anext(readings)).attributes["celsius"] for _ in range(4)]
        print(f"readings above 20: {warm}")
        seen = await overlay.snapshot()
        print(f"{len(seen.up)} brokers up, {seen.links_up} links up")
        for status in seen.up:
            counters = status.counters
            print(f"  {status.broker}: {counters.publications_in} in, {counters.deliveries} out")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(main(Path(folder)))
