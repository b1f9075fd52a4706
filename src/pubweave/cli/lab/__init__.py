"""Verbs of the laboratory: ``simulate``, ``reproduce`` and ``demo``.

`simulate` runs many seeds of a scenario in virtual time; `reproduce` has one command per figure or
table; `demo` has an overlay improve itself.

Entry: `simulate` in `simulate`, `reproduce` in `reproduce`, `demo` in `demo`.
Not here: scenarios and checkers (`sim`), experiments and their figures (`experiments`), the
stages of the demo (package `demo`).
Experiments are small by default; ``--full`` runs them in full.
"""
