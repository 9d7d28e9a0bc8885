"""Every error of the logic room: the input that causes it, what the message says, and the neighbour that works.

In a bad text « marks where the caret must stand. `test_errors.py` holds that no error is missing here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dssl.errors import DataError, RuleError
from dssl.logic.formula import And, Count, Formula, Is, Not, as_formula
from dssl.logic.induction import learn_rules
from dssl.logic.language import parse_rules
from dssl.logic.minimal import rules_of
from dssl.logic.space import LabelSpace
from dssl.logic.symbols import at_most, exactly, symbols
from dssl.logic.variables import Scope, Variable


@dataclass(frozen=True)
class BadText:
    """Rule text with « where the error is, parts of its message, and text that differs little and parses."""

    marked: str
    reason: str
    remedy: str
    fixed: str

    @property
    def text(self) -> str:
        return self.marked.replace("«", "")

    @property
    def place(self) -> tuple[int, int]:
        before = self.marked.partition("«")[0]
        return before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1


HEAD = "legs, fins, wings\nspecies: {cat, dog, trout}\nage: 0..9\nsize: 0..9\n"


def bad(marked: str, reason: str, remedy: str, fixed: str) -> BadText:
    """A bad rule below the usual declarations."""
    return BadText(HEAD + marked, reason, remedy, HEAD + fixed)


CHARACTERS = [
    bad("legs -> «(fins", "'(' is never closed", "Add the missing ')'", "legs -> (fins)"),
    bad("species in «{cat, dog", "'{' is never closed", "Add the missing '}'", "species in {cat, dog}"),
    bad(
        "(" * 50 + "«(legs" + ")" * 51,
        "brackets nested deeper than 50",
        "Split the rule",
        "(" * 40 + "!legs" + ")" * 40,
    ),
    bad("legs -> fins«)", "')' closes nothing", "Remove it or add a '('", "legs -> (fins)"),
    bad("species in {cat«)", "')' cannot close '{'", "Write '}' here", "species in {cat}"),
    bad('«"has tail', "this quote is never closed on its line", 'Close it with "', '"has tail"'),
    bad("«'has tail'", "' does not quote a name here", 'Use plain double quotes: "has tail"', '"has tail"'),
    bad("«“has tail”", "“ does not quote a name here", "plain double quotes", '"has tail"'),
    bad("species in «[cat]", "'[' is not used in rules", "{ } around values", "species in {cat}"),
    bad("!legs«; !fins", "';' does not separate rules", "Write one rule a line", "!legs\n!fins"),
    bad(
        "legs «\\ -> fins",
        "'\\' continues a line only at its end",
        "Remove it, or what follows it",
        "legs \\\n -> fins",
    ),
    bad(
        "«2legs", "this is neither a number nor a name", 'Names that start with a digit are quoted: "2legs"', '"2legs"'
    ),
    bad("age >= «2.", "this is neither a number nor a name", "quoted", "age >= 2"),
    bad("legs -> «@fins", "the character '@' has no meaning here", 'quoted: "a-b"', "legs -> fins"),
    bad("legs -> «\0fins", "the character '\\x00' has no meaning here", "quoted", "legs -> fins"),
    bad("legs -> «\u200bfins", "the character '\\u200b' has no meaning here", "quoted", "legs -> fins"),
]
NOTATIONS = {
    "&&": "&", "||": "|", "=>": "->", "<=>": "<->", "==": "=", "<>": "!=", "→": "->", "⇒": "->", "↔": "<->", "⇔": "<->",
    "∧": "&", "∨": "|", "⊕": "^", "≤": "<=", "≥": ">=", "≠": "!=",
}  # fmt: skip
CHARACTERS += [
    bad(
        f"age «{mistake} size" if right in ("=", "!=", "<=", ">=") else f"legs «{mistake} fins",
        f"'{mistake}' is not an operator of the rule language",
        f"Write {right}",
        f"age {right} size" if right in ("=", "!=", "<=", ">=") else f"legs {right} fins",
    )
    for mistake, right in NOTATIONS.items()
]
CHARACTERS += [
    bad("«¬legs", "'¬' is not an operator of the rule language", "Write !", "!legs"),
    bad("tail «:= {a}", "':=' is not an operator of the rule language", "Write :", "tail : {a}"),
    bad("mass: 0«...9", "'...' is not an operator of the rule language", "Write ..", "mass: 0..9"),
]

DECLARATIONS = [
    bad("«legs", "'legs' is declared twice", "Remove one; a fact is written legs = true", "legs = true"),
    bad("tail, «tail", "'tail' is declared twice", "tail = true", "tail"),
    BadText("pet: {cat, Dog}\n«pet: {a}", "'pet' is declared twice", "a fact is written pet = Dog", "pet: {cat, Dog}"),
    bad("tail,«", "a name is missing after the last ','", "Remove the comma or add a name", "tail"),
    bad("tail: {a, b, «a}", "the value 'a' is listed twice", "Remove one", "tail: {a, b}"),
    bad("tail: «{}", "a variable needs at least one value", "List its values: {cat, dog}", "tail: {a}"),
    bad("tail: «9..0", "the range 9..0 is empty", "Write 0..9", "tail: 0..9"),
    bad("tail: «0..100000", "the range 0..100000 has more than 100,000 values", "bin the numbers", "tail: 0..9999"),
    bad(
        "tail: «{" + ",".join(map(str, range(100_001))) + "}",
        "a variable of more than 100,000 values",
        "Bin them into fewer values",
        "tail: {1, 2}",
    ),
    bad("tail: {a «b}", "expected ',' or '}' between values, found 'b'", "Separate values by ','", "tail: {a, b}"),
    bad("tail: {«1.5, 2}", "'1.5' is not an integer", 'Quote it to use it as a name: "1.5"', 'tail: {"1.5", "2"}'),
    bad("tail: 0..«1.5", "'1.5' is not an integer", "Use whole numbers here", "tail: 0..2"),
    bad(
        "tail: «",
        "expected a range such as 0..9 or values such as {cat, dog}, found the end of the line",
        "Write an integer, as in 0..9",
        "tail: 0..9",
    ),
    bad("tail: 0..«", "expected the end of the range, found the end of the line", "as in 0..9", "tail: 0..9"),
    bad("tail: 0 «9", "expected '..' in a range, found '9'", "Write a range as 0..9", "tail: 0..9"),
    bad("tail: 0..«" + "9" * 16, "a number of 16 digits", "Use at most 15 digits", "tail: 0..99"),
    bad("tail: {«<}", "expected the name of a value, found '<'", 'quoted: "a-b"', 'tail: {"<"}'),
    bad("tail, «all", "'all' needs its formulas in brackets", "Write all(a, b)", 'tail, "all"'),
    bad("tail, «true", "'true' is a word of the rule language", 'Quote it to use it as a name: "true"', 'tail, "true"'),
    bad('tail, «""', "a name cannot be empty", "Write a name between the quotes", 'tail, "x"'),
    bad("tail: {a} «b", "'b' follows without an operator", "start a new line", "tail: {a}\nb"),
]

RULES = [
    bad(
        "legs -> fins «wings",
        "'wings' follows without an operator",
        "Put & | -> <-> or ^ between",
        "legs -> fins & wings",
    ),
    bad("legs «:: fins", "'::' stands after a probability only", "Write a soft rule as 0.9 :: formula", "0.9 :: fins"),
    bad("legs -> fins«, wings", "',' does not join rules", "one rule a line", "legs -> fins\nlegs -> wings"),
    bad("2 <= age «<= 5", "a comparison cannot be compared again", "Join two comparisons by &", "2 <= age & age <= 5"),
    bad("legs «.. fins", "'..' is not expected here", "check the brackets before it", "legs | fins"),
    bad(
        "«1.5 :: legs",
        "the probability of a soft rule is between 0 and 1, not 1.5",
        "without a probability",
        "0.5 :: legs",
    ),
    bad(
        "«1 :: legs",
        "the probability of a soft rule is between 0 and 1, not 1",
        "without a probability",
        "0.99 :: legs",
    ),
    bad("0.9 ::«", "a rule is missing after '::'", "Write a soft rule as 0.9 :: formula", "0.9 :: legs"),
    bad(
        "!" * 100 + "«legs",
        "a formula nested deeper than 100",
        "Split the rule into several lines",
        "!" * 90 + "(legs)",
    ),
    bad(
        "<->".join(["legs"] * 50) + "<->«legs",
        "a chain of more than 50 '<->'",
        "Split the rule into several lines",
        "<->".join(["legs"] * 40),
    ),
    bad("legs -> «", "expected a formula, found the end of the line", "A formula is a name", "legs -> fins"),
    bad("legs & «or fins", "expected a formula, found 'or'", "A formula is a name, a comparison", "legs or fins"),
    bad(
        "legs -> (fins «wings)",
        "expected ')' after a formula in brackets, found 'wings'",
        "Close the bracket",
        "legs -> (fins | wings)",
    ),
    bad(
        "any(legs «fins)", "expected ',' or ')' in any(…), found 'fins'", "Separate formulas by ','", "any(legs, fins)"
    ),
    bad("«exactly_one()", "exactly_one(…) needs at least one formula", "exactly_one(a, b, c)", "exactly_one(legs)"),
    bad(
        "at_most(«legs, fins)",
        "at_most(…) starts with a number, found 'legs'",
        "Write at_most(1, a, b)",
        "at_most(1, legs, fins)",
    ),
    bad("exactly(«1.5, legs)", "'1.5' is not an integer", "Use whole numbers", "exactly(1, legs)"),
    bad("at_least(1 «legs)", "expected ',' after the number, found 'legs'", "at_least(1, a, b)", "at_least(1, legs)"),
    bad("legs -> «all", "'all' needs its formulas in brackets", "Write all(a, b)", "legs -> all(fins)"),
    bad("«age + 1", "a sum or number alone is not a formula", "Compare it: a + b <= 3", "age + 1 <= 3"),
    bad("species in «cat", "expected '{' after 'in', found 'cat'", "in {cat, dog}", "species in {cat}"),
    bad("«species in {}", "an empty set of values", "List at least one value", "species in {cat}"),
    bad(
        "species = «",
        "expected a value after the comparison, found the end of the line",
        "Write species = value",
        "species = cat",
    ),
    bad(
        "«exacly_one(legs, fins)",
        "there is no function 'exacly_one'",
        "Did you mean 'exactly_one'?",
        "exactly_one(legs, fins)",
    ),
    bad("age <= 2*«", "expected the name of a variable, found the end of the line", "quoted", "age <= 2*size"),
    bad("age <= " + "«" + "9" * 16, "a number of 16 digits", "Use at most 15 digits", "age <= 999999999999999"),
]

TYPES = [
    bad("legs -> «fin", "'fin' is not declared", "Did you mean 'fins'? Declared: legs, fins, wings", "legs -> fins"),
    bad("«tail -> fins", "'tail' is not declared", "A line 'tail' declares it as binary", "tail\ntail -> fins"),
    bad(
        "legs -> «species",
        "'species' is categorical, not binary, and is neither true nor false",
        "Compare it with a value: species = cat",
        "legs -> species = cat",
    ),
    bad("«age -> legs", "'age' is integer, not binary", "age = 0", "age = 0 -> legs"),
    bad(
        "species = «tout",
        "'species' has no value 'tout'",
        "Did you mean 'trout'? Its values: cat, dog, trout",
        "species = trout",
    ),
    bad(
        "species in {cat, «cow}", "'species' has no value 'cow'", "Its values: cat, dog, trout", "species in {cat, dog}"
    ),
    bad("age = «10", "'age' has no value '10'", "Its values: 0, 1, 2, 3, 4, 5, 6, 7, … (10 in all)", "age = 9"),
    bad(
        "legs = «cat",
        "'legs' is binary and cannot be 'cat'",
        "Write legs or !legs; or declare its values: legs: {…}",
        "legs = true",
    ),
    bad("legs in {«2}", "'legs' is binary and cannot be '2'", "Write legs or !legs", "legs in {1}"),
    bad("species < «dog", "'dog' is not declared", "Declared: legs", "species != dog"),
    bad(
        "«species + 1 <= age",
        "'species' is categorical: its values can be neither ordered nor added",
        "or declare it over integers: name: 0..9",
        "size + 1 <= age",
    ),
    bad("«1 <= 2", "a comparison of two numbers says nothing about labels", "Name a variable in it", "1 <= age"),
]
TEXTS = CHARACTERS + DECLARATIONS + RULES + TYPES


# ---- calls ----


@dataclass(frozen=True)
class BadCall:
    """A call that fails, parts of its message, and a neighbour that works. Calls are given an empty folder."""

    about: str  # the module under test
    call: Callable[[Path], Any]
    error: type[Exception]
    reason: str
    remedy: str
    fixed: Callable[[Path], Any]


def _file(folder: Path, content: str | bytes) -> Path:
    path = folder / "file"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def _dimacs(content: str, **options: Any) -> Callable[[Path], Any]:
    return lambda folder: LabelSpace.dimacs(_file(folder, content), **options)


def _nested(depth: int) -> Formula:
    """Not and And in turns: a bracket every other level."""
    formula: Formula = as_formula(symbols("a b")[0])
    for i in range(depth):
        formula = Not(formula) if i % 2 else And((formula, Is("b")))
    return formula


class _NoAtom(Formula):
    def __repr__(self) -> str:
        return "_NoAtom()"


PET = "pet: {cat, dog}\nlegs, fins\nage: 3..5\nlegs -> !fins\n"
pet = LabelSpace(PET)
legs, fins, age = symbols("legs, fins, age")
NAN = float("nan")

MANY = ", ".join(f"a{i}" for i in range(30)) + "\n"

CALLS = [
    BadCall(
        "formula",
        lambda _: as_formula("legs"),
        RuleError,
        "'legs' is not a formula",
        "Use symbols(...)",
        lambda _: as_formula(legs),
    ),
    BadCall(
        "formula",
        lambda _: legs.formula() & 3,
        RuleError,
        "3 is not a formula",
        "True and False",
        lambda _: legs.formula() & True,
    ),
    BadCall(
        "symbols",
        lambda _: (age + 1) >> legs,
        RuleError,
        "'age + 1' is a sum, not a statement",
        "Compare it",
        lambda _: (age + 1 <= 3) >> legs,
    ),
    BadCall(
        "symbols",
        lambda _: 2 * age == "cat",
        RuleError,
        "'2*age' is a sum, not a statement",
        "Compare it",
        lambda _: age == "cat",
    ),
    BadCall(
        "symbols",
        lambda _: age < 2.5,
        RuleError,
        "2.5 cannot stand in a comparison",
        "Use integers and variables",
        lambda _: age < 3,
    ),
    BadCall(
        "symbols",
        lambda _: legs >= True,
        RuleError,
        "True cannot stand in a comparison",
        "Use integers",
        lambda _: legs == 1,
    ),
    BadCall(
        "symbols",
        lambda _: age + None,
        RuleError,
        "None cannot stand in a comparison",
        "Use integers",
        lambda _: age + 0,
    ),
    BadCall(
        "symbols",
        lambda _: at_most(-1, legs),
        RuleError,
        "a cardinality needs a number from 0 on and at least one formula, not -1 and 1 formulas",
        "Write at_most(1, a, b)",
        lambda _: at_most(0, legs),
    ),
    BadCall(
        "symbols",
        lambda _: exactly(2),
        RuleError,
        "not 2 and 0 formulas",
        "at_most(1, a, b)",
        lambda _: exactly(2, legs, fins),
    ),
    BadCall(
        "symbols",
        lambda _: exactly(True, legs),
        RuleError,
        "not True and 1 formulas",
        "at_most(1, a, b)",
        lambda _: exactly(1, legs),
    ),
    BadCall(
        "variables",
        lambda _: Scope([Variable("legs")]).fit(_NoAtom()),
        RuleError,
        "_NoAtom() is not an atom of the rule language",
        "Use symbols(...) and their operators",
        lambda _: Scope([Variable("legs")]).fit(Count("<=", 1, (legs.formula(),))),
    ),
    BadCall(
        "language",
        lambda _: parse_rules("legs", pet.variables),
        RuleError,
        "a declaration, where only rules can stand",
        "to state a fact write legs = true",
        lambda _: parse_rules("legs = true", pet.variables),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("# nothing\n"),
        RuleError,
        "no variables are declared",
        "Declare binary ones by name (legs, fins) or others as name: {a, b}",
        lambda _: LabelSpace("legs\n"),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace('a: {x}\n"a=x"'),
        RuleError,
        "two columns are called 'a=x'",
        "Rename one of the variables",
        lambda _: LabelSpace('a: {x}\n"a=y"'),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a, b").rename({"b": "a"}),
        RuleError,
        "two variables are called 'a'",
        "Rename one of them",
        lambda _: LabelSpace("a, b").rename({"b": "c"}),
    ),
    BadCall(
        "solver",
        lambda _: LabelSpace(MANY + " + ".join(f"{3**i % 100003}*a{i}" for i in range(30)) + " = 500000"),
        RuleError,
        "a sum of 30 variables with more than 50,000 different partial totals",
        "Use fewer variables, smaller ranges or rounder coefficients",
        lambda _: LabelSpace(MANY + " + ".join(f"{i % 5}*a{i}" for i in range(30)) + " = 50"),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a, b\na -> b\na = true\n!b"),
        RuleError,
        "these rules contradict each other: no label obeys them all\n"
        "  line 2: a -> b\n  line 3: a = true\n  line 4: !b",
        "any one less, and the rest of this list can hold",
        lambda _: LabelSpace("a, b\na -> b\na = true\nb = true"),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a\n0.9 :: a") | LabelSpace("b"),
        RuleError,
        "a union cannot keep the soft rule '0.9 :: a'",
        "Unite first, then add it with where(…)",
        lambda _: (LabelSpace("a") | LabelSpace("b")).where("0.9 :: a"),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a: {x, y}") & LabelSpace("a: {x, z}"),
        RuleError,
        "'a' is declared differently in the two spaces: a: {x, y} and a: {x, z}",
        "rename it in one",
        lambda _: LabelSpace("a: {x, y}") & LabelSpace("a: {x, z}").rename({"a": "b"}),
    ),
    BadCall(
        "space", lambda _: pet["leg"], RuleError, "'leg' is not declared", "Did you mean 'legs'?", lambda _: pet["legs"]
    ),
    BadCall(
        "space",
        lambda _: pet.rename({"leg": "limbs"}),
        RuleError,
        "'leg' is not declared",
        "Did you mean 'legs'?",
        lambda _: pet.rename({"legs": "limbs"}),
    ),
    BadCall(
        "space",
        lambda _: pet.where(symbols("legz")[0] >> fins),
        RuleError,
        "'legz' is not declared",
        "Did you mean 'legs'?",
        lambda _: pet.where(legs >> fins),
    ),
    BadCall(
        "space",
        lambda _: pet.where("legs"),
        RuleError,
        "a declaration, where only rules can stand",
        "legs = true",
        lambda _: pet.where("legs = true"),
    ),
    BadCall(
        "space",
        lambda _: pet.compile(relaxation="fast"),
        RuleError,
        "there is no relaxation 'fast'",
        'Use None for exact answers, or "clauses"',
        lambda _: pet,
    ),
    # labels
    BadCall(
        "labels",
        lambda _: pet.encode([[0, 1]]),
        DataError,
        "labels of shape (1, 2) do not fit a space of 4 variables and 7 columns",
        "a matrix with one column a variable (pet, legs, fins, age)",
        lambda _: pet.encode([[0, 1, 0, 3]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode(7),
        DataError,
        "labels cannot be read from int",
        "Give a list, an array or a data frame",
        lambda _: pet.encode([[0, 1, 0, 3]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([[0, 1, 0, 3], [0, 1]]),
        DataError,
        "the rows of the labels differ in length",
        "the same number of entries",
        lambda _: pet.encode([[0, 1, 0, 3], [0, 1, 0, 3]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode({"legs": [1, 0], "fins": [1]}),
        DataError,
        "columns of different lengths: [1, 2]",
        "the same number of rows",
        lambda _: pet.encode({"legs": [1, 0], "fins": [1, 0]}),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([{"leg": 1}]),
        DataError,
        "the labels have a column 'leg' that the space does not declare",
        "Did you mean 'legs'? Drop or rename it",
        lambda _: pet.encode([{"legs": 1}]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([{"legs": 1}, {"legs": 2}]),
        DataError,
        "row 1: 'legs' cannot be 2",
        "Allowed: 0, 1, true, false; None, NaN or -1 for unknown",
        lambda _: pet.encode([{"legs": 1}, {"legs": 0}]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([{"pet": "cta"}]),
        DataError,
        "row 0: 'pet' cannot be 'cta'",
        "Did you mean 'cat'? Allowed: cat, dog",
        lambda _: pet.encode([{"pet": "cat"}]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([{"age": 2}]),
        DataError,
        "row 0: 'age' cannot be 2",
        "Allowed: 3, 4, 5",
        lambda _: pet.encode([{"age": 3}]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([{"age": "--3"}]),
        DataError,
        "row 0: 'age' cannot be '--3'",
        "Allowed: 3, 4, 5",
        lambda _: pet.encode([{"age": "3"}]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode(np.array([[0, 0, 0, np.inf]])),
        DataError,
        "row 0: 'age' cannot be inf",
        "Allowed: 3, 4, 5",
        lambda _: pet.encode(np.array([[0, 0, 0, 3.0]])),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([{"legs": {}}, {"legs": 0}]),
        DataError,
        "row 0: 'legs' cannot be {}",
        "Allowed: 0, 1",
        lambda _: pet.encode([{"legs": 1}, {"legs": 0}]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([["cat", 0, 1, 1, 0, 0, 0]]),
        DataError,
        "a column matrix holds 0, 1 and NaN only",
        "one column a variable to use names",
        lambda _: pet.encode([[1, 0, 1, 0, 1, 0, 0]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([[1, 0, 0.5, 0, 1, 0, 0]]),
        DataError,
        "row 0: column 'legs' holds 0.5",
        "take the most probable label first",
        lambda _: pet.encode([[1, 0, NAN, 0, 1, 0, 0]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([[1, 1, 1, 0, 1, 0, 0]]),
        DataError,
        "row 0: 'pet' has several values in its columns",
        "leave columns NaN where it is unknown",
        lambda _: pet.encode([[1, 0, 1, 0, 1, 0, 0]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.encode([[1, 0, 1, 0, 0, 0, 0]]),
        DataError,
        "row 0: 'age' has no value left in its columns",
        "exactly one",
        lambda _: pet.encode([[1, 0, 1, 0, 0, 0, NAN]]),
    ),
    BadCall(
        "labels",
        lambda _: pet.decode([[1, 0, 1, 0, 1, 0, 0]], form="csv"),
        DataError,
        "there is no form 'csv' of labels",
        "Choose one of records, values, indices, pandas, polars",
        lambda _: pet.decode([[1, 0, 1, 0, 1, 0, 0]], form="values"),
    ),
    BadCall(
        "labels",
        lambda _: pet.decode([[1, 0]]),
        DataError,
        "columns of shape (1, 2) do not fit",
        "Give a matrix (n, 7)",
        lambda _: pet.decode([1, 0, 1, 0, 1, 0, 0]),
    ),
    BadCall(
        "validity",
        lambda _: pet.complete([{"legs": 1}, {"legs": 1, "fins": 1}]),
        DataError,
        "1 rows cannot be completed: no valid label agrees with what is known",
        "Rows: 1. Call check(Y) to see which rules they break",
        lambda _: pet.complete([{"legs": 1}]),
    ),
    # other sources
    BadCall(
        "sources",
        lambda f: LabelSpace.read(_file(f, b"legs\n\xff")),
        RuleError,
        " is not UTF-8 text (byte 5)",
        "Save it as UTF-8",
        lambda f: LabelSpace.read(_file(f, "legs\nnaïve")),
    ),
    BadCall(
        "sources",
        lambda f: LabelSpace.read(f),
        RuleError,
        " is a folder",
        "Name the file inside it",
        lambda f: LabelSpace.read(_file(f, "legs")),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.classes([]),
        RuleError,
        "there are no classes",
        "Name at least one",
        lambda _: LabelSpace.classes(["cat"]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.classes([0.5]),
        RuleError,
        "the class 0.5 is neither a name nor an integer",
        "Use names or integers",
        lambda _: LabelSpace.classes([5]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.classes(["cat", "cat"]),
        RuleError,
        "the class 'cat' is listed twice",
        "Remove or rename one",
        lambda _: LabelSpace.classes(["cat", "dog"]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.attributes(["legs", "legs"]),
        RuleError,
        "the attribute 'legs' is listed twice",
        "rename one",
        lambda _: LabelSpace.attributes(["legs", "fins"]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.hierarchy([("cat", "pet", "dog")]),
        RuleError,
        "edge 0 is ('cat', 'pet', 'dog')",
        "Give pairs (child, parent)",
        lambda _: LabelSpace.hierarchy([("cat", "pet"), ("dog", "pet")]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.hierarchy(["cat"]),
        RuleError,
        "edge 0 is 'cat'",
        "a mapping child → parent",
        lambda _: LabelSpace.hierarchy({"cat": None}),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.hierarchy([]),
        RuleError,
        "a hierarchy without edges",
        "Give pairs (child, parent)",
        lambda _: LabelSpace.hierarchy([("a", "b")]),
    ),
    BadCall(
        "labels",
        lambda _: LabelSpace("a").encode([{"a": [1]}]),
        DataError,
        "the column 'a' of the labels has shape (1, 1)",
        "Give one entry a row",
        lambda _: LabelSpace("a").encode([{"a": 1}]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.classes(10),  # type: ignore[arg-type]
        RuleError,
        "classes from int",
        "Give a list",
        lambda _: LabelSpace.classes(range(10)),
    ),
    BadCall(
        "language",
        lambda _: LabelSpace(b"a"),  # type: ignore[arg-type]
        RuleError,
        "rules are text, not bytes",
        "Give a str",
        lambda _: LabelSpace("a"),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace.attributes("ab", _nested(130)),
        RuleError,
        "a formula nested 130 deep",
        "Split it into several rules",
        lambda _: LabelSpace.attributes("ab", _nested(90)),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.hierarchy([("a", "b"), ("b", "c"), ("c", "a")]),
        RuleError,
        "the hierarchy goes round in a circle: a → b → c → a",
        "Remove one of these edges",
        lambda _: LabelSpace.hierarchy([("a", "b"), ("b", "c"), ("a", "c")]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.table(["a", "a"], [(0, 1)]),
        RuleError,
        "the column 'a' is listed twice",
        "rename one",
        lambda _: LabelSpace.table(["a", "b"], [(0, 1)]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.table(["a"], []),
        RuleError,
        "a table without rows allows no label",
        "Give at least one valid row",
        lambda _: LabelSpace.table(["a"], [[1]]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.table(["a", "b"], [(0, 1), (0,)]),
        RuleError,
        "row 1 has 1 entries for 2 names",
        "Give one a name",
        lambda _: LabelSpace.table(["a", "b"], [(0, 1), (0, 0)]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.table(["a"], [["x"], [None]]),
        RuleError,
        "row 1 has a missing value",
        "fill it in or leave it out",
        lambda _: LabelSpace.table(["a"], [["x"], ["y"]]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.table(["a"], [[0.5], [1]]),
        RuleError,
        "the column 'a' holds 0.5 among other values",
        "Use names, integers or booleans",
        lambda _: LabelSpace.table(["a"], [[0.0], [1]]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.table(["a"], [[True], [2]]),
        RuleError,
        "the column 'a' holds True among other values",
        "Use names, integers or booleans",
        lambda _: LabelSpace.table(["a"], [[1], [2]]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.class_attributes([[1, 0]], ["cat", "dog"]),
        RuleError,
        "a matrix of shape (1, 2) for 2 classes and 2 attributes",
        "one row a class",
        lambda _: LabelSpace.class_attributes([[1, 0]], ["cat"]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.class_attributes([1, 0]),
        RuleError,
        "a matrix of shape (2,)",
        "one column an attribute",
        lambda _: LabelSpace.class_attributes([[1, 0]]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.class_attributes([["yes"]]),
        RuleError,
        "a class-attribute matrix of something else than numbers in rows of one length",
        "Use 0, 1, or NaN",
        lambda _: LabelSpace.class_attributes([[1]]),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 3\n1 2 0\n"),
        DataError,
        ", line 2: 1 clauses, where the header promises 3",
        "The file may be cut off",
        _dimacs("p cnf 2 1\n1 2 0\n"),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.class_attributes([[1, 0], [0, 2]]),
        RuleError,
        "row 1, column 1 holds 2",
        "Use 0, 1, or NaN where it is open",
        lambda _: LabelSpace.class_attributes([[1, 0], [0, NAN]]),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 1 1\n1 0\n", projection="keep"),
        RuleError,
        "projection='keep'",
        'Use "error" or "ignore"',
        _dimacs("p cnf 1 1\n1 0\n", projection="error"),
    ),
    BadCall(
        "sources",
        _dimacs("c nothing\n"),
        DataError,
        ", line 1: there is no 'p cnf VARIABLES CLAUSES' line",
        "Check that this is a DIMACS CNF file",
        _dimacs("p cnf 1 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 2\n1 2 0\n-1\n"),
        DataError,
        ", line 3: the last clause is not closed by 0",
        "The file may be cut off",
        _dimacs("p cnf 2 2\n1 2 0\n-1\n0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p wcnf 2 2\n"),
        DataError,
        ", line 1: 'p wcnf 2 2' is not a CNF header",
        "Expected: p cnf VARIABLES CLAUSES",
        _dimacs("p cnf 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 99999999 0\n"),
        DataError,
        ", line 1: 99,999,999 variables are more than 1,000,000",
        "Number the variables without gaps",
        _dimacs("p cnf 9 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 0\np cnf 2 0\n"),
        DataError,
        ", line 2: a second header",
        "Keep one 'p cnf' line",
        _dimacs("p cnf 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("1 2 0\np cnf 2 1\n"),
        DataError,
        ", line 1: a clause before the 'p cnf' line",
        "Check that this is a DIMACS CNF file",
        _dimacs("p cnf 2 1\n1 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 1\n1 x 0\n"),
        DataError,
        ", line 2: 'x' is not a literal",
        "Literals are integers; a clause ends with 0",
        _dimacs("p cnf 2 1\n1 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 1\n--1 2 0\n"),
        DataError,
        ", line 2: '--1' is not a literal",
        "integers",
        _dimacs("p cnf 2 1\n-1 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 1\n1 3 0\n"),
        DataError,
        ", line 2: the literal 3 for 2 variables",
        "Raise the count in the header",
        _dimacs("p cnf 3 1\n1 3 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("p cnf 2 1\nc p show 1 0\n1 2 0\n"),
        DataError,
        ", line 2: the file asks for a projected count, over some variables only",
        'pass projection="ignore"',
        _dimacs("p cnf 2 1\nc p show 1 0\n1 2 0\n", projection="ignore"),
    ),
    BadCall(
        "sources",
        _dimacs("c p weight one 0.5 0\np cnf 2 0\n"),
        DataError,
        ", line 1: 'c p weight one 0.5 0' is not a weight",
        "Expected: c p weight LITERAL WEIGHT 0",
        _dimacs("c p weight 1 0.5 0\np cnf 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("c p weight 1 -1 0\np cnf 2 0\n"),
        DataError,
        ", line 1: the weight -1 of literal 1",
        "Weights are finite and not negative",
        _dimacs("c p weight 1 1 0\np cnf 2 0\n"),
    ),
    BadCall(
        "sources",
        _dimacs("c p weight 3 0.5 0\np cnf 2 0\n"),
        DataError,
        ": a weight for literal 3 of 2 variables",
        "Raise the count",
        _dimacs("c p weight 2 0.5 0\np cnf 2 0\n"),
    ),
]

CALLS += [
    BadCall(
        "tally",
        lambda _: learn_rules([0, 1, 0]),
        DataError,
        "labels of shape (3,)",
        "one row a label and one column a variable",
        lambda _: learn_rules([[0], [1], [0]]),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules(np.zeros((0, 3))),
        DataError,
        "there are no rows to learn rules from",
        "Give at least one labelled row",
        lambda _: learn_rules(np.zeros((1, 3))),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules(np.zeros((4, 3)), ["a", "b"]),
        DataError,
        "2 names for 3 columns",
        "Give one name a column",
        lambda _: learn_rules(np.zeros((4, 3)), ["a", "b", "c"]),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules({"a": [0, 1], "b": [1, 1]}, ["a"]),
        DataError,
        "1 names for 2 columns",
        "Give one name a column",
        lambda _: learn_rules({"a": [0, 1], "b": [1, 1]}, ["c", "d"]),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules(csr_matrix([[0, 2], [1, 0]])),
        DataError,
        "a sparse matrix of labels holds 2",
        "Use 0 and 1, or a dense matrix",
        lambda _: learn_rules(csr_matrix([[0, 1], [1, 0]])),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules({"size": [0.5, 1.5], "b": [1, 1]}),
        DataError,
        "the column 'size' holds 0.5",
        "bin measured numbers first",
        lambda _: learn_rules({"size": [5.0, 15.0], "b": [1, 1]}),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules({"name": [f"n{i}" for i in range(65)]}),
        DataError,
        "the column 'name' has 65 different values, more than 64: n0, n1",
        "Drop it, bin it, or declare it in a space",
        lambda _: learn_rules({"name": [f"n{i}" for i in range(64)]}),
    ),
    *(
        BadCall(
            "induction",
            lambda _, name=name, value=value: learn_rules([[0, 1]], **{name: value}),
            DataError,
            f"{name}={value!r} is not a share that can be used",
            f"Use a number between 0 and {most}",
            lambda _, name=name: learn_rules([[0, 1]], **{name: 0.1}),
        )
        for name, value, most in (
            ("tolerance", 0.5, "0.5"),
            ("tolerance", -0.1, "0.5"),
            ("level", 0, "1"),
            ("level", float("nan"), "1"),
            ("rare", 1.0, "1"),
            ("max_bound", 0.0, "1"),
        )
    ),
    BadCall(
        "induction",
        lambda _: learn_rules([[0, 1]], max_clause=4),
        DataError,
        "max_clause=4",
        "Use 1 for values only",
        lambda _: learn_rules([[0, 1]], max_clause=1),
    ),
    BadCall(
        "minimal",
        lambda _: rules_of(LabelSpace("a, b, c, d"), limit=15),
        RuleError,
        "the space has more than 15 valid labels",
        "Raise limit, or split the space",
        lambda _: rules_of(LabelSpace("a, b, c, d"), limit=16),
    ),
    BadCall(
        "minimal",
        lambda _: rules_of([[0, 1], [1, np.nan]]),
        RuleError,
        "row 1 of the valid labels has a missing value",
        "fill it in or leave it out",
        lambda _: rules_of([[0, 1], [1, 0]]),
    ),
]


def calls_about(module: str) -> list[BadCall]:
    return [case for case in CALLS if case.about == module]


def check_call(case: BadCall, folder: Path) -> None:
    """The call fails as the table says, and its neighbour works."""
    with pytest.raises(case.error) as caught:
        case.call(folder)
    error = caught.value
    assert type(error) is case.error
    fact, _, remedy = str(error).partition("\n")
    if isinstance(error, RuleError):
        fact, remedy = error.reason, error.remedy
    assert case.reason in fact
    assert case.remedy in remedy
    case.fixed(folder)
