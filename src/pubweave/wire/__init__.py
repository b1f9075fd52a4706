"""Messages and journals to bytes and back, with bounded sizes; no I/O.

Entry: `encode` and `FrameDecoder` in `codec`, `encode_batch` and `find_batches` in
`journal_codec`, `JournalFiles` and `find_journal` in `journal_files` (on a disk that is given).
  frame   = length (4 bytes) | kind (1 byte) | MessagePack array
  journal = N.snapshot and N.journal; a batch of it = head | records | end mark
Room: `mqtt`, packets. Not here: messages (`model.messages`), the disk and group commit
(`runtime.journal`, `sim.kernel`), what a snapshot contains (`core.journal`).
Invariant: a length is checked before anything behind it is read, and decoding goes into declared
types only. At every instant the newest snapshot and its journal are the whole truth.
ADR 5 (frames), 19 (journal).
"""
