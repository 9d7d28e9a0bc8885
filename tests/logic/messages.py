"""Every error of the logic room: the input that causes it, what the message says, and the neighbour that works.

In a bad text « marks where the caret must stand. `test_errors.py` holds that no error is missing here.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from dssl.errors import BudgetError, ContradictionError, DataError, RuleError
from dssl.logic import operations
from dssl.logic.induction.learning import learn_rules
from dssl.logic.induction.minimal import rules_of
from dssl.logic.inferred import space_of_labels
from dssl.logic.language.formula import And, Count, Formula, Is, Not, as_formula
from dssl.logic.language.parser import Rule, parse_rules
from dssl.logic.language.structures import graphs
from dssl.logic.language.structures.automata import Regular
from dssl.logic.language.symbols import at_most, exactly, symbols, xor
from dssl.logic.language.variables import Scope, Variable
from dssl.logic.space import LabelSpace


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
    bad("«in[1..3]", "'in' is a word of the language", "Rename the array, or quote it", '"in"[1..3]'),
    bad("species in «[cat]", "'[' is not used in rules", "{ } around values", "species in {cat}"),
    bad("!legs«; !fins", "';' does not separate rules", "Write one rule per line", "!legs\n!fins"),
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
    "∧": "&", "∨": "|", "⊕": "^", "≤": "<=", "≥": ">=", "≠": "!=", ">>": "->", ">>>": "->", "<<": "->", "<<<": "->",
    "<-": "->", "<--": "->", "-->": "->", "==>": "->", "->>": "->", "~>": "->", "<==": "->",
    "<-->": "<->", "<==>": "<->", "===": "=", "!==": "!=", "~=": "!=", "=<": "<=", "^^": "^",
    "/\\": "&", "\\/": "|", "⟶": "->", "⟹": "->", "⊃": "->",
    "←": "->", "⇐": "->", "⟷": "<->", "⟺": "<->", "≡": "<->", "⋀": "&", "⋁": "|", "⊻": "^",
}  # fmt: skip
_COMPARING = ("=", "!=", "<=", ">=")
CHARACTERS += [
    bad(
        f"age «{mistake} size" if right in _COMPARING else f"legs «{mistake} fins",
        f"'{mistake}' is not an operator of the rule language",
        f"Write {right}",
        f"age {right} size" if right in _COMPARING else f"legs {right} fins",
    )
    for mistake, right in NOTATIONS.items()
]
CHARACTERS += [
    bad("«¬legs", "'¬' is not an operator of the rule language", "Write !", "!legs"),
    bad("tail «:= {a}", "':=' is not an operator of the rule language", "Write :", "tail : {a}"),
    bad("legs «AND fins", "'AND' follows without an operator", "Write &", "legs and fins"),
    bad("legs «Implies fins", "'Implies' follows without an operator", "Write ->", "legs implies fins"),
    bad("age «is 3", "'is' follows without an operator", "Write =", "age = 3"),
    bad("«NOT fins", "'NOT' is not declared", "The operator is written not. ", "not fins"),
    bad("«and(legs, fins)", "'and' stands between formulas, not before them", "Write all(a, b), or", "all(legs, fins)"),
    bad("«or(legs, fins)", "'or' stands between formulas, not before them", "Write any(a, b), or", "any(legs, fins)"),
    bad("«xor(legs, fins)", "'xor' stands between formulas, not before them", "Write a ^ b", "legs ^ fins"),
    bad("«implies(legs, fins)", "'implies' stands between formulas, not before them", "Write a -> b", "legs -> fins"),
    bad("legs & «iff(legs, fins)", "'iff' stands between formulas", "Write a <-> b", "legs & (legs <-> fins)"),
    bad("age «∈ {1, 2}", "'∈' is not an operator of the rule language", "Write in", "age in {1, 2}"),
    bad("age >= 4 «// 2", "'//' is not an operator of the rule language", "Write div", "age >= 4 div 2"),
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
    bad("legs -> fins«, wings", "',' does not join rules", "one rule per line", "legs -> fins\nlegs -> wings"),
    bad("2 <= age «> 5", "a comparison cannot be compared again", "Only < and <= follow each other", "2 <= age < 5"),
    bad("size = age «= 5", "a comparison cannot be compared again", "join others by &", "size = age & age = 5"),
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
    bad("«if wings then legs", "a rule does not begin with 'if'", "Write wings -> legs", "wings -> legs"),
    bad(
        "«if wings & !fins then legs | fins", "does not begin with 'if'", "Write wings & !fins -> legs | fins", "!legs"
    ),
    bad("0.9 :: «if wings then legs", "does not begin with 'if'", "Write wings -> legs", "0.9 :: wings -> legs"),
    bad("«If wings then legs", "a rule does not begin with 'If'", "Write wings -> legs.", "wings -> legs"),
    bad(
        "«IF wings THEN legs ELSE fins", "does not begin with 'IF'", "if condition then one else other", "legs -> fins"
    ),
    bad("«when wings then legs", "a rule does not begin with 'when'", "Write wings -> legs.", "wings -> legs"),
    bad("«every legs fins", "a rule does not begin with 'every'", "Write premise -> conclusion", "legs -> fins"),
    bad("«Either legs or fins", "a rule does not begin with 'Either'", "Write a | b, or a ^ b", "legs | fins"),
    bad("«if wings, legs", "does not begin with 'if'", "Write premise -> conclusion", "wings -> legs"),
    bad("0.9 ::«", "a rule is missing after '::'", "Write a soft rule as 0.9 :: formula", "0.9 :: legs"),
    bad(
        "!" * 100 + "«legs",
        "a formula nested deeper than 50",
        "Split the rule into several lines",
        "!" * 50 + "(legs)",
    ),
    bad("«" + "!" * 51 + "legs", "a formula nested deeper than 50", "Split it into several rules", "!" * 50 + "legs"),
    bad(
        "«" + "<->".join(["legs"] * 52),
        "a formula nested deeper than 50",
        "Split it into several rules",
        "<->".join(["legs"] * 51),
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
    bad("age = «ten", "'age' has no value 'ten'", "Its values: 0, 1, 2, 3, 4, 5, 6, 7, … (10 in all)", "age = 9"),
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
ARRAYS = "n = 3\nw = [3, 1, 4]\nx[1..n]\nage[{cat, dog}]: 0..9\nlegs\n"


def looped(marked: str, reason: str, remedy: str, fixed: str) -> BadText:
    """A bad line below some arrays and constants."""
    return BadText(ARRAYS + marked, reason, remedy, ARRAYS + fixed)


LOOPS = [
    looped("for i in 1..3«:", "a loop without a rule", "the rules indented below it", "for i in 1..3:\n  x[i] = true"),
    looped("for i in 1..3: for j in 1..2«: ", "a loop without a rule", "indented", "for i in 1..3: x[i]"),
    looped(
        "for i in 1..3 «x[i]", "expected ':' before the rule of a loop, found 'x'", "for i in", "for i in 1..3: x[i]"
    ),
    looped("for i «of 1..3: x[i]", "expected 'in' after the names of a loop, found 'of'", "for i in", "!x[1]"),
    looped('for i, «"j" in 1..3: x[i]', "an index in quotes", "Use a plain name", "for i, j in 1..3: x[i]"),
    looped("for «legs in 1..3: x[1]", "'legs' is a variable already", "another name", "for leg in 1..3: x[leg]"),
    looped("for «x in 1..3: legs", "'x' is a variable already", "another name", "for y in 1..3: x[y]"),
    looped("for «n in 1..3: x[n]", "'n' is a constant already", "another name", "for m in 1..n: x[m]"),
    looped(
        "for i in 1..3, «i in 1..3: x[i]", "'i' is bound twice, for i = 1", "name of its own", "for i, j in 1..3: x[i]"
    ),
    looped("for i in 1«: x[i]", "expected '..' in a range, found ':'", "Write a range as 0..9", "for i in {1}: x[i]"),
    looped("for i in «3..1: x[i]", "the range 3..1 is empty", "Write 1..3", "for i in 1..3: x[i]"),
    looped("for i in «1..9999999: x[1]", "the range 1..9999999 has 9,999,999 values", "shorter", "for i in 1..3: x[1]"),
    looped(
        "for «i, j in 1..1000: x[1]",
        "loops with 1,000,000 instances",
        "Up to 200,000 are written out",
        "for i, j in 1..3: x[1]",
    ),
    looped(
        "for i in 1..1000, «j in 1..i: true",
        "loops with more than 200,000 instances",
        "Up to 200,000 are written out",
        "for i in 1..10, j in 1..i: true",
    ),
    looped(
        "for i in 1..3 where «legs: x[i]",
        "'where' asks about variables: legs, for i = 1",
        "write premise -> conclusion instead",
        "for i in 1..3: legs -> x[i]",
    ),
    looped("for i in 2..n: x[i] -> «x[i+1]", "there is no element x[4], for i = 3", "The array is x[1..3]", "!x[1]"),
    looped("for i in 1..n: «y[i]", "'y[1]' is not declared, for i = 1", "Did you mean 'x[1]'?", "for i in 1..n: x[i]"),
    looped(
        "sum(«w[4..5]) <= age[cat]", "w[…] has no elements", "of a list has the index 1", "sum(w[2..3]) <= age[cat]"
    ),
    looped("sum(«n[*]) <= age[cat]", "the constant 'n' has no elements", "without an index", "sum(w[*]) > age[cat]"),
    looped(
        "v = [cat, dog]\nsum(«v[*]) <= age[cat]", "'cat' is a name, not a number", "numbers", "sum(w[*]) > age[cat]"
    ),
    looped("legs -> «x", "'x' is an array", "Name an element of x[1..3], or all of them by x[*]", "legs -> all(x[*])"),
    looped("legs -> «x[*]", "'x[…]' is several variables", "or use all(…)", "legs -> all(x[*])"),
    looped("any(«y[*])", "there is no array 'y'", "Declare it: y[1..9]", "any(x[*])"),
    looped("any(«x[{7}])", "x[…] has no elements", "The array is x[1..3]", "any(x[{2}])"),
    looped("x«[] = true", "an index without a number or name", "cell[1, 2]", "x[1] = true"),
    looped("x[1 «2] = true", "expected ',' or ']' in an index, found '2'", "cell[1, 2]", "x[1] = true"),
    looped(
        "for i in 1..3: «i -> x[i]", "'i' is 1, neither true nor false, for i = 1", "Compare", "for i in 1..3: x[i]"
    ),
    looped(
        "for s in {cat}: «s < t -> legs",
        "'cat' is a name, not a number, for s = cat",
        "numbers",
        "for s in {cat}: s = t -> legs",
    ),
    looped("for s in {b, c}: «s < s", "'b < b' compares names, for s = b", "use = or !=", "for s in {b, c}: s = s"),
    looped("for s in {cat}: x[«s+1]", "'cat' is a name, not a number, for s = cat", "numbers", "for s in {1}: x[s+1]"),
    looped("at_most(«age[cat], legs)", "expected a number, found 'age'", "constants and names", "at_most(n, legs)"),
    looped(
        "for i in 0..1: at_most(«i-1, legs)",
        "at_most(-1, …) has a number below 0, for i = 0",
        "Give 0 or a larger",
        "at_most(0, legs)",
    ),
    looped("«sum() <= 1", "sum(…) is empty", "for i in 1..9", "sum(x[*]) <= 1"),
    looped("sum(x[1] «x[2]) <= 1", "expected ',' or ')' in sum(…), found 'x'", "sum(", "sum(x[1], x[2]) <= 1"),
    looped(
        "(n + 1 «2) * 2 <= age[cat]",
        "expected ')' after a sum in brackets, found '2'",
        "+ - *",
        "(n + 1) * 2 <= age[cat]",
    ),
    looped("age[cat] mod «age[dog] = 0", "'mod' by 'age'", "known beforehand", "age[cat] mod 5 = 2"),
    looped("age[cat] div «0 = 1", "'div' by '0'", "a number above 0", "age[cat] div 2 = 1"),
    looped("x[2] = x[n div «legs]", "expected a number, found 'legs'", "constants and names", "x[2] = x[n div 2]"),
    looped("«abs(age[cat], 3) <= 2", "abs(…) of 2 numbers", "Write abs(x - y)", "abs(age[cat] - 3) <= 2"),
    looped(
        "m: 0..200\nk: 1..101\nm * «k = 8", "a product of 200 times 101 steps", "10,000", "m: 0..9\nm * age[cat] = 8"
    ),
    looped("k: 1..4\n!«x[k]", "there is no element x[4], which the index of 'x[…]' can mean", "only values", "!x[3]"),
    looped("k: 0..101\ny[0..101, 0..101]\n!«y[k, k]", "an index with 10,404 values", "10,000", "k: 1..2\n!x[k]"),
    looped("age[cat] <= 3 mod «0", "'mod' by 0", "Divide by another number", "age[cat] <= 3 mod 2"),
    looped("«w[4] <= age[cat]", "'w' has no element [4]", "w[0..2] = [3, 1, 4]", "w[3] <= age[cat]"),
    looped("«n[1] <= age[cat]", "the constant 'n' has no elements", "without an index", "n <= age[cat]"),
    looped("«m = m + 1\nage[cat] = m", "'m' is defined by itself", "Give it a number", "m = 1\nage[cat] = m"),
    BadText(
        "a\n"
        + "\n".join(f"{'«' if i == 51 else ''}c{i} = c{i + 1}" for i in range(60))
        + "\nc60 = 1\nfor i in c0..1: a",
        "constants nested deeper than 50",
        "Give some of them a number",
        "a\nc0 = 1\nfor i in c0..1: a",
    ),
    looped("«w = [1]", "'w' is defined twice", "Remove one", "v = [1]"),
    looped("v[1..2] = «[1, 2, 3]", "3 values for 2 indices", "one value for each index", "v[1..2] = [1, 2]"),
    looped("!«x[k]", "'k' is no index of 'x'", "no name of a loop either. The array is x[1..3]", "!x[2]"),
    looped(
        "k: 1..3\n«x[k]", "'x[k]' alone would be a new element, and 'k' is a variable", "x[k] = true", "k: 1..3\n!x[k]"
    ),
    looped("«0.9 :: for i in 1..3: x[i]", "a probability before a loop", "0.9 :: rule", "for i in 1..3: 0.9 :: x[i]"),
    looped('«0.9 :: "why": x[1]', "a probability before a remark", 'Write "why": 0.9 :: rule', '"why": 0.9 :: x[1]'),
    looped("«legs, tail < head", "several names before '<'", "hierarchy: cat, dog <", "hierarchy: tail, head < legs"),
    looped("«forall(i in 1..3)", "there is no function 'forall'", "Write for i in 1..9: rule", "for i in 1..3: x[i]"),
    looped("legs «/\\ x[1]", "'/\\' is not an operator", "Write &", "legs & x[1]"),
    looped("age[cat] «% 2 = 0", "'%' is not used in rules", "Write a mod b", "age[cat] mod 2 = 0"),
    looped("«constraint legs", "does not begin with 'constraint'", "the rule alone", "!legs"),
    looped("«var 1..9: y", "does not begin with 'var'", "x: 1..9", "y: 1..9"),
    looped("«x", "'x' is a variable and an array", "Rename one", "y"),
    looped("«legs[1..2]", "'legs' is a variable and an array", "Rename one", "leg[1..2]"),
    looped("y[«*]", "'*' in a declaration", "cell[1..9]", "y[1..2]"),
    looped('y[«{"a b"}]', "'a b' cannot be an index", "plain names", "y[{a, b}]"),
    looped("«y[1..1000, 1..1001]", "an array of 1,001,000 elements", "Declare from 1 to 1,000,000", "y[1..10, 1..10]"),
    looped("«y[1..0]", "an array of 0 elements", "Declare from 1", "y[1..1]"),
]
STRUCTURES = [
    bad("«lex(age, size, age)", "lex(…) of 3 variables", "two equally long lists: lex(x[*], y[*])", "lex(age, size)"),
    bad("«ranking(legs, fins)", "ranking(…) of 2 variables", "as a square has", "ranking(legs)"),
    bad("«all_different(age + size)", "all_different(…) of 'age + size'", "one variable", "all_different(age + 1)"),
    bad("«all_different(3)", "all_different(…) of '3'", "one variable", "all_different(age, 3 - size)"),
    bad("«permutation(age)", "permutation(…) of 'age', which is not binary", "binary variables", "permutation(legs)"),
    bad("«increasing(species)", "'species' is categorical", "declare it over integers", "increasing(age, size)"),
    bad("all_different(«a, b)", "'a' is not declared", "Declared", "all_different(age, size)"),
    bad(
        "if legs «else fins", "expected 'then', found 'else'", "Write if condition then", "if legs then fins else wings"
    ),
    bad("«table(age) in {}", "a table without rows allows no label", "at least one row", "table(age) in {(1)}"),
    bad(
        "table(age) «= 1", "expected 'in {' after table(…), found '='", "table(x, y) in {(1, a)}", "table(age) in {(1)}"
    ),
    bad("table(age) in {«1}", "expected '(' before the values of a row, found '1'", "table(", "table(age) in {(1)}"),
    bad("table(age) in {(1) «(2)}", "expected ',' or '}' between rows, found '('", "rows", "table(age) in {(1), (2)}"),
    bad("table(age) in {(«1, 2)}", "a row of 2 values for 1 variables", "one value", "table(age, size) in {(1, 2)}"),
    bad("table(species) in {(«cow)}", "'species' has no value 'cow'", "Its values", "table(species) in {(cat)}"),
    bad("«element(3, age) = 1", "element(…) starts with a variable", "element(i, x[*])", "max(age, size) = 1"),
    bad(
        "«element(age, size, size) = 1",
        "element(…) chooses among 2, and 'age' can be 0",
        "Declare age: 1..2",
        "k: 1..2\nelement(k, size, age) = 1",
    ),
    bad("1 + «max(age, 999*age) <= size", "max(…) between 0 and 8,991", "shorter ranges", "1 + max(age, size) <= 3"),
]
ROW = "x[1..3]: {a, b}\n"
EXPRESSIONS = (
    [
        BadText(
            f'{ROW}regular(x[*], «"{pattern}")',
            f'the expression "{pattern}" cannot be read: {why}',
            "Write values with spaces between",
            ROW,
        )
        for pattern, why in [
            ("a ) b", "')' is not expected"),
            ("a & b", "'&' has no meaning in it"),
            ("(" * 50 + "a" + ")" * 50, "it is nested deeper than 50"),
            ("a{3,2}", "'{3,2}' is not a number of times"),
            ("a{2}{3}", "two numbers of times in a row"),
            ("(a | b", "'(' is never closed"),
            ("a | * b", "a value is missing before '*'"),
            ("a !", "a value is missing at its end"),
            ("(a b){2000}", "it has more than 2,000 values, repetitions written out"),
            ("(a | b)* a (a | b){12}", "its automaton has more than 2,000 states"),
        ]
    ]
    + [
        BadText(
            f'{ROW}regular(x[*], «"{text}")',
            f'the automaton "{text}" cannot be read: {why}',
            "Write the arrows of each state",
            f'{ROW}regular(x[*], "s: a -> s, b -> t; t: a -> s; end: s")',
        )
        for text, why in [
            ("s: a -> s t: b -> s", "';' is missing between two states"),
            ("s: a -> 3", "a state must be a name, not '3'"),
            ("s: a -> s, a -> s", "the state 's' has two arrows for 'a'"),
            ("s: a -> s; s: b -> s", "the state 's' is listed twice"),
            ("s: -> s", "a value is missing before '->'"),
        ]
    ]
    + [
        BadText(
            ROW + 'regular(x[*], «"a c*")', "no variable of regular(…) has the value 'c'", "Their values: a, b", ROW
        ),
        BadText(ROW + "regular(x[*]«)", "expected ',' and an expression in quotes, found ')'", "regular(x[*], ", ROW),
        BadText(ROW + '«regular("a")', "regular(…) is empty", "regular(x[*], ", ROW),
        BadText(ROW + 'regular(«y, "a")', "'y' is not declared", "Declared", ROW),
    ]
)
EDGES = "e[a,b], e[b,c], e[a,c]\nn[a,b]: 0..3\nx, f[1..3]\n"
CHOSEN = [
    BadText(EDGES + marked, reason, remedy, EDGES + "path(e[*, *], a, c)")
    for marked, reason, remedy in [
        ("«path(a, c)", "path(…) without edges", "Write path(e[*, *], a, d)"),
        ("«path(e[*, *], a, a)", "path(…) without two ends", "Write path(e[*, *], a, d)"),
        ("path(e[*, *], a, «z)", "no edge begins or ends in 'z'", "The vertices: a, b"),
        ("«tree(n[*, *])", "'n[a,b]' is not an edge", "a binary variable with two vertices"),
        ("«tree(x)", "'x' is not an edge", "a binary variable with two vertices"),
        ("«tree(f[*])", "'f[1]' is not an edge", "a binary variable with two vertices"),
        ("tree(«3)", "expected a variable, found '3'", "Name a variable"),
        ("«tree()", "tree(…) is empty", "Write tree(e[*, *])"),
    ]
]
TREE = "hierarchy:\n    animal\n        cat\n"
CLASSES = [
    BadText(marked, reason, remedy, fixed)
    for marked, reason, remedy, fixed in [
        (
            "hierarchy: cat < «animal < animal",
            "has a cycle: animal",
            "Remove one",
            "hierarchy: cat < animal",
        ),
        (
            "hierarchy:\n  cat < animal\n  animal < thing\n  «thing < cat",
            "the hierarchy has a cycle: cat → animal → thing → cat",
            "Remove one of these steps",
            "hierarchy:\n  cat < animal\n  animal < thing",
        ),
        (
            "hierarchy «lef: cat < animal",
            "a hierarchy has no option 'lef'",
            "Did you mean 'leaf'? Choose 'any' (",
            "hierarchy leaf: cat < animal",
        ),
        (
            "hierarchy leaf cat < animal«",
            "a hierarchy without a ':'",
            "Write hierarchy one path:",
            "hierarchy leaf: cat < animal",
        ),
        ("hierarchy«:\nanimal", "a hierarchy without classes", "Write cat, dog <", "hierarchy:\n animal"),
        (TREE + "      «dog", "no line above is indented like this one", "Indent it as far as", TREE + "        dog"),
        (TREE + "\t«dog", "no line above is indented like this one", "the same spaces or tabs", TREE + "    dog"),
        (TREE + "  «dog", "no line above is indented like this one", "Indent it as far as", TREE + "    dog"),
        (TREE + "        «cat", "the class 'cat' is named twice here", "Remove one", TREE + "    plant\n        cat"),
        (TREE + "    «animal", "the class 'animal' is named twice here", "Remove one", TREE + "    plant"),
        ("hierarchy: cat, «cat < animal", "the class 'cat' is named twice", "Remove one", "hierarchy: cat < animal"),
        (
            "hierarchy: cat < animal\n    «dog < animal",
            "an indented line below a hierarchy of one line",
            "Write all classes below 'hierarchy:'",
            "hierarchy:\n    cat < animal\n    dog < animal",
        ),
        ("hierarchy: cat < animal «dog", "expected ',' or '<' between classes, found 'dog'", "Write cat, dog <", TREE),
        ("hierarchy: cat < «", "expected the name of a class, found the end of the line", "quoted", TREE),
        ("for i in 1..2:\n  «hierarchy: cat < animal", "a hierarchy in a loop", "Write it outside", TREE),
        ("x[1..2]\nhierarchy: «x < y", "'x' is an array, not a class", "x[1]", "x[1..2]\nhierarchy: x[1] < y"),
        ("x[1..2]\nhierarchy: «x[3] < y", "'x[3]' is not declared", "x[2]", "x[1..2]\nhierarchy: x[1] < y"),
        ("n = {p, q}\nhierarchy: «n < y", "'n' is a constant, not a class", "Rename one of them", "hierarchy: n < y"),
        ("n: {p, q}\nhierarchy: «n < y", "'n' is categorical, not binary", "n = p", "n\nhierarchy: n < y"),
    ]
]
PREDICATE = "x[1..3]\nn: 0..3\nlegs\nrule f(a, b) = a & b\n"
PREDICATES = [
    BadText(PREDICATE + marked, reason, remedy, PREDICATE + fixed)
    for marked, reason, remedy, fixed in [
        ("«f(legs)", "f(…) takes 2 arguments, not 1", "Line 4 defines f(a, b)", "f(legs, x[1])"),
        ("f(x[1], «n)", "'n' is integer, not binary", "n = 0", "f(x[1], legs)"),
        ("f(x[1], «n)", "f(x[1], n) is defined in line 4", "n = 0", "f(x[1], legs)"),
        (
            "for i in 1..3: f(x[i], «x[i+1])",
            "there is no element x[4]; f(x[i], x[i+1]), for i = 3 is defined in line 4",
            "The array is x[1..3]",
            "for i in 1..2: f(x[i], x[i+1])",
        ),
        (
            "rule g(a) = «x[a]\ng(7)",
            "there is no element x[7], for a = 7; g(7) is used in line 6",
            "The array is x[1..3]",
            "rule g(a) = x[a]\ng(3)",
        ),
        ("rule g(a) = x[a] & «y", "'y' is not declared", "A line 'y'", "rule g(a) = x[a] & legs"),
        ("rule g(a) = x[a] & «x[i]\nfor i in 1..2: g(i)", "'i' is no index of 'x'", "x[1..3]", "f(legs, legs)"),
        ("f(«legs + 1, legs)", "a sum as an argument", "Arguments are names", "f(legs, legs)"),
        ("f(legs «& x[1], legs)", "expected ',' or ')' in f(…), found '&'", "Arguments are names", "f(legs, legs)"),
        (
            "1 + «f(legs, legs) = 2",
            "f(…) is true or false, not a number",
            "count(f(…))",
            "1 + count(f(legs, legs)) = 2",
        ),
        (
            "rule g(a) = «g(a)",
            "the rule 'g' of line 5 is defined by itself",
            "A rule can use others",
            "rule g(a) = f(a, a)",
        ),
        ("rule g(a) = h(a)\nrule h(a) = «g(a)", "of line 5 is defined by itself", "use others", "rule g(a) = f(a, a)"),
        ("rule «f(a) = a", "the rule 'f' is defined twice, first in line 4", "Remove one", "rule g(a) = a"),
        ("rule «legs(a) = a", "'legs' is a variable and a rule", "Rename one of them", "rule g(a) = a"),
        ("m = [1, 2]\nrule «m(a) = a", "'m' is a constant and a rule", "Rename one of them", "rule g(a) = a"),
        ("rule «max(a) = a", "'max' is a function of the rule language", "another name", "rule g(a) = a"),
        ("rule g(a, «a) = a", "the parameter 'a' is named twice", "Rename one", "rule g(a, b) = a"),
        ("rule g(«3) = legs", "expected the name of a parameter, found '3'", "rule kin(a, b)", "rule g() = legs"),
        ("rule g(a «b) = a", "expected ',' or ')' between parameters, found 'b'", "rule kin(a, b)", "rule g(a, b) = a"),
        ("rule g(a) «a", "expected '=' before what a rule says, found 'a'", "rule kin(a, b)", "rule g(a) = a"),
        (
            "for i in 1..3: «rule g(a) = a",
            "a rule with parameters is defined in a loop",
            "Define it outside",
            "rule g(a) = a\nfor i in 1..3: g(x[i])",
        ),
        (
            "rule g0(a) = a\n"
            + "".join(f"rule g{i}(a) = g{i - 1}(a)\n" for i in range(1, 50))
            + "rule «g50(a) = g49(a)",
            "rules that use each other deeper than 50",
            "Write some of them out",
            "rule g0(a) = a\n" + "".join(f"rule g{i}(a) = g{i - 1}(a)\n" for i in range(1, 50)) + "g49(legs)",
        ),
    ]
]
TEXTS = CHARACTERS + DECLARATIONS + RULES + TYPES + LOOPS + STRUCTURES + EXPRESSIONS + CHOSEN + CLASSES + PREDICATES


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

XOR = "x[1..7]\n" + " ^ ".join(f"x[{i}]" for i in range(1, 8))
MANY = ", ".join(f"a{i}" for i in range(30)) + "\n"


def _variables_and_rules(text: str) -> tuple[Any, Any]:
    space = LabelSpace(text)
    return space.variables, space.rules


def _few(owner: object, limits: dict[str, int], call: Callable[[], Any]) -> Any:
    """A call with lower limits."""
    with mock.patch.multiple(owner, **limits):
        return call()


def _decided(space: LabelSpace) -> bool:
    """By the solver alone, whom the circuit helps out in all public calls."""
    with space.solvers.borrowed() as solver:
        return solver.satisfiable()


def _rows(content: str | bytes | None, name: str = "file", table: str = "pet, legs") -> Callable[[Path], Any]:
    """A space whose table is in a file of this content."""

    def call(folder: Path) -> LabelSpace:
        if content is not None:
            _file(folder, content)
        return LabelSpace(f'{PET}table({table}) in "{name}"', folder=folder)

    return call


def rows(content: str | bytes | None, reason: str, remedy: str, **table: str) -> BadCall:
    """A file of rows that is refused."""
    return BadCall("rowfiles", _rows(content, **table), RuleError, reason, remedy, _rows("cat,1\ndog,0\n"))


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
        lambda _: legs & fins == age,
        RuleError,
        "the formula 'legs & fins' cannot stand in a comparison",
        "Put comparisons in brackets: a & (b == c)",
        lambda _: legs & (fins == age),
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
        "a cardinality needs a whole number, not below 0, and a formula, not -1 and 1 formulas",
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
        "two columns have the name 'a=x'",
        "Rename one of the variables",
        lambda _: LabelSpace('a: {x}\n"a=y"'),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a, b").rename({"b": 5}),  # type: ignore[dict-item]
        RuleError,
        "the name 5 is of type int",
        "Give a text",
        lambda _: LabelSpace("a, b").rename({"b": "5"}),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("legs, age").given(symbols("age")[0] >= 1),  # type: ignore[arg-type]
        RuleError,
        "known values of type Compare",
        "Rules go to where()",
        lambda _: LabelSpace("legs, age").given({"age": True}),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a, b").rename({"b": "a"}),
        RuleError,
        "two variables have the name 'a'",
        "Rename one of them",
        lambda _: LabelSpace("a, b").rename({"b": "c"}),
    ),
    BadCall(
        "graphs",
        lambda _: LabelSpace("e[a,b]\ntree(e[a,b])").rename({"e[a,b]": "x"}),
        RuleError,
        "the edge 'e[a,b]' cannot be called 'x'",
        "tree(…) reads the vertices off the name: keep the index",
        lambda _: LabelSpace("e[a,b]\ntree(e[a,b])").rename({"e[a,b]": "f[a,b]"}),
    ),
    BadCall(
        "automata",
        lambda _: Regular(("a",), "a").lowered({}),
        RuleError,
        "regular(…) has no fuzzy reading",
        "Use a prior that asks the circuit",
        lambda _: Regular(("a",), "1").automaton({"a": (False, True)}),
    ),
    BadCall(
        "solver",
        lambda _: _decided(LabelSpace(MANY + " + ".join(f"{3**i % 100003}*a{i}" for i in range(30)) + " = 500000")),
        BudgetError,
        "not decided after 300 attempts: a sum of 30 variables with more than 50,000 different partial totals",
        "use fewer variables, smaller ranges or rounder coefficients",
        lambda _: _decided(LabelSpace(MANY + " + ".join(f"{i % 5}*a{i}" for i in range(30)) + " = 50")),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("a, b\na -> b\na = true\n!b"),
        ContradictionError,
        "these rules contradict each other: no label obeys them all\n"
        "  line 2: a -> b\n  line 3: a = true\n  line 4: !b",
        "without any one of them the others can hold",
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
        "a matrix with one column per variable (pet, legs, fins, age)",
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
        "one column per variable to use names",
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
        "1 row cannot be completed: no valid label agrees with what is known",
        "Rows: 1. Call check(Y) to see which rules they break",
        lambda _: pet.complete([{"legs": 1}]),
    ),
    # other sources
    BadCall(
        "sources",
        lambda f: LabelSpace.read(_file(f, b"legs\n\xff")),
        DataError,
        " is not UTF-8 text (byte 5)",
        "Save it as UTF-8",
        lambda f: LabelSpace.read(_file(f, "legs\nnaïve")),
    ),
    BadCall(
        "sources",
        lambda f: LabelSpace.read(f),
        DataError,
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
        "Give one entry per row",
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
        lambda _: LabelSpace.attributes("ab", _nested(51)),
        RuleError,
        "a formula nested deeper than 50",
        "Split it into several rules",
        lambda _: LabelSpace.attributes("ab", _nested(50)),
    ),
    BadCall(
        "language",
        lambda _: LabelSpace("n: 0..9", symbols("n")[0] + 10**15 >= 5),
        RuleError,
        "a number of 16 digits",
        "Use at most 15 digits",
        lambda _: LabelSpace("n: 0..9", symbols("n")[0] + (10**15 - 1) >= 5),
    ),
    BadCall(
        "symbols",
        lambda _: legs >> fins & age,
        RuleError,
        "'legs -> fins' beside &: Python groups >> before &, rule text groups it after",
        "Say which is meant: a >> (b & c), or implies(a, b) & c",
        lambda _: legs >> (fins & age),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace("legs, fins\nage: 0..9", legs & fins == 1),
        RuleError,
        "a rule is False, which says nothing about labels",
        "Put brackets around comparisons",
        lambda _: LabelSpace("legs, fins\nage: 0..9", legs & (age == 1)),
    ),
    BadCall(
        "symbols",
        lambda _: legs >> fins >> age,
        RuleError,
        "'legs -> fins' beside >>: Python groups >> before >>, rule text groups it after",
        "Say which is meant: a >> (b >> c), or implies(a, b) >> c",
        lambda _: legs >> (fins >> age),
    ),
    BadCall(
        "symbols",
        lambda _: legs ^ fins | age,
        RuleError,
        "'legs ^ fins' beside |: Python groups ^ before |, rule text groups it after",
        "Say which is meant: a ^ (b | c), or xor(a, b) | c",
        lambda _: xor(legs, fins) | age,
    ),
    BadCall("symbols", lambda _: xor(), RuleError, "xor() is empty", "Give at least one", lambda _: xor(legs)),
    BadCall(
        "language",
        lambda _: Rule(Is("a"), 1.0),
        RuleError,
        "the probability of a soft rule is between 0 and 1, not 1.0",
        "Leave it out for a rule that always holds",
        lambda _: Rule(Is("a"), 0.9),
    ),
    BadCall(
        "variables",
        lambda _: LabelSpace.attributes(["legs", ""]),
        RuleError,
        "a name cannot be empty",
        "Give every variable a name",
        lambda _: LabelSpace.attributes(["legs", " "]),
    ),
    BadCall(
        "variables",
        lambda _: LabelSpace.classes(["cat", ""]),
        RuleError,
        "'class' has a value without a name",
        "Give every value a name",
        lambda _: LabelSpace.classes(["cat", " "]),
    ),
    BadCall(
        "variables",
        lambda _: Variable.choice("class", ("cafe\u0301", "caf\u00e9")),  # the same name, typed in two ways
        RuleError,
        "'class' has the value 'caf\u00e9' twice",
        "Remove one",
        lambda _: Variable.choice("class", ("cafe", "caf\u00e9")),
    ),
    BadCall(
        "variables",
        lambda _: LabelSpace.classes([1, 10**15]),
        RuleError,
        "'class' has a value of more than 15 digits",
        "Use smaller numbers",
        lambda _: LabelSpace.classes([1, 10**15 - 1]),
    ),
    BadCall(
        "variables",
        lambda _: LabelSpace.classes(range(100_001)),
        RuleError,
        "'class' has more than 100,000 values",
        "bin them into fewer values",
        lambda _: LabelSpace.classes(range(100_000)),
    ),
    BadCall(
        "inferred",
        lambda _: space_of_labels([None, -1]),
        DataError,
        "no label is known, so there is nothing to learn",
        "Give some labels, or a space",
        lambda _: space_of_labels([None, -1, 2]),
    ),
    BadCall(
        "inferred",
        lambda _: space_of_labels([0.5, 1.0]),
        DataError,
        "the labels hold 0.5",
        "bin measured numbers first",
        lambda _: space_of_labels([0.0, 1.0]),
    ),
    BadCall(
        "hierarchy",
        lambda _: LabelSpace.hierarchy([("a", "b")], labels="path"),
        RuleError,
        "a hierarchy has no option 'path'",
        "Choose 'any' (",
        lambda _: LabelSpace.hierarchy([("a", "b")], labels="one path"),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.hierarchy([("a", "b"), ("b", "c"), ("c", "a")]),
        RuleError,
        "the hierarchy has a cycle: a → b → c → a",
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
        "Give one per name",
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
        "one row per class",
        lambda _: LabelSpace.class_attributes([[1, 0]], ["cat"]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.class_attributes([1, 0]),
        RuleError,
        "a matrix of shape (2,)",
        "one column per attribute",
        lambda _: LabelSpace.class_attributes([[1, 0]]),
    ),
    BadCall(
        "sources",
        lambda _: LabelSpace.class_attributes([["yes"]]),
        RuleError,
        "the class-attribute matrix does not hold numbers in rows of equal length",
        "Use 0, 1, or NaN",
        lambda _: LabelSpace.class_attributes([[1]]),
    ),
    BadCall(
        "graphs",
        lambda _: _few(graphs, {"MOST_STATES": 10}, lambda: LabelSpace("e[1..5, 1..5]\nconnected(e[*, *])")),
        RuleError,
        "connected(…) of 20 edges takes more than 10 states: it got to edge 3, with 14 states to tell apart",
        "Use a graph that can be cut at few vertices",
        lambda _: LabelSpace("e[1..5, 1..5]\nconnected(e[*, *])"),
    ),
    BadCall(
        "operations",
        lambda _: LabelSpace("a, b").equivalent(LabelSpace("a, c")),
        RuleError,
        "the two spaces differ in variables: ",
        "Declare the same variables in both, with the same values",
        lambda _: LabelSpace("a, b").equivalent(LabelSpace("a, b")),
    ),
    BadCall(
        "operations",
        lambda _: LabelSpace("a, b").forget(["a", "b"]),
        RuleError,
        "forget(…) got all variables",
        "Keep at least one",
        lambda _: LabelSpace("a, b").forget(["a"]),
    ),
    BadCall(
        "operations",
        lambda _: LabelSpace.of(*_variables_and_rules("a, b\na | b"), [[0.2, 0.8], [1, 1]]).forget(["a"]),
        RuleError,
        "literals have weights, which forget(…) cannot keep",
        "Use a space without weights",
        lambda _: LabelSpace.of(*_variables_and_rules("a, b\na | b")).forget(["a"]),
    ),
    BadCall(
        "operations",
        lambda _: LabelSpace("a, b\n0.9 :: a -> b").forget(["a"]),
        RuleError,
        "the soft rule '0.9 :: a -> b' mentions a variable to forget",
        "Leave it out",
        lambda _: LabelSpace("a, b, c\n0.9 :: a -> b").forget(["c"]),
    ),
    BadCall(
        "operations",
        lambda _: _few(operations, {"MAX_ROWS": 10, "MAX_ATOMS": 5}, lambda: LabelSpace(XOR).forget(["x[1]"])),
        RuleError,
        "forgetting 'x[1]' leaves a rule that cannot be written down: its rules are about 6 other variables, with more "
        "than 10 labels",
        "Forget other variables first or together with it, or use count(over=…)",
        lambda _: LabelSpace(XOR).forget(["x[1]"]),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 1\nc p show 1 3 0\n1 2 0\n", projection="show"),
        DataError,
        ": variable 3 to project on is not among 2",
        "Raise the count in the header",
        _dimacs("p cnf 3 1\nc p show 1 3 0\n1 2 0\n", projection="show"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 1\nc p show one 0\n1 2 0\n", projection="show"),
        DataError,
        ", line 2: 'one' is not a variable to project on",
        "Write their numbers: c p show 1 2 0",
        _dimacs("p cnf 2 1\nc p show 1 0\n1 2 0\n", projection="show"),
    ),
    BadCall(
        "dimacs",
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
        "dimacs",
        _dimacs("p cnf 1 1\n1 0\n", projection="keep"),
        RuleError,
        "projection='keep'",
        'Use "error", "ignore" or "show"',
        _dimacs("p cnf 1 1\n1 0\n", projection="error"),
    ),
    BadCall(
        "dimacs",
        _dimacs("c nothing\n"),
        DataError,
        ", line 1: there is no 'p cnf VARIABLES CLAUSES' line",
        "Check that this is a DIMACS CNF file",
        _dimacs("p cnf 1 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 2\n1 2 0\n-1\n"),
        DataError,
        ", line 3: the last clause is not closed by 0",
        "The file may be cut off",
        _dimacs("p cnf 2 2\n1 2 0\n-1\n0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p dnf 2 2\n"),
        DataError,
        ", line 1: 'p dnf 2 2' is not a CNF header",
        "Expected: p cnf VARIABLES CLAUSES",
        _dimacs("p cnf 2 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 99999999 0\n"),
        DataError,
        ", line 1: 99,999,999 variables are more than 1,000,000",
        "Number the variables without gaps",
        _dimacs("p cnf 9 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 0\np cnf 2 0\n"),
        DataError,
        ", line 2: there is a second header",
        "Keep one 'p cnf' line",
        _dimacs("p cnf 2 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("1 2 0\np cnf 2 1\n"),
        DataError,
        ", line 1: a clause before the 'p cnf' line",
        "Check that this is a DIMACS CNF file",
        _dimacs("p cnf 2 1\n1 2 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 1\n1 x 0\n"),
        DataError,
        ", line 2: 'x' is not a literal",
        "Literals are integers; a clause ends with 0",
        _dimacs("p cnf 2 1\n1 2 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 1\n--1 2 0\n"),
        DataError,
        ", line 2: '--1' is not a literal",
        "integers",
        _dimacs("p cnf 2 1\n-1 2 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 1\n1 3 0\n"),
        DataError,
        ", line 2: the literal 3 for 2 variables",
        "Raise the count in the header",
        _dimacs("p cnf 3 1\n1 3 0\n"),
    ),
    BadCall(
        "dimacs",
        _dimacs("p cnf 2 1\nc p show 1 0\n1 2 0\n"),
        DataError,
        ", line 2: the file asks for a projected count, over some variables only",
        'pass projection="ignore"',
        _dimacs("p cnf 2 1\nc p show 1 0\n1 2 0\n", projection="ignore"),
    ),
    BadCall(
        "dimacs",
        _dimacs("c p weight one 0.5 0\np cnf 2 0\n"),
        DataError,
        ", line 1: 'one 0.5 0' is not a weight",
        "Write a literal and its weight",
        _dimacs("c p weight 1 0.5 0\np cnf 2 0\n"),
    ),
    BadCall(
        "space",
        lambda _: LabelSpace.of((Variable("a"),), (), np.ones((3, 2))),
        RuleError,
        "literal weights of shape (3, 2) for 1 columns",
        "Give an array (columns, 2)",
        lambda _: LabelSpace.of((Variable("a"),), (), np.ones((1, 2))),
    ),
    BadCall(
        "space",
        lambda _: (
            LabelSpace.of((Variable("a"),), (), np.ones((1, 2))) & LabelSpace.of((Variable("a"),), (), np.zeros((1, 2)))
        ),
        RuleError,
        "'a' is weighed differently in the two spaces: (1.0, 1.0) and (0.0, 0.0)",
        "rename it in one",
        lambda _: LabelSpace.of((Variable("a"),), (), np.ones((1, 2))) & LabelSpace("a"),
    ),
    BadCall(
        "dimacs",
        _dimacs("c p weight 1 -1 0\np cnf 2 0\n"),
        DataError,
        ", line 1: the weight -1 of literal 1",
        "Weights are finite and not negative",
        _dimacs("c p weight 1 1 0\np cnf 2 0\n"),
    ),
    BadCall(
        "dimacs",
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
        "one row per label and one column per variable",
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
        "Give one name per column",
        lambda _: learn_rules(np.zeros((4, 3)), ["a", "b", "c"]),
    ),
    BadCall(
        "tally",
        lambda _: learn_rules({"a": [0, 1], "b": [1, 1]}, ["a"]),
        DataError,
        "1 names for 2 columns",
        "Give one name per column",
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

CALLS += [
    rows(None, 'there is no file "file"', "The path is relative to the folder"),
    rows("", '"file" has no rows', "Give at least one row"),
    rows("legs,pet\n", '"file" has a header and no rows', "Give at least one row"),
    rows("cat,1\ndog\n", 'a row of 1 values for 2 variables, in line 2 of "file"', "one value for each variable"),
    rows("cat;1\n", 'a row of 1 values for 2 variables, in line 1 of "file"', "with commas between"),
    rows("cat,1\n\ncow,0\n", "'pet' has no value 'cow', in line 3 of \"file\"", "Its values: cat, dog"),
    rows("cat,1\ndgo,0\n", "'pet' has no value 'dgo', in line 2 of \"file\"", "Did you mean 'dog'?"),
    rows("cat,2\n", "'legs' is binary and cannot be '2', in line 1 of \"file\"", "Write 0 or 1"),
    rows("6\n", "'age' has no value '6', in line 1 of \"file\"", "Its values: 3, 4, 5", table="age"),
    rows("3.0\n", "'age' has no value '3.0', in line 1 of \"file\"", "Its values: 3, 4, 5", table="age"),
    rows("species,legs\ncat,1\n", "'pet' has no value 'species', in line 1 of \"file\"", "Its values: cat, dog"),
    rows("cat,1\ndog,\n", 'an empty cell in line 2 of "file"', "A row is complete"),
    rows('cat,"1\ndog,0\n', 'line 2 of "file" cannot be read: unexpected end of data', "Separate cells by commas"),
    rows(b"cat,1\n\xff,0\n", '"file" is not UTF-8 text (byte 6)', "Save it as UTF-8"),
    rows("pet,pet,legs\ncat,cat,1\n", 'a header of 3 names for 2 variables in "file"', "Name each variable once"),
    rows("pet,pet\ncat,1\n", "the header of \"file\" does not name 'legs'", "It names pet, pet"),
    rows("0,1\n" * 100_002, '"file" has more than 100,000 rows', "Say by rules what the rows have in common"),
    rows(None, '"." is not a file', "Name a CSV file", name="."),
    rows(None, '"/dev/zero" is not a file', "Name a CSV file", name="/dev/zero"),
    rows(None, '"https://a.b/c.csv" is an address, not a file', "Download it", name="https://a.b/c.csv"),
    rows("0", '"file/x" cannot be read: Not a directory', "that you may read", name="file/x"),
    rows(None, '" cannot be read: File name too long', "that you may read", name="x" * 5000),
    rows(" " * 10_000_001, '"file" has more than 10,000,000 bytes', "Use fewer rows"),
    BadCall(
        "rowfiles",
        lambda folder: LabelSpace(f'{PET}table(pet) in "{_file(folder, "cat")}"', folder=None),
        RuleError,
        "this text must not name files, and it names ",
        "Write the rows in braces: table(x, y) in {(1, a), (2, b)}",
        lambda folder: LabelSpace(f'{PET}table(pet) in "{_file(folder, "cat")}"'),
    ),
]


def held(reason: str, remedy: str, **change: Any) -> BadCall:
    """A JSON form that is refused; `change` is what is wrong with it."""
    right = {
        "format": "dssl rules",
        "version": 1,
        "variables": [{"name": "legs", "kind": "binary"}, {"name": "age", "kind": "integer", "values": [1, 2]}],
        "rules": [{"rule": "legs -> age = 1", "probability": 0.9, "why": "seen", "line": 3}],
    }
    wrong = json.dumps({**right, **change})
    fixed = json.dumps(right)
    return BadCall(
        "json_form",
        lambda _: LabelSpace.from_json(wrong),
        RuleError,
        reason,
        remedy,
        lambda _: LabelSpace.from_json(fixed),
    )


def _ruled(**change: Any) -> dict[str, Any]:
    return {"rules": [{"rule": "legs", **change}]}


CALLS += [
    *(
        BadCall(
            "json_form",
            lambda _, text=text: LabelSpace.from_json(text),
            RuleError,
            reason,
            "Write it with to_json()",
            lambda _: LabelSpace.from_json(pet.to_json()),
        )
        for text, reason in (
            ("", "this is not JSON: Expecting value"),
            ("[" * 100_000, "this JSON is nested too deep, or has a number that is too long"),
            ("9" * 5000, "this JSON is nested too deep, or has a number that is too long"),
            ("[]", 'this JSON does not say "format": "dssl rules"'),
            (b"{}", "JSON is text, not bytes"),
        )
    ),
    held("this JSON has version 2, and this dssl reads 1", "Write it with to_json()", version=2),
    held('this JSON has no list "variables"', "Write it with to_json()", variables={}),
    held("variable 1 has no name or no kind", "The kinds are binary, categorical, integer", variables=["legs"]),
    held(
        "variable 1, 'a', is binary and has values",
        "call it categorical",
        variables=[{"name": "a", "kind": "binary", "values": [1]}],
    ),
    held("variable 1, 'a', has no values", "List them", variables=[{"name": "a", "kind": "integer", "values": []}]),
    held(
        "variable 1, 'a', has the value 1.5",
        "The values are whole numbers",
        variables=[{"name": "a", "kind": "integer", "values": [1.5]}],
    ),
    held(
        "variable 1, 'a', has the value true",
        "The values are names and whole numbers",
        variables=[{"name": "a", "kind": "categorical", "values": ["x", True]}],
    ),
    held("rule 2 has no text", 'Write {"rule": "legs -> !fins"}', rules=[{"rule": "!legs"}, {}]),
    held("rule 2: 'wings' is not declared", "Declared: legs", rules=[{"rule": "!legs"}, {"rule": "!wings"}]),
    held("rule 1: a declaration, where only rules can stand", "legs = true", **_ruled()),
    held("rule 1 is not exactly one rule", "Write loops out", **_ruled(rule="for i in 1..3: !legs")),
    held("rule 2 is not exactly one rule", "per entry", rules=[{"rule": "!legs"}, {"rule": ""}, {"rule": "!legs"}]),
    held("rule 1: '(' is never closed", "Add the missing ')'", **_ruled(rule="any(legs,")),
    held("rule 1 has a probability or a remark in its text", "beside it", **_ruled(rule="0.9 :: legs")),
    held("rule 1 has no number as its probability", "between 0 and 1", **_ruled(rule="!legs", probability="0.9")),
    held(
        "the probability of a soft rule is between 0 and 1, not 2",
        "Leave it out",
        **_ruled(rule="!legs", probability=2),
    ),
    held("rule 1 has no text as its remark", "leave it out", **_ruled(rule="!legs", why="")),
    held("rule 1 has no line number as its line", "Count lines from 1", **_ruled(rule="!legs", line=0)),
    held("literal_weights are not pairs of numbers", "weights of true and false", literal_weights=[[1, 2], [1, "2"]]),
    held("literal weights of shape (1, 2) for 3 columns", "finite numbers", literal_weights=[[1, 2]]),
    held("this text must not name files", "Write the rows in braces", **_ruled(rule='table(legs) in "rows.csv"')),
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
