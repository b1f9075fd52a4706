"""The matching index: which destinations want a publication.

Entry: `MatchIndex` in `index`. It finds filters by topic (exact or pattern), then by one equality.
  index -> leaf -> bitmap (one row of words per attribute, ANDed) -> axis -> scale
`row` takes a filter apart. `CoverSets` (in `leaf`) sets aside the rows that another row of the same
destination covers; `IntegerBitmap` (in `bitmap`) serves few destinations, such as the links of a
broker, with Python integers. The index remembers by topic which of its parts to ask.
Not here: what filters mean and how two relate (`model.filters`), routing tables (`core.routing`),
the route cache (`core.dataplane`).
Invariant: `match` answers exactly the destinations of the filters for which `Filter.matches`.
ADR 6.
"""
