"""The path of a publication through a broker, and the broker's periodic tick.

Entry: `Publishing` in `publishing` (the hot path), `Maintenance` in `maintenance` (the tick).
  MessagesReceived -> route_batch -> route cache or strategy -> session.pending -> flush -> Transmit
Deduplication: `publishing` drops what is not newer than its publisher's last sequence.
Route cache: `publishing` keeps the strategy's answer by origin and topic, where the topic alone
decides, until the strategy's `version` changes.
`maintenance`, once per tick: heartbeat, expiry of clients, stale-entry expiry, load samples.
`outgoing` flushes each touched session at the end of an event and starts back-pressure where the
destination is congested. `teardown` ends sessions. `EarlyLog` (trees) replays to late clients.
Not here: where publications go (`core.routing`), the windows and the back-pressure itself
(`core.session`), deduplication by topic (`core.routing.topic_connected`).
Invariant: messages of one event are handled in their order; sessions are only places to queue.
ADR 2, 23.
"""
