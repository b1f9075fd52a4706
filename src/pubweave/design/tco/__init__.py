"""Topic-connected overlays (Shadows): build with low degree, maintain, verify.

In a topic-connected overlay the subscribers of each topic are connected among themselves.
`low_oda` builds one from scratch; `divided` and `attached` build large ones in parts (`AttachTask`
is the task of one part). `churn` repairs it when nodes join, leave or resubscribe, `trimming`
keeps degrees low, `verify` proves connectivity. `changes` and `change_lines` are the churn input.

Entry: `build_overlay` in `low_oda`, `MaintainedOverlay` in `churn`, `verify` in `verify`.
`mending_by_name` makes the same choices as the kernels by name, for live brokers.
Not here: the routing strategy and its repair protocol (`core.routing.topic_connected`), Spark
(`pipeline.batch`).
Invariant: after each round every topic is connected; `verify` shares no code with builders. ADR 14.
"""
