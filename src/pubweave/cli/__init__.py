"""The command line: one module per verb; parse, call, print, exit code.

`main` lists the verbs and imports a verb's module when it is used. `errors` turns exceptions into
one message and an exit code, `output` is how verbs speak (JSON on standard output, the rest on
standard error), `kinds` the values that options take.

Rooms: `run`, `security`, `data`, `design`, `relocate`, `tco`, `deploy`, `autopilot`, `lab`
(simulate, reproduce and demo), and `options` that several verbs share.
Entry: `main` in `main`. Not here: anything another program could use; that is in the packages
below.
Invariant: with ``--json`` standard output carries nothing but JSON.
"""
