"""One broker on this machine: its core between sockets, timer, journal and telemetry.

Entry: `BrokerHost` in `host`, configured by `runtime.settings`. `TelemetryFeed` (in `host`) adds
what only the driver can measure, `DelayLine` adds latency between brokers on one machine.
`telemetry_writer` writes Parquet files in a thread of its own, `loss_estimate` notes how much a
broker without a journal would lose if killed, `machine` is all that the driver takes from this one.
Not here: the protocol (`core`), its process (`runtime.overlay`), the agent beside it
(`runtime.coordination`), accepting connections (`runtime.entrance`), the journal
(`runtime.journal`).
Invariant: each telemetry row that was accepted is written, or dropped and counted; telemetry never
holds the broker up.
ADR 1, 4, 19.
"""
