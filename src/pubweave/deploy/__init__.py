"""Carries a plan out through a store, without I/O: executor, agents, commands.

The store (`store` has its vocabulary and contract, `documents` its nodes and paths) is the only
truth about a plan. `commands` are an operator's scripts, `link_exchange` those of self-organizing
brokers with the rules of their hosts, `mirror` the watched part of the store, `memory_store` the
store in memory, `topology_state` what actions do to a topology.

    operator -> store <- executor: sets a step's actions RUNNING, ends steps and plan
                  ^---- each broker's agent: RUNNING -> COMMITTED or ABORTED, then DONE

`executor` and `agent` carry plans out; room: `remap` (rings). Entry: `submit` in `commands`.
Not here: ZooKeeper (`runtime.store`), the brokers' part in an action (`core.transformation`).
Invariant: the state of a deployment or action changes by compare-and-set only, so whoever changes
it may die anywhere. ADR 8.
"""
