"""Settings of the core as frozen dataclasses: every limit and interval, with its default.

Entry: `BrokerConfig` in `broker`; it contains all the others. `session` bounds what a session may
have under way, `entry_limits` what strangers and clients may ask of a broker, `mqtt` the MQTT
gateway. `topic_connected`, `rendezvous`, `placement` (of users at rendezvous brokers),
`relocation` and `self_organizing` each configure the protocol of that name.
`bounds` has the kinds of numbers that settings are.
Not here: where a broker listens, which files it uses, and how settings are read
(`runtime.settings`), settings that are drawn for a simulated run (`sim`).
Invariant: durations are in seconds on the clock that the driver passes in.
"""
