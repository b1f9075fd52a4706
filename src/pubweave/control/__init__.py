"""The control loop without I/O: judge the evidence, decide, record, then act.

    evidence -> alternatives (Bft, Cst) -> gate -> record in the store -> hand-over -> measure

`autopilot` is the loop, a generator of `requests`; drivers answer it (`autopilot.driver` on
sockets, `sim.autopilot` in virtual time). `evidence` says whether a profile suffices (and reads
it), `alternatives` prices options, `gate` decides (DYNATOPS, Algorithm 2), `settings` are the
operator's. `records` are the scripts for decisions. `handover` submits a plan once and says what
happens to a stored decision, `remap_decision` decides on remapping a ring.

Entry: `Autopilot.run` in `autopilot`. Not here: designing (`design`), planning (`planning`,
called by drivers), executing (`deploy`).
Invariant: a decision is recorded before anything is done about it; a loop that was killed goes on
from the store's records alone. ADR 11.
"""
