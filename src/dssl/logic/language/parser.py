"""The rule language: text ⇄ variables and rules.

One statement per line: ``name, name`` declares binary variables, ``name: {a, b}`` and ``name: 0..9`` others,
``cell[1..9]: 0..9`` an array of them, ``n = 9`` a constant, ``0.9 :: formula`` is a soft rule, ``for i in 1..9: rule``
one rule for each i, ``"why": rule`` a rule with a remark, and everything else a rule. Declarations are read first, so
their order does not matter. Tokens become a tree (`reading.py`), the tree formulas (`expanding`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dssl.errors import RuleError
from dssl.logic.language.arrays import Arrays, declarations
from dssl.logic.language.constants import Constants, Scalar
from dssl.logic.language.declaring import Declarer, Definition, definitions, heads, name_of
from dssl.logic.language.expanding.expansion import Expander
from dssl.logic.language.formula import MAX_DEPTH, MAX_DIGITS, Formula, In, Is
from dssl.logic.language.indentation import Classes, Hierarchy, blocks
from dssl.logic.language.predicates import Predicate, predicates
from dssl.logic.language.quoting import in_quotes
from dssl.logic.language.reading import Reader
from dssl.logic.language.structures.rowfiles import with_rows
from dssl.logic.language.syntax import Statement
from dssl.logic.language.tokens import Source, Token, formatted, statements
from dssl.logic.language.variables import Scope, Variable, shown

Line = list[Token] | Hierarchy
_LONG = 60  # characters of a formula, more than which a message does not show where the rule is shorter
_LONGER = frozenset(["if", "max", "min", "abs", "element"])
_IN_LOOPS = frozenset(["for", "*", "..", "["])


def require_writable(formula: Formula) -> None:
    """Refuse a formula that could not be read again from its own text: what is built can be saved and loaded."""
    layer, depth = [formula], 0
    while layer:
        if depth > MAX_DEPTH:
            raise RuleError(
                f"a formula nested deeper than {MAX_DEPTH}",
                remedy="Split it into several rules, or name its parts by variables.",
            )
        below: list[Formula] = []
        for node in layer:
            if type(node) in (Is, In):
                continue
            for number in node.numbers():
                _require_digits(number)
            below += node.parts
        layer, depth = below, depth + 1


def _require_digits(number: int) -> None:
    if abs(number) >= 10**MAX_DIGITS:
        digits = len(str(abs(number))) if abs(number) < 10**40 else "more than 40"
        raise RuleError(f"a number of {digits} digits", remedy=f"Use at most {MAX_DIGITS} digits.")


@dataclass(frozen=True)
class Origin:
    """The line that a rule was written out from, if it has a loop or a constant: what to print instead of its rules."""

    text: str
    number: int  # of the rule among those of the line
    rules: int  # that the line became
    binding: tuple[tuple[str, Scalar], ...]
    constants: tuple[tuple[str, str], ...]  # that it uses: names and the lines that define them
    classes: tuple[str, ...] = ()  # of a hierarchy, which declares those that are not declared


@dataclass(frozen=True)
class Rule:
    """A formula that labels obey: always, or with odds p : 1−p where a probability p is given."""

    formula: Formula
    probability: float | None = None
    line: int | None = field(default=None, compare=False)
    origin: Origin | None = field(default=None, compare=False, repr=False)
    why: str | None = field(default=None, compare=False)  # what its author says of it

    def __post_init__(self) -> None:
        require_writable(self.formula)
        if self.probability is not None and not 0 < self.probability < 1:
            raise RuleError(
                f"the probability of a soft rule is between 0 and 1, not {self.probability!r}",
                remedy="Leave it out for a rule that always holds; negate one that never does.",
            )

    @property
    def text(self) -> str:
        """The rule as rule text."""
        bare = isinstance(self.formula, Is)  # a name alone on a line would declare it
        text = f"{self.formula} = true" if bare and self.probability is None else str(self.formula)
        text = text if self.probability is None else f"{self.probability!r} :: {text}"
        return text if not self.why else f"{in_quotes(self.why)}: {text}"

    @property
    def said(self) -> str:
        """The rule for a message: as it was written, if that is one rule and its formula is long."""
        text = self.text
        whole = (
            self.origin is not None and self.origin.rules == 1 and not self.origin.binding and not self.origin.classes
        )
        if self.origin is None or not whole or len(text) <= max(_LONG, len(self.origin.text)):
            return text
        return self.origin.text

    def __str__(self) -> str:
        if self.line is None:
            return self.text
        pairs = ", ".join(f"{name} = {value}" for name, value in self.origin.binding) if self.origin else ""
        return f"line {self.line}{', for ' + pairs if pairs else ''}: {self.said}"


def parse(text: str, folder: str | Path | None = None) -> tuple[tuple[Variable, ...], tuple[Rule, ...]]:
    """The variables and rules of a rule text; files of rows are looked for in `folder`, and refused without one."""
    if not isinstance(text, str):
        raise RuleError(
            f"rules are text, not {type(text).__name__}", remedy="Give a str; LabelSpace.read reads a file."
        )
    source = Source(text.removeprefix("\ufeff"), folder)
    lines = _lines(source)
    single = [tokens for tokens in lines if not isinstance(tokens, Hierarchy)]
    declared = {name_of(token) for tokens in single for token in heads(tokens)}
    defined = definitions(source, single, declared)
    constants = Constants(source, {name: (d.word, d.node) for name, d in defined.items()})
    variables = _declared(source, lines, constants)
    rest = [tokens for tokens in lines if isinstance(tokens, Hierarchy) or not heads(tokens)]
    return tuple(variables.values()), _rules(source, rest, Scope(variables.values()), constants, defined)


def _declared(source: Source, lines: Iterable[Line], constants: Constants) -> dict[str, Variable]:
    """The variables, in the order of the lines; a hierarchy declares its classes that no other line does."""
    variables: dict[str, Variable] = {}
    arrays: set[str] = set()
    groups: list[list[Variable] | Hierarchy] = []
    for line in lines:
        if isinstance(line, Hierarchy):
            groups.append(line)
        elif heads(line):
            before = len(variables)
            Declarer(source, line, constants).declare(variables, arrays)
            groups.append(list(variables.values())[before:])
    _refuse_facts(source, lines, variables)
    if all(isinstance(group, list) for group in groups):
        return variables
    out: dict[str, Variable] = {}
    for group in groups:
        if isinstance(group, Hierarchy):
            group = Classes(source, group, constants).undeclared({*variables, *out}, arrays)
        out.update((variable.name, variable) for variable in group)
    return out


def _refuse_facts(source: Source, lines: Iterable[Line], variables: Mapping[str, Variable]) -> None:
    """Refuse ``x[i]`` alone on a line, i being a variable: that would be a new element beside those of x."""
    for line in lines:
        if (
            isinstance(line, Hierarchy)
            or len(heads(line)) != 1
            or line[-2].text != "]"
            or any(t.text == "{" for t in line)
        ):
            continue
        named = next((token.text for token in line[2:-2] if token.kind == "name" and token.text in variables), None)
        others = sum(name.startswith(f"{line[0].text}[") for name in variables) > 1 if named else False
        if named and others:
            whole = formatted(line)
            source.fail(
                line[0].at,
                f"'{whole}' alone would be a new element, and '{shown(named)}' is a variable",
                f"A fact is written {whole} = true.",
            )


def _lines(source: Source) -> list[Line]:
    return list(blocks(source, with_rows(source, statements(source))))


def parse_rules(text: str, variables: Iterable[Variable], folder: str | Path | None = None) -> tuple[Rule, ...]:
    """Rules about variables that are declared already."""
    source, scope = Source(text, folder), Scope(variables)
    lines = _lines(source)
    single = [tokens for tokens in lines if not isinstance(tokens, Hierarchy)]
    for tokens in single:
        if heads(tokens):
            source.fail(
                tokens[0].at,
                "a declaration, where only rules can stand",
                f"Here all variables are declared already; to state a fact write {tokens[0].text} = true.",
            )
    defined = definitions(source, single, {*scope.variables, *Arrays(scope.variables).elements})
    constants = Constants(source, {name: (d.word, d.node) for name, d in defined.items()})
    return _rules(source, lines, scope, constants, defined)


def _rules(
    source: Source,
    lines: Sequence[Line],
    scope: Scope,
    constants: Constants,
    defined: Mapping[str, Definition],
) -> tuple[Rule, ...]:
    constants.check()
    arrays = Arrays(scope.variables)
    names = scope.variables.keys() | arrays.elements.keys()
    named = predicates(source, (line for line in lines if not isinstance(line, Hierarchy)), names, defined, scope)
    signatures = {name: predicate.signature for name, predicate in named.items()}
    apart: dict[str, Definition | Predicate] = {**defined, **named}
    skipped = {id(one.tokens) for one in apart.values()}
    expander = Expander(scope, arrays, constants, named)
    out: list[Rule] = []
    for tokens in lines:
        if isinstance(tokens, Hierarchy):
            out += _of_hierarchy(source, tokens, scope, constants, apart)
        elif id(tokens) not in skipped:
            statement = Reader(source, tokens, names, defined, scope, signatures).statement()
            out += _written_out(source, expander, statement, tokens, apart)
    return tuple(out)


def _of_hierarchy(
    source: Source, block: Hierarchy, scope: Scope, constants: Constants, apart: Mapping[str, Definition | Predicate]
) -> list[Rule]:
    classes = Classes(source, block, constants)
    found = classes.formulas(scope)
    used = _used(block.tokens, apart)
    lines = tuple((name, formatted(apart[name].tokens)) for name in used)
    text, names, why = block.text, tuple(classes.tokens), block.why(source)
    return [
        Rule(formula, None, source.line(token.at), Origin(text, i, len(found), (), lines, names), why)
        for i, (formula, token) in enumerate(found)
    ]


def _written_out(
    source: Source,
    expander: Expander,
    statement: Statement,
    tokens: list[Token],
    apart: Mapping[str, Definition | Predicate],
) -> list[Rule]:
    """The rules of one statement."""
    line = source.line(statement.token.at)
    instances = list(expander.statement(statement))
    used = _used(tokens, apart)
    short = bool(used) or expander.longer or _has_loops(tokens)
    text = formatted(tokens) if short else ""
    lines = tuple((name, formatted(apart[name].tokens)) for name in used)
    out = []
    for i, (formula, binding) in enumerate(instances):
        origin = Origin(text, i, len(instances), binding, lines) if short else None
        try:
            out.append(Rule(formula, statement.probability, line, origin, statement.why))
        except RuleError as error:
            source.fail(statement.token.at, error.reason, error.remedy)
    return out


def _used(tokens: Iterable[Token], apart: Mapping[str, Definition | Predicate]) -> list[str]:
    """The constants that a line uses, and those that these use, in the order of their lines."""
    if not apart:
        return []
    found: set[str] = set()
    todo = [token.text for token in tokens if token.kind == "name"]
    while todo:
        name = todo.pop()
        if name in apart and name not in found:
            found.add(name)
            todo += [token.text for token in apart[name].tokens if token.kind == "name"]
    return [name for name in apart if name in found]


def _has_loops(tokens: Sequence[Token]) -> bool:
    """Whether a line has a loop, a slice such as ``x[*]``, ``x[1..3]``, ``x[{a, b}]``, or is longer written out."""
    texts = {token.text for token in tokens}
    if not texts.isdisjoint(_LONGER):
        return True
    if texts.isdisjoint(_IN_LOOPS):
        return False
    for before, token in pairwise(tokens):
        if token.kind == "op" and token.text == "*" and before.text in ("[", ","):
            return True
        if (before.kind == "name" and before.text == "for") or (token.kind == "op" and token.text == ".."):
            return True
        if before.text == "[" and token.text == "{":
            return True
    return False


def text_of(variables: Iterable[Variable], rules: Iterable[Rule], *, written_out: bool = False) -> str:
    """Rule text that parses back to these variables and rules.

    Loops and hierarchies are printed as such wherever that reads back as the same, unless they are to be `written_out`.
    """
    variables, rules = tuple(variables), tuple(rules)
    if not written_out and any(rule.origin for rule in rules):
        constants, lines = _shortened(rules)
        texts = [_text(variables, constants, [line.text for line in lines])]
        if any(line.classes for line in lines):  # shorter still: classes need no declaration
            texts.insert(0, "\n".join([*constants, *_in_place(variables, lines)]) + "\n")
        for text in texts:
            if _reads_back(text, variables, rules):
                return text
    return _text(variables, [], [rule.text for rule in rules])


def _reads_back(text: str, variables: tuple[Variable, ...], rules: tuple[Rule, ...]) -> bool:
    try:
        return parse(text) == (variables, rules)
    except RuleError:  # two spaces put together: a name may be a constant in one and a variable in the other
        return False


class _Printed(NamedTuple):
    """A line, or a hierarchy of several, and its classes."""

    text: str
    classes: tuple[str, ...] = ()


def _shortened(rules: Sequence[Rule]) -> tuple[list[str], list[_Printed]]:
    """The lines that define constants, and one line for the rules that were written out from one."""
    constants: dict[str, str] = {}
    lines: list[_Printed] = []
    at = 0
    while at < len(rules):
        origin = rules[at].origin
        if origin is not None and _whole(rules[at : at + origin.rules], origin):
            constants.update(origin.constants)
            lines.append(_Printed(origin.text, origin.classes))
            at += origin.rules
        else:
            lines.append(_Printed(rules[at].text))
            at += 1
    return list(constants.values()), lines


def _whole(rules: Sequence[Rule], origin: Origin) -> bool:
    """Whether these are all rules of a line, in order."""
    return len(rules) == origin.rules and all(
        rule.origin is not None and rule.origin.number == i and rule.origin.text == origin.text
        for i, rule in enumerate(rules)
    )


def _in_place(variables: Sequence[Variable], lines: Sequence[_Printed]) -> list[str]:
    """Declarations and rules, with each hierarchy in the place of the classes that it declares."""
    out: list[str] = []
    others: list[Variable] = []
    holders = {name: i for i, line in reversed(list(enumerate(lines))) for name in line.classes}  # the first of each
    placed: set[int] = set()
    declared: set[str] = set()
    for variable in variables:
        at = holders.get(variable.name)
        if at is not None and at not in placed:
            out += [*_declarations(others), lines[at].text]
            others = []
            placed.add(at)
            declared.update(lines[at].classes)
        elif variable.name not in declared:
            others.append(variable)
    return [*out, *_declarations(others), *(line.text for i, line in enumerate(lines) if i not in placed)]


def _text(variables: Sequence[Variable], constants: Sequence[str], rules: Sequence[str]) -> str:
    return "\n".join([*constants, *_declarations(variables), *rules]) + "\n"


def _declarations(variables: Sequence[Variable]) -> list[str]:
    """Lines that declare variables."""
    lines: list[str] = []
    binaries: list[str] = []
    for names, variable in declarations(variables):
        if variable.binary:
            binaries.append(names)
            continue
        if binaries:
            lines.append(", ".join(binaries))
            binaries = []
        lines.append(f"{names}: {variable.domain_text}")
    return [*lines, ", ".join(binaries)] if binaries else lines
