"""A scenario of your own: a chain of brokers that lightning strikes, simulated for a few seeds.

python examples/own_scenario.py

An installed package adds such a scenario to ``pubweave simulate`` by an entry point:

    [project.entry-points."pubweave.scenarios"]
    storm = "own_scenario:STORM"
"""

import pubweave
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.generate.topologies.trees import chain
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.parts.clients import RandomClients, TreeCounters
from pubweave.sim.parts.run import Options, Setting, SimPart, SimRun
from pubweave.sim.scenarios.scenario import Scenario


class Lightning(SimPart):
    """In every stretch of activity it cuts all connections between brokers at once."""

    def __init__(self, run: SimRun) -> None:
        self.run = run
        self.strikes = 0

    def begin(self, end: float) -> None:
        world = self.run.world
        world.at(world.uniform(world.now, end), self.strike)

    def strike(self) -> None:
        self.strikes += 1
        for path in self.run.overlay.paths:
            if path.connection is not None:
                self.run.overlay.network.drop(path.connection)

    def counts(self) -> dict[str, int]:
        return {"lightning": self.strikes}


def storm(world: World, options: Options) -> SimRun:
    """What one run is like is drawn from its seed: here only how long the chain is."""
    setting = Setting(
        topology=chain(world.integer(2, options.max_brokers)),
        limits=SessionLimits(),
        handling=HandlingTime(),
        faults=FaultRates(),
        clients=6,
        rounds=2,
        round_s=3.0,
        actions_per_round=60,
    )
    run = SimRun("storm", world, options, setting, TreeOverlay, BrokerConfig)
    clients = RandomClients(run)
    run.compose(clients, Lightning(run), TreeCounters(run))
    return run


STORM = Scenario("a chain of brokers that lightning strikes", storm, max_brokers=6)


def main() -> None:
    for result in pubweave.simulate(STORM, range(3)):
        lost = len(result.violations)
        print(f"seed {result.seed}: {result.counts['lightning']} strikes, {lost} violations")


if __name__ == "__main__":
    main()
