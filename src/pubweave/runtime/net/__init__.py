"""Connections on asyncio: TCP, TLS, dialing, addresses, the clock and the timer.

Entry: `Connection` in `connection` (messages), `MqttSocket` in `mqtt_connection` (MQTT packets),
`Dialer` in `dialer`, `DeadlineTimer` and `UnixClock` in `clock`. `tls` makes contexts,
`mqtt_packets` turns packets of `mqtt5` into values and back, `rtt_probe` measures round trips,
`reserved_ports` keeps ports for brokers, `signals` is Ctrl-C, `errors` has `OverlayError`,
`addresses` the form ``host:port``.
Not here: accepting connections (`runtime.entrance`), sessions and heartbeat (`core.session`),
bytes (`wire`), certificates (`runtime.security`).
Invariant: all that one read brings is one event; all that one event causes for a connection is one
write. The clock never runs backwards.
ADR 5, 20, 21.
"""
