"""Checkers that know the truth of a run and report where the overlay departed from it.

Entry: `DeliveryChecker` in `delivery` (exactly once, in publisher order, only to who asked).
`mqtt` checks what MQTT promises, `routing_tables` tables at rest, `deployment` how plans really
ended, `autopilot` what the control loop must never do. `delivery_costs` and `transform_measures`
say what deliveries and transformations cost.
Not here: what a strategy promises (`sim.overlays`), repair times (`sim.churn`), the judge of runs
over sockets (`runtime.observe`).
Invariant: `autopilot` and `delivery_costs` share no code with what they judge.
"""
