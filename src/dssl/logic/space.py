"""LabelSpace: variables and rules, and everything that can be asked of them without a network."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from dssl.errors import RuleError
from dssl.logic import labels, sources, validity
from dssl.logic.constraints import Constraints
from dssl.logic.formula import Formula, Value, as_formula
from dssl.logic.language import Rule, parse, parse_rules, text_of
from dssl.logic.normalisation import normalise
from dssl.logic.symbols import Symbol, conjunction, disjunction
from dssl.logic.tokens import MAX_DEPTH
from dssl.logic.variables import Scope, Variable, listed

if TYPE_CHECKING:
    from dssl.circuits.circuit import Circuit
    from dssl.circuits.relaxation import ClauseRelaxation
    from dssl.logic.diagnosis import Diagnosis
    from dssl.logic.solver import Solver


class LabelSpace:
    """What labels can look like: variables, and rules that valid labels obey.

    >>> space = LabelSpace('''
    ... legs, fins, wings
    ... legs -> !fins
    ... ''')
    >>> space.count()
    6
    >>> print(space.check([{"legs": True, "fins": True, "wings": False}]))
    1 of 1 rows break the rules
      line 3: legs -> !fins
        1 row: 0

    Arguments: rule text (see the page on the rule language), then any number of further rules, as text or in Python
    form: ``LabelSpace("legs, fins", legs >> ~fins)``. Rules that contradict each other are an error.
    """

    def __init__(self, text: str = "", *rules: Any) -> None:
        variables, parsed = parse(text)
        self._set(variables, (*parsed, *self._further(variables, rules)))

    @classmethod
    def of(
        cls, variables: Iterable[Variable], rules: Iterable[Rule] = (), literal_weights: NDArray[Any] | None = None
    ) -> LabelSpace:
        """A space from variables and rules that fit them."""
        space = cls.__new__(cls)
        space._set(tuple(variables), tuple(rules))
        space.literal_weights = literal_weights
        return space

    def _set(self, variables: tuple[Variable, ...], rules: tuple[Rule, ...]) -> None:
        if not variables:
            raise RuleError(
                "no variables are declared",
                remedy="Declare binary ones by name (legs, fins) or others as name: {a, b}.",
            )
        self.variables, self.rules = variables, rules
        self._circuit: Circuit | None = None
        self.literal_weights: NDArray[Any] | None = None  # (width, 2) weights of true and false, if a file gave them
        twice = _repeated(variable.name for variable in variables)
        if twice is not None:
            raise RuleError(f"two variables are called '{twice}'", remedy="Rename one of them.")
        twice = _repeated(column for variable in variables for column in variable.columns)
        if twice is not None:
            raise RuleError(f"two columns are called '{twice}'", remedy="Rename one of the variables.")
        conflict = self.solver.conflict() if rules else None
        if conflict is not None:
            shown = "\n".join(f"  {rules[i]}" for i in conflict)
            raise RuleError(
                f"these rules contradict each other: no label obeys them all\n{shown}",
                remedy="Remove or weaken one of them: any one less, and the rest of this list can hold.",
            )

    @staticmethod
    def _further(variables: tuple[Variable, ...], rules: Iterable[Any]) -> list[Rule]:
        scope = Scope(variables)
        out: list[Rule] = []
        for rule in rules:
            if isinstance(rule, str):
                out += parse_rules(rule, variables)
            elif isinstance(rule, Rule):
                out.append(Rule(scope.fit(_shallow(rule.formula, variables)), rule.probability, rule.line))
            else:
                out.append(_fitted(scope, _shallow(as_formula(rule), variables)))
        return out

    # ---- other sources ----

    @classmethod
    def read(cls, path: str | Path) -> LabelSpace:
        """A space from a file of rule text."""
        return cls(sources.read_text(path))

    @classmethod
    def classes(cls, names: Iterable[str | int], name: str = "class") -> LabelSpace:
        """One categorical variable and no rules.

        >>> LabelSpace.classes(["cat", "dog"]).columns
        ('class=cat', 'class=dog')
        """
        return cls.of(sources.classes(names, name))

    @classmethod
    def attributes(cls, names: Iterable[str], rules: Any = "") -> LabelSpace:
        """Binary variables, with rules as text or in Python form.

        >>> LabelSpace.attributes(["legs", "fins"], "legs -> !fins").count()
        3
        """
        variables = sources.attributes(names)
        return cls.of(variables, cls._further(variables, [rules] if isinstance(rules, str | Formula) else rules))

    @classmethod
    def hierarchy(cls, edges: Any, *, exclusive_siblings: bool = False) -> LabelSpace:
        """Binary classes in which a child implies its parents.

        >>> LabelSpace.hierarchy({"cat": "animal", "dog": "animal"}).count()
        5

        `edges`: pairs (child, parent), or a mapping child → parent or parents. With `exclusive_siblings` at most one
        child of each parent holds.
        """
        return cls.of(*sources.hierarchy(edges, exclusive_siblings))

    @classmethod
    def table(cls, names: Iterable[str], rows: Any) -> LabelSpace:
        """The space whose valid labels are exactly `rows`.

        >>> LabelSpace.table(["shape", "round"], [("ball", True), ("box", False)]).count()
        2
        """
        return cls.of(*sources.table(names, rows))

    @classmethod
    def class_attributes(
        cls,
        matrix: Any,
        classes: Iterable[str] | None = None,
        attributes: Iterable[str] | None = None,
        name: str = "class",
    ) -> LabelSpace:
        """One categorical variable that fixes binary ones: row c of the matrix (classes, attributes) for class c.

        >>> space = LabelSpace.class_attributes([[1, 0], [0, 1]], ["cat", "trout"], ["legs", "fins"])
        >>> space.count()
        2

        NaN entries leave the attribute free for that class; a data frame brings both lists of names.
        """
        return cls.of(*sources.class_attributes(matrix, classes, attributes, name))

    @classmethod
    def dimacs(cls, path: str | Path, *, projection: str = "error") -> LabelSpace:
        """Variables x1, x2, … and clauses from a DIMACS file; its weights go to `literal_weights`.

        A file that asks for a projected count is refused unless ``projection="ignore"``.
        """
        return cls.of(*sources.dimacs(path, projection))

    # ---- shape ----

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the network's outputs: a binary variable has one, another one a value."""
        return tuple(column for variable in self.variables for column in variable.columns)

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """First column of each variable and one past its last."""
        out, start = [], 0
        for variable in self.variables:
            out.append((start, start + len(variable.columns)))
            start += len(variable.columns)
        return tuple(out)

    @property
    def width(self) -> int:
        return len(self.columns)

    def __getitem__(self, name: str) -> Symbol:
        """The variable as a symbol for the Python form of rules."""
        return Symbol((1, Scope(self.variables)[name].name))

    @cached_property
    def constraints(self) -> Constraints:
        """The normal form of the rules."""
        return normalise(self.variables, self.rules)

    @cached_property
    def solver(self) -> Solver:
        from dssl.logic.solver import Solver  # python-sat is loaded when first needed

        return Solver(self.constraints)

    @cached_property
    def column_literals(self) -> tuple[int, ...]:
        """The SAT literal "this column is true" of each column."""
        offsets, out = self.constraints.offsets, []
        for i, variable in enumerate(self.variables):
            values = (1,) if variable.binary else range(len(variable.values))
            out += [self.solver.literal(offsets[i] + v) for v in values]
        return tuple(out)

    # ---- composing ----

    def where(self, *rules: Any) -> LabelSpace:
        """The same space with further rules."""
        return LabelSpace.of(self.variables, (*self.rules, *self._further(self.variables, rules)), self.literal_weights)

    def __and__(self, other: LabelSpace) -> LabelSpace:
        """Labels valid in both spaces, over the variables of both."""
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return LabelSpace.of(_together(self, other), (*self.rules, *other.rules))

    def __or__(self, other: LabelSpace) -> LabelSpace:
        """Labels valid in either space, over the variables of both."""
        if not isinstance(other, LabelSpace):
            return NotImplemented
        for rule in (*self.rules, *other.rules):
            if rule.probability is not None:
                raise RuleError(
                    f"a union cannot keep the soft rule '{rule.text}'", remedy="Unite first, then add it with where(…)."
                )
        either = disjunction([conjunction([rule.formula for rule in space.rules]) for space in (self, other)])
        return LabelSpace.of(_together(self, other), (Rule(either),))

    def rename(self, names: Mapping[str, str]) -> LabelSpace:
        """The same space with variables called otherwise."""
        for name in names:
            Scope(self.variables)[name]
        variables = [Variable(names.get(v.name, v.name), v.kind, v.values) for v in self.variables]
        rules = [Rule(rule.formula.rename(names), rule.probability, rule.line) for rule in self.rules]
        return LabelSpace.of(variables, rules, self.literal_weights)

    # ---- labels ----

    def encode(self, y: Any) -> NDArray[np.float32]:
        """Labels as columns (n, width): 1, 0, or NaN for unknown.

        `y`: records, a data frame, a mapping of columns, or an array with one column a variable (names, values,
        indices, booleans; None, NaN or −1 for unknown) or one a column of the space. For a single variable, a vector.
        """
        return labels.encode(self, y)

    def decode(self, columns: Any, form: str = "records") -> Any:
        """Columns (n, width) as "records", "values" or "indices" (n, variables), "pandas" or "polars"."""
        return labels.decode(self, columns, form)

    def check(self, y: Any) -> validity.Violations:
        """Which rows break which rules; a partial row breaks them if no completion is valid."""
        return validity.check(self, y)

    def complete(self, y: Any) -> NDArray[np.float32]:
        """Labels as columns, with everything filled in that the rules force."""
        return validity.complete(self, y)

    def valid(self, limit: int | None = None) -> Iterator[dict[str, Value]]:
        """The valid labels as records, one at a time in a stable order.

        >>> list(LabelSpace("legs, fins", "legs -> !fins").valid(2))
        [{'legs': False, 'fins': False}, {'legs': False, 'fins': True}]
        """
        return validity.valid(self, limit)

    # ---- reasoning ----

    def diagnose(self) -> Diagnosis:
        """What the rules say that their author may not have meant: forced values, redundant and empty rules, …"""
        from dssl.logic.diagnosis import diagnose

        return diagnose(self)

    @overload
    def compile(
        self, *, budget_s: float = ..., budget_nodes: int = ..., progress: bool = ..., relaxation: None = ...
    ) -> Circuit: ...

    @overload
    def compile(
        self, *, budget_s: float = ..., budget_nodes: int = ..., progress: bool = ..., relaxation: str
    ) -> ClauseRelaxation: ...

    def compile(
        self,
        *,
        budget_s: float = 60.0,
        budget_nodes: int = 20_000_000,
        progress: bool = False,
        relaxation: str | None = None,
    ) -> Circuit | ClauseRelaxation:
        """The circuit that answers every probabilistic question about valid labels.

        It is compiled once, kept with the space and on disk. A search that exceeds `budget_s` seconds or
        `budget_nodes` nodes is given up with an error that says how far it came. ``relaxation="clauses"`` compiles
        each rule on its own instead: fast for any number of rules, but an approximation that takes them as independent.
        """
        if relaxation == "clauses":
            from dssl.circuits.relaxation import ClauseRelaxation

            return ClauseRelaxation(self)
        if relaxation is not None:
            raise RuleError(
                f"there is no relaxation '{relaxation}'", remedy='Use None for exact answers, or "clauses".'
            )
        if self._circuit is None:
            from dssl.circuits.compiler import compile_constraints  # numba is loaded when first needed

            self._circuit = compile_constraints(
                self.constraints, self.columns, budget_s=budget_s, budget_nodes=budget_nodes, progress=progress
            )
        return self._circuit

    def count(self) -> int:
        """How many labels are valid."""
        return self.compile().count()

    # ---- identity ----

    def __str__(self) -> str:
        return text_of(self.variables, self.rules)

    def __repr__(self) -> str:
        names = listed(variable.name for variable in self.variables)
        return f"LabelSpace({len(self.variables)} variables: {names}; {len(self.rules)} rules)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return (self.variables, self.rules) == (other.variables, other.rules)

    def __hash__(self) -> int:
        return hash((self.variables, self.rules))

    def __reduce__(self) -> tuple[Any, ...]:
        return LabelSpace.of, (self.variables, self.rules, self.literal_weights)


