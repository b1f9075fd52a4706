"""Messages between brokers, and between a broker and its clients, as frozen structs.

Entry: `session`: `Hello`, `Ack`, `Ping` (the heartbeat), tables, actions, exchanges, queries.
`migration`, `relocation`, `topic_connected` and `rendezvous` have those of one protocol each.
Sequenced messages are counted, acknowledged and sent again by a session. Session messages (such as
`Hello` and `Ack`) keep the session going, are not counted and may get lost with a connection.
Not here: publications (`model.publications`), bytes and the table of kinds (`wire.codec`), when a
message is sent (the room of its protocol in `core`), MQTT packets (`model.mqtt_packets`), what
MQTT gateways say to each other (`core.mqtt.session`).
Invariant: a sequenced message has a `size_bytes`, by which session windows count; a new kind also
needs an entry in `KINDS` of `wire.codec`.
ADR 2, 5.
"""
