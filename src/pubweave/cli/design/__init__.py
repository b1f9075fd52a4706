"""Verbs about overlays on paper: ``topology``, ``cost``, ``design`` and ``whatif``.

`topology` makes and shows topologies, `cost` prices a tree, `design` finds a cheaper one,
`dynatops` maps brokers to a ring (``design dynatops``), `whatif` replays recorded traffic on two
overlays.
``*_view`` modules print.

Entry: the click command of each verb's module.
Not here: the algorithms (`design`), topology-connected overlays (`cli.tco`), plans (`cli.deploy`).
"""
