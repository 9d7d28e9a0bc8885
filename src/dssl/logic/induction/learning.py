"""Rules learned from labels: what never happens in them, although by chance it would."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import files
from dssl.errors import DataError
from dssl.logic.induction.discovery import KINDS, Discovery
from dssl.logic.induction.minimal import irredundant
from dssl.logic.induction.mining import Miner
from dssl.logic.induction.phrasing import Candidate
from dssl.logic.induction.surprise import convolved, rate_bound
from dssl.logic.induction.tally import Tally, read
from dssl.logic.language.formula import (
    And,
    Assignments,
    Compare,
    Count,
    Formula,
    Iff,
    Implies,
    In,
    Is,
    Not,
    Or,
    compare_holds,
)
from dssl.logic.language.parser import Rule
from dssl.logic.space import LabelSpace

Rows = NDArray[np.int64]
_EXAMPLES = 5
_SHOWN = 70  # characters of a rule in the table


@dataclass(frozen=True)
class LearnedRule:
    """A rule and how well labels support it.

    A *chance* is a row in which the rule could have failed: one where its premise holds and all its variables are
    known.
    """

    rule: Rule
    kind: str  # "forced", "equivalence", "group", "implication", "exclusion", "clause", "cardinality"
    chances: int
    failures: int
    expected: float  # failures if the variables were independent (of a forced value: if others came up at rate `rare`)
    p_value: float  # of no more failures than these under independence, times the number of rules tried
    bound: float  # of the failure rate per chance on new rows; holds for all rules at once with confidence 1 − level
    examples: tuple[int, ...]  # the first rows that gave it a chance and in which it held
    exceptions: tuple[int, ...]  # the first rows in which it failed
    premise: Formula | None = None  # what gives it a chance; None: every row does

    @property
    def text(self) -> str:
        return self.rule.text

    @property
    def support(self) -> int:
        """Chances in which it held."""
        return self.chances - self.failures

    @property
    def figures(self) -> str:
        """Its support in a line."""
        held = f"{self.support:,} of {self.chances:,} chances" if self.failures else f"all {self.chances:,} chances"
        return (
            f"held in {held}; {self.expected:,.1f} failures expected by chance, p {_power(self.p_value)}; "
            f"fails on new rows in at most {self.bound:.2%} of chances"
        )

    def __str__(self) -> str:
        return f"{self.text}   # {self.figures}"


@dataclass(frozen=True)
class LearnedRules:
    """What `learn_rules` found: the rules with their support, and the space they make."""

    space: LabelSpace  # with the rules it was given, and the learned ones
    rules: tuple[LearnedRule, ...]
    rows: int
    level: float
    tried: Mapping[str, int]  # tests that count towards the correction, by family
    limits: tuple[str, ...]  # what was not searched, or left out, and why

    def __len__(self) -> int:
        return len(self.rules)

    def __iter__(self) -> Iterator[LearnedRule]:
        return iter(self.rules)

    def tested(self, Y: Any) -> list[tuple[int, int]]:
        """On other labels, the chances and the failures of each rule."""
        other = read(Y, space=self.space).assignments
        counts = [_held_and_failed(other, rule.rule.formula, rule.premise) for rule in self.rules]
        return [(len(held) + len(failed), len(failed)) for held, failed in counts]

    @property
    def text(self) -> str:
        """A rule file: declarations, given rules, and learned rules under comments with their support."""
        plain = LabelSpace.of(self.space.variables, self.space.rules[: len(self.space.rules) - len(self.rules)])
        lines = [
            f"# {len(self.rules)} rules learned from {self.rows:,} rows; with confidence {1 - self.level:.0%} "
            "all bounds hold at once",
            *(f"# {limit}" for limit in self.limits),
            str(plain),
        ]
        for rule in self.rules:
            lines += [f"# {rule.figures}", rule.text]
        return "\n".join(lines) + "\n"

    def save(self, path: str | Path) -> None:
        """Write `text` to a file, all of it or nothing."""
        files.write_whole(path, self.text.encode())

    def __str__(self) -> str:
        head = ("rule", "chances", "failures", "expected", "p-value", "bound")
        rows = [
            (
                _cut(r.text),
                f"{r.chances:,}",
                f"{r.failures:,}",
                f"{r.expected:,.1f}",
                _power(r.p_value),
                f"{r.bound:.2%}",
            )
            for r in self.rules
        ]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:]))]).rstrip()
            for row in [head, *rows]
        ]
        told = (
            [f"{len(self.rules)} rules from {self.rows:,} rows", *lines]
            if self.rules
            else [f"no rule stands out in {self.rows:,} rows"]
        )
        return "\n".join([*told, *(f"note: {limit}" for limit in self.limits)])


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _power(p: float) -> str:
    return f"{p:.0e}" if p >= 1e-300 else "< 1e-300"


def learn_rules(
    Y: Any,
    names: Sequence[str] | None = None,
    *,
    space: LabelSpace | None = None,
    tolerance: float = 0.0,
    level: float = 0.05,
    max_clause: int = 3,
    rare: float = 0.05,
    max_bound: float = 1.0,
    budget: int = 2_000_000,
) -> LearnedRules:
    """Rules that labels obey, and would not obey by chance, each with its support; none follows from the others.

    >>> Y = [{"legs": i % 3 == 0, "fins": i % 3 == 1, "wings": i % 3 == 2, "tail": i % 2 == 0} for i in range(300)]
    >>> learned = learn_rules(Y)
    >>> [rule.text for rule in learned.rules]
    ['exactly_one(legs, fins, wings)']
    >>> learned.space.count()
    6

    It finds values that never occur, equivalences, implications, exclusions, groups of which at most or exactly one
    (or two) hold, clauses up to `max_clause` literals, and bounds on how many binary variables hold.

    Arguments: labels as a matrix of 0, 1 and NaN for unknown (dense, or sparse without unknowns), a data frame, a
    mapping of columns or records; `names` of the columns of a matrix. With a `space` the labels are read as its own and
    its rules are kept; without one, columns of other whole numbers or of texts become variables over the values that
    occur. `tolerance`: the share of chances in which a rule may fail; one that does becomes a soft rule, with smoothed
    counts as its probability. `level`: the chance that any rule is found in independent columns, and that any bound is
    wrong. `rare`: a value or count is taken to be impossible if missing it at this rate would be a surprise.
    `max_bound`: leave out rules that may fail more often. `budget`: clauses of three tried at most.

    Any number of threads may call it at once.
    """
    _check(tolerance, level, rare, max_bound, max_clause)
    tally = read(Y, names, space)
    miner = Miner(tally, level, tolerance, rare)
    search = Discovery(miner, max_clause, budget)
    candidates = sorted(search.run(), key=lambda f: (KINDS.index(f.kind), len(f.formula.names())))
    judged = [rule for rule in (_judged(tally, f, level, rare) for f in candidates) if rule.bound <= max_bound]
    if tolerance == 0:
        judged = [rule for rule in judged if not rule.failures]
    given = [rule for rule in tally.space.rules if rule.probability is None]
    kept = irredundant(tally.space.variables, [rule.rule for rule in judged], given)
    rules = tuple(judged[i] for i in kept)
    whole = LabelSpace.of(
        tally.space.variables, (*tally.space.rules, *(rule.rule for rule in rules)), tally.space.literal_weights
    )
    return LearnedRules(whole, rules, tally.rows, level, dict(miner.tried), tuple(search.limits))


def _check(tolerance: float, level: float, rare: float, max_bound: float, max_clause: int) -> None:
    shares = {"tolerance": (tolerance, 0 <= tolerance < 0.5), "level": (level, 0 < level < 1)}
    shares |= {"rare": (rare, 0 < rare < 1), "max_bound": (max_bound, 0 < max_bound <= 1)}
    for name, (value, good) in shares.items():
        if not good:
            most = "0.5" if name == "tolerance" else "1"
            raise DataError(f"{name}={value!r} is not a share that can be used\nUse a number between 0 and {most}.")
    if max_clause not in (1, 2, 3):
        raise DataError(f"max_clause={max_clause!r}\nUse 1 for values only, 2 for pairs, 3 for clauses of three.")


# ---- support ----


def _judged(tally: Tally, candidate: Candidate, level: float, rare: float) -> LearnedRule:
    """A candidate with its counts: rows that gave it a chance, those in which it failed, and what follows from them."""
    labels, formula = tally.assignments, candidate.formula
    held, failed = _held_and_failed(labels, formula, candidate.premise)
    chances, failures = len(held) + len(failed), len(failed)
    known = np.logical_and.reduce([labels.indices[name] >= 0 for name in formula.names()])
    rates = {name: _rates(labels.indices[name], len(labels.values[name])) for name in formula.names()}
    by_chance = rare if candidate.kind == "forced" else 1 - chance(formula, rates, labels.values)
    probability = None if not failures else round((chances - failures + 1) / (chances + 2), 4)
    return LearnedRule(
        Rule(formula, probability),
        candidate.kind,
        chances,
        failures,
        float(known.sum()) * by_chance,
        math.exp(candidate.log_p),
        rate_bound(failures, chances, math.log(level) - log_shapes(len(_columns(formula)), tally.width)),
        tuple(held[:_EXAMPLES].tolist()),
        tuple(failed[:_EXAMPLES].tolist()),
        candidate.premise,
    )


def _held_and_failed(labels: Assignments, formula: Formula, premise: Formula | None) -> tuple[Rows, Rows]:
    """Rows that gave a rule a chance: those in which it held, and those in which it failed."""
    true, false = formula.kleene(labels)
    if premise is not None:
        true &= premise.kleene(labels)[0]
    return np.flatnonzero(true), np.flatnonzero(false)


def log_shapes(columns: int, width: int) -> float:
    """The log of a number such that shares of 1 / number, over all rules that could be stated, sum to at most one.

    A rule that names c of w columns: C(w, c) choices of them, 2^c of their signs, c(c + 1) to cover every c, c + 1 of a
    threshold or of the column that stands out, and eight kinds.
    """
    c = min(columns, width)
    return math.log(8 * c * (c + 1) * (c + 1)) + math.log(math.comb(width, c)) + c * math.log(2)


def _columns(formula: Formula) -> list[tuple[str, Any]]:
    """What a formula names: a binary variable once, any other with each of its values."""
    out: list[tuple[str, Any]] = []
    for atom in formula.atoms():
        out += [(atom.name, value) for value in atom.values] if isinstance(atom, In) else [(str(atom), None)]
    return out


def _rates(indices: NDArray[np.integer], values: int) -> NDArray[np.float64]:
    known = indices[indices >= 0].astype(np.int64)
    return np.bincount(known, minlength=values) / max(1, len(known))


def chance(formula: Formula, rates: Mapping[str, NDArray[np.float64]], values: Mapping[str, tuple[Any, ...]]) -> float:
    """The probability of a formula that names each variable once, if they are independent.

    >>> from dssl.logic.language.symbols import symbols
    >>> a, b = symbols("a, b")
    >>> rates = {"a": np.array([0.5, 0.5]), "b": np.array([0.9, 0.1])}
    >>> chance(a >> b, rates, {})
    0.55
    """
    if isinstance(formula, Is):
        return float(rates[formula.name][1])
    if isinstance(formula, In):
        return float(sum(rates[formula.name][values[formula.name].index(v)] for v in formula.values))
    if isinstance(formula, Compare):
        weights, constant = formula.weights()
        ((name, c),) = weights.items()
        assert isinstance(name, str)
        return float(
            sum(r for v, r in zip(values[name], rates[name]) if compare_holds(formula.op, c * int(v) + constant))
        )
    parts = [chance(part, rates, values) for part in formula.parts]
    if isinstance(formula, Not):
        return 1 - parts[0]
    if isinstance(formula, And):
        return math.prod(parts)
    if isinstance(formula, Or):
        return 1 - math.prod(1 - p for p in parts)
    if isinstance(formula, Implies):
        return 1 - parts[0] * (1 - parts[1])
    if isinstance(formula, Iff):
        return parts[0] * parts[1] + (1 - parts[0]) * (1 - parts[1])
    assert isinstance(formula, Count)
    number = convolved([np.array([1 - p, p]) for p in parts])
    return float(sum(p for n, p in enumerate(number) if compare_holds(formula.op, n - formula.k)))
