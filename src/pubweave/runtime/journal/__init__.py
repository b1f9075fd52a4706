"""The journal of a broker on disk: group commit, snapshots and recovery.

Entry: `BrokerJournal` in `host`; its `JournalWriter` has the thread that writes and syncs.
  event with effects -> noted -> records gather --(writer is free)--> one batch -> append, sync
         some effects leave at once;  the others leave when their batch is on disk  <-+
Group commit: while one batch is being synced, the records of further events gather for the next; a
batch starts when an effect waits for it, or when 1 MiB has gathered. A snapshot replaces the
journal when replay would take too long or the file is too large. `disk` has the files of one
directory and `state_shape`, a digest that says whether other code can read the state.
Not here: which effects wait, what a snapshot contains (`core.journal`), formats (`wire`), the
simulated journal, whose rules for batches and snapshots differ (`sim.kernel`).
Invariant: one batch or snapshot at a time; what the disk refuses is tried again while the broker
routes on. ADR 19.
"""
