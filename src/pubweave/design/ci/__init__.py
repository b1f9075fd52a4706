"""CI's local heuristics: which link a broker asks for and which link of the cycle goes.

`rules` is the arithmetic (Eqs. 3-10, lMST, lMIT) and `cycle_traffic` prices a cycle by all that
passes it; live brokers (`core.self_organizing`) decide by the same functions.
`views` feeds both from plain lists, `rounds` plays the heuristic round by round without a
protocol (`LocalOverlay`), also to its end on a profile's traffic (`reorganized`).
Not here: broadcasts, locks and requests between brokers (`core.self_organizing`), searches with
global knowledge (`design.tree`).
Invariant: `rules` and `cycle_traffic` know no broker ids, no topology and no protocol. ADR 9, 10.
"""
