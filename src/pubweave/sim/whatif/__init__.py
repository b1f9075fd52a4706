"""Recorded traffic in simulation: what a plan, or another overlay, would do to it.

Entry: `rehearse` in `rehearsal` carries a plan out under recorded traffic, before it is carried
out in earnest; `replay` in `replay` plays a record once on an overlay that stands still,
`compare` in `comparison` on two trees.
Not here: random runs under faults (`sim.scenarios`), reading recorded traffic (`telemetry`), where
the autopilot asks for a rehearsal (`autopilot`).
Invariant: nothing is broken on purpose; what is due and does not come, or comes twice, is a
violation as in every run.
"""
