"""What a planner is asked and what it answers: frozen values and the rules of a step.

`problem` states the rules, prices actions, and has the plan with its proof and what passes between
a planner and its caller (`PlanningProgress`, `Stop`). `indexed` is the same problem with brokers as
numbers (all our own planners read it). `membership` takes appends and detaches out of a problem and
puts them back.

Entry: `PlanningProblem` in `problem`. Not here: judging a plan (`check`).
Token: one removable link on its way to a goal link; a plan has as many as removable links.
Invariant: the same problem gives the same arrays everywhere. ADR 7.
"""
