"""Options that several verbs share, and the values that are read from them.

Which overlay (`target`, `coordination`), as whom (`security`), how brokers run (`settings`), what
to design from (`design_inputs`), by which rules to plan (`plan_rules`), and for how long
(`time_limit`).

Entry: decorators such as `zookeeper_options` and `rule_options`.
Not here: the settings themselves (`runtime.settings`).
Invariant: a secret is never an option, only the name of a file that holds it.
"""
