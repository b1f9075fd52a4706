"""Scenarios as values: which overlay kind, workload, faults and checkers a run is composed of.

Entry: `Scenario` in `scenario`. `trees` has `routing`, `transform`, `relocate` and `reorganize`,
`topics` has `churn`, `rendezvous`, `placement` and `hybrid`, and `mqtt` is alone.
  seed -> draw the setting -> SimRun(overlay kind, configuration) -> compose(workload, parts)
Not here: the parts themselves and the phases of a run (`sim.parts`), the control loop
(`sim.autopilot`).
Invariant: what a run is like is drawn from its seed.
ADR 8, 10, 13, 15, 17, 18, 21, 22.
"""
