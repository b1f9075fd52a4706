"""What stands beside a broker in simulation: agents, executors, organizers, MQTT clients.

Entry: `SimAgent` and `SimExecutor` in `deployment`, `SimOrganizerHost` in `organizer`, `SimRemaps`
in `remap`, `MqttSimBroker` and `SimMqttClient` in `mqtt`. Agents, executors and remappers are the
real ones of `deploy`, each with a line to the memory store that can break. MQTT clients are as
simple as good clients can be.
Not here: brokers, native clients and the store's lines (`sim.kernel`), the same on real machines
(`runtime.coordination`), faults (`sim.kernel`).
Invariant: an agent begins with every incarnation of its broker's core and dies with it.
ADR 8, 10, 18, 21.
"""
