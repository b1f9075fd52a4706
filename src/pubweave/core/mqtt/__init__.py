"""The MQTT gateway of one broker: behind each MQTT session is a native client.

Entry: `MqttGateway` in `gateway`; its events are events of the broker.
  PacketsReceived -> MqttGateway -> MqttSession -> NativeSession -> broker -> overlay
  TransmitPackets <- (end of the event) <- MqttSession.deliver <- NativeSession <-+
`connections`: keep-alive (it ends a connection that is silent for too long) and session takeover
(a new Connect for a session ends the older connection, here or at another gateway). `connect`:
from Connect to ConnAck. `publish`, `subscribe`, `capabilities`: what clients may do. `redirect`
sends clients to another gateway; `evacuation` gives away the sessions of a broker that leaves.
`services` is what the gateway may use of its broker, and knows when its parts are due.
Rooms: `session` has one client's state, `cluster` what gateways share, `protocol` topics and
properties, `bridges` loops. Not here: bytes (`wire.mqtt`), sockets and SCRAM (`runtime.entrance`).
Invariant: with a journal, no acknowledgement leaves before its event is on disk. ADR 21.
"""
