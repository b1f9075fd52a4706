"""The core on real machines: asyncio, sockets, files, processes, ZooKeeper.

Entry: `connect` in `client.connect`, `BrokerHost` in `broker.host`, `Overlay` in
`overlay.overlay`.
  sockets (net, entrance) -> event -> core -> effects -> journal, if there is one -> carried out
Rooms: `net` connections, `entrance` who gets in, `security` certificates and passwords, `broker`
one broker, `client` the client library, `journal` group commit on disk, `store` ZooKeeper,
`coordination` agents and executors, `overlay` many broker processes, `observe` looking at them.
Not here: protocols (`core`), how plans are carried out (`deploy`), the control loop (`control`,
`autopilot`), the same brokers in virtual time (`sim`, which does not know this package).
Invariant: routing never waits for the store or for telemetry.
ADR 1.
"""
