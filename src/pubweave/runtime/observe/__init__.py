"""Looking at a running overlay from outside, and judging whether it delivered.

Entry: `OverlaySource` in `dashboard_source` gives the dashboard its snapshots, with `rates`
(brokers' counters) and `telemetry_tail` (the newest telemetry files); `serving_dashboard` in
`dashboard_server` serves the page. `LiveRelocation` in `live_relocation` has clients traced and
moved, `check_run` in `security_check` says what is open, `PulseMeter` in `pulse` how an overlay
fares. `workload` runs publishers and subscribers as real clients; `judge` in `delivery_oracle`
compares what came with what should have come.
Not here: asking brokers for their status (`runtime.client`), the page (`dashboard`), profiles
(`pipeline`), checkers of simulated runs (`sim.checkers`).
Invariant: the oracle judges by `Filter.matches` and shares nothing with matching or routing. When
brokers, store or telemetry are away, a snapshot says so and shows the rest.
ADR 12.
"""
