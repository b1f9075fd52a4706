"""The strategy ``rendezvous``: publications go to their topic's rendezvous and down its tree.

Entry: `RendezvousRouting` in `routing`, `RendezvousMaintenance` in `maintenance` (links, wishes,
time), `ChordMaintenance` and `ChordTable` in `chord` (the ring: successors, fingers, lookups).
  chord -occupants-> ChordTable -routes-> trees -wanted_from-> maintenance -TopicWanted-> neighbors
`control_plane` is one version of ring and trees; `remap` runs two of them while brokers change
positions. `topics` begins and ends topics, `absent_brokers` says for whom publications are kept,
`idle_links` closes links that neither end needs, `clusters` serves gateways of topic-connected
clusters. `user_placement` sends users to the broker that fits them best (`placement_utility`);
`placement_gossip` (gossip through a collector) tells brokers of a placement cluster of each other.
Not here: failure detector, publication logs and deduplication (`core.routing.topic_connected`);
the steps of a remapping for all brokers (`deploy.remap`).
Invariant: before a publication a neighbor has got all that precede it. ADR 18, 22.
"""
