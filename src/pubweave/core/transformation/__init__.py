"""Actions of a plan (shift, append, detach): a two-phase commit between brokers.

Entry: `ActionCoordinator` in `coordinator`; this broker is in one action at a time, others wait.
Two-phase coordinator: the action's `LeadingParticipant` (in `participant`) reserves the other
brokers and, when all are ready, asks for the commit. The store records the decision (`deploy`).
  phase   RESERVING --> HOLDING --> READY --> OVER (committed or aborted); by role in `states`
  leader  reserves the others ... all ready: DecideAction --> store --> ActionDecided to all
`shift` has the three roles of a shift, `shift_tables` what they do to tables, `append_detach` the
roles of the other two; `HeldPublications` are held back for the links that change.
`services`: what the parts of a broker on a tree share.
Not here: plans, executor, agents (`deploy`); clients that move (`core.migration`).
Invariant: an abort leaves all as before; a commit comes only in a role's last phase.
ADR 8.
"""
