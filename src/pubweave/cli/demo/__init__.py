"""The verb ``demo``: the whole loop on this machine, from a bad tree to a better one.

`world` makes brokers, tree and stock traders from one seed, `clients` publish and subscribe,
`stages` has traffic, autopilot and second measurement in turn, `measures` compares them.

Entry: `demo` in `demo`. Not here: the loop itself (`control`, `autopilot`).
Invariant: everything here only starts, shows and measures.
"""
