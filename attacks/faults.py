"""Faults of a source: where they can be, which are drawn, and what the source is with one of them."""

from __future__ import annotations

import ast
import difflib
import functools
import random
import warnings
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple


class Mutant(NamedTuple):
    """One fault: its operator, the occurrence of it in the source, and the line."""

    operator: str
    occurrence: int
    line: int

    @property
    def key(self) -> str:
        return f"{self.operator}/{self.occurrence}"

    def applied(self, source: str) -> str | None:
        """The source with the fault; None if nothing comes of it, or nothing that can be parsed."""
        from cosmic_ray.mutating import mutate_code

        changed = mutate_code(source, operators()[self.operator], self.occurrence)
        return changed if changed is not None and _tree(changed) not in (None, _tree(source)) else None


@functools.cache
def operators() -> dict[str, Any]:
    """cosmic-ray's operators that need no arguments, and one that leaves a statement out."""
    from cosmic_ray.operators.operator import Operator
    from cosmic_ray.plugins import get_operator, operator_names
    from parso.python.tree import Keyword

    class LeaveOut(Operator):
        """Calls whose result is not used, augmented assignments and raises become `pass`."""

        def mutation_positions(self, node: Any) -> Iterator[tuple[Any, Any]]:
            if node.type == "simple_stmt":
                first = node.children[0]
                call = first.type in ("atom_expr", "power") and first.children[-1].get_code().startswith("(")
                added = first.type == "expr_stmt" and first.children[1].get_code().strip() not in ("=", ":")
                annotated = added and first.children[1].type == "annassign"
                if call or first.type == "raise_stmt" or (added and not annotated):
                    yield first.start_pos, first.end_pos

        def mutate(self, node: Any, index: int) -> Any:
            first = node.children[0]
            node.children[0] = Keyword("pass", first.start_pos, first.get_first_leaf().prefix)
            return node

        @classmethod
        def examples(cls) -> tuple[()]:
            return ()

    names = [name for name in operator_names() if "Variable" not in name and "NoOp" not in name]
    return {name.partition("/")[2]: get_operator(name)() for name in names} | {"LeaveOut": LeaveOut()}


def mutants(source: str, each: int, seed: int) -> list[Mutant]:
    """Up to `each` faults of each kind for each place of the source, drawn by the seed; in the order of the source.

    Places in annotations are left out, as nothing evaluates them, and stars among parameters, which are no operators.
    """
    from cosmic_ray.ast import ast_nodes, get_ast

    tree, unread = list(ast_nodes(get_ast(source))), annotations(source)
    unread += [
        (n.start_pos, n.end_pos) for n in tree if n.type == "operator" and n.parent.type in ("parameters", "param")
    ]
    places: dict[tuple[Any, ...], list[Mutant]] = defaultdict(list)
    for name, operator in operators().items():
        found = (position for node in tree for position in operator.mutation_positions(node))
        for occurrence, (start, end, *_) in enumerate(found):
            if not any(first <= start and end <= last for first, last in unread):
                places[start, end, name.partition("_")[0]].append(Mutant(name, occurrence, start[0]))
    draw = random.Random(seed)
    return [m for place in sorted(places) for m in draw.sample(places[place], min(each, len(places[place])))]


def annotations(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where annotations begin and end."""
    found: list[ast.expr | None] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            found.append(node.returns)
        elif isinstance(node, ast.arg | ast.AnnAssign):
            found.append(node.annotation)
    return [((e.lineno, e.col_offset), (e.end_lineno or 0, e.end_col_offset or 0)) for e in found if e is not None]


def _tree(source: str) -> str | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.dump(ast.parse(source))
    except SyntaxError:
        return None


def difference(source: str, changed: str) -> tuple[str, str]:
    """The lines that a fault changes, before and after."""
    lines = list(difflib.ndiff(source.splitlines(), changed.splitlines()))
    before, after = ("\n".join(text[2:].strip() for text in lines if text.startswith(sign + " ")) for sign in "-+")
    return before, after


def statement(source: str, line: int) -> range | None:
    """Lines of the statement around a line, of a compound one those of its head; None if it runs at import."""
    innermost: ast.stmt | None = None
    inside = False
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if innermost is None or node.lineno >= innermost.lineno:
                innermost = node
            body = getattr(node, "body", None)
            inside |= isinstance(node, ast.FunctionDef) and body is not None and body[0].lineno <= line
    if innermost is None or not inside or isinstance(innermost, ast.FunctionDef | ast.ClassDef):
        return None
    body = getattr(innermost, "body", None)
    head = isinstance(body, list) and body[0].lineno > innermost.lineno
    return range(innermost.lineno, body[0].lineno if head and body else (innermost.end_lineno or line) + 1)
