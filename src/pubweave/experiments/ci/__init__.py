"""CI, the cyclic reorganization of a tree by common interest: Figures 4, 5, 6, and real latencies.

`setting` draws underlay, brokers, clients and prices; `run` plays one heuristic in such a world;
`filters` is what brokers learn through Bloom filters, errors included; `figures` says which runs a
figure needs and registers `ci-fig4` to `ci-fig6`; `real` is `ci-real`. The rules themselves are
`design/ci_rules.py`, the same that brokers use (ADR 9).
"""
