"""Seeded inputs: topologies, underlays and workloads.

Rooms: `topologies` (who is linked with whom and how far apart), `workloads` (who wants and
publishes what).
Not here: our own file formats (`model.files`), drivers that play a workload (`sim`, `runtime`).
Invariant: whatever draws takes a random generator or a seed as an argument, and nothing knows a
clock; the same seed gives the same values. ADR 3.
"""
