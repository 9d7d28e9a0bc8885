"""Calls about many variables in the tree of a statement → one formula each: patterns, tables, sequences, graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dssl.errors import RuleError
from dssl.logic.language.arrays import place
from dssl.logic.language.constants import Scalar
from dssl.logic.language.formula import Formula, sum_text
from dssl.logic.language.quoting import Value
from dssl.logic.language.structures.automata import Regular, values_of
from dssl.logic.language.structures.graphs import GRAPHS, Chosen, ends_of
from dssl.logic.language.structures.patterns import PATTERNS, Operand, Pattern, Tuples
from dssl.logic.language.structures.rowfiles import FileRow, Listing, value_of
from dssl.logic.language.syntax import Call, FileRows, Flag, Listed, Node, Sequence
from dssl.logic.language.variables import Variable, listed, nearest, shown

if TYPE_CHECKING:
    from dssl.logic.language.expanding.expansion import Expander


class Structured:
    """Reads structures for an expander, which knows names, loops and numbers."""

    def __init__(self, expander: Expander) -> None:
        self.expander = expander

    def pattern(self, call: Call) -> Formula:
        function = call.token.text
        meaning = PATTERNS[function]
        operands = tuple(operand for arg in call.args for operand in self.expander.sums.operands(arg))
        if not meaning.count(len(operands)):
            self.expander.fail(
                call.token,
                f"{function}(…) of {len(operands)} variables",
                f"It takes {meaning.count_text}: {meaning.example}.",
            )
        for operand in operands:
            self._check_operand(call, operand)
        return Pattern(function, operands)

    def _check_operand(self, call: Call, operand: Operand) -> None:
        """An operand is one variable, of the kind that the pattern is about."""
        function, names = call.token.text, [x for _, x in operand if x is not None]
        meaning = PATTERNS[function]
        if len(names) != 1 or not isinstance(names[0], str):
            self.expander.fail(
                call.token, f"{function}(…) of '{shown(sum_text(operand))}'", "Each argument is about one variable."
            )
        bare, variable = operand == ((1, names[0]),), self.expander.scope[names[0]]
        if meaning.binary and not (bare and variable.binary):
            self.expander.fail(
                call.token,
                f"{function}(…) of '{shown(sum_text(operand))}', which is not binary",
                f"It takes {meaning.count_text}.",
            )
        if meaning.numeric or not bare:
            self.expander.placed(call.token, lambda: self.expander.scope.compare(operand, "<=", operand))

    def table(self, node: Listed) -> Formula:
        names = [name for column in node.columns for name in self.expander.columns(column)]
        if not node.rows:
            self.expander.fail(node.token, "a table without rows allows no label", "Give at least one row.")
        rows = []
        for row in node.rows:
            if len(row) != len(names):
                self.expander.fail(
                    row[0].token if row else node.token,
                    f"a row of {len(row)} values for {len(names)} variables",
                    "Give one value for each variable.",
                )
            rows.append(tuple(self.cell(name, item) for name, item in zip(names, row)))
        return Tuples(tuple(names), tuple(rows))

    def table_of_file(self, node: FileRows) -> Formula:
        """The rows of a file; errors point at its name and say in which line."""
        listing = node.listing
        columns = [self.expander.columns(column) for column in node.columns]
        names = [name for group in columns for name in group]
        order = self.expander.placed(listing, lambda: listing.order(columns))
        known: list[dict[str, Value]] = [{} for _ in names]
        rows = []
        for row in listing.rows:
            if len(row.cells) != len(names):
                self.expander.fail(
                    listing,
                    f"a row of {len(row.cells)} values for {len(names)} variables, in {listing.said(row)}",
                    "Give one value for each variable, with commas between.",
                )
            values = []
            for name, at, found in zip(names, order, known):
                cell = row.cells[at]
                if cell not in found:
                    found[cell] = self._value(listing, row, self.expander.scope[name], cell)
                values.append(found[cell])
            rows.append(tuple(values))
        return Tuples(tuple(names), tuple(rows))

    def _value(self, listing: Listing, row: FileRow, variable: Variable, cell: str) -> Value:
        try:
            return value_of(variable, cell)
        except RuleError as error:
            self.expander.fail(listing, f"{error.reason}, in {listing.said(row)}", error.remedy)

    def graph(self, call: Call) -> Formula:
        """Edges, each a variable whose name tells two vertices; a path's last two arguments are vertices."""
        function, args = call.token.text, list(call.args)
        between: tuple[Scalar, ...] = ()
        if function == "path":
            between = tuple(self.expander.constants.scalar(node) for node in args[-2:])
            args = args[:-2]
        names = [name for arg in args for name in self.expander.columns(arg) if not self._loop(name)]
        if not names or (function == "path" and len(set(between)) < 2):
            self.expander.fail(
                call.token, f"{function}(…) without {'two ends' if names else 'edges'}", f"Write {GRAPHS[function]}."
            )
        for name in names:
            if ends_of(name) is None or not self.expander.scope[name].binary:
                self.expander.fail(
                    call.token,
                    f"'{shown(name)}' is not an edge",
                    "An edge is a binary variable with two vertices: e[a, b].",
                )
        vertices = {str(end) for name in names for end in ends_of(name) or ()}
        for node, end in zip(call.args[-2:], between):
            if str(end) not in vertices:
                self.expander.fail(
                    node.token,
                    f"no edge begins or ends in '{shown(end)}'",
                    nearest(str(end), vertices) + f"The vertices: {listed(sorted(vertices))}.",
                )
        formula = Chosen(function, tuple(dict.fromkeys(names)), between)
        self.expander.placed(call.token, lambda: formula.diagram({}))
        return formula

    @staticmethod
    def _loop(name: str) -> bool:
        """Whether a name is that of an edge from a vertex to itself, as a whole array has them."""
        found = place(name)
        return found is not None and len(found[1]) == 2 and found[1][0] == found[1][1]

    def regular(self, node: Sequence) -> Formula:
        names = tuple(name for column in node.columns for name in self.expander.columns(column))
        formula = Regular(names, node.pattern)
        domains = {name: self.expander.scope[name].values for name in names}
        every = {value for name in names for value in domains[name]}
        for value in self.expander.placed(node.pattern_token, lambda: values_of(node.pattern)):
            if value not in every:
                self.expander.fail(
                    node.pattern_token,
                    f"no variable of regular(…) has the value '{shown(value)}'",
                    f"Their values: {listed(sorted(str(int(v) if isinstance(v, bool) else v) for v in every))}.",
                )
        self.expander.placed(node.pattern_token, lambda: formula.automaton(domains))
        return formula

    def cell(self, name: str, item: Node) -> Value:
        """A value of a row, checked against its variable."""
        value = item.value if isinstance(item, Flag) else self.expander.constants.scalar(item)
        self.expander.placed(item.token, lambda: self.expander.scope.member(name, (value,)))
        return bool(value) if self.expander.scope[name].binary else value
