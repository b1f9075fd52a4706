"""Verbs of the control loop: ``autopilot``, ``decisions`` and ``dashboard``.

`autopilot` starts the loop on a running overlay, `decisions` lists and answers its decisions
(`decisions_view` prints them), `dashboard` starts the web page (`credentials_for` says as whom).

Entry: the click command of each verb's module.
Not here: the loop (`control`), its driver (`autopilot.driver`), the page (`dashboard`;
`runtime.observe.dashboard_server` serves it). ADR 11, 12.
"""
