"""One MQTT session, which outlives its client's connections, and the state of a connection.

Entry: `MqttSession` in `session`; `MqttSessionTable` in `table` holds those of a gateway, with
session expiry and will delay (a will is published after its delay, or before that when the session
ends). `inflight`: the in-flight window; at most receive maximum QoS 1 and 2 publications are
numbered.
  put -> waiting -> SENT --PubAck (1)--> gone;  SENT --PubRec (2)--> RELEASED --PubComp--> gone
`deduplicator`: deduplication of what comes on several topics, where brokers route by whole topics.
`shared_groups`: shared group choice (shared subscriptions); every gateway picks the member by the
same hash (rendezvous hashing). `native_client`: the overlay client behind a session.
`cluster_messages`: what gateways say to each other.
Not here: keep-alive and takeover (`core.mqtt`), retained store and gossip (`core.mqtt.cluster`).
Invariant: no QoS 1 or 2 publication is dropped in secret; a session that is given more than it may
keep ends, and its client is told. ADR 21.
"""
