"""A virtual day of drifting traffic under the autopilot and three other policies: `autopilot-day`.

No paper has this figure; `days` holds the measurement and our own bars. The day itself is
`sim/autopilot_day.py`, the loop that decides is `control`.
"""
