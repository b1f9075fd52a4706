"""The real broker and client cores in virtual time: scenarios, faults, checkers, traces.

Entry: `run_seed` in `simulate`; `SCENARIOS` there has all scenarios by name, `SimTelemetry` writes
a run's telemetry.
Rooms: `kernel` time, network, nodes, disks, faults; `hosts` what stands beside a broker;
`overlays` whole overlays with their truth; `checkers` judge; `scenarios` (trees, plans, MQTT),
`churn` (brokers that come and go) and `autopilot` (the control loop) are the runs; `whatif` plays
recorded traffic.
  seed -> scenario -> overlay -> nodes -> network -> ... -> checkers -> RunResult, trace
Not here: protocols (`core`), sockets (`runtime`, which this package does not know), generated
topologies and workloads (`generate`).
Invariant: the same seed gives the same run and the same trace, byte for byte.
ADR 1.
"""
