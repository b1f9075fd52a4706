"""Topic-connected overlays (Shadows): build with low degree, maintain, verify.

In a topic-connected overlay the subscribers of each topic are connected among themselves. `low_oda`
builds one from scratch; `divided` builds large ones in parts, in two ways. `churn` repairs it when
nodes join, leave or resubscribe, and keeps degrees low, `verify` proves connectivity. `changes` is
the churn input, `rounds` plays it.

Entry: `build_overlay` in `low_oda`, `MaintainedOverlay` in `churn`, `verify` in `verify`.
`mending_by_name` makes the same choices as the kernels by name, for live brokers.
Not here: the routing strategy and its repair protocol (`core.routing.topic_connected`), Spark
(`pipeline.batch`).
Invariant: after each round every topic is connected; `verify` shares no code with builders. ADR 14.
"""
