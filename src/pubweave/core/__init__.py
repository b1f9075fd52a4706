"""Brokers and clients as state machines: events come in, effects go out, no I/O, no clock.

Entry: `Broker` in `broker`: `handle` takes an event and returns the effects, `next_deadline` says
when the next `DeadlineReached` is due. This level is the facade: `strategies` says how brokers
route and which parts they need for it, `assembly` makes what all have in common, `broker` hands
events and messages to the parts, `queries` answers questions and makes the status, `rule_change`
applies new access rules, `confirming` confirms subscriptions on trees. `client` is the client's end
of a session (deduplication by publisher, a heartbeat of its own). Each protocol has its own room.
Not here: sockets (`runtime`), virtual time (`sim`), bytes (`wire`).
  MessagesReceived -> Publishing.route_batch -> RoutingStrategy -> session.pending ----+
  ConnectionOpened -> SessionTable (Hello, resume, supersede)                          | end of
  DeadlineReached  -> acknowledgements, heartbeat, expiry, load sample                 v event
                                              Session.flush -> Transmit(connection, messages)
A batch of publications costs one `Transmit` per destination, not one per publication. ADR 1.
"""
