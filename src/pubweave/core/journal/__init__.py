"""Durability without I/O: snapshot, replay, and which effects have to wait for the disk.

Entry: `take_snapshot` and `restore_broker` in `snapshot`; in `recovery` are `replay`, `come_back`,
`record_of` and `event_of` (events as journal records and back), and `EffectOrder` (which waits).

  event -> Broker.handle -> effects -> EffectOrder --waits--+
     +- record -> batch -> append, sync -------- settled ---+-> carried out
A snapshot is the whole state of a broker as bytes; no module has to say what belongs in it.
Not here: group commit and the files (`runtime.journal`; its simulated twin is in `sim.kernel`),
the bytes of batches and the order of files (`wire`).
Invariant: what shows others what this broker did leaves in order, after its event is on disk.
Pings, answers to queries, telemetry and effects for observers do not wait (but for a Hello).
ADR 19.
"""
