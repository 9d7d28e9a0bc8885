"""LabelSpace: variables and rules, and everything that can be asked of them without a network."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import NDArray

from dssl.collector import paused
from dssl.errors import BudgetError, RuleError, in_file
from dssl.files import write_whole
from dssl.logic import composing, dimacs, json_form, labels, operations, sources, validity
from dssl.logic.language.formula import Formula
from dssl.logic.language.parser import Rule, parse, text_of
from dssl.logic.language.quoting import Value
from dssl.logic.language.symbols import Symbol
from dssl.logic.language.variables import Scope, Variable, canonical, listed
from dssl.logic.reasoning.constraints import Constraints
from dssl.logic.reasoning.implications import Implications
from dssl.logic.reasoning.normalisation import normalise

if TYPE_CHECKING:
    from dssl.circuits.circuit import Circuit
    from dssl.circuits.relaxation import ClauseRelaxation
    from dssl.logic.reasoning.diagnosis import Diagnosis
    from dssl.logic.reasoning.solver import Solvers


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
    form: ``LabelSpace("legs, fins", legs >> ~fins)``. Rules that contradict each other are an error, at once or, if
    their sums are too large for that, when the space is compiled. Files of rows that the text names are looked for in
    `folder`; with None the text cannot name any, which is right for text from strangers.

    Threads may share it: it is a value, and no question changes it.
    """

    @paused()
    def __init__(self, text: str = "", *rules: Any, folder: str | Path | None = ".") -> None:
        variables, parsed = parse(text, folder)
        self._set(variables, (*parsed, *composing.further(variables, rules, folder)))

    @classmethod
    @paused()
    def of(
        cls, variables: Iterable[Variable], rules: Iterable[Rule] = (), literal_weights: NDArray[Any] | None = None
    ) -> LabelSpace:
        """A space from variables and rules that fit them."""
        space = cls.__new__(cls)
        space._set(tuple(variables), tuple(rules))
        if literal_weights is not None:
            space.literal_weights = composing.checked_weights(literal_weights, space.width)
        return space

    def _set(self, variables: tuple[Variable, ...], rules: tuple[Rule, ...]) -> None:
        if not variables:
            raise RuleError(
                "no variables are declared",
                remedy="Declare binary ones by name (legs, fins) or others as name: {a, b}.",
            )
        self.variables, self.rules = variables, rules
        self._circuit: Circuit | None = None
        self._file: str | Path | None = None  # that the rules were read from, for errors that are found late
        self._compiling = threading.Lock()
        self.shown: tuple[str, ...] | None = None  # names that a DIMACS file asks to project on
        self.literal_weights: NDArray[Any] | None = None  # (width, 2) weights of true and false, if a file gave them
        composing.require_distinct(variables)
        if not rules or self.constraints.plain:
            return
        conflict = None
        with suppress(BudgetError), self.solvers.borrowed() as solver:  # what is too large is left to the compiler
            conflict = solver.conflict()
        if conflict is not None:
            said = "Remove or weaken one of them: without any one of them the others can hold."
            raise composing.contradiction([rules[i] for i in conflict], said)

    # ---- other sources ----

    @classmethod
    @paused()
    def read(cls, path: str | Path) -> LabelSpace:
        """A space from a file of rule text, or of JSON if its name ends so."""
        text = sources.read_text(path)
        try:
            json = Path(path).suffix == ".json"
            space = cls.from_json(text) if json else cls(text, folder=Path(path).parent)
        except RuleError as error:
            raise in_file(error, path) from None
        space._file = path
        return space

    @classmethod
    @paused()
    def from_json(cls, text: str) -> LabelSpace:
        """The space that `to_json` wrote."""
        return cls.of(*json_form.parts(text))

    @classmethod
    def classes(cls, names: Iterable[str | int], name: str = "class") -> LabelSpace:
        """One categorical variable and no rules.

        >>> LabelSpace.classes(["cat", "dog"]).columns
        ('class=cat', 'class=dog')
        """
        return cls.of(sources.classes(names, name))

    @classmethod
    @paused()
    def attributes(cls, names: Iterable[str], rules: Any = "") -> LabelSpace:
        """Binary variables, with rules as text or in Python form.

        >>> LabelSpace.attributes(["legs", "fins"], "legs -> !fins").count()
        3
        """
        variables = sources.attributes(names)
        return cls.of(variables, composing.further(variables, [rules] if isinstance(rules, str | Formula) else rules))

    @classmethod
    @paused()
    def hierarchy(cls, edges: Any, *, exclusive_siblings: bool = False, labels: str = "any") -> LabelSpace:
        """Binary classes in which a child implies its parents.

        >>> LabelSpace.hierarchy({"cat": "animal", "dog": "animal"}).count()
        5

        `edges`: pairs (child, parent), or a mapping child → parent or parents. `labels` are "any" classes, each with
        all those above it; "one path": one class with all those above it; or "leaf": one class that has none below it,
        with all those above it. With `exclusive_siblings` at most one child of each parent holds.
        """
        return cls.of(*sources.hierarchy(edges, exclusive_siblings, labels))

    @classmethod
    @paused()
    def table(cls, names: Iterable[str], rows: Any) -> LabelSpace:
        """The space whose valid labels are exactly `rows`.

        >>> LabelSpace.table(["shape", "round"], [("ball", True), ("box", False)]).count()
        2
        """
        return cls.of(*sources.table(names, rows))

    @classmethod
    @paused()
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
    @paused()
    def dimacs(cls, path: str | Path, *, projection: str = "error") -> LabelSpace:
        """Variables x1, x2, … and clauses from a DIMACS file; its weights go to `literal_weights`, see `log_weight`.

        Weights are read as ``c p weight LITERAL WEIGHT 0``, ``w LITERAL WEIGHT`` or ``c weights W1 W1' W2 …``. A file
        that asks for a projected count (``c p show``) is refused unless ``projection="show"``, which keeps the names
        in `shown`, for ``count(over=space.shown)``, or ``projection="ignore"``.
        """
        found = dimacs.read(path, projection)
        try:
            space = cls.of(found.variables, found.rules, found.literal_weights)
        except RuleError as error:
            raise in_file(error, path) from None
        space._file, space.shown = path, found.shown
        return space

    # ---- shape ----

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the network's outputs: a binary variable has one, any other one per value."""
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
        return Symbol((1, self._scope[name].name))

    @cached_property
    def _scope(self) -> Scope:
        return Scope(self.variables)

    @cached_property
    def constraints(self) -> Constraints:
        """The normal form of the rules."""
        return normalise(self.variables, self.rules)

    @cached_property
    def implications(self) -> Implications | None:
        """The rules as implications between classes, without a circle; None if they are more than that."""
        return Implications.of(self.variables, self.rules)

    @cached_property
    def solvers(self) -> Solvers:
        """SAT solvers over the rules, to be borrowed: ``with space.solvers.borrowed() as solver``."""
        from dssl.logic.reasoning.solver import Solvers  # python-sat is loaded when first needed

        return Solvers(self.constraints)

    @cached_property
    def column_literals(self) -> tuple[int, ...]:
        """The SAT literal "this column is true" of each column."""
        offsets, out = self.constraints.offsets, []
        with self.solvers.borrowed() as solver:
            for i, variable in enumerate(self.variables):
                values = (1,) if variable.binary else range(len(variable.values))
                out += [solver.literal(offsets[i] + v) for v in values]
        return tuple(out)

    # ---- composing ----

    @paused()
    def where(self, *rules: Any) -> LabelSpace:
        """The same space with further rules."""
        return LabelSpace.of(
            self.variables, (*self.rules, *composing.further(self.variables, rules)), self.literal_weights
        )

    def __and__(self, other: LabelSpace) -> LabelSpace:
        """Labels valid in both spaces, over the variables of both; literal weights of both are kept."""
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return LabelSpace.of(
            composing.together(self, other), (*self.rules, *other.rules), composing.weights_of_both(self, other)
        )

    def __or__(self, other: LabelSpace) -> LabelSpace:
        """Labels valid in either space, over the variables of both; literal weights of both are kept."""
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return LabelSpace.of(
            composing.together(self, other), (composing.either(self, other),), composing.weights_of_both(self, other)
        )

    def given(self, known: Mapping[str, Value]) -> LabelSpace:
        """The space once some values are known; its variables stay.

        >>> LabelSpace("a, b", "a -> b").given({"b": False}).count()
        1
        """
        return self.where(*operations.facts(self, known))

    @paused()
    def forget(self, names: Iterable[str]) -> LabelSpace:
        """The space without some variables: a label of the others is valid if the left-out ones can complete it.

        >>> print(LabelSpace("cat, mammal, animal", "cat -> mammal", "mammal -> animal").forget(["mammal"]))
        cat, animal
        !cat | animal
        <BLANKLINE>
        """
        return LabelSpace.of(*operations.forget(self, names))

    @paused()
    def equivalent(self, other: LabelSpace) -> operations.Equivalence:
        """Whether the same labels are valid in both; if not, the answer is false and holds a label that shows it.

        >>> same = LabelSpace("a, b", "a -> b").equivalent(LabelSpace("a, b", "a | b"))
        >>> bool(same), same.label
        (False, {'a': False, 'b': False})
        """
        return operations.equivalence(self, other)

    @paused()
    def rename(self, names: Mapping[str, str]) -> LabelSpace:
        """The same space with variables renamed."""
        names = {self._scope[name].name: canonical(new) for name, new in names.items()}
        variables = [Variable(names.get(v.name, v.name), v.kind, v.values) for v in self.variables]
        rules = [Rule(r.formula.rename(names), r.probability, r.line, why=r.why) for r in self.rules]
        return LabelSpace.of(variables, rules, self.literal_weights)

    # ---- labels ----

    def encode(self, y: Any) -> NDArray[np.float32]:
        """Labels as columns (n, width): 1, 0, or NaN for unknown.

        `y`: records, a data frame, a mapping of columns, or an array with one column per variable (names, values,
        indices, booleans; None, NaN or −1 for unknown) or one per column of the space. For a single variable, a vector.
        """
        return labels.encode(self, y)

    def decode(self, columns: Any, form: str = "records") -> Any:
        """Columns (n, width) as "records", "values" or "indices" (n, variables), "pandas" or "polars"."""
        return labels.decode(self, columns, form)

    @paused()
    def check(self, y: Any) -> validity.Violations:
        """Which rows break which rules; a partial row breaks them if no completion is valid."""
        return validity.check(self, y)

    @paused()
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

    @paused()
    def diagnose(self) -> Diagnosis:
        """What the rules say that their author may not have meant: forced values, redundant and empty rules, …"""
        from dssl.logic.reasoning.diagnosis import diagnose

        return diagnose(self)

    @overload
    def compile(
        self,
        *,
        budget_s: float = ...,
        budget_nodes: int = ...,
        budget_bytes: int | None = ...,
        progress: bool = ...,
        relaxation: None = ...,
    ) -> Circuit: ...

    @overload
    def compile(
        self,
        *,
        budget_s: float = ...,
        budget_nodes: int = ...,
        budget_bytes: int | None = ...,
        progress: bool = ...,
        relaxation: str,
    ) -> ClauseRelaxation: ...

    @paused()
    def compile(
        self,
        *,
        budget_s: float = 60.0,
        budget_nodes: int = 20_000_000,
        budget_bytes: int | None = None,
        progress: bool = False,
        relaxation: str | None = None,
    ) -> Circuit | ClauseRelaxation:
        """The circuit that answers every probabilistic question about valid labels.

        It is compiled once, and kept with the space and on disk. A search that exceeds `budget_s` seconds of processor
        time, `budget_nodes` nodes or `budget_bytes` bytes (half of the memory, if None) ends with a `BudgetError` that
        says how far it came. ``relaxation="clauses"`` compiles each rule on its own instead, all within the same
        budget: fast for any number of rules, but an approximation that takes them to be independent.
        """
        if relaxation == "clauses":
            from dssl.circuits.relaxation import ClauseRelaxation

            return ClauseRelaxation(
                self, budget_s=budget_s, budget_nodes=budget_nodes, budget_bytes=budget_bytes, progress=progress
            )
        if relaxation is not None:
            raise RuleError(
                f"there is no relaxation '{relaxation}'", remedy='Use None for exact answers, or "clauses".'
            )
        with self._compiling:  # if threads ask at the same time, one compiles and the others wait for it
            if self._circuit is None:
                # numba is loaded when first needed
                from dssl.circuits.compile.compiler import FALSE, compile_constraints

                circuit = compile_constraints(
                    self.constraints,
                    self.columns,
                    budget_s=budget_s,
                    budget_nodes=budget_nodes,
                    budget_bytes=budget_bytes,
                    progress=progress,
                )
                if circuit.kind[-1] == FALSE:  # a contradiction that was too large to be found when the space was made
                    said = "Remove or weaken some of them; it is not known which are to blame."
                    found = composing.contradiction([r for r in self.rules if r.probability is None], said)
                    raise found if self._file is None else in_file(found, self._file)
                self._circuit = circuit
            return self._circuit

    def count(self, over: Iterable[str] | None = None) -> int:
        """How many labels are valid; `over` some variables, how many of their labels can be completed to valid ones.

        >>> LabelSpace("a, b, c", "a | b | c").count(over=["a", "b"])
        4
        """
        if over is None:
            return self.compile().count()
        place = {variable.name: i for i, variable in enumerate(self.variables)}
        names = [over] if isinstance(over, str) else over
        return self.compile().count([place[self._scope[name].name] for name in names])

    def log_weight(self) -> float:
        """The weighted model count as a logarithm: log Σ over valid labels of the product of literal weights.

        The weights are those that a DIMACS file gave (`literal_weights`), 1 where it gave none, and soft rules have
        weight p where they hold and 1 − p where they do not. Without either it is the logarithm of `count()`.

        >>> round(LabelSpace("a, b\\na | b").log_weight(), 6)  # log 3
        1.098612
        """
        weights = np.ones((self.width, 2)) if self.literal_weights is None else self.literal_weights
        return self.compile().log_weight(weights)

    # ---- identity ----

    def __str__(self) -> str:
        return text_of(self.variables, self.rules)

    def to_json(self) -> str:
        """The space as JSON, for other programs: rules one by one, loops written out.

        >>> LabelSpace.from_json(LabelSpace("a, b\\na -> b").to_json()).count()
        3
        """
        held = json_form.facts(self.variables, self.rules, self.literal_weights)
        return json.dumps(held, ensure_ascii=False, indent=1) + "\n"

    def to_dimacs(self, path: str | Path) -> None:
        """Write the space as CNF for other tools: as many models as valid labels, and the same weighted count.

        Comments say which variable of the file stands for which column.
        """
        write_whole(Path(path), dimacs.text(self).encode())

    def __repr__(self) -> str:
        names = listed(variable.name for variable in self.variables)
        return f"LabelSpace({len(self.variables)} variables: {names}; {len(self.rules)} rules)"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LabelSpace):
            return NotImplemented
        return self._identity == other._identity

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _identity(self) -> tuple[Any, ...]:
        weights = self.literal_weights
        return self.variables, self.rules, None if weights is None else weights.tobytes()

    @cached_property
    def _hash(self) -> int:  # asked at every prediction: rules are hashed once
        return hash(self._identity)

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (self.variables, self.rules, self.literal_weights)


def _again(*parts: Any) -> LabelSpace:
    """A space out of a pickle. cloudpickle would send a decorated class method by value, and cannot."""
    return LabelSpace.of(*parts)
