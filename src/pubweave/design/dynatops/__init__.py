"""DYNATOPS: which broker takes which position on a Chord ring, and which users which broker.

`ring` and `mapping/problem` say how publications travel, `costs` what that costs (Eqs. 1-5, 8,
10-12), `ssbr` is Algorithm 3, `reconfigure` Algorithm 4, `best` and `bounds` what the paper does
not have, `placement/similarity` its section 4.
"""
