"""Exactly-one selections: literals of binary blocks of which exactly one holds, whatever else is chosen.

They are read out of sums and out of clauses (one clause with all the pairs that exclude each other). Disjoint
selections can each be taken as one decision with a value for every literal.
"""

from __future__ import annotations

from collections.abc import Iterator

from dssl.logic.reasoning.constraints import Constraints, Sum

Selection = tuple[tuple[int, int], ...]  # (binary block, the value that makes its literal hold)
SMALLEST = 3  # two literals, one true, are an equivalence: propagation alone serves them as well


def exactly_one_selections(constraints: Constraints) -> list[Selection]:
    """Disjoint selections, larger ones first.

    >>> from dssl.logic.reasoning.constraints import Constraints, Sum
    >>> one = Sum(values=(1, 3, 5), coefficients=(1, 1, 1), intervals=((1, 1),))
    >>> exactly_one_selections(Constraints((2, 2, 2), (False,) * 3, (), (one,), visible=3))
    [((0, 1), (1, 1), (2, 1))]
    """
    candidates = [*_from_sums(constraints), *_from_clauses(constraints)]
    taken: set[int] = set()
    chosen = []
    for selection in sorted(candidates, key=lambda selection: -len(selection)):
        blocks = {block for block, _ in selection}
        if len(blocks) == len(selection) >= SMALLEST and not blocks & taken:
            taken |= blocks
            chosen.append(selection)
    return chosen


def _shown_binaries(constraints: Constraints) -> dict[int, int]:
    """Block of each value of the binary blocks that appear in the circuit."""
    offsets = constraints.offsets
    shown = constraints.visible + len(constraints.soft)
    return {
        offsets[b] + v: b
        for b, (size, categorical) in enumerate(zip(constraints.sizes[:shown], constraints.categorical))
        if size == 2 and not categorical
        for v in range(2)
    }


def _from_sums(constraints: Constraints) -> Iterator[Selection]:
    block_of = _shown_binaries(constraints)
    owners = constraints.sum_owners or (-1,) * len(constraints.sums)
    for s, owner in zip(constraints.sums, owners):
        if owner not in constraints.hidden and all(v in block_of for v in s.values):
            selection = _selection_of_sum(s, block_of, constraints.offsets)
            if selection is not None:
                yield selection


def _selection_of_sum(s: Sum, block_of: dict[int, int], offsets: tuple[int, ...]) -> Selection | None:
    """The literals of which the sum demands exactly one, where that is what it says."""
    rise: dict[int, list[int]] = {}
    for v, c in zip(s.values, s.coefficients):
        b = block_of[v]
        rise.setdefault(b, [0, 0])[v - offsets[b]] += c
    base = sum(min(pair) for pair in rise.values())
    steps = {abs(one - zero) for zero, one in rise.values()}
    if len(steps) != 1 or 0 in steps:
        return None
    step = steps.pop()
    held = [k for k in range(len(rise) + 1) if any(low <= base + k * step <= high for low, high in s.intervals)]
    if held == [1]:
        return tuple((b, int(one > zero)) for b, (zero, one) in rise.items())
    if held == [len(rise) - 1]:
        return tuple((b, int(one < zero)) for b, (zero, one) in rise.items())
    return None


def _from_clauses(constraints: Constraints) -> Iterator[Selection]:
    block_of = _shown_binaries(constraints)
    owners = constraints.clause_owners or (-1,) * len(constraints.clauses)
    usable = [
        clause
        for clause, owner in zip(constraints.clauses, owners)
        if owner not in constraints.hidden and all(v in block_of for v in clause)
    ]
    offsets = constraints.offsets
    pairs = {frozenset(clause) for clause in usable if len(clause) == 2}
    if not pairs:
        return

    def other(v: int) -> int:
        b = block_of[v]
        return 2 * offsets[b] + 1 - v

    for clause in usable:
        literals = sorted(set(clause))
        if len(literals) >= SMALLEST and all(
            frozenset((other(v), other(w))) in pairs for i, v in enumerate(literals) for w in literals[:i]
        ):
            yield tuple((block_of[v], v - offsets[block_of[v]]) for v in literals)
