"""Random variables, statements of every construct, and spaces small enough to enumerate.

A `Statement` is drawn with its text, its meaning and its Python form side by side: the meaning is a plain function of
a record, built next to the text and never by parsing it. Names and values include spaces, quotes, words of the
language and other scripts; every spelling of an operator is drawn.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

import oracle
from dssl.logic.language.formula import Formula, Truth
from dssl.logic.language.parser import Rule
from dssl.logic.language.symbols import (
    Symbol,
    at_least,
    at_most,
    conjunction,
    disjunction,
    exactly,
    exactly_one,
    implies,
    xor,
)
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace

Record = dict[str, Any]
NAMES = (
    "a",
    "b",
    "legs",
    "x1",
    "has tail",
    "naïve",
    "猫",
    "not",
    "2x",
    'say "hi"',
    "back\\slash",
    "line\nbreak",
    "a-b",
)
WORDS = ("cat", "dog", "a", "b e e", "true", "Ω", "in", "-", "\\", "zebra", "at_most")
_LANGUAGE = frozenset(
    "not and or xor implies iff in true false all any none exactly_one exactly at_most at_least".split()
)


def written(name: str | int, *, always: bool = False) -> str:
    """A name or value as rule text, by the page on the rule language."""
    if isinstance(name, int):
        return str(name)
    plain = name.isidentifier() and name not in _LANGUAGE
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return name if plain and not always else f'"{escaped}"'


# ---- variables ----


@st.composite
def variable_lists(draw: Callable, *, most: int = 5, labels: int = 64) -> tuple[Variable, ...]:
    """Variables of all kinds with at most `labels` labels between them."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=most, unique=True))
    out: list[Variable] = []
    for name in names:
        variable = draw(_variables(name))
        if math.prod(len(v.values) for v in (*out, variable)) <= labels:
            out.append(variable)
    return tuple(out) or (Variable(names[0]),)


def _variables(name: str) -> st.SearchStrategy[Variable]:
    choice = st.lists(st.one_of(st.sampled_from(WORDS), st.integers(-3, 12)), min_size=1, max_size=4, unique=True)
    numbers = st.lists(st.integers(-3, 12), min_size=1, max_size=4, unique=True)
    ranges = st.builds(lambda low, n: range(low, low + n), st.integers(-3, 3), st.integers(1, 5))
    some = st.one_of(choice, numbers, ranges).map(lambda values: Variable.choice(name, values))
    return st.one_of(st.just(Variable(name)), st.just(Variable(name)), some)


def declaration(variable: Variable) -> str:
    """The line that declares a variable."""
    if variable.binary:
        return written(variable.name)
    return f"{written(variable.name)}: {{{', '.join(map(written, variable.values))}}}"


# ---- statements ----


@dataclass(frozen=True)
class Statement:
    """A formula drawn three ways: its text, what it says of a record, and the same in Python."""

    text: str
    level: int  # 9 atoms … 3 iff: how tightly it binds
    holds: Callable[[Record], bool] = field(repr=False, compare=False)
    python: Formula = field(repr=False, compare=False)

    def inside(self, level: int) -> str:
        """Its text where only formulas that bind at least so tightly may stand without brackets."""
        return self.text if self.level >= level else f"({self.text})"


@st.composite
def statements(draw: Callable, variables: Sequence[Variable], *, depth: int = 3) -> Statement:
    """A formula over some variables, of every construct."""
    if depth == 0 or draw(st.integers(0, 3)) == 0:
        return draw(_atoms(variables))
    inner = statements(variables, depth=depth - 1)
    made = draw(st.sampled_from([_negation, _joined, _implication, _equivalence, _function, _rows]))
    statement = draw(made(variables, inner))
    if draw(st.integers(0, 7)) == 0:  # brackets that need not be there
        return Statement(f"( {statement.text} )", 9, statement.holds, statement.python)
    return statement


@st.composite
def _negation(draw: Callable, variables: Sequence[Variable], inner: st.SearchStrategy[Statement]) -> Statement:
    arg = draw(inner)
    sign = draw(st.sampled_from(["!", "~", "not ", "! "]))
    return Statement(sign + arg.inside(8), 8, lambda r: not arg.holds(r), ~arg.python)


@st.composite
def _joined(draw: Callable, variables: Sequence[Variable], inner: st.SearchStrategy[Statement]) -> Statement:
    spellings, level, meaning, join = draw(
        st.sampled_from(
            [
                (("&", "and"), 7, all, lambda a, b: conjunction([a, b])),
                (("|", "or"), 6, any, lambda a, b: disjunction([a, b])),
                (("^", "xor"), 5, lambda truths: sum(truths) % 2 == 1, xor),
            ]
        )
    )
    args = draw(st.lists(inner, min_size=2, max_size=3))
    symbol = f" {draw(st.sampled_from(spellings))} "
    python = args[0].python
    for arg in args[1:]:
        python = join(python, arg.python)
    text = symbol.join(arg.inside(level) for arg in args)
    return Statement(text, level, lambda r: meaning([arg.holds(r) for arg in args]), python)


