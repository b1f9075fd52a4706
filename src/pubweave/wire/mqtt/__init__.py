"""MQTT packets to bytes and back for versions 5.0, 3.1.1 and 3.1; incremental and bounded.

Entry: `MqttDecoder` and `encode` in `codec`. `v5` checks what the package `mqtt5` does not, `v3`
reads and writes 3.1.1 and 3.1 as packets of `mqtt5`, `fields` reads the fields of a packet with
bounds, and says which texts are topics and topic filters.
Not here: packets as values of the core (`model.mqtt_packets`, made in `runtime.net`), what packets
mean (`core.mqtt`), sockets (`runtime.net`).
Invariant: a decoder raises nothing but `MqttProtocolError`, whatever goes in.
ADR 21.
"""
