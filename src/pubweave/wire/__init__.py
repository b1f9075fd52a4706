"""Messages and journals to bytes and back, with bounded sizes; no I/O.

Entry: `encode` and `FrameDecoder` in `codec`, `encode_batch` and `find_batches` in
`journal_codec`, `JournalFiles` (operations for a disk) and `find_journal` in `journal_files`.
  frame   = length (4 bytes) | kind (1 byte) | MessagePack array
  journal = N.snapshot and N.journal; a batch of it = head | records | end mark
Room: `mqtt`, packets. Not here: messages (`model.messages`), disks
(`runtime.journal`, `sim.kernel`), group commit, what a snapshot contains
(`core.journal`).
Invariant: a length is checked before anything behind it is read, and decoding goes into declared
types only. At every instant the newest snapshot and its journal are the whole truth.
ADR 5 (frames), 19 (journal).
"""
