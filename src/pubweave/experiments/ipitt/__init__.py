"""IPITT, planning and carrying out a change of tree: Table I, Figure 5 and Figure 6 (without 6c).

`planning` measures all planners on the paper's instances and registers `ipitt-fig5` and
`ipitt-table1`. `disruption` registers `ipitt-fig6`: `disruption_run` (`DisruptionRun`) carries a
plan out in virtual time, `disruption_targets` judges what that cost clients and brokers. The
paper's own numbers are in `reported`. Planners are in `planning`, brokers in `core`.
"""
