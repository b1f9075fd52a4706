"""Scenarios on overlays that route by topic: brokers come, go and crash under traffic.

Entry: `ChurnScenario` in `churn` (topic-connected), `RendezvousScenario` in `rendezvous` (a ring
that is also remapped), `HybridScenario` in `hybrid` (clusters around a ring), `PlacementScenario`
in `placement` (users are sent to other brokers). `repair_watch` looks whether topics are connected
again in time, `ask_at_rest` (in `churn`) whether subscriptions are acknowledged too early.
`setting` draws a run from its seed.
Not here: the overlays and their truth (`sim.overlays`), trees and plans (`sim.scenarios`).
Invariant: a delivery is due to every client whose broker has taken in its subscription, however
broken the overlay is; excused is only what a broker had alone when it crashed while the publisher
had gone.
ADR 17, 18, 22.
"""
