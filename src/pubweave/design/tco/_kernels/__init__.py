"""Compiled (numba) kernels of topic-connected overlays: arrays in, arrays out.

Nodes are row numbers, topics are numbers; `low_oda`, `parts` and `rows` build (`rows`
also keeps many small lists in one array); `churn`, `pieces`, `mending` and `backups` repair;
`verify` proves, and shares nothing with the others.

Not here: names and files. `design.tco.state` alone knows names and numbers both.
Invariant: in `low_oda` ties go to the smallest row, then the smallest column, so that its links
can be compared with a literal transcription of the paper. ADR 14.
"""
