"""The papers' evaluations again, and a virtual day of the autopilot: our figures beside theirs.

`catalog` names every experiment, `runner` runs one, `report` is what comes of it. A room for each
paper holds the setting, the engine that measures, the paper's statements and the pictures. What
is measured lives below: algorithms in `design` and `planning`, brokers in `core`, worlds in `sim`.
Nothing here reads options or prints: `cli/reproduce.py` does.
"""
