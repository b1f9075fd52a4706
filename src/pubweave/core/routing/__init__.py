"""Routing strategies: where subscriptions, advertisements and publications go.

Entry: `RoutingStrategy` in `strategy`, the interface that each strategy implements;
`core.strategies` finds them by name. `strategy` also has what all keep of local clients;
`publisher_gate` makes publishers wait, where a strategy asks for it.
`flooding` sends every publication to every broker of a tree. Rooms: `tree` routes by content on a
tree, `topic_connected` floods the brokers of a topic on any graph, `rendezvous` sends to a topic's
rendezvous broker on a Chord ring.
Not here: connections and acknowledgements (`core.session`), the index (`core.matching`), the route
cache and the queues (`core.dataplane`).
Invariant: `route` names each session at most once. The broker caches an answer that depends on
topic and origin only, until `version` grows.
ADR 8 (tree), 17 (topic-connected), 18 (rendezvous), 26 (strategies of other packages).
"""
