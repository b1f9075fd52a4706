"""The strategy ``topic_connected``: publications flood the brokers that take part in a topic.

Entry: `TopicRouting` in `routing`; `OverlayRepair` in `repair` keeps topics connected.
  BrokerRecord of all brokers -> membership_map -view-> link_choice (shadow set) -> repair
       ^ floods                                                                 | OpenLink
       +- own record: topics, links, lost, backups <-- link_monitor <-----------+
Failure detector: `link_monitor` declares a link lost that has had no connection for too long;
`membership_map` concludes from all records which brokers are gone.
Deduplication: `publishing` drops copies by publisher, topic and sequence (marks in `topic_log`).
`subscribe_barrier`, `confirmations`: what subscribers are told, and when. `gaps`, `replay`,
`dropped_ranges`: missed for good. `absent_brokers`, `leaving`: away. `gateway`: to a ring.
Not here: MQTT gateways (`core.mqtt`). Back-pressure holds up clients only (`core.session`).
Invariant: of each publisher and topic a broker has taken in, or counted, everything up to its mark
that was published since it takes part. ADR 17 (`gateway`: 22).
"""
