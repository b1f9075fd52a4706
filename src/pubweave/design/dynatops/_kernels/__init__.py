"""Compiled (numba) kernels of DYNATOPS: arrays in, arrays out.

`trees` grows topic trees on a ring, counts relays and what publications cost on any routed overlay,
`swaps` prices swaps of two brokers and chooses among them, `assignment` places all at once, `users`
and `lasting` place users.

Not here: names, problems and results (`mapping`, `placement`).
Invariant: positions are in ring order, so what lies below a position is a run of the ring. The
naive twins are in ``tests/naive/dynatops.py`` and ``dynatops_systems.py``. ADR 16.
"""
