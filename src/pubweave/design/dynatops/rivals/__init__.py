"""The systems that DYNATOPS is compared with: Bayeux, GeoPS, and topic-connected overlays.

`bayeux` routes by prefixes of ids, `geops` by squares within squares, `tco` follows changing
subscriptions with links; `Places` gives brokers and users places and distances.

Entry: `prefix_overlay` in `bayeux`, `hierarchy_overlay` in `geops`, `ConnectedBrokers` in `tco`.
Not here: DYNATOPS itself (`mapping`), the figures (`experiments.dynatops`).
Invariant: Bayeux and GeoPS are `RoutedOverlay`s, so the same code counts their costs. ADR 16.
"""
