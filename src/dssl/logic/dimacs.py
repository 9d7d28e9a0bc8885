"""DIMACS: clauses as SAT solvers and model counters read and write them, with weights and variables to project on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from dssl.errors import BudgetError, DataError, RuleError
from dssl.logic.language.formula import Formula, Is, Not, Or, Truth
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable, shown
from dssl.logic.reasoning.constraints import Constraints, Sum
from dssl.logic.sources import read_text

if TYPE_CHECKING:
    from dssl.logic.space import LabelSpace

MOST_VARIABLES = 1_000_000  # of a file: each becomes a column with a name
MOST_PLACES = 5_000_000  # totals of sums, each a variable of a file that is written
_PROJECTIONS = ("error", "ignore", "show")

# ---- reading ----


class Read(NamedTuple):
    """What a file says."""

    variables: tuple[Variable, ...]
    rules: tuple[Rule, ...]
    literal_weights: NDArray[np.float64] | None  # (variables, 2)
    shown: tuple[str, ...] | None  # names to project on


def read(path: str | Path, projection: str) -> Read:
    """Clauses over x1, x2, … as rules, and the file's literal weights if it has any."""
    if projection not in _PROJECTIONS:
        raise RuleError(f"projection={projection!r}", remedy='Use "error", "ignore" or "show".')
    file = _File(path, projection)
    file.read()
    variables = tuple(Variable(f"x{i + 1}") for i in range(file.count))
    literals = {i: Is(f"x{i}") for i in range(1, file.count + 1)}
    rules = []
    for clause, line in file.clauses:
        parts: list[Formula] = [literals[x] if x > 0 else Not(literals[-x]) for x in clause]
        rules.append(Rule(Or.of(*parts) if parts else Truth(False), None, line))
    kept = file.names_to_project_on() if projection == "show" else None
    return Read(variables, tuple(rules), file.literal_weights(), kept)


