"""The simulator itself: virtual time, network, nodes, disks, store lines, faults and traces.

Entry: `World` in `world`; `SimBroker` and `SimClient` in `nodes` (on `SimNode`) run the
real cores.
  World (heap of instants) -> Node (one batch at a time) -> core -> effects -> Network -> far Node
`journal_node` drives a broker's journal engine on the failing `disk`; `store_links` has lines to
the memory store, `faults` strikes (few runs: `rare_faults`; where something is under way:
`second_faults`), `clocks` are those of brokers, `trace` writes a line for each thing that happens,
`marks` counts rare branches. `random_content` and `random_plans` draw filters, publications and
plans; `results` has what a run returns.
Not here: whole overlays (`sim.overlays`), what is judged (`sim.checkers`), the rules of the
journal (`core.journal.engine`), a real disk (`runtime.journal`).
Invariant: the heap is all there is of a clock, ordered by instant, then by insertion; the same
seed gives the same order. ADR 1, 19, 29.
"""
