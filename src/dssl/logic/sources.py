"""Label spaces from other sources than rule text: names, hierarchies, tables, DIMACS files."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from dssl.errors import DataError, RuleError
from dssl.logic.formula import And, Count, Formula, Iff, Implies, In, Is, Not, Or, Truth
from dssl.logic.language import Rule
from dssl.logic.variables import Variable, shown

_SHOWN = 12  # classes of a circle
MOST_VARIABLES = 1_000_000  # of a DIMACS file: each becomes a column with a name
Parts = tuple[tuple[Variable, ...], tuple[Rule, ...]]


def read_text(path: str | Path) -> str:
    """The text of a file, or an error that names it."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise RuleError(
            f"{path} is not UTF-8 text (byte {error.start})",
            remedy="Save it as UTF-8, or check that it is the right file.",
        ) from None
    except IsADirectoryError:
        raise RuleError(f"{path} is a folder", remedy="Name the file inside it.") from None


def classes(names: Iterable[str | int], name: str) -> tuple[Variable, ...]:
    """One variable over some classes."""
    values = tuple(value.item() if isinstance(value, np.generic) else value for value in _several(names, "classes"))
    if not values:
        raise RuleError("there are no classes", remedy="Name at least one.")
    odd = [value for value in values if isinstance(value, bool) or not isinstance(value, str | int)]
    if odd:
        raise RuleError(f"the class {odd[0]!r} is neither a name nor an integer", remedy="Use names or integers.")
    _refuse_repeats(values, "class")
    return (Variable.choice(name, values),)


def attributes(names: Iterable[str]) -> tuple[Variable, ...]:
    """Binary variables."""
    given = tuple(map(str, _several(names, "attributes")))
    _refuse_repeats(given, "attribute")
    return tuple(Variable(name) for name in given)


def _several(given: Any, what: str) -> Iterable[Any]:
    if not isinstance(given, Iterable):
        raise RuleError(f"{what} from {type(given).__name__}", remedy="Give a list, or something else to go through.")
    return given


def _refuse_repeats(names: Iterable[Any], what: str) -> None:
    seen: set[Any] = set()
    for name in names:
        if name in seen:
            raise RuleError(f"the {what} '{shown(name)}' is listed twice", remedy="Remove or rename one.")
        seen.add(name)


# ---- hierarchies ----


def hierarchy(edges: Any, exclusive_siblings: bool) -> Parts:
    """child → parent for every edge; optionally at most one child of each parent."""
    parents = _parents(edges)
    names = list(dict.fromkeys(name for child, above in parents.items() for name in (child, *above)))
    _refuse_cycle(parents)
    rules = [Rule(Implies(Is(child), Is(parent))) for child, above in parents.items() for parent in above]
    if exclusive_siblings:
        children: dict[str, list[str]] = {}
        for child, above in parents.items():
            for parent in above:
                children.setdefault(parent, []).append(child)
        rules += [Rule(Count("<=", 1, tuple(map(Is, group)))) for group in children.values() if len(group) > 1]
    return tuple(Variable(name) for name in names), tuple(rules)


def _parents(edges: Any) -> dict[str, list[str]]:
    """The parents of each child, from pairs or from a mapping."""
    out: dict[str, list[str]] = {}
    if isinstance(edges, Mapping):
        pairs = [
            (child, parent)
            for child, above in edges.items()
            for parent in ([above] if isinstance(above, str) or not isinstance(above, Iterable) else above)
        ]
        out = {str(child): [] for child in edges}  # a child without parents is a root
    else:
        pairs = []
        for i, edge in enumerate(_several(edges, "edges")):
            if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
                raise RuleError(
                    f"edge {i} is {edge!r}", remedy="Give pairs (child, parent), or a mapping child → parent."
                )
            pairs.append(tuple(edge))
    for child, parent in pairs:
        if parent is None:
            continue
        known = out.setdefault(str(child), [])
        if str(parent) not in known:
            known.append(str(parent))
    if not out:
        raise RuleError(
            "a hierarchy without edges", remedy="Give pairs (child, parent); a mapping may hold single roots."
        )
    return out


