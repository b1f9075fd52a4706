"""The autopilot on a real overlay: answers the control loop with Spark and ZooKeeper.

Entry: `run_autopilot` and `LivePilot` in `driver`.
  control.autopilot -- request --> LivePilot --> Profiler | weigh, plan | rehearsal | Carrier
                   <-- reply -------------+
`profiler` keeps Spark in a process of its own, `telemetry_window` gives it the telemetry of the
last while. In `driver` are also the rehearsal of a plan in simulation (in a process of its own) and
the `Carrier`, which carries a plan out on the overlay.
Not here: the decisions (`control`), the executor (`deploy`, `runtime.coordination`), the pipeline
(`pipeline`), the loop in virtual time (`sim.autopilot`), options and printing (`cli`).
Invariant: nothing is kept that the store does not have, so this process may be killed at any time.
ADR 11.
"""
