"""Durability without I/O: snapshot, replay, and the rules of what waits for the disk.

Entry: `JournalEngine` in `engine` decides when what is written (group commit) and which effects
wait (`EffectOrder`); `take_snapshot` and `restore_broker` in `snapshot`; in `recovery` are
`replay`, `come_back`, `record_of` and `event_of` (events as journal records and back).
  event -> Broker.handle -> effects -> JournalEngine --Release--> carried out
     +- record ----------------------------+   +--Operate--> disk -> done or failed
A snapshot is the whole state of a broker as bytes; no module has to say what belongs in it. `shape`
says what became of classes and fields that older ones have.
Not here: the drivers (`runtime.journal`, `sim.kernel`), the bytes of batches and the order of
operations on files (`wire`).
Invariant: what shows others what this broker did leaves in order, after its event is on disk.
Pings, answers to queries, telemetry and effects for observers do not wait (but for a Hello).
ADR 19.
"""
