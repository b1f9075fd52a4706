"""A whole overlay on this machine: specification, broker processes, supervision.

Entry: `Overlay` in `overlay`, started from an `OverlaySpec` of `spec`.
  Overlay -> BrokerRunner (processes) -> fork_server -fork-> broker_process, one per broker
                  <------------- Started, Listening, Exited --------------+
`coordination` puts the topology into the store and follows it. `run_directory` keeps state file,
lock and logs, `clusters` reads clusters from a topology file, `events` are what an overlay tells.
Not here: one broker (`runtime.broker`), settings (`runtime.settings`), the store
(`runtime.store`), options of ``pubweave up`` (`cli`).
Invariant: `Overlay.start` returns when every broker listens and every link stands; a broker
process that dies is reported at once; `stop` leaves no process behind.
"""