class _File:
    def __init__(self, path: str | Path, projection: str) -> None:
        self.path, self.projection = path, projection
        self.count = self.promised = -1
        self.clauses: list[tuple[list[int], int]] = []
        self.weights: dict[int, float] = {}
        self.shown: list[int] = []  # variables to project on
        self.open: list[int] = []  # literals of the clause that no 0 has closed yet
        self.started = 0  # its line

    def fail(self, line: int, reason: str, remedy: str) -> NoReturn:
        raise DataError(f"{self.path}, line {line}: {reason}\n{remedy}")

    def read(self) -> None:
        for number, line in enumerate(read_text(self.path).splitlines(), start=1):
            words = line.split()
            if words[:1] == ["%"]:  # some published files end with a % and a stray 0
                break
            if words:
                self.line(words, number)
        self.finish()

    def line(self, words: list[str], number: int) -> None:
        kinds = {"c": self.comment, "p": self.header, "w": self.weight_line, "vp": self.project}
        kinds.get(words[0], self.clause)(words, number)

    def clause(self, words: list[str], number: int) -> None:
        """Literals; a clause may go on over several lines, until 0 closes it."""
        for word in words:
            x = self.literal(word, number)
            if not self.open:
                self.started = number
            if x:
                self.open.append(x)
            else:
                self.clauses.append((self.open, self.started))
                self.open = []

    def finish(self) -> None:
        """An error if the file ends too early."""
        if self.count < 0:
            self.fail(1, "there is no 'p cnf VARIABLES CLAUSES' line", "Check that this is a DIMACS CNF file.")
        if self.open:
            self.fail(self.started, "the last clause is not closed by 0", "The file may be cut off: fetch it again.")
        if len(self.clauses) < self.promised:
            self.fail(
                self.started,
                f"{len(self.clauses):,} clauses, where the header promises {self.promised:,}",
                "The file may be cut off: fetch it again.",
            )

    def names_to_project_on(self) -> tuple[str, ...] | None:
        """As x1, x2, …; None if the file asks for none."""
        odd = next((x for x in self.shown if x > self.count), None)
        if odd is not None:
            raise DataError(
                f"{self.path}: variable {odd} to project on is not among {self.count}\nRaise the count in the header."
            )
        return tuple(f"x{i}" for i in sorted(set(self.shown))) or None

    def header(self, words: list[str], line: int) -> None:
        if (
            len(words) != 4
            or words[1] not in ("cnf", "wcnf")
            or not all(w.isdecimal() and len(w) < 9 for w in words[2:])
        ):
            self.fail(line, f"'{shown(' '.join(words))}' is not a CNF header", "Expected: p cnf VARIABLES CLAUSES.")
        if self.count >= 0:
            self.fail(line, "there is a second header", "Keep one 'p cnf' line.")
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
            self.project(words, line)
        elif words[1:3] == ["p", "weight"]:
            self.weight(words[3:], line)
        elif words[1:2] == ["weights"]:  # c2d: of true and false, variable by variable
            for i, word in enumerate(words[2:]):
                self.weight([str(i // 2 + 1) if i % 2 == 0 else str(-(i // 2 + 1)), word], line)

    def project(self, words: list[str], line: int) -> None:
        """Variables to project on: "c p show", "c ind", or "vp" in the competition of 2020."""
        if self.projection == "error":
            self.fail(
                line,
                "the file asks for a projected count, over some variables only",
                'Labels have no projection: pass projection="ignore" to use all variables, or projection="show" and '
                "ask for count(over=space.shown).",
            )
        after = 3 if words[1:3] == ["p", "show"] else 2 if words[0] == "c" else 1
        for word in words[after:]:
            if not word.isdecimal() or len(word) > 12:
                self.fail(
                    line, f"'{shown(word)}' is not a variable to project on", "Write their numbers: c p show 1 2 0."
                )
            self.shown += [int(word)] if int(word) else []  # the header may come later

    def weight_line(self, words: list[str], line: int) -> None:
        """A line of Cachet, where −1 says that a variable has no weight, or of the competition of 2020."""
        if words[2:] == ["-1"]:
            self.weight([words[1], "1"], line)
            self.weight([f"-{words[1]}", "1"], line)
        else:
            self.weight(words[1:], line)

    def weight(self, words: list[str], line: int) -> None:
        """The weight of a literal: a decimal number or a fraction."""
        try:
            x, weight = int(words[0]), float(Fraction(words[1]) if "/" in words[1] else words[1])
        except (IndexError, ValueError, ZeroDivisionError, OverflowError):
            self.fail(line, f"'{shown(' '.join(words))}' is not a weight", "Write a literal and its weight: 3 0.25 0.")
        if not (weight >= 0 and math.isfinite(weight)) or x == 0:
            self.fail(line, f"the weight {words[1]} of literal {words[0]}", "Weights are finite and not negative.")
        self.weights[x] = weight

    def literal_weights(self) -> NDArray[np.float64] | None:
        """Weights (variables, 2) of true and false, if the file has any."""
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


# ---- writing ----


def text(space: LabelSpace) -> str:
    """A space as CNF with as many models as it has valid labels, and the same weighted count.

    A binary variable is one of the file's; any other one per value, exactly one of which is true. Further variables
    stand for parts of rules and for totals of sums; the others determine them.
    """
    written = _Written(space.constraints)
    lines = [f"c {i} is {_on_one_line(name)}" for i, name in zip(written.columns(), space.columns)]
    lines += [f"c p weight {x} {w!r} 0" for x, w in _weights(space, written)]
    clauses = list(written.clauses())
    lines.append(f"p cnf {written.count} {len(clauses)}")
    lines += [" ".join(map(str, (*clause, 0))) for clause in clauses]
    return "\n".join(lines) + "\n"


def _on_one_line(name: str) -> str:
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)


def _weights(space: LabelSpace, written: _Written) -> Iterator[tuple[int, float]]:
    """Of literals, by the space's own weights and by its soft rules."""
    if space.literal_weights is not None:
        for x, (true, false) in zip(written.columns(), space.literal_weights.tolist()):
            yield from ((x, true), (-x, false))
    constraints = space.constraints
    for block, p in enumerate(constraints.soft, start=constraints.visible):
        x = written.literals[constraints.offsets[block] + 1]
        yield from ((x, p), (-x, 1 - p))


class _Written:
    """Constraints as clauses over numbers from 1."""

    def __init__(self, constraints: Constraints) -> None:
        self.constraints, self.count = constraints, 0
        self.literals: list[int] = []  # of each value
        for size, many in zip(constraints.sizes, constraints.categorical):
            single = size == 2 and not many
            new = [self.new() for _ in range(1 if single else size)]
            self.literals += [-new[0], new[0]] if single else new

    def new(self) -> int:
        self.count += 1
        return self.count

    def columns(self) -> Iterator[int]:
        """The variable of each column of the space."""
        c = self.constraints
        for block in range(c.visible):
            values = range(c.offsets[block], c.offsets[block + 1])
            yield from (self.literals[v] for v in (values if c.categorical[block] else values[1:]))

    def clauses(self) -> Iterator[list[int]]:
        c = self.constraints
        for block, size in enumerate(c.sizes):
            if size != 2 or c.categorical[block]:
                yield from self._one_of(self.literals[c.offsets[block] : c.offsets[block + 1]])
        for clause in c.clauses:
            yield [self.literals[value] for value in clause]
        for s in c.sums:
            yield from self._sum(s)

    def _one_of(self, literals: list[int]) -> Iterator[list[int]]:
        """Exactly one holds. Beyond a few, a variable for each says whether one so far does."""
        yield literals
        if len(literals) <= 6:
            yield from ([-a, -b] for i, a in enumerate(literals) for b in literals[:i])
            return
        before = literals[0]
        for x in literals[1:-1]:
            now = self.new()
            yield from ([-before, -x], [-before, now], [-x, now], [before, x, -now])
            before = now
        yield [-before, -literals[-1]]

    def _sum(self, s: Sum) -> Iterator[list[int]]:
        """A variable for each total after each block, true exactly if that is the total."""
        adds = dict(zip(s.values, s.coefficients))
        offsets = self.constraints.offsets
        blocks = [b for b in range(len(offsets) - 1) if any(v in adds for v in range(offsets[b], offsets[b + 1]))]
        before: dict[int, int | None] = {0: None}  # total → its variable; None: it is certain
        for block in blocks:
            steps = [(self.literals[v], adds.get(v, 0)) for v in range(offsets[block], offsets[block + 1])]
            after: dict[int, int | None] = {}
            for total in sorted({total + c for total in before for _, c in steps}):
                after[total] = self.new()
                if self.count > MOST_PLACES:
                    raise BudgetError(
                        f"a sum has more than {MOST_PLACES:,} totals, each a variable of the file\n"
                        "Divide its weights by a common factor, or split it into smaller sums."
                    )
            for x, c in steps:
                for total, name in before.items():
                    yield [*_not(name), -x, *_only(after[total + c])]
                for total, name in after.items():
                    came = before.get(total - c, 0)
                    if came is not None:  # from a total that is not certain, or that cannot be
                        yield [*_not(name), -x, *([came] if came else [])]
            before = after
        for total, name in before.items():
            if not any(low <= total <= high for low, high in s.intervals):
                yield _not(name)


def _not(name: int | None) -> list[int]:
    return [] if name is None else [-name]


def _only(name: int | None) -> Iterable[int]:
    return () if name is None else (name,)
