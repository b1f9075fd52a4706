"""Compiled (numba) kernels of topic-connected overlays: arrays in, arrays out.

Nodes are row numbers, topics are numbers; `bags` keeps many small lists in one array.
`low_oda`, `parts` and `rows` build; `churn`, `pieces`, `mending` and `backups` repair;
`trimming` drops links; `attaching` adds nodes to a backbone; `verify` is the verifier's walk.

Not here: names and files. `design.tco.state` alone knows names and numbers both.
Invariant: in `low_oda` ties go to the smallest row, then the smallest column, so that its links
can be compared with a literal transcription of the paper. ADR 14.
"""
