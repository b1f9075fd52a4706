"""Topologies and latencies: generated trees and underlays, and maps of real networks.

`trees` makes trees of all shapes, `hybrid_network` a ring with clusters, `change_links` a target
that differs from its source by a share of the links, `underlay` a physical network as BRITE makes
them, `real_networks` spanning trees of GraphML maps, `latencies` draws latencies or reads a matrix.
`DisjointSets` is union-find.

Entry: `random_tree` in `trees`, `make_underlay` in `underlay`.
Not here: topology files of ours (`model.files.topology`), better topologies (`design`). ADR 3.
"""
