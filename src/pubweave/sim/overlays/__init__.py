"""Whole simulated overlays, one kind per routing strategy, and what their tables hold at rest.

Entry: `SimOverlay` in `base`; `TreeOverlay` in `tree`, `TopicOverlay` in `topic_connected` with
`MeshRules`, or with `RingRules` of `rendezvous` (its `clusters` are topic-connected);
`UnknownOverlay` in `unknown` is for strategies whose tables nobody here knows. `held_publications`
has what dies with a broker's memory, `journals` what the disks went through.
Not here: brokers and clients (`sim.kernel`), the life they lead (`sim.parts`), the delivery checker
(`sim.checkers`).
Invariant: at rest, the tables of brokers are held against a truth that is worked out from topology
and clients.
ADR 17, 18, 22.
"""
