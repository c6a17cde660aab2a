"""Cut the branches out of a definition that given switches rule out."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from phasewise.records.base import Scalar

SWITCH_PARAMETERS = ("switches", "on")
SWITCH_ANNOTATION = "Switches"

_COMPARE: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
UNKNOWN = object()


def prune(node: ast.stmt, switches: Mapping[str, Scalar]) -> tuple[ast.stmt, frozenset[str]]:
    """A copy of `node` without docstrings and branches that `switches` rule out, and the switches that the rest reads."""
    pruner = _Pruner(switches)
    pruned = pruner.visit(_copy(node))
    assert isinstance(pruned, ast.stmt)
    return pruned, frozenset(pruner.reads)


def _copy(value: Any) -> Any:
    # many times faster than `copy.deepcopy`; places in the file are not copied
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, ast.AST):
        return type(value)(**{name: _copy(field) for name, field in ast.iter_fields(value)})
    return value


class _Pruner(ast.NodeTransformer):
    def __init__(self, switches: Mapping[str, Scalar]) -> None:
        self.switches = switches
        # names that hold the switches where the walk stands
        self.names: tuple[str, ...] = ()
        self.reads: set[str] = set()

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if isinstance(node.value, ast.Name) and node.value.id in self.names:
            self.reads.add(node.attr)
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        outer = self.names
        self.names = tuple(dict.fromkeys((*outer, *_switch_parameters(node.args))))
        if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
        self.generic_visit(node)
        node.body = _cut_after_return(node.body)
        self.names = outer
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if node.body and isinstance(node.body[0], ast.Expr) and isinstance(node.body[0].value, ast.Constant):
            node.body = node.body[1:] or [ast.Pass()]
        if node.name != SWITCH_ANNOTATION:
            return self.generic_visit(node)
        # a switch counts by its value where it is read, here by the methods: a new field changes nobody else
        node.body = [statement for statement in node.body if not isinstance(statement, ast.AnnAssign)] or [ast.Pass()]
        outer, self.names = self.names, (*self.names, "self")
        self.generic_visit(node)
        self.names = outer
        return node

    def visit_If(self, node: ast.If) -> Any:
        value = self.evaluate(node.test)
        if value is UNKNOWN:
            return self.generic_visit(node)
        kept: list[ast.stmt] = []
        for statement in node.body if value else node.orelse:
            result = self.visit(statement)
            kept.extend(result if isinstance(result, list) else [result])
        return _cut_after_return(kept)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        value = self.evaluate(node.test)
        if value is UNKNOWN:
            return self.generic_visit(node)
        return self.visit(node.body if value else node.orelse)

    def evaluate(self, node: ast.expr) -> Any:
        """Value of `node`, or UNKNOWN."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.names:
            return self.switches.get(node.attr, UNKNOWN)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            values = [self.evaluate(item) for item in node.elts]
            return UNKNOWN if UNKNOWN in values else tuple(values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            value = self.evaluate(node.operand)
            return UNKNOWN if value is UNKNOWN else not value
        if isinstance(node, ast.BoolOp):
            return self._evaluate_bool(node)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self.evaluate(node.left), self.evaluate(node.comparators[0])
            compare = _COMPARE.get(type(node.ops[0]))
            if left is UNKNOWN or right is UNKNOWN or compare is None:
                return UNKNOWN
            try:
                return compare(left, right)
            except TypeError:
                return UNKNOWN
        return UNKNOWN

    def _evaluate_bool(self, node: ast.BoolOp) -> Any:
        # one false operand settles `and`, one true operand settles `or`, whatever the unknown ones are
        decisive = isinstance(node.op, ast.Or)
        values = [self.evaluate(value) for value in node.values]
        if any(value is not UNKNOWN and bool(value) is decisive for value in values):
            return decisive
        return UNKNOWN if UNKNOWN in values else not decisive


def _switch_parameters(arguments: ast.arguments) -> list[str]:
    found = []
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        annotation = argument.annotation
        name = annotation.attr if isinstance(annotation, ast.Attribute) else getattr(annotation, "id", None)
        if argument.arg in SWITCH_PARAMETERS or name == SWITCH_ANNOTATION:
            found.append(argument.arg)
    return found


def _cut_after_return(body: list[ast.stmt]) -> list[ast.stmt]:
    for index, statement in enumerate(body):
        if isinstance(statement, ast.Return | ast.Raise):
            return body[: index + 1]
    return body
