"""The closed vocabulary of the core: events that come in, effects that go out.

Entry: `Event` in `events` (past tense: what has happened), `Effect` in `effects` (imperative: what
is to be done). `errors` has `RefusedError`, by which a client's request is refused,
`reserved_topics` the topics that gateways keep to themselves; `state_table` is what the tables of
states of sessions, actions and migrations are made of. `rare_branches` has the marks of branches
that few runs reach.
Not here: messages between brokers (`model.messages`), MQTT packets (`model.mqtt_packets`), how
events become journal records (`core.journal`).
Invariant: the driver carries effects out in the order of the list; a `CloseConnection` comes after
the last `Transmit` to that connection.
ADR 1, 29.
"""
