"""The path of a publication through a broker, its periodic tick, and the parts of a strategy.

Entry: `Publishing` in `publishing` (the hot path), `Maintenance` in `maintenance` (the tick),
`BrokerPart` in `part` (what a strategy brings; `services`: what a part may use of its broker).
  MessagesReceived -> route_batch -> route cache or strategy -> session.pending -> flush -> Transmit
Deduplication: `publishing` drops what is not newer than its publisher's last one (`sequences`).
Route cache: `publishing` keeps the strategy's answer by origin and topic, where the topic alone
decides, until the strategy's `version` changes. `EarlyLog` (trees) replays to late clients.
`tables` takes in table messages, `greeting` begins sessions and links, `teardown` ends them.
`maintenance`: heartbeat, expiry of clients, stale-entry expiry (`grace`), load samples.
`outgoing` flushes each touched session at the end of an event and starts back-pressure.
Not here: routes (`core.routing`), windows (`core.session`), deduplication by topic
(`core.routing.topic_connected`). Invariant: messages of one event are handled in their order;
sessions are only places to queue. ADR 2, 23.
"""
