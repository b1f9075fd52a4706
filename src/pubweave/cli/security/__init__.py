"""The verb ``security``: certificates, users and rules of an overlay, and what is open.

Entry: `security` in `security`, which has the subcommands. Not here: making certificates and
passwords (`runtime.security`), the findings (`runtime.observe.security_check`), enforcing
rules (`core.session.access`). ADR 20.
"""
