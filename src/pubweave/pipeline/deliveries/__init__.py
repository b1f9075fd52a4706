"""Delivery trees, what they cost, and the audit of due deliveries.

`trees` groups publications by the way they took and follows each tree up to its root;
it also has the papers' cost model (CI Eqs. 1 and 2, DYNATOPS Eqs. 1-5) on the trees really taken.
`due` says which deliveries were due, `audit` which of them are missing, doubled or unproven.

Entry: `overlay_cost` in `trees`, `audit` in `audit`.
Not here: one row per publication (`pipeline.transforms.publications`).
Invariant: a delivery counts as lost only if the client's broker was recording without a gap.
"""
