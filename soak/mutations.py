"""Small mistakes that can be put into a module: what they are and where they fit.

A mutation changes one place of a syntax tree, as a slip of the hand would: a condition negated, a
bound moved by one, a call or an assignment forgotten. Sites are numbered in the order of the tree,
so a module and a number name a mutation for as long as the module stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SUMS: dict[type[ast.operator], type[ast.operator]] = {ast.Add: ast.Sub, ast.Sub: ast.Add}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
UNTOUCHED = frozenset({"__repr__", "__str__", "status", "sizes"})
"""Functions that only show something."""


@dataclass(frozen=True)
class Mutation:
    """One mistake in one module."""

    module: str
    """The path of the file below ``src``."""
    number: int
    kind: str
    function: str
    line: int
    before: str
    after: str

    @property
    def name(self) -> str:
        return f"{self.module}:{self.number}"

    def __str__(self) -> str:
        return f"{self.module}:{self.line} {self.function}: {self.before}  ->  {self.after}"


@dataclass(frozen=True)
class _Site:
    kind: str
    function: str
    node: ast.AST
    change: Callable[[], None]
    """Makes the mistake in the tree."""


def count_sites(source: str) -> int:
    """How many mistakes fit into a module."""
    return sum(1 for _ in _sites(ast.parse(source)))


def mutation(module: str, source: str, number: int) -> Mutation:
    """The mistake with this number."""
    return _made(module, source, number)[0]


def mutated(module: str, source: str, number: int) -> str:
    """The source with one mistake; comments and layout are lost."""
    return ast.unparse(_made(module, source, number)[1])


def _made(module: str, source: str, number: int) -> tuple[Mutation, ast.Module]:
    tree = ast.parse(source)
    site = next(site for place, site in enumerate(_sites(tree)) if place == number)
    before = _text(site.node)
    line: int = site.node.lineno  # type: ignore[attr-defined]
    site.change()
    ast.fix_missing_locations(tree)
    made = Mutation(module, number, site.kind, site.function, line, before, _text(site.node))
    return made, tree


def _text(node: ast.AST) -> str:
    """The first line of a statement or an expression."""
    return ast.unparse(node).split("\n")[0]


def _sites(tree: ast.Module) -> Iterator[_Site]:
    """The places in functions, in the order of the tree."""
    for function, owner in _functions(tree, ""):
        for statement in _own_statements(function.body):
            yield from _statement_sites(statement, owner)


def _functions(
    node: ast.AST, owner: str
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, str]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _functions(child, f"{owner}{child.name}.")
        elif isinstance(child, FUNCTIONS) and child.name not in UNTOUCHED:
            yield child, f"{owner}{child.name}"
            yield from _functions(child, f"{owner}{child.name}.")


def _own_statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a function, without those of functions within it."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        if _only_marks(statement):
            continue
        yield statement
        for name in ("body", "orelse", "finalbody"):
            yield from _own_statements(getattr(statement, name, []))
        for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
            yield from _own_statements(part.body)


def _only_marks(statement: ast.stmt) -> bool:
    """Whether a statement only says that it was reached: nothing depends on that."""
    if isinstance(statement, ast.If):
        return not statement.orelse and all(map(_only_marks, statement.body))
    return isinstance(statement, ast.Expr) and ast.unparse(statement).startswith("sometimes(")


def _statement_sites(statement: ast.stmt, function: str) -> Iterator[_Site]:
    if isinstance(statement, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return
    if isinstance(statement, ast.If | ast.While):
        yield _Site("negate", function, statement, lambda: _negate(statement))
    is_call = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    if is_call or isinstance(statement, ast.AugAssign | ast.Continue):
        yield _Site("drop", function, statement, lambda: _drop(statement))
    sets_state = isinstance(statement, ast.Assign) and isinstance(
        statement.targets[0], ast.Attribute
    )
    if sets_state and not function.endswith("__init__"):  # there, any run would stop at once
        yield _Site("drop", function, statement, lambda: _drop(statement))
    if isinstance(statement, ast.Delete):
        yield _Site("drop", function, statement, lambda: _drop(statement))
    for expression in _own_expressions(statement):
        yield from _expression_sites(expression, statement, function)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself, without those of statements within it."""
    for child in ast.iter_child_nodes(statement):
        if isinstance(child, ast.expr):
            yield from (each for each in ast.walk(child) if isinstance(each, ast.expr))


def _expression_sites(expression: ast.expr, statement: ast.stmt, function: str) -> Iterator[_Site]:
    def site(kind: str, change: Callable[[], None]) -> _Site:
        return _Site(kind, function, statement, change)

    if isinstance(expression, ast.Compare) and type(expression.ops[0]) in COMPARISONS:
        other = COMPARISONS[type(expression.ops[0])]
        yield site("compare", lambda: expression.ops.__setitem__(0, other()))
    elif isinstance(expression, ast.BoolOp):
        is_and = isinstance(expression.op, ast.And)
        yield site("logic", lambda: setattr(expression, "op", ast.Or() if is_and else ast.And()))
    elif isinstance(expression, ast.BinOp) and type(expression.op) in SUMS:
        sign = SUMS[type(expression.op)]
        yield site("sum", lambda: setattr(expression, "op", sign()))
    elif isinstance(expression, ast.Constant) and type(expression.value) is bool:
        value = not expression.value
        yield site("constant", lambda: setattr(expression, "value", value))
    elif isinstance(expression, ast.Constant) and type(expression.value) is int:
        number = expression.value + 1
        yield site("constant", lambda: setattr(expression, "value", number))


def _negate(statement: ast.If | ast.While) -> None:
    statement.test = ast.UnaryOp(ast.Not(), statement.test)


def _drop(statement: ast.stmt) -> None:
    """Turn a statement into `pass`, where it stands."""
    place = {name: getattr(statement, name) for name in ("lineno", "col_offset")}
    statement.__class__ = ast.Pass  # type: ignore[assignment]
    for name in list(vars(statement)):
        delattr(statement, name)
    vars(statement).update(place)
