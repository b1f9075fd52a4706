"""Whole simulated overlays, one kind per routing strategy, and what each promises.

Entry: `SimOverlay` in `base`; `TreeOverlay` in `tree`, `TopicOverlay` in `topic_connected`,
`RendezvousOverlay` in `rendezvous`, `HybridOverlay` in `hybrid`, `ChurnOverlay` in `churn`; `mqtt`
gives the brokers of each kind an MQTT gateway.
Not here: brokers and clients (`sim.kernel`), the life they lead (`sim.scenarios`, `sim.churn`),
the delivery checker (`sim.checkers`).
Invariant: at rest, the tables of brokers are held against a truth that is worked out from topology
and clients.
ADR 17, 18, 22.
"""
