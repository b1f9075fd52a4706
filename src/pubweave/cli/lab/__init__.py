"""Verbs of the laboratory: ``simulate`` and ``reproduce``.

`simulate` runs many seeds of a scenario in virtual time; `reproduce` has one command per figure or
table.

Entry: `simulate` in `simulate`, `reproduce` in `reproduce`.
Not here: scenarios and checkers (`sim`), experiments and their figures (`experiments`).
Experiments are small by default; ``--full`` runs them in full.
"""
