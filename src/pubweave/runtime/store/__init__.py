"""ZooKeeper as the store of plans and topology: the client, a server of our own, readers.

Entry: `ZooKeeperStore` in `zookeeper_store` (through kazoo); `EmbeddedZooKeeper` in
`embedded_zookeeper` (a server as a child process); `run_command` in `session` carries out the
scripts of `deploy`; `StoreReader` in `view` reads again and again; `zookeeper_target` says which
ZooKeeper.
Not here: which nodes there are and what they mean (`deploy`, also the memory store of tests and
simulations), agents and executors (`runtime.coordination`), records of decisions (`control`).
Invariant: every request is answered exactly once until `stop`. What was under way when the
connection went is answered `UNSURE`.
ADR 8, 20 (logins).
"""
