"""Label spaces from sources other than rule text: names, hierarchies, tables, DIMACS files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import files
from dssl.errors import DataError, RuleError
from dssl.logic.language.formula import And, Count, Formula, Iff, Implies, In, Is, Not, Or, Truth
from dssl.logic.language.parser import Rule
from dssl.logic.language.structures import hierarchy as tree
from dssl.logic.language.variables import Variable, canonical, shown

_MATRIX = "Give one row per class and one column per attribute."

Definition = tuple[tuple[Variable, ...], tuple[Rule, ...]]


def read_text(path: str | Path) -> str:
    """The text of a file, or an error that names it."""
    try:
        return files.present(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{path} is not UTF-8 text (byte {error.start})\nSave it as UTF-8, or check that it is the right file."
        ) from None


def classes(names: Iterable[str | int], name: str) -> tuple[Variable, ...]:
    """One variable over some classes."""
    values = tuple(
        canonical(value.item() if isinstance(value, np.generic) else value) for value in _several(names, "classes")
    )
    if not values:
        raise RuleError("there are no classes", remedy="Name at least one.")
    odd = [value for value in values if isinstance(value, bool) or not isinstance(value, str | int)]
    if odd:
        raise RuleError(f"the class {odd[0]!r} is neither a name nor an integer", remedy="Use names or integers.")
    _refuse_repeats(values, "class")
    return (Variable.choice(name, values),)


def attributes(names: Iterable[str]) -> tuple[Variable, ...]:
    """Binary variables."""
    given = tuple(canonical(str(name)) for name in _several(names, "attributes"))
    _refuse_repeats(given, "attribute")
    return tuple(Variable(name) for name in given)


def _several(given: Any, what: str) -> Iterable[Any]:
    if not isinstance(given, Iterable):
        raise RuleError(f"{what} from {type(given).__name__}", remedy="Give a list or another iterable.")
    return given


def _refuse_repeats(names: Iterable[Any], what: str) -> None:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise RuleError(f"the {what} '{shown(name)}' is listed twice", remedy="Remove or rename one.")
        seen.add(name)


# ---- hierarchies ----


def hierarchy(edges: Any, exclusive_siblings: bool, labels: str) -> Definition:
    """Classes and what is right above each; optionally at most one child of each parent."""
    parents = _parents(edges)
    if circle := tree.circle(parents):
        steps = tree.steps_text(circle)
        raise RuleError(f"the hierarchy has a cycle: {steps}", remedy="Remove one of these edges.")
    rules = [Rule(formula) for formula in tree.formulas(parents, labels)]
    if exclusive_siblings:
        groups = tree.children(parents).values()
        rules += [Rule(Count("<=", 1, tuple(map(Is, group)))) for group in groups if len(group) > 1]
    return tuple(map(Variable, tree.classes(parents))), tuple(dict.fromkeys(rules))


def _parents(edges: Any) -> dict[str, list[str]]:
    """The parents of each child, from pairs or from a mapping."""
    mapping = isinstance(edges, Mapping)
    out: dict[str, list[str]] = (
        {canonical(str(child)): [] for child in edges} if mapping else {}
    )  # without parents: a root
    for child, parent in _mapped(edges) if mapping else _paired(edges):
        if parent is None:
            continue
        known, above = out.setdefault(canonical(str(child)), []), canonical(str(parent))
        if above not in known:
            known.append(above)
    if not out:
        raise RuleError(
            "a hierarchy without edges", remedy="Give pairs (child, parent); a mapping may hold single roots."
        )
    return out


def _mapped(edges: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    for child, above in edges.items():
        single = isinstance(above, str) or not isinstance(above, Iterable)
        yield from ((child, parent) for parent in ([above] if single else above))


def _paired(edges: Any) -> Iterator[tuple[Any, Any]]:
    for i, edge in enumerate(_several(edges, "edges")):
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            raise RuleError(f"edge {i} is {edge!r}", remedy="Give pairs (child, parent), or a mapping child → parent.")
        yield edge[0], edge[1]


# ---- tables ----


def table(names: Iterable[str], rows: Any) -> Definition:
    """Exactly these rows are valid."""
    given = tuple(canonical(str(name)) for name in names)
    _refuse_repeats(given, "column")
    records = [tuple(map(plain_value, _several(row, "a row"))) for row in _several(rows, "rows")]
    if not records:
        raise RuleError("a table without rows allows no label", remedy="Give at least one valid row.")
    for i, record in enumerate(records):
        if len(record) != len(given):
            raise RuleError(f"row {i} has {len(record)} entries for {len(given)} names", remedy="Give one per name.")
        if any(value is None or value != value for value in record):
            raise RuleError(
                f"row {i} has a missing value", remedy="A valid row is complete: fill it in or leave it out."
            )
    variables = tuple(_column_variable(name, [record[i] for record in records]) for i, name in enumerate(given))
    options: list[Formula] = [
        And.of(*(_equals(variable, value) for variable, value in zip(variables, record)))
        for record in dict.fromkeys(records)
    ]
    return variables, (Rule(Or.of(*options)),)


def _column_variable(name: str, values: list[Any]) -> Variable:
    try:
        return variable_of(name, values)
    except DataError as error:
        raise RuleError(str(error).splitlines()[0], remedy="Use names, integers or booleans.") from None


def variable_of(name: str, values: Iterable[Any]) -> Variable:
    """The variable that takes these values: binary for 0 and 1, integer for whole numbers, otherwise categorical.

    >>> [str(variable_of("v", values)) for values in ([1, 0.0, True], [7, 3.0], ["dog", "cat"])]
    ['v', 'v: {3, 7}', 'v: {dog, cat}']
    """
    given = [plain_value(value) for value in values]
    if all(value in (0, 1) for value in given):  # True equals 1
        return Variable(name)
    odd = [value for value in given if not isinstance(value, str | int) or isinstance(value, bool)]
    if odd:
        raise DataError(
            f"the column '{shown(name)}' holds {odd[0]!r} among other values\n"
            "Labels are 0, 1, whole numbers or names; bin measured numbers first."
        )
    distinct = list(dict.fromkeys(given))
    return Variable.choice(name, distinct if any(isinstance(v, str) for v in distinct) else sorted(distinct))


def plain_value(value: Any) -> Any:
    """A value as a plain Python object; whole floats become integers."""
    value = canonical(value.item() if isinstance(value, np.generic) else value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _equals(variable: Variable, value: Any) -> Formula:
    if variable.binary:
        return Is(variable.name) if value else Not(Is(variable.name))
    return In(variable.name, (value,))


def class_attributes(
    matrix: Any, classes_: Iterable[str] | None, attributes_: Iterable[str] | None, name: str
) -> Definition:
    """One equivalence per attribute: it holds exactly for the classes that have it."""
    if hasattr(matrix, "columns"):
        attributes_ = [str(c) for c in matrix.columns] if attributes_ is None else attributes_
        if classes_ is None and hasattr(matrix, "index"):
            classes_ = [str(c) for c in matrix.index]
        matrix = matrix.to_numpy()
    array = _zero_one(matrix)
    kinds = [canonical(kind) for kind in classes_] if classes_ is not None else [f"class{i}" for i in range(len(array))]
    traits = (
        [canonical(trait) for trait in attributes_]
        if attributes_ is not None
        else [f"attribute{i}" for i in range(array.shape[1])]
    )
    if array.shape != (len(kinds), len(traits)):
        raise RuleError(
            f"a matrix of shape {array.shape} for {len(kinds)} classes and {len(traits)} attributes",
            remedy=_MATRIX,
        )
    variables, name = (*classes(kinds, name), *attributes(traits)), canonical(name)
    rules = [rule for i, trait in enumerate(traits) for rule in _trait_rules(name, kinds, trait, array[:, i])]
    return variables, tuple(rules)


def _zero_one(matrix: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise RuleError(
            "the class-attribute matrix does not hold numbers in rows of equal length",
            remedy="Use 0, 1, or NaN where it is open.",
        ) from None
    if array.ndim != 2:
        raise RuleError(f"a matrix of shape {array.shape}", remedy=_MATRIX)
    bad = ~(np.isnan(array) | (array == 0) | (array == 1))
    if bad.any():
        row, column = (int(i[0]) for i in np.nonzero(bad))
        raise RuleError(
            f"row {row}, column {column} holds {array[row, column]:g}", remedy="Use 0, 1, or NaN where it is open."
        )
    return array


def _trait_rules(name: str, kinds: list[str], trait: str, column: NDArray[np.float64]) -> list[Rule]:
    yes = tuple(kind for kind, value in zip(kinds, column) if value == 1)
    no = tuple(kind for kind, value in zip(kinds, column) if value == 0)
    has = Is(trait)
    if not np.isnan(column).any():
        return [Rule(Iff(has, In(name, yes) if yes else Truth(False)))]
    out = [Rule(Implies(In(name, yes), has))] if yes else []
    return out + ([Rule(Implies(In(name, no), Not(has)))] if no else [])


# ---- DIMACS ----
