"""The strategies ``tree`` and ``tree_covering``: content routing on a tree of brokers.

Entry: `TreeRouting` in `routing`. Advertisements flood, subscriptions follow their reverse paths,
publications the reverse paths of subscriptions. `link_table`: what one link knows and was told.
`link_sync` and `Withdrawals` bring a neighbor that began anew up to date:
  a -- advertisements, Synced(ADVERTISEMENTS) asks --> b
  a <-- subscriptions, Synced(SUBSCRIPTIONS) answers - b  (what a has for b waits at a gate)
`withdrawals`: advertisements that such a neighbor needs again for what is still under way.
Stale-entry expiry: `stale_entries` marks what such a neighbor told before; what it does not tell
again is dropped after a grace (timed in `core.dataplane`).
`confirmation`: whether a subscription is in place towards all publishers; its client is told.
`own_advertisements`: which of those of own clients the tree has answered; others make them wait.
Not here: the index (`core.matching`), holds and switched tables (`core.transformation`).
Invariant at rest: on each link exactly the needed subscriptions are passed on, or covered by
passed-on ones, and the neighbor holds exactly the passed-on ones. ADR 8, 23, 27.
"""
