"""The verb ``security``: certificates, users and rules of an overlay, and what is open.

`security` has the subcommands, `check` lists findings with their remedies.

Entry: `security` in `security`. Not here: making certificates and passwords (`runtime.security`),
enforcing rules (`core.session.access`). ADR 20.
"""
