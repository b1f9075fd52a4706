"""CI, the cyclic reorganization of a tree by common interest: Figures 4, 5, 6, and real latencies.

`setting` draws underlay, brokers, clients and prices, `real` takes them from measurements; `run`
(`run_variant`) plays one heuristic in such a world, with what brokers learn through Bloom
filters, errors included; `figures` says which runs a figure needs. The rules themselves are not
here but in `design.ci.rules`, the same that brokers use (ADR 9).
"""
