"""The real broker and client cores in virtual time: scenarios, faults, checkers, traces.

Entry: `simulate` in `simulate` runs a scenario over seeds; `SCENARIOS` there has ours by name, and
entry points of the group ``pubweave.scenarios`` add others.
  seed -> scenario -> parts on an overlay -> nodes -> network -> ... -> checkers -> RunResult, trace
Rooms: `kernel` time, network, nodes, disks, faults; `hosts` what stands beside a broker;
`overlays` whole overlays with their truth; `checkers` judge; `parts` what runs are composed of;
`scenarios` compose them; `autopilot` the control loop; `whatif` plays recorded traffic.
Not here: protocols (`core`), sockets (`runtime`, which this package does not know), generated
topologies and workloads (`generate`).
Invariant: the same seed gives the same run and the same trace, byte for byte. ADR 1.

>>> import pubweave
>>> [result.violations for result in pubweave.simulate("routing", range(2), max_brokers=4)]
[(), ()]
"""
