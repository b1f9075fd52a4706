"""The journal of a broker on this machine: the engine of `core.journal` with a thread and files.

Entry: `BrokerJournal` in `host`; `FileDisk` in `disk` has the files of one directory.
  event with effects -> noted -> JournalEngine -> Operate -> thread with FileDisk -> done or failed
         some effects leave at once;  the others when the engine releases them  <-+
`host` takes snapshots, measures how long that takes, and logs.
Not here: what waits, when what is written, what a snapshot contains (`core.journal`), formats and
the order of files (`wire`), the same on a simulated disk (`sim.kernel`).
Invariant: only the thread touches files between `begin` and `close`, one list of operations at a
time. ADR 19.
"""
