"""The control loop in virtual time: hours of drifting traffic, with and without failures.

Entry: `AutopilotScenario` in `scenario` (everything around the loop fails); `run_day` in `day`
(one day under one policy: keep the tree, always follow the best, or the autopilot).
`checker` knows what the loop must never do, and shares no code with what it judges;
`drifting_traffic` has rates and prices as functions of time; no single notification is simulated.
`checker` knows what the loop must never do, and shares no code with it.
Not here: the loop itself (`control`), the autopilot on a real overlay (`autopilot`).
Invariant: costs are of the truth, never of what a profile says of it.
ADR 11.
"""
