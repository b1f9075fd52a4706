"""DYNATOPS, a ring whose positions follow its traffic: Figures 6 to 10 and Table 1.

`mapping` measures what a mapping saves and how long it takes (Figure 10, Table 1). `poisson` and
`location` play users who change topics or travel, hour by hour, on the systems of `systems`
(Figures 6 to 9); `sweep` lists their runs. The algorithms, and those of Bayeux,
GeoPS and TCO, are not here but in `design.dynatops` (ADR 16).
"""