@st.composite
def _implication(draw: Callable, variables: Sequence[Variable], inner: st.SearchStrategy[Statement]) -> Statement:
    a, b = draw(inner), draw(inner)
    symbol = draw(st.sampled_from(["->", "implies"]))
    return Statement(
        f"{a.inside(5)} {symbol} {b.inside(4)}",
        4,
        lambda r: b.holds(r) if a.holds(r) else True,
        implies(a.python, b.python),
    )


@st.composite
def _equivalence(draw: Callable, variables: Sequence[Variable], inner: st.SearchStrategy[Statement]) -> Statement:
    a, b = draw(inner), draw(inner)
    symbol = draw(st.sampled_from(["<->", "iff"]))
    return Statement(
        f"{a.inside(3)} {symbol} {b.inside(4)}", 3, lambda r: a.holds(r) is b.holds(r), a.python.iff(b.python)
    )


@st.composite
def _function(draw: Callable, variables: Sequence[Variable], inner: st.SearchStrategy[Statement]) -> Statement:
    args = draw(st.lists(inner, min_size=1, max_size=4))
    k = draw(st.integers(0, 4))
    word, number, meaning, python = draw(
        st.sampled_from(
            [
                ("all", "", lambda n: n == len(args), lambda *f: conjunction(f)),
                ("any", "", lambda n: n >= 1, lambda *f: disjunction(f)),
                ("none", "", lambda n: n == 0, lambda *f: conjunction([~x for x in f])),
                ("exactly_one", "", lambda n: n == 1, exactly_one),
                ("exactly", f"{k}, ", lambda n: n == k, lambda *f: exactly(k, *f)),
                ("at_most", f"{k}, ", lambda n: n <= k, lambda *f: at_most(k, *f)),
                ("at_least", f"{k}, ", lambda n: n >= k, lambda *f: at_least(k, *f)),
            ]
        )
    )
    text = f"{word}({number}{', '.join(arg.text for arg in args)})"
    return Statement(
        text, 9, lambda r: meaning([a.holds(r) for a in args].count(True)), python(*(a.python for a in args))
    )


@st.composite
def _rows(draw: Callable, variables: Sequence[Variable], inner: st.SearchStrategy[Statement]) -> Statement:
    """A disjunction of complete rows over some variables: what a table of valid labels becomes."""
    chosen = draw(st.lists(st.sampled_from(variables), min_size=1, max_size=3, unique_by=lambda v: v.name))
    labels = st.tuples(*(st.sampled_from(v.values) for v in chosen))
    rows = draw(st.lists(labels, min_size=2, max_size=10))
    texts, options = [], []
    for row in rows:
        pairs = list(zip(chosen, row))
        texts.append(" & ".join(_equal_text(v, value) for v, value in pairs))
        options.append(conjunction([Symbol((1, v.name)) == value for v, value in pairs]))
    wanted = [dict(zip((v.name for v in chosen), row)) for row in rows]
    return Statement(
        " | ".join(texts),
        6,
        lambda r: any(all(r[name] == value for name, value in row.items()) for row in wanted),
        disjunction(options),
    )


def _equal_text(variable: Variable, value: Any) -> str:
    if variable.binary:
        return written(variable.name) if value else f"!{written(variable.name)}"
    return f"{written(variable.name)} = {written(value)}"


# ---- atoms ----


@st.composite
def _atoms(draw: Callable, variables: Sequence[Variable]) -> Statement:
    variable = draw(st.sampled_from(variables))
    numeric = [v for v in variables if v.kind != "categorical"]
    wordy = [v for v in variables if v.kind == "categorical"]
    kinds: list[Any] = [_truths(variable) if variable.binary else _members(variable)]
    kinds.append(kinds[0])
    if numeric:
        kinds.append(_comparisons(numeric))
    if wordy:
        kinds.append(_same(wordy))
    kinds.append(st.booleans().map(_constant))
    return draw(st.one_of(kinds))


def _constant(value: bool) -> Statement:
    return Statement(str(value).lower(), 9, lambda r: value, Truth(value))


@st.composite
def _truths(draw: Callable, variable: Variable) -> Statement:
    name, symbol = written(variable.name, always=draw(st.booleans())), Symbol((1, variable.name))
    text, meant, python = draw(
        st.sampled_from(
            [
                (name, True, symbol.formula()),
                (f"{name} = true", True, symbol == True),  # noqa: E712
                (f"{name} != true", False, symbol != True),  # noqa: E712
                (f"{name} = 0", False, symbol == 0),
                (f"{name} in {{1}}", True, symbol.isin([1])),
            ]
        )
    )
    return Statement(text, 9, lambda r: r[variable.name] is meant, python)