def _shallow(formula: Formula, variables: tuple[Variable, ...]) -> Formula:
    """The formula, if it can be written as text and read again: what is nested deeper could not be saved."""
    depth = formula.depth()
    if depth > MAX_DEPTH and (depth > 4 * MAX_DEPTH or not _readable(formula, variables)):
        raise RuleError(f"a formula nested {depth:,} deep", remedy="Split it into several rules.")
    return formula


def _readable(formula: Formula, variables: tuple[Variable, ...]) -> bool:
    try:
        parse_rules(str(formula), variables)
    except RuleError as error:
        return "deeper" not in error.reason
    return True


def _fitted(scope: Scope, formula: Formula) -> Rule:
    try:
        return Rule(scope.fit(formula))
    except RuleError as error:
        raise RuleError(error.reason, remedy=error.remedy, source=str(formula)) from None


def _repeated(names: Iterable[str]) -> str | None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def _together(a: LabelSpace, b: LabelSpace) -> list[Variable]:
    """The variables of two spaces; those they share must be declared alike."""
    out = {variable.name: variable for variable in a.variables}
    for variable in b.variables:
        if out.setdefault(variable.name, variable) != variable:
            raise RuleError(
                f"'{variable.name}' is declared differently in the two spaces: {out[variable.name]} and {variable}",
                remedy="Give it the same values in both, or rename it in one.",
            )
    return list(out.values())
