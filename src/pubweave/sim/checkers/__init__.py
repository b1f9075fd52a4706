"""Checkers that know the truth of a run and report where the overlay departed from it.

Entry: `DeliveryJudge` in `delivery` (exactly once, in publisher order, only to who asked), which
knows nothing but the `history` of the clients.
`mqtt` checks what MQTT promises, `routing_tables` tables at rest, `deployment` how plans really
ended.
Not here: what the control loop must never do (`sim.autopilot`), what a strategy promises
(`sim.overlays`), repair times, what deliveries and transformations cost (`sim.parts`), the judge
of runs over sockets (`runtime.observe`).
Invariant: no checker of clients' histories asks a broker.
"""
