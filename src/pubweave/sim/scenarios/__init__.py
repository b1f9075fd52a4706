"""Scenarios on trees and with MQTT: life under faults, then rest and a check of everything.

Entry: `RoutingScenario` in `routing`. `TransformScenario` in `transform` carries plans out;
`RelocateScenario` in `relocate` (clients migrate) and `ReorganizeScenario` in `reorganize`
(brokers organize themselves) extend it. `MqttScenario` in `mqtt` has MQTT clients.
  rounds of: random activity under faults -> all heals -> rest: tables = truth, nothing lost
`SteadyScenario` in `transform` has clients that stay, `crash_losses` what a crash may lose.
Not here: overlays that route by topic under churn (`sim.churn`), the control loop
(`sim.autopilot`).
Invariant: what a run is like is drawn from its seed.
ADR 8 (plans), 10, 13, 15, 19, 21.
"""
