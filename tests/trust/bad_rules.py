"""Rules, in text and in Python, that cannot be read or cannot be meant."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import Any

import numpy as np

import dssl
from dssl.errors import DataError, RuleError
from dssl.logic.language.formula import And, Formula, Is, Not
from dssl.logic.language.symbols import at_least, at_most, exactly
from trust.bad import Bad, Content, both, nothing, put

LONG = "x" * 1_000_000
A, B = dssl.symbols("a b")


def file(name: str, content: Content, said: str, kind: type[Exception] = RuleError) -> Bad:
    return Bad(
        f"file of rules: {name}",
        put("a.rules", content),
        lambda f: dssl.LabelSpace.read(f / "a.rules"),
        said,
        kind,
    )


def rows(name: str, content: Content, said: str, file: str = "rows.csv") -> Bad:
    """A file that rules take the rows of a table from."""
    return Bad(
        f"rows of a table: {name}",
        both(put("rows.csv", content), put("a.rules", f'a\npet: {{cat, dog}}\ntable(pet, a) in "{file}"\n')),
        lambda f: dssl.LabelSpace.read(f / "a.rules"),
        "line 3, column 18 … " + said,
        RuleError,
    )


def text(name: str, rules: str, said: str) -> Bad:
    return Bad(f"rules: {name}", nothing, lambda _: dssl.LabelSpace(rules), said, RuleError)


def python(name: str, call: Callable[[], Any], said: str, kind: type[Exception] = RuleError) -> Bad:
    return Bad(f"rules in Python: {name}", nothing, lambda _: call(), said, kind)


def cnf(name: str, content: Content, said: str, kind: type[Exception] = DataError) -> Bad:
    return Bad(f"DIMACS: {name}", put("a.cnf", content), lambda f: dssl.LabelSpace.dimacs(f / "a.cnf"), said, kind)


def nested(depth: int) -> Formula:
    formula: Formula = Is("a")
    for i in range(depth):
        formula = Not(formula) if i % 2 else And((formula, Is("b")))
    return formula


SPACE = dssl.LabelSpace("a, b\nspecies: {cat, dog}\nage: 0..9")

FILES = [
    file(
        "UTF-16",
        "a, b\na -> b\n".encode("utf-16"),
        "is not UTF-8 text (byte 0) … Save it as UTF-8, or check that it is",
        DataError,
    ),
    file(
        "Latin-1",
        "größe\n".encode("latin-1"),
        "is not UTF-8 text (byte 2) … Save it as UTF-8, or check that it is",
        DataError,
    ),
    file(
        "zero bytes",
        bytes(1000),
        "line 1, column 1: the character '\\x00' has no meaning here … Names with other characters are quoted:",
    ),
    file(
        "an image",
        b"\x89PNG\r\n\x1a\n" + bytes(range(256)),
        "is not UTF-8 text (byte 0) … Save it as UTF-8, or check that it is",
        DataError,
    ),
    file(
        "packed",
        lambda: gzip.compress(b"a, b\n"),
        "is not UTF-8 text (byte 1) … Save it as UTF-8, or check that it is",
        DataError,
    ),
    file(
        "a pickle",
        b"\x80\x04\x95\x0f\0\0\0\0\0\0\0\x8c\x05posix\x94.",
        "is not UTF-8 text (byte 0) … Save it as UTF-8, or check that it is",
        DataError,
    ),
    file("comments only", "# a\n# b\n" * 1000, "no variables are declared … Declare binary ones by name (legs,"),
    file(
        "a page of HTML",
        "<!DOCTYPE html>\n<html><body>404</body></html>\n",
        "line 2, column 17: '/' is not used in rules … Write a mod b, a div b",
    ),
    file(
        "a spreadsheet",
        "name;legs\ncat;4\n",
        "line 1, column 5: ';' does not separate rules … Write one rule per line.",
    ),
    file(
        "JSON",
        '{"rules": ["a -> b"]}',
        "line 1, column 11: '[' is not used in rules … Use ( ) around formulas and { } around",
    ),
    file(
        "Python",
        "import os\nos.system('true')\n",
        "line 2, column 3: this is neither a number nor a name … Names that start with a digit are",
    ),
    file("cut off", "a, b\na -> (b", "line 2, column 6: '(' is never closed … Add the missing ')'."),
    file(
        "two marks of order",
        b"\xef\xbb\xbf\xef\xbb\xbfa, b\n",
        "line 1, column 1: the character '\\ufeff' has no meaning here … Names with other characters are quoted:",
    ),
]
TEXTS = [
    text(
        "a name of a million letters, twice",
        f"{LONG}, {LONG}",
        "line 1, column 1000003: … Remove one; a fact is written",
    ),
    text("an undeclared name of a million letters", f"a\na -> {LONG}", "line 2, column 6: … Declared: a. A line"),
    text(
        "a value of a million letters, twice",
        f"a: {{{LONG}, {LONG}}}",
        "line 1, column 1000007: the value … Remove one.",
    ),
    text(
        "a line of a million spaces and an error",
        "a" + " " * 1_000_000 + "§",
        "line 1, column 1000002: the character '§' has no meaning … Names with other characters are quoted:",
    ),
    text(
        "a million open brackets after a rule",
        "a\na -> " + "(" * 1_000_000,
        "line 2, column 56: brackets nested deeper than 50 … Split the rule into several lines.",
    ),
    text(
        "a million values too many",
        "a: 0..1000000",
        "line 1, column 4: the range 0..1000000 has more than … Each value is one output of the",
    ),
    text(
        "a range of 10^18 values",
        "a: 0..999999999999999999",
        "line 1, column 7: a number of 18 digits … Use at most 15 digits.",
    ),
    text("a range backwards", "a: 9..0", "line 1, column 4: the range 9..0 is empty … Write 0..9."),
    text(
        "a count of 10^30",
        "a, b\nat_most(1" + "0" * 30 + ", a, b)",
        "line 2, column 9: a number of 31 digits … Use at most 15 digits.",
    ),
    text(
        "a negative count",
        "a, b\nat_least(-1, a, b)",
        "line 2, column 10: at_least(…) starts with a number, found … Write at_least(1, a, b).",
    ),
    text(
        "a coefficient of 10^30",
        "n: 0..9\n1" + "0" * 30 + " * n <= 3",
        "line 2, column 1: a number of 31 digits … Use at most 15 digits.",
    ),
    text(
        "a probability of 10^400",
        "a\n1e400 :: a",
        "line 2, column 1: the probability of a soft rule is between … A rule that always holds is written",
    ),
    text(
        "a probability that is no number",
        "a\nnan :: a",
        "line 2, column 1: 'nan' is not declared … Did you mean 'a'? Declared: a. A line",
    ),
    text(
        "a soft declaration",
        "0.5 :: a: {x, y}",
        "line 1, column 8: 'a' is not declared … Nothing is declared yet. A line 'a'",
    ),
    text(
        "a choice without values",
        "a: {}",
        "line 1, column 4: a variable needs at least one value … List its values: {cat, dog}.",
    ),
    text("a choice of one name twice", "a: {x, x}", "line 1, column 8: the value 'x' is listed twice … Remove one."),
    text(
        "a name that is an operator",
        "and, or",
        "line 1, column 1: expected a formula, found 'and … A formula is a name, a comparison, a",
    ),
    text(
        "an escape at the end of a line",
        'a\n"b\\',
        'line 2, column 1: this quote is never closed on its line … Close it with ", and write \\" for a',
    ),
    text("a rule of dots", "a\n.....", "line 2, column 1: '...' is not an operator of the rule … Write .."),
    text(
        "a sum of choices",
        "s: {cat, dog}\ns + s = 2",
        "line 2, column 1: 's' is categorical: its values can be … Use = != or in with its values (cat,",
    ),
    text(
        "a choice alone as a rule",
        "s: {cat, dog}\ns",
        "line 2, column 1: 's' is declared twice … Remove one; a fact is written s = dog.",
    ),
    text(
        "a number alone as a rule",
        "a\n7",
        "line 2, column 1: a sum or number alone is not a formula … Compare it: a + b <= 3.",
    ),
    text(
        "a product of large variables",
        "m, n: 0..999\nm * n <= 2",
        "line 2, column 5: a product of 999 times 999 steps … Up to 10,000: use shorter ranges.",
    ),
    text(
        "a chain that turns",
        "n: 0..9\n1 < n > 3 = n",
        "line 2, column 7: a comparison cannot be compared again … Only < and <= follow each other",
    ),
    text(
        "a contradiction among ten thousand rules",
        "a, b\n" + "a -> b\n" * 10_000 + "a = true\nb = false",
        "these rules contradict each other: no label obeys them all … Remove or weaken one of them: without any one",
    ),
    text(
        "markup",
        "<script>alert(1)</script>",
        "line 1, column 18: '/' is not used in rules … Write a mod b, a div b",
    ),
    text(
        "a format string",
        "a\n{a.__class__}",
        "line 2, column 3: this is neither a number nor a name … Names that start with a digit are",
    ),
    text(
        "a line separator of Unicode",
        "a\u2028b\n",
        "line 1, column 2: the character '\\u2028' has no meaning here … Names with other characters are quoted:",
    ),
    text(
        "a lone surrogate",
        "a\ud800",
        "line 1, column 2: the character '\\ud800' has no meaning here … Names with other characters are quoted:",
    ),
]
PYTHON = [
    python(
        "bytes for text",
        lambda: dssl.LabelSpace(b"a, b"),
        "rules are text, not bytes … Give a str; LabelSpace.read reads a",
    ),  # type: ignore[arg-type]
    python(
        "None for text",
        lambda: dssl.LabelSpace(None),
        "rules are text, not NoneType … Give a str; LabelSpace.read reads a",
    ),  # type: ignore[arg-type]
    python(
        "a number for text", lambda: dssl.LabelSpace(5), "rules are text, not int … Give a str; LabelSpace.read reads a"
    ),  # type: ignore[arg-type]
    python(
        "a formula ten thousand deep",
        lambda: dssl.LabelSpace.attributes(["a", "b"], nested(10_000)),
        "a formula nested deeper than 50 … Split it into several rules, or name its parts by variables.",
    ),
    python("a number as a rule", lambda: SPACE.where(5), "5 is not a formula … Use symbols(...), formulas combined"),
    python("None as a rule", lambda: SPACE.where(None), "None is not a formula … Use symbols(...), formulas combined"),
    python(
        "a list as a rule",
        lambda: SPACE.where(["a -> b"]),
        "['a -> b'] is not a formula … Use symbols(...), formulas combined",
    ),
    python(
        "an undeclared symbol",
        lambda: SPACE.where(A >> dssl.symbols("zebra yak")[0]),
        "zebra' is not declared … Declared: a, b, species, age. A line",
    ),
    python(
        "a fractional count",
        lambda: SPACE.where(at_most(1.5, A, B)),
        "a cardinality needs a whole number, not below 0, and a formula, … Write at_most(1, a, b).",
    ),  # type: ignore[arg-type]
    python(
        "a count that is a text",
        lambda: SPACE.where(exactly("2", A, B)),
        "a cardinality needs a whole number, not below 0, and a formula, … Write at_most(1, a, b).",
    ),  # type: ignore[arg-type]
    python(
        "a count of NaN",
        lambda: SPACE.where(at_least(float("nan"), A, B)),
        "a cardinality needs a whole number, not below 0, and a formula, … Write at_most(1, a, b).",
    ),  # type: ignore[arg-type]
    python("no such variable", lambda: SPACE["zebra"], "zebra' is not declared … Declared: a, b, species, age. A line"),
    python(
        "truth of a formula",
        lambda: bool(A & B),
        "a formula has no truth value of its own: combine with & | ~",
        TypeError,
    ),
    python(
        "classes of floats",
        lambda: dssl.LabelSpace.classes([0.5, 1.5]),
        "the class 0.5 is neither a name nor an integer … Use names or integers.",
    ),  # type: ignore[list-item]
    python(
        "classes of None",
        lambda: dssl.LabelSpace.classes([None, "a"]),
        "the class None is neither a name nor an integer … Use names or integers.",
    ),  # type: ignore[list-item]
    python(
        "classes of bytes",
        lambda: dssl.LabelSpace.classes([b"a", b"b"]),
        "the class b'a' is neither a name nor an integer … Use names or integers.",
    ),  # type: ignore[list-item]
    python(
        "classes from a number",
        lambda: dssl.LabelSpace.classes(10),
        "classes from int … Give a list or another iterable.",
    ),  # type: ignore[arg-type]
    python(
        "attributes from a number",
        lambda: dssl.LabelSpace.attributes(3),
        "attributes from int … Give a list or another iterable.",
    ),  # type: ignore[arg-type]
    python(
        "no attributes",
        lambda: dssl.LabelSpace.attributes([]),
        "no variables are declared … Declare binary ones by name (legs,",
    ),
    python(
        "a cycle of ten thousand",
        lambda: dssl.LabelSpace.hierarchy({f"c{i}": f"c{(i + 1) % 10_000}" for i in range(10_000)}),
        "the hierarchy has a cycle: c0 → c1 → c2 → c3 → … Remove one of these edges.",
    ),
    python(
        "a class above itself",
        lambda: dssl.LabelSpace.hierarchy([("a", "a")]),
        "the hierarchy has a cycle: a → a … Remove one of these edges.",
    ),
    python(
        "edges of three",
        lambda: dssl.LabelSpace.hierarchy([("a", "b", "c")]),
        "edge 0 is ('a', 'b', 'c') … Give pairs (child, parent), or a",
    ),
    python(
        "edges from a number",
        lambda: dssl.LabelSpace.hierarchy(7),
        "edges from int … Give a list or another iterable.",
    ),
    python(
        "a table of no columns",
        lambda: dssl.LabelSpace.table([], [[]]),
        "no variables are declared … Declare binary ones by name (legs,",
    ),
    python(
        "a table of a number",
        lambda: dssl.LabelSpace.table(["a"], 3),
        "rows from int … Give a list or another iterable.",
    ),
    python(
        "a table of infinity",
        lambda: dssl.LabelSpace.table(["a"], [[np.inf], [1]]),
        "the column 'a' holds inf among other values … Use names, integers or booleans.",
    ),
    python(
        "a table of lists",
        lambda: dssl.LabelSpace.table(["a"], [[[1, 2]]]),
        "the column 'a' holds [1, 2] among other values … Use names, integers or booleans.",
    ),
    python(
        "attributes of infinity",
        lambda: dssl.LabelSpace.class_attributes([[np.inf, 0]]),
        "row 0, column 0 holds inf … Use 0, 1, or NaN where it is open.",
    ),
    python(
        "attributes in a cube",
        lambda: dssl.LabelSpace.class_attributes(np.zeros((2, 2, 2))),
        "a matrix of shape (2, 2, 2) … Give one row per class and one column per",
    ),
    python(
        "labels to learn rules from: none",
        lambda: dssl.learn_rules([]),
        "labels of shape (0,) … Give a matrix with one row per label and",
        DataError,
    ),
    python(
        "labels to learn rules from: text",
        lambda: dssl.learn_rules("abc"),
        "labels of shape () … Give a matrix with one row per label and",
        DataError,
    ),
]
DIMACS = [
    cnf("empty", b"", "line 1: there is no 'p cnf VARIABLES CLAUSES' line … Check that this is a DIMACS CNF file."),
    cnf("zero bytes", bytes(100), "line 1: a clause before the 'p cnf' line … Check that this is a DIMACS CNF file."),
    cnf("not text", b"\xff\xfe\xfd", "is not UTF-8 text (byte 0) … Save it as UTF-8, or check that it is", DataError),
    cnf(
        "a hundred million variables",
        "p cnf 99999999 1\n1 0\n",
        "line 1: 99,999,999 variables are more than 1,000,000 … Number the variables without gaps, from",
    ),
    cnf(
        "a header of 10^30",
        "p cnf 1" + "0" * 30 + " 1\n1 0\n",
        "line 1: 'p cnf 1000000000000000000000000000000 1' is not a … Expected: p cnf VARIABLES CLAUSES.",
    ),
    cnf(
        "a literal of a million digits",
        "p cnf 2 1\n" + "1" * 1_000_000 + " 0\n",
        "line 2: … Literals are integers; a clause ends",
    ),
    cnf(
        "digits of another script",
        "p cnf 2 1\n٣ 0\n",
        "line 2: the literal ٣ for 2 variables … Raise the count in the header.",
    ),
    cnf(
        "an infinite weight",
        "c p weight 1 inf 0\np cnf 1 1\n1 0\n",
        "line 1: the weight inf of literal 1 … Weights are finite and not negative.",
    ),
    cnf(
        "a weight of NaN",
        "c p weight 1 nan 0\np cnf 1 1\n1 0\n",
        "line 1: the weight nan of literal 1 … Weights are finite and not negative.",
    ),
    cnf(
        "a weight of no literal",
        "c p weight 9 0.5 0\np cnf 1 1\n1 0\n",
        "a weight for literal 9 of 1 variables … Raise the count.",
    ),
    cnf(
        "clauses that contradict",
        "p cnf 1 2\n1 0\n-1 0\n",
        "these rules contradict each other: no label obeys them all … Remove or weaken one of them: without any one",
        RuleError,
    ),
    cnf(
        "an empty clause",
        "p cnf 1 1\n0\n",
        "these rules contradict each other: no label obeys them all … Remove or weaken one of them: without any one",
        RuleError,
    ),
    cnf("no variables", "p cnf 0 0\n", "no variables are declared … Declare binary ones by name (legs,", RuleError),
    cnf("a million letters", "p cnf " + LONG, "line 1: 'p cnf … Expected: p cnf VARIABLES CLAUSES."),
]
ROWS = [
    rows("empty", b"", '"rows.csv" has no rows … Give at least one row.'),
    rows("zero bytes", bytes(1000), "values for 2 variables, in line 1 … Give one value for each variable"),
    rows("not text", b"\xff\xfe\xfd", "is not UTF-8 text (byte 0) … Save it as UTF-8."),
    rows("packed", lambda: gzip.compress(b"cat,1\n"), "is not UTF-8 text (byte 1) … Save it as UTF-8."),
    rows("a cell of a million letters", f"{LONG},1\n", "cannot be read: field larger than … Separate cells by commas."),
    rows("a page of HTML", "<!DOCTYPE html>\n<html>", "a row of 1 values for 2 variables … Give one value for each"),
    rows("tabs", "cat\t1\ndog\t0\n", "a row of 1 values for 2 variables, in line 1 … with commas between."),
    rows("a quote without an end", 'cat,"1\n', "cannot be read: unexpected end of data … Separate cells by commas."),
    rows("a value of another script", "cat,١\n", "'a' is binary and cannot be '١', in line 1 … Write 0 or 1."),
    rows("another file", "cat,1\n", "there is no file … The path is relative to the folder", file="row.csv"),
    rows("a folder", "cat,1\n", "is not a file … Name a CSV file.", file="."),
    rows("a device", "cat,1\n", "is not a file … Name a CSV file.", file="/dev/zero"),
    rows("an address", "cat,1\n", "is an address, not a file … Download it", file="file:///rows.csv"),
    rows("a zero byte in its name", "cat,1\n", "cannot be read: … that you may read", file="a\0b"),
]
CASES = FILES + ROWS + TEXTS + PYTHON + DIMACS
