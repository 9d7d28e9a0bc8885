"""Whether labels obey the rules: check, complete, and list the valid ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssl.errors import BudgetError, DataError
from dssl.logic.labels import Columns, encode, indices
from dssl.logic.language.formula import Assignments
from dssl.logic.language.parser import Rule
from dssl.logic.language.quoting import Value
from dssl.logic.language.variables import listed

if TYPE_CHECKING:
    from dssl.logic.reasoning.implications import Implications
    from dssl.logic.reasoning.solver import Solver
    from dssl.logic.space import LabelSpace


@dataclass(frozen=True)
class Violations:
    """Which rows break which rules. True if any does; iterate for (row, broken rules)."""

    rules: tuple[Rule, ...]
    broken: NDArray[np.bool_]  # (rows, rules): the rule surely fails
    jointly: NDArray[np.bool_]  # (rows, rules): no single rule surely fails, but these together leave no completion

    @property
    def impossible(self) -> NDArray[np.bool_]:
        """Mask of the partial rows without a valid completion, though no single rule surely fails."""
        return np.asarray(self.jointly.any(axis=1))

    @property
    def invalid(self) -> NDArray[np.bool_]:
        """Mask of the rows that are, or can only become, invalid."""
        return self.broken.any(axis=1) | self.impossible

    @property
    def rows(self) -> NDArray[np.int64]:
        """The invalid rows."""
        return np.flatnonzero(self.invalid)

    def __len__(self) -> int:
        return int(self.invalid.sum())

    def __bool__(self) -> bool:
        return bool(self.invalid.any())

    def __iter__(self) -> Iterator[tuple[int, tuple[Rule, ...]]]:
        for row in self.rows.tolist():
            yield row, tuple(rule for rule, bad in zip(self.rules, self.broken[row] | self.jointly[row]) if bad)

    def __str__(self) -> str:
        total = len(self.invalid)
        if not self:
            return f"all {total:,} rows obey the rules"
        lines = [f"{len(self):,} of {total:,} rows break the rules"]
        for i, rule in enumerate(self.rules):
            bad = np.flatnonzero(self.broken[:, i])
            if len(bad):
                lines.append(f"  {rule}\n    {_rows(bad)}")
        groups, group_of = np.unique(self.jointly, axis=0, return_inverse=True)
        for i, group in enumerate(groups):
            if group.any():
                bad = np.flatnonzero(group_of.ravel() == i)
                together = "\n  ".join(str(rule) for rule, used in zip(self.rules, group) if used)
                lines.append(f"  {together}\n    together, {_rows(bad)}")
        return "\n".join(lines)


def _rows(rows: NDArray[np.int64]) -> str:
    return f"{len(rows):,} row{'' if len(rows) == 1 else 's'}: {listed(rows.tolist())}"


def check(space: LabelSpace, y: Any) -> Violations:
    """Which rows break which rules; partial rows are checked for whether any completion is valid."""
    columns = encode(space, y)
    if space.implications is not None:
        return _implied(space.rules, space.implications, columns)
    positions = indices(space, columns)
    names = [variable.name for variable in space.variables]
    labels = Assignments(
        {name: positions[:, i] for i, name in enumerate(names)},
        {variable.name: variable.values for variable in space.variables},
        len(positions),
    )
    broken = np.zeros((len(positions), len(space.rules)), dtype=bool)
    open_ = np.zeros(len(positions), dtype=bool)  # some rule neither surely holds nor surely fails
    for i, rule in enumerate(space.rules):
        if rule.probability is None:
            true, false = rule.formula.kleene(labels)
            broken[:, i] = false
            open_ |= ~(true | false)
    excluded = (columns == 0).any(axis=1) & (positions < 0).any(axis=1)
    doubtful = (open_ | excluded) & ~broken.any(axis=1)
    jointly = np.zeros_like(broken)
    for rows, known in _patterns(columns, doubtful):
        conflict = _conflict(space, known)
        if conflict is not None:
            jointly[rows[:, None], conflict] = True
    return Violations(space.rules, broken, jointly)


def _implied(rules: tuple[Rule, ...], implications: Implications, columns: Columns) -> Violations:
    """The same where rules are implications: a row that breaks none is in doubt only if what holds leads to what fails.

    Few rows are, so classes above are looked for in these alone.
    """
    holds, fails = columns == 1, columns == 0
    broken = holds[:, implications.child] & fails[:, implications.parent]
    jointly = np.zeros_like(broken)
    doubtful = np.flatnonzero(np.isnan(columns).any(axis=1) & ~broken.any(axis=1))
    clash = (implications.upward(holds[doubtful]) & fails[doubtful]).any(axis=1)
    for row in doubtful[clash]:
        jointly[row, implications.path(holds[row], fails[row])] = True
    return Violations(rules, broken, jointly)


def _conflict(space: LabelSpace, known: Columns) -> list[int] | None:
    """A smallest set of rules that leave no label with what is known, None if there is one.

    Where the solver gives up the circuit tells, but not which rules are to blame: all of them are named.
    """
    try:
        with space.solvers.borrowed() as solver:
            return solver.conflict(_literals(space, known))
    except BudgetError:
        if _possible(space, known):
            return None
        return [i for i, rule in enumerate(space.rules) if rule.probability is None]


def _possible(space: LabelSpace, known: Columns) -> bool:
    """Whether a valid label agrees with what is known, by the circuit: what is excluded weighs nothing."""
    weights = np.stack([known != 0, known != 1], axis=1).astype(np.float64)
    return space.compile().log_weight(weights) > -np.inf


def _forced_by_circuit(space: LabelSpace, known: Columns) -> Columns | None:
    """As `_forced`, by questions to the circuit."""
    if not _possible(space, known):
        return None
    filled = known.copy()
    for column in np.flatnonzero(np.isnan(known)).tolist():
        for value in (0, 1):
            filled[column] = value
            if not _possible(space, filled):
                filled[column] = 1 - value
                break
        else:
            filled[column] = np.nan
    return filled


def _patterns(columns: Columns, mask: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.int64], Columns]]:
    """The distinct rows under a mask, each with the rows that hold it."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return
    coded = np.ascontiguousarray(np.where(np.isnan(columns[rows]), 2, columns[rows]).astype(np.int8))
    keys = coded.view(np.dtype((np.void, coded.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    order = np.argsort(inverse, kind="stable")
    ends = np.searchsorted(inverse[order], np.arange(len(first)), side="right")
    for begin, end, at in zip(np.append(0, ends[:-1]), ends, first):
        yield rows[order[begin:end]], columns[rows[at]]


def _literals(space: LabelSpace, known: Columns) -> list[int]:
    """SAT literals of the known columns of one row."""
    return [
        literal if value == 1 else -literal
        for literal, value in zip(space.column_literals, known.tolist())
        if value == value  # not NaN
    ]


def complete(space: LabelSpace, y: Any) -> Columns:
    """Labels as columns with everything filled in that the rules force."""
    columns = encode(space, y)
    partial = np.asarray(np.isnan(columns).any(axis=1))
    lost: list[int] = []
    if space.implications is not None:
        lost = _follow(space.implications, columns, np.flatnonzero(partial))
        partial[:] = False
    for rows, known in _patterns(columns, partial):
        try:
            with space.solvers.borrowed() as solver:
                filled = _forced(space, solver, known)
        except BudgetError:  # the compiler can do what the solver cannot
            filled = _forced_by_circuit(space, known)
        if filled is None:
            lost += rows.tolist()
        else:
            columns[rows] = filled
    if lost:
        many = "1 row" if len(lost) == 1 else f"{len(lost):,} rows"
        raise DataError(
            f"{many} cannot be completed: no valid label agrees with what is known\n"
            f"Rows: {listed(sorted(lost))}. "
            "Call check(Y) to see which rules they break, and mend or drop them."
        )
    return columns


def _follow(implications: Implications, columns: Columns, rows: NDArray[np.int64]) -> list[int]:
    """Fills in what implications force in some rows; those without a valid label stay as they are, and are returned."""
    up, down = implications.upward(columns[rows] == 1), implications.downward(columns[rows] == 0)
    fine = ~(up & down).any(axis=1)
    columns[rows[fine]] = np.where(up, 1, np.where(down, 0, columns[rows]))[fine]
    return rows[~fine].tolist()


def _forced(space: LabelSpace, solver: Solver, known: Columns) -> Columns | None:
    """One row with everything filled in that the rules force; None if no valid label agrees with it."""
    base = _literals(space, known)
    if not solver.satisfiable(base):
        return None
    filled = known.copy()
    guess = _model_columns(space, solver)
    open_ = set(np.flatnonzero(np.isnan(known)).tolist())
    for column in sorted(open_):
        if column not in open_:
            continue
        literal = space.column_literals[column]
        if solver.satisfiable([*base, -literal if guess[column] else literal]):
            other = _model_columns(space, solver)  # a second solution: where the two differ, nothing is forced
            open_ = {c for c in open_ if guess[c] == other[c]}
        else:
            filled[column] = guess[column]
            base.append(literal if guess[column] else -literal)
    return filled


def _model_columns(space: LabelSpace, solver: Solver) -> NDArray[np.bool_]:
    """The columns of the solution just found."""
    out = np.zeros(space.width, dtype=bool)
    for variable, (start, _), index in zip(space.variables, space.spans, solver.model()):
        if variable.binary:
            out[start] = bool(index)
        else:
            out[start + index] = True
    return out


def valid(space: LabelSpace, limit: int | None = None) -> Iterator[dict[str, Value]]:
    """The valid labels as records, one at a time: first variables vary slowest, values in declared order."""
    offsets = space.constraints.offsets
    sizes = [len(variable.values) for variable in space.variables]
    chosen: list[int] = []  # the value index now tried for each variable so far
    solution: list[int] | None = None  # a valid label that agrees with all but the last of them
    found, at = 0, 0
    while (limit is None or found < limit) and (chosen or at < sizes[0]):
        depth = len(chosen)
        if depth < len(sizes) and at < sizes[depth]:
            agrees = solution is not None and solution[:depth] == chosen and solution[depth] == at
            if not agrees:
                with space.solvers.borrowed() as solver:  # not held over a yield: others may ask in between
                    path = [solver.literal(offsets[i] + v) for i, v in enumerate([*chosen, at])]
                    agrees = solver.satisfiable(path)
                    solution = solver.model() if agrees else solution
            if not agrees:
                at += 1
                continue
            chosen.append(at)
            at = 0
            continue
        if depth == len(sizes):
            found += 1
            yield {variable.name: variable.values[i] for variable, i in zip(space.variables, chosen)}
        at = chosen.pop() + 1
