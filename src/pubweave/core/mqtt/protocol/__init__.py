"""MQTT's topics, topic filters and properties in terms of the overlay.

Entry: `filters_of` in `topics` (a topic filter as filters of the overlay), `attributes_of` and
`content_of` in `properties` (MQTT properties as attributes and back).
`wildcard_topics`: topics that stand for many, where brokers route by whole topics.
`packet_size`: whether a packet fits the client's maximum, and what is left out first.
`bridge_marks`: the user property by which a publication that a bridge brings back is known.
Not here: bytes of packets (`wire.mqtt`), packets as values (`model.mqtt_packets`), sessions
(`core.mqtt.session`), loops where marks get lost (`core.mqtt.bridges`).
Invariant: the filters of a pattern let through all of it and perhaps more; whoever receives checks
again with `matches_topic`. Everything MQTT adds travels as attributes, mostly under ``mqtt.``.
ADR 21.
"""
