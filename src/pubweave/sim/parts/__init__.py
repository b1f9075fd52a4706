"""What runs are composed of: phases, workloads, churn, plans, and what each must hold at rest.

Entry: `SimRun` in `run` has the phases, once: start -> rounds of (activity under faults -> rest and
check -> burst) -> result. A `SimPart` takes part in them; the workload is the one with the clients.
Workloads: `clients` (native) and `mqtt_clients`. Parts: `plans` (on `deployments`), `migrations`,
`organizing`, `churn` with its `repair_watch`, and `remaps`. `plan_costs` knows what a plan costs.
Not here: what one run is like, and which parts it has (`sim.scenarios`), what strategies promise
and what a crash may lose (`sim.overlays`).
Invariant: parts know each other only where one is made with the other; all draw from the one
generator of the world. ADR 8, 10, 13, 15, 17, 18, 19, 21, 22.
"""
