"""The client library: publish and subscribe from asyncio; it reconnects by itself.

Entry: `connect` in `connect`, which gives a `Client` of `client`; `Subscription` in `subscription`
is an asynchronous iterator over notifications. `OverlayObserver` in `observer` asks all brokers
for status.
Not here: the protocol, deduplication and heartbeat (`core.client`), credentials
(`runtime.security`), clients of a measured workload (`runtime.observe`).
Invariant: while a connection is down, calls wait or queue within bounds; nothing acknowledged is
lost and nothing comes twice. A subscription drops nothing: a client with long queues makes the
broker wait (back-pressure). An observer is not counted as a client.
ADR 2.
"""
