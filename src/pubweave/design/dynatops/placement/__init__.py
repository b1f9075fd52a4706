"""Users to brokers of a cluster: the paper's similarity rule, and a rule that looks ahead.

`similarity` is DYNATOPS section 4 (share of the user's topics minus weighted load), with two
additions; `lasting` uses the utility of `design.dynatops.placement_rule` and larger clusters.

Entry: `UserPlacement` in `similarity`, `LastingPlacement` in `lasting`.
Not here: placement by live brokers (`core.routing.rendezvous.user_placement`), brokers' positions
on the ring (`mapping`). ADR 16, 22.
"""
