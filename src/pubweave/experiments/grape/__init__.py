"""POP and GRAPE, relocation of publishers: Figures 5 and 6.

`setting` makes the tree, its latencies and the stock-quote clients; `run` (`StockRun`) lets real
brokers trace, select and migrate in virtual time; `figures` says which runs a figure needs
and judges them. The algorithms are not here but in `core` (ADR 15).
"""