def _refuse_cycle(parents: dict[str, list[str]]) -> None:
    done: set[str] = set()
    for start in parents:
        path: list[str] = []
        on_path: set[str] = set()
        stack = [(start, iter(parents.get(start, ())))] if start not in done else []
        while stack:
            name, above = stack[-1]
            if name not in on_path:
                path.append(name)
                on_path.add(name)
            parent = next((p for p in above if p not in done), None)
            if parent is None:
                stack.pop()
                on_path.discard(path.pop())
                done.add(name)
            elif parent in on_path:
                cycle = [*path[path.index(parent) :], parent]
                steps = cycle if len(cycle) <= _SHOWN else [*cycle[: _SHOWN - 1], "…", cycle[-1]]
                raise RuleError(
                    f"the hierarchy goes round in a circle: {' → '.join(map(shown, steps))}",
                    remedy="Remove one of these edges.",
                )
            else:
                stack.append((parent, iter(parents.get(parent, ()))))


# ---- tables ----


def table(names: Iterable[str], rows: Any) -> Parts:
    """Exactly these rows are valid."""
    given = tuple(map(str, names))
    _refuse_repeats(given, "column")
    records = [tuple(map(_plain, _several(row, "a row"))) for row in _several(rows, "rows")]
    if not records:
        raise RuleError("a table without rows allows no label", remedy="Give at least one valid row.")
    for i, record in enumerate(records):
        if len(record) != len(given):
            raise RuleError(f"row {i} has {len(record)} entries for {len(given)} names", remedy="Give one a name.")
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


