"""Design: the cheapest overlay for measured traffic, and what each change would save.

Rooms: `tree` (cost model, link exchanges, searches for a cheaper tree), `ci` (CI's local
heuristics), `relocation` (where publishers and subscribers cost least), `tco` (topic-connected
overlays of low degree), `dynatops` (brokers on a Chord ring, users at brokers).
`warm_up` compiles all numba kernels into the cache on disk.

Not here: the way from one overlay to another (`planning`), whether a change pays (`control`), and
carrying it out (`deploy`). Nothing here does I/O beyond parsing documents that are handed in.
Invariant: modules that live brokers import (`ci.rules`, `relocation.reports`, ...) load no numba:
compiling or loading would stop a broker for a second.
ADR 9 (trees), 14 (topic-connected), 15 (relocation), 16 (DYNATOPS).
"""
