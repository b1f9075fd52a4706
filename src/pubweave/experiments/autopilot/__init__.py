"""A virtual day of drifting traffic under the autopilot and three other policies.

No paper has this figure; `days` holds the measurement, our own bars, and the registration of
`autopilot-day`. The day itself is `sim/autopilot_day.py`, the loop that decides is `control`
(ADR 11).
"""
