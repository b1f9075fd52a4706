"""IPITT, planning and carrying out a change of tree: Table I, Figure 5 and Figure 6 (without 6c).

`planning` measures all planners on the paper's instances and holds its own numbers. `disruption`
says where and how a plan is carried out and judges what it cost clients and brokers,
`disruption_run` (`DisruptionRun`) does it in virtual time. Planners are not here but in
`planning`, brokers in `core` (ADR 8).
"""
