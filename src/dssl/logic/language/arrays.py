"""Arrays of variables: an element is an ordinary variable whose name says its place, ``cell[1,9]``.

Nothing else knows of arrays. A space, a label or a column has elements only; the rule language reads ``cell[i, *]`` as
some of their names and prints elements that belong together as one line.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

from dssl.logic.language.quoting import ELEMENT, RESERVED, quoted
from dssl.logic.language.variables import Variable

Index = tuple[int | str, ...]
_BEGINS_A_NUMBER = frozenset("-0123456789")  # and no name


def element(array: str, index: Iterable[int | str]) -> str:
    """The name of one element.

    >>> element("cell", (1, 9))
    'cell[1,9]'
    """
    return f"{array}[{','.join(map(str, index))}]"


def place(name: str) -> tuple[str, Index] | None:
    """The array and index in an element's name; None for any other name.

    >>> place("has[cat,-2]")
    ('has', ('cat', -2))
    """
    if not name.endswith("]"):
        return None
    match = ELEMENT.match(name)
    if match is None:
        return None
    return match[1], tuple([int(part) if part[0] in _BEGINS_A_NUMBER else part for part in match[2].split(",")])


def can_index(word: str) -> bool:
    """Whether a word can stand in an index as it is."""
    return word not in RESERVED and place(element("x", (word,))) == ("x", (word,))


class Arrays:
    """The arrays among some variables."""

    def __init__(self, names: Iterable[str]) -> None:
        self.elements: dict[str, dict[Index, str]] = {}
        for name in names:
            found = place(name)
            if found is not None:
                self.elements.setdefault(found[0], {})[found[1]] = name
        self._slices: dict[tuple[str, tuple[bool, ...]], dict[Index, list[str]]] = {}

    def __contains__(self, array: str) -> bool:
        return array in self.elements

    def slice(self, array: str, index: Sequence[int | str | None]) -> list[str]:
        """The elements whose index agrees with this one, in the order of declaration; None agrees with everything."""
        free = tuple(part is None for part in index)
        if (array, free) not in self._slices:  # by the fixed part: a row of a large array is found at once
            groups: dict[Index, list[str]] = {}
            for found, name in self.elements[array].items():
                if len(found) == len(free):
                    fixed = tuple(part for part, any_ in zip(found, free) if not any_)
                    groups.setdefault(fixed, []).append(name)
            self._slices[array, free] = groups
        return self._slices[array, free].get(tuple(part for part in index if part is not None), [])

    def shape(self, array: str) -> str:
        """The indices of an array, for a message: ``cell[1..9, 1..9]``."""
        elements = list(self.elements[array])
        ranks = {len(index) for index in elements}
        if len(ranks) > 1:
            return f"{array}[…]"
        return f"{array}[{', '.join(axis_text(dict.fromkeys(axis)) for axis in zip(*elements))}]"


def axis_text(values: Iterable[int | str]) -> str:
    """The values of one index as rule text: a range, a single value, or a set."""
    given = list(values)
    numbers = [value for value in given if isinstance(value, int)]
    if len(given) == 1:
        return str(given[0])
    if len(numbers) == len(given) and numbers == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}..{numbers[-1]}"
    return "{" + ", ".join(map(str, given)) + "}"


def declarations(variables: Sequence[Variable]) -> Iterator[tuple[str, Variable]]:
    """What to write before the colon, and one variable that says what follows: an array is written as one."""
    at = 0
    while at < len(variables):
        run = _run(variables, at)
        yield (_array_text(run), run[0]) if len(run) > 1 else (quoted(run[0].name), run[0])
        at += len(run)


def _run(variables: Sequence[Variable], at: int) -> Sequence[Variable]:
    """The longest array that begins at `at`; a single variable if none does."""
    first = variables[at]
    found = place(first.name)
    if found is None or quoted(first.name) != first.name:
        return variables[at : at + 1]
    array, end, indices = found[0], at, []
    while end < len(variables):
        here = place(variables[end].name)
        if here is None or here[0] != array or len(here[1]) != len(found[1]) or not _alike(variables[end], first):
            break
        indices.append(here[1])
        end += 1
    axes = [list(dict.fromkeys(axis)) for axis in zip(*indices)]
    whole = list(itertools.islice(itertools.product(*axes), len(indices) + 1)) == indices
    return variables[at:end] if whole else variables[at : at + 1]


def _alike(a: Variable, b: Variable) -> bool:
    return a.kind == b.kind and (a.values is b.values or a.values == b.values)


def _array_text(run: Sequence[Variable]) -> str:
    return Arrays(variable.name for variable in run).shape(str(place(run[0].name)[0]))  # type: ignore[index]
