"""Agents, executors and organizers at work: their cores between a broker and the store.

Entry: `AgentHost` in `agent_host`, `ExecutorHost` in `executor_host`, `OrganizerHost` in
`organizer_host` (probes, agreed exchanges), `RemapAgentHost` in `agent_host` (remapping);
`carry_out` in `deployment_run` sees a plan through, `mismatch` says why one does not fit;
`remap_to` and `remap_when_it_pays` in `remap_run` move brokers of a ring.
Not here: what they decide (`deploy`; for exchanges `core.self_organizing`), the store itself
(`runtime.store`), the same in simulation (`sim.hosts`).
Invariant: these hosts never hold the broker up: while the store is away, only plans wait. An
executor remembers nothing that the store does not have, so it may be killed at any moment and
another one goes on.
ADR 8, 10, 18.
"""
