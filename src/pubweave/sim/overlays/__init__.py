"""Whole simulated overlays, one kind per routing strategy, and what each promises.

Entry: `SimOverlay` in `base`; `TreeOverlay` in `tree`, `TopicOverlay` in `topic_connected` with
`MeshRules`, or with `RingRules` of `rendezvous` (its `clusters` are topic-connected);
`SettledOverlay` in `settled` judges strategies whose tables nobody here knows. `crash_losses` has
what a crash takes along.
Not here: brokers and clients (`sim.kernel`), the life they lead (`sim.parts`), the delivery checker
(`sim.checkers`).
Invariant: at rest, the tables of brokers are held against a truth that is worked out from topology
and clients.
ADR 17, 18, 22.
"""
