"""The demo: the whole loop on this machine, from a bad tree to a better one, with proof.

`make_demo` and `demo_spec` in `world` make brokers, tree and stock traders from one seed, `clients`
publish and subscribe, `Demo` in `stages` has traffic, autopilot and second measurement in turn,
`measures` compares them.

    world = make_demo(brokers=20, seed=1)
    overlay = Overlay(demo_spec(world, run_dir), RunDirectory(run_dir), store=StoreChoice())
    await overlay.start()
    async with Demo(world, overlay, run_dir) as demo:
        await demo.improve()
        summary = await demo.sum_up()

Not here: the loop itself (`control`, `autopilot`), printing (`cli.lab.demo`).
Invariant: everything here only starts and measures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave._lazy import lazily

if TYPE_CHECKING:
    from pubweave.demo.stages import Demo as Demo
    from pubweave.demo.stages import DemoSummary as DemoSummary
    from pubweave.demo.world import DemoWorld as DemoWorld
    from pubweave.demo.world import demo_spec as demo_spec
    from pubweave.demo.world import make_demo as make_demo

__getattr__, __all__ = lazily(
    __name__,
    {
        "pubweave.demo.stages": "Demo DemoSummary",
        "pubweave.demo.world": "DemoWorld demo_spec make_demo",
    },
)
