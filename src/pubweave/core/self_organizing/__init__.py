"""Self-organizing mode (CI): brokers of a tree agree among themselves to exchange two links.

Entry: `Organizer` in `organizer`; only brokers that are to ``organize`` have one.
  broadcasts -> neighborhood, prices -> wish -> consensus -ExchangeRequest along the cycle-> ...
  ... the last broker decides -> ProposeExchange -> a plan in the store -> ExchangeEnded
`CycleView` is the interface of pricing; `cycle_cost_by_traffic` (with `traffic_sides`) and
`cycle_cost_by_interest` (with `notification_cache`) are the two ways to price a cycle. `Windows`
cuts time alike for all, `PublicationKeys` gives all brokers the same 64-bit keys.
Not here: the formulas (`design.ci`), carrying an exchange out (`deploy`, `runtime.coordination`),
shifts at a broker (`core.transformation`).
Invariant: no broker waits for a lock. Locks save work; the store decides what becomes of links.
ADR 10.
"""
