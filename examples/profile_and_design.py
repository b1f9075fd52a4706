"""Profile recorded traffic with Spark, and design a cheaper tree for it. Needs Java 17.

    python examples/profile_and_design.py

A chain of four brokers; the publisher is at one end, its subscribers are at the other.
"""

import asyncio
import tempfile
from pathlib import Path

import pubweave
from pubweave import design, pipeline

CHAIN = pubweave.Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])


async def record(folder: Path, telemetry: Path) -> None:
    """Some traffic on an overlay whose brokers write telemetry."""
    spec = pubweave.make_spec(CHAIN, base_port=0, telemetry_directory=telemetry)
    async with pubweave.Overlay(spec, pubweave.RunDirectory(folder), in_process=True) as overlay:
        at = overlay.observer.addresses
        async with pubweave.connect(at["b1"]) as seller, pubweave.connect(at["b4"]) as buyer:
            await seller.advertise("class = 'STOCK'")
            quotes = await buyer.subscribe("class = 'STOCK'")
            await asyncio.sleep(0.3)
            for number in range(200):
                await seller.publish("STOCK", {"number": number})
            for _ in range(200):
                await anext(quotes)


def main(folder: Path) -> None:
    telemetry = folder / "run" / "telemetry"
    asyncio.run(record(folder / "run", telemetry))
    spark = pipeline.spark_session(quick=True, log=folder / "spark.log")
    try:
        profile = pipeline.profile(spark, telemetry, folder / "profile")
    finally:
        spark.stop()
    for topic in profile.rows("topics"):
        print(f"profile: topic {topic['topic']}, {topic['publications']} publications")
    # Nobody has measured the links that do not exist: take 1 ms for each of them.
    problem = design.problem_of(profile, CHAIN, assumed_ms=1.0)
    best = design.exact(problem)
    before = design.tree_cost(problem.traffic, problem.prices, CHAIN).total
    print(f"cost of the chain {before:.1f} ms, of the best tree {best.cost:.1f} ms")
    print(f"the best tree ({best.status.value}): {', '.join(map(str, sorted(best.links)))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
