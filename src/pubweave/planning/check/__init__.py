"""The plan validator: does a plan lead from source to target by the rules.

`validate` decides and says which rule is broken; `fast_validate` accepts large plans of shifts on
arrays, compiled, and never refuses by itself.

Entry: `validate_plan` in `validate`; it takes plans of any origin.
Not here: the statement of the rules (`planning.problem.problem`).
Invariant: no planner code is imported here, so a planner's mistake cannot hide itself. ADR 7.
"""
