"""What the MQTT gateways of an overlay share, and how a session moves from one to another.

Entry: `GatewayGossip` in `gossip`, `SessionHandover` in `handover` (with `handover_chunks`).
Gossip: a gateway publishes news at once on a reserved topic that all gateways subscribe to.
Anti-entropy: each publishes digests of its state (`StateDigest`) at intervals; one that still
differs asks for all of it (`PullRequest`). A gateway that stays silent for four intervals counts as
gone. `retained` is the retained store (newest retained message of each topic); `session_directory`
says which gateway has a session, `wildcard_interests` who needs copies of publications and
`wildcard_replicator` publishes them; `bridge_census` counts bridges. Takeover of a session:
  new gateway   Claim >            subscribes, Arrived >              lets the client in
  old gateway          < Handover (all but the future)   < Tail, forgets
Not here: a session's own state, shared groups (`core.mqtt.session`); Connect (`core.mqtt`).
Invariant: a client finds its session at the old gateway or at the new, never at both. ADR 21.
"""