def _plain(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _column_variable(name: str, values: list[Any]) -> Variable:
    if all(value in (0, 1) for value in values):
        return Variable(name)
    seen = list(dict.fromkeys(values)) if all(isinstance(value, Hashable) for value in values) else values
    if all(isinstance(value, int) and not isinstance(value, bool) for value in seen):
        return Variable.choice(name, sorted(seen))
    if all(isinstance(value, str | int) and not isinstance(value, bool) for value in seen):
        return Variable.choice(name, seen)
    odd = next(value for value in seen if not isinstance(value, str | int) or isinstance(value, bool))
    raise RuleError(f"the column '{name}' holds {odd!r} among other values", remedy="Use names, integers or booleans.")


def _equals(variable: Variable, value: Any) -> Formula:
    if variable.binary:
        return Is(variable.name) if value else Not(Is(variable.name))
    return In(variable.name, (value,))


def class_attributes(
    matrix: Any, classes_: Iterable[str] | None, attributes_: Iterable[str] | None, name: str
) -> Parts:
    """One equivalence an attribute: it holds exactly for the classes that have it."""
    if hasattr(matrix, "columns"):
        attributes_ = [str(c) for c in matrix.columns] if attributes_ is None else attributes_
        if classes_ is None and hasattr(matrix, "index"):
            classes_ = [str(c) for c in matrix.index]
        matrix = matrix.to_numpy()
    array = _zero_one(matrix)
    kinds = list(classes_) if classes_ is not None else [f"class{i}" for i in range(len(array))]
    traits = list(attributes_) if attributes_ is not None else [f"attribute{i}" for i in range(array.shape[1])]
    if array.shape != (len(kinds), len(traits)):
        raise RuleError(
            f"a matrix of shape {array.shape} for {len(kinds)} classes and {len(traits)} attributes",
            remedy="Give one row a class and one column an attribute.",
        )
    variables = (*classes(kinds, name), *attributes(traits))
    rules = [rule for i, trait in enumerate(traits) for rule in _trait_rules(name, kinds, trait, array[:, i])]
    return variables, tuple(rules)


def _zero_one(matrix: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(matrix, dtype=np.float64)
    except (TypeError, ValueError):
        raise RuleError(
            "a class-attribute matrix of something else than numbers in rows of one length",
            remedy="Use 0, 1, or NaN where it is open.",
        ) from None
    if array.ndim != 2:
        raise RuleError(f"a matrix of shape {array.shape}", remedy="Give one row a class and one column an attribute.")
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


def dimacs(
    path: str | Path, projection: str
) -> tuple[tuple[Variable, ...], tuple[Rule, ...], NDArray[np.float64] | None]:
    """Clauses over x1, x2, … as rules, and the file's literal weights (variables, 2) if it has any."""
    if projection not in ("error", "ignore"):
        raise RuleError(f"projection={projection!r}", remedy='Use "error" or "ignore".')
    count, clauses, weights = _Dimacs(path, projection).read()
    variables = tuple(Variable(f"x{i + 1}") for i in range(count))
    literals = {i: Is(f"x{i}") for i in range(1, count + 1)}
    rules = []
    for clause, line in clauses:
        parts: list[Formula] = [literals[x] if x > 0 else Not(literals[-x]) for x in clause]
        rules.append(Rule(Or.of(*parts) if parts else Truth(False), None, line))
    return variables, tuple(rules), weights


class _Dimacs:
    def __init__(self, path: str | Path, projection: str) -> None:
        self.path, self.projection = path, projection
        self.count = self.promised = -1
        self.clauses: list[tuple[list[int], int]] = []
        self.weights: dict[int, float] = {}

    def fail(self, line: int, reason: str, remedy: str) -> NoReturn:
        raise DataError(f"{self.path}, line {line}: {reason}\n{remedy}")

    def read(self) -> tuple[int, list[tuple[list[int], int]], NDArray[np.float64] | None]:
        open_clause: list[int] = []
        started = 0
        for number, line in enumerate(read_text(self.path).splitlines(), start=1):
            words = line.split()
            if words[:1] == ["%"]:  # some published files end with a % and a stray 0
                break
            if not words:
                continue
            if words[0] == "c":
                self.comment(words, number)
            elif words[0] == "p":
                self.header(words, number)
            else:
                for word in words:
                    x = self.literal(word, number)
                    started = number if not open_clause else started
                    if x:
                        open_clause.append(x)
                    else:
                        self.clauses.append((open_clause, started))
                        open_clause = []
        if self.count < 0:
            self.fail(1, "there is no 'p cnf VARIABLES CLAUSES' line", "Check that this is a DIMACS CNF file.")
        if open_clause:
            self.fail(started, "the last clause is not closed by 0", "The file may be cut off: fetch it again.")
        if len(self.clauses) < self.promised:
            self.fail(
                started,
                f"{len(self.clauses):,} clauses, where the header promises {self.promised:,}",
                "The file may be cut off: fetch it again.",
            )
        return self.count, self.clauses, self._weights()

    def header(self, words: list[str], line: int) -> None:
        if len(words) != 4 or words[1] != "cnf" or not all(w.isdecimal() and len(w) < 9 for w in words[2:]):
            self.fail(line, f"'{shown(' '.join(words))}' is not a CNF header", "Expected: p cnf VARIABLES CLAUSES.")
        if self.count >= 0:
            self.fail(line, "a second header", "Keep one 'p cnf' line.")
        self.count, self.promised = int(words[2]), int(words[3])
        if self.count > MOST_VARIABLES:
            self.fail(
                line,
                f"{self.count:,} variables are more than {MOST_VARIABLES:,}",
                "Number the variables without gaps, from 1.",
            )

    def literal(self, word: str, line: int) -> int:
        if self.count < 0:
            self.fail(line, "a clause before the 'p cnf' line", "Check that this is a DIMACS CNF file.")
        if not word.removeprefix("-").isdecimal() or len(word) > 12:
            self.fail(line, f"'{shown(word)}' is not a literal", "Literals are integers; a clause ends with 0.")
        if abs(int(word)) > self.count:
            self.fail(line, f"the literal {word} for {self.count} variables", "Raise the count in the header.")
        return int(word)

    def comment(self, words: list[str], line: int) -> None:
        if words[1:3] == ["p", "show"] or words[1:2] == ["ind"]:
            if self.projection == "error":
                self.fail(
                    line,
                    "the file asks for a projected count, over some variables only",
                    'Labels have no projection: pass projection="ignore" to use all variables.',
                )
        elif words[1:3] == ["p", "weight"]:
            try:
                x, weight = int(words[3]), float(words[4])
            except (IndexError, ValueError):
                self.fail(line, f"'{shown(' '.join(words))}' is not a weight", "Expected: c p weight LITERAL WEIGHT 0.")
            if not (weight >= 0 and math.isfinite(weight)) or x == 0:
                self.fail(line, f"the weight {words[4]} of literal {words[3]}", "Weights are finite and not negative.")
            self.weights[x] = weight

    def _weights(self) -> NDArray[np.float64] | None:
        if not self.weights:
            return None
        out = np.ones((self.count, 2))
        for x, weight in self.weights.items():
            if abs(x) > self.count:
                raise DataError(f"{self.path}: a weight for literal {x} of {self.count} variables\nRaise the count.")
            out[abs(x) - 1, 0 if x > 0 else 1] = weight
            if -x not in self.weights and weight <= 1:
                out[abs(x) - 1, 1 if x > 0 else 0] = 1 - weight
        return out