@st.composite
def _members(draw: Callable, variable: Variable) -> Statement:
    name, symbol = written(variable.name), Symbol((1, variable.name))
    values = draw(st.lists(st.sampled_from(variable.values), min_size=1, max_size=3))
    braces = f"{{{', '.join(map(written, values))}}}"
    first = values[0]
    inside = lambda r: r[variable.name] in values  # noqa: E731
    text, holds, python = draw(
        st.sampled_from(
            [
                (f"{name} = {written(first)}", lambda r: r[variable.name] == first, symbol == first),
                (f"{name} != {written(first)}", lambda r: r[variable.name] != first, symbol != first),
                (f"{name} in {braces}", inside, symbol.isin(values)),
                (f"{name} not in {braces}", lambda r: not inside(r), ~symbol.isin(values)),
            ]
        )
    )
    return Statement(text, 9, holds, python)


@st.composite
def _same(draw: Callable, wordy: Sequence[Variable]) -> Statement:
    """Two categorical variables compared; a name that is also a value of the left one would mean the value."""
    a, b = draw(st.sampled_from(wordy)), draw(st.sampled_from(wordy))
    if b.name in a.values:
        return _constant(True)
    equal = draw(st.booleans())
    left, right = Symbol((1, a.name)), Symbol((1, b.name))
    text = f"{written(a.name)} {'=' if equal else '!='} {written(b.name)}"
    return Statement(text, 9, lambda r: (r[a.name] == r[b.name]) is equal, left == right if equal else left != right)


_ORDERS: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq, "!=": operator.ne,
}  # fmt: skip


@st.composite
def _comparisons(draw: Callable, numeric: Sequence[Variable]) -> Statement:
    terms = st.tuples(st.integers(-2, 3), st.one_of(st.none(), st.sampled_from(numeric).map(lambda v: v.name)))
    left = draw(st.lists(terms, min_size=1, max_size=2))
    right = draw(st.lists(terms, min_size=1, max_size=2))
    if all(name is None for _, name in left + right):
        left[0] = (left[0][0], numeric[0].name)
    op = draw(st.sampled_from(list(_ORDERS)))
    if left[0][0] == 1 and len(left + right) == 2 and left[0][1] is not None and right[0][1] is None:
        op = {"=": "<=", "!=": ">"}.get(op, op)  # name = number asks for a value of the variable: see _members
    text = f"{_sum_text(draw, left)} {op} {_sum_text(draw, right)}"
    value = lambda side, r: sum(c if name is None else c * int(r[name]) for c, name in side)  # noqa: E731
    return Statement(
        text, 9, lambda r: _ORDERS[op](value(left, r), value(right, r)), _ORDERS[op](Symbol(*left), Symbol(*right))
    )


def _sum_text(draw: Callable, terms: Iterable[tuple[int, str | None]]) -> str:
    out = ""
    for c, name in terms:
        size = str(abs(c))
        if name is not None:
            forms = [f"{size}*{written(name)}", f"{written(name)} * {size}"]
            size = draw(st.sampled_from(forms)) if abs(c) != 1 else written(name)
        out += f" {'-' if c < 0 else '+'} {size}" if out else ("-" if c < 0 else "") + size
    return out


# ---- spaces ----


@dataclass(frozen=True)
class Drawn:
    """The parts of a space, and its valid labels by enumeration of what its statements mean."""

    variables: tuple[Variable, ...]
    statements: tuple[Statement, ...]
    probabilities: tuple[float | None, ...]

    @property
    def text(self) -> str:
        rules = [_ruled(s) if p is None else f"{p} :: {s.text}" for s, p in zip(self.statements, self.probabilities)]
        return "\n".join([*map(declaration, self.variables), *rules])

    @property
    def valid(self) -> list[Record]:
        hard = [s for s, p in zip(self.statements, self.probabilities) if p is None]
        return [r for r in oracle.records(self.variables) if all(s.holds(r) for s in hard)]

    def rules(self) -> tuple[Rule, ...]:
        """The rules as parsed, whether or not they contradict each other."""
        from dssl.logic.language.parser import parse

        return parse(self.text)[1]

    def space(self) -> LabelSpace:
        return LabelSpace(self.text)


def _ruled(statement: Statement) -> str:
    """The statement as a line of its own; a bare name would be a declaration."""
    return f"({statement.text})" if statement.level == 9 else statement.text


@st.composite
def drawn_spaces(
    draw: Callable, *, most: int = 5, labels: int = 64, rules: int = 4, depth: int = 3, soft: bool = True
) -> Drawn:
    """Variables and rules of every construct, some of them soft; the rules may contradict each other."""
    variables = draw(variable_lists(most=most, labels=labels))
    drawn = draw(st.lists(statements(variables, depth=depth), max_size=rules))
    chance = st.one_of(st.none(), st.none(), st.sampled_from([0.1, 0.5, 0.9, 1e-05])) if soft else st.none()
    return Drawn(variables, tuple(drawn), tuple(draw(chance) for _ in drawn))


def valid_spaces(**options: Any) -> st.SearchStrategy[Drawn]:
    """Drawn spaces with at least one valid label."""
    return drawn_spaces(**options).filter(lambda drawn: bool(drawn.valid))
