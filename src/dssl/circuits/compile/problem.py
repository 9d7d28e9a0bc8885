"""Problem: constraints as the flat arrays that the search reads.

Blocks here are what the search branches on: a block of the constraints, or a *selection*: several binary blocks, of
which exactly one literal holds, taken as one block with a value for each literal. The part of a clause that lies in one
block is a *share*: the values listed are those inside the clause or, where that is shorter, those outside it, so a
literal "not this one of 1,000" is a list of one. The part of a sum that lies in one block is a *term*, with a
coefficient for each of the block's values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import gcd
from typing import NamedTuple

import numpy as np

from dssl.circuits.compile.records import (
    B_DOMAIN,
    B_FIRST,
    B_FREE,
    B_HIDDEN,
    B_SHARES,
    B_TERMS,
    C_LIVE,
    C_OWNER,
    C_SHARES,
    S_BLOCK,
    S_CLAUSE,
    S_LISTED,
    S_OUTSIDE,
    S_VALUES,
    T_BLOCK,
    T_COEFFICIENTS,
    T_HIGH,
    T_LOW,
    T_SUM,
    V_ALIVE,
    V_BLOCK,
    V_USES,
    Z_GAP,
    Z_HIGH,
    Z_INTERVALS,
    Z_LOW,
    Z_OWNER,
    Z_SPREAD,
    Z_TERMS,
    Bools,
    Hashes,
    Ints,
    Longs,
    Problem,
)
from dssl.circuits.compile.selections import Selection
from dssl.errors import BudgetError, RuleError
from dssl.logic.reasoning.constraints import Constraints, Sum, merged

LARGEST = 1 << 61  # greatest total of a sum: the search adds a few such numbers


class Layout(NamedTuple):
    """Where the values of the constraints went: block and, inside it, value; for selections the literal's position."""

    blocks: tuple[tuple[int, ...], ...]  # blocks of the constraints in each block of the problem
    home_of: tuple[int, ...]  # of each block of the constraints: its block in the problem
    position: tuple[int, ...]  # of each block of the constraints: its position in a selection, -1 outside selections
    true_value: tuple[int, ...]  # the value that makes its literal in the selection hold
    sizes: tuple[int, ...]  # values of each block of the problem


def lay_out(constraints: Constraints, selections: Sequence[Selection]) -> Layout:
    """Each selection becomes one block, standing where its first member stood."""
    member = {
        block: (g, k, value) for g, selection in enumerate(selections) for k, (block, value) in enumerate(selection)
    }
    blocks: list[tuple[int, ...]] = []
    sizes: list[int] = []
    home: dict[int, int] = {}
    home_of, position, true_value = [], [], []
    for block, size in enumerate(constraints.sizes):
        g, k, value = member.get(block, (-1, -1, -1))
        if g < 0 or g not in home:
            if g >= 0:
                home[g] = len(blocks)
            blocks.append((block,) if g < 0 else tuple(b for b, _ in selections[g]))
            sizes.append(size if g < 0 else len(selections[g]))
        home_of.append(home[g] if g >= 0 else len(blocks) - 1)
        position.append(k)
        true_value.append(value)
    return Layout(tuple(blocks), tuple(home_of), tuple(position), tuple(true_value), tuple(sizes))


def build(constraints: Constraints, layout: Layout) -> Problem | None:
    """The arrays of the problem, or None where a constraint can never be met."""
    start = _starts(layout.sizes)
    original = np.repeat(np.arange(len(constraints.sizes)), constraints.sizes).tolist()
    hidden = np.array([members[0] in constraints.hidden for members in layout.blocks], dtype=bool)
    clauses = _clauses(constraints, layout, start.tolist(), original)
    sums = _sums(constraints, layout, original)
    if clauses is None or sums is None:
        return None
    return _tables(layout, hidden, clauses, sums)


Shares = tuple[list[int], list[int], list[int], list[int]]  # blocks, values outside are listed, how many, values
Term = tuple[int, list[int]]  # block, coefficient of each value
Total = tuple[int, list[Term], list[tuple[int, int]]]  # owner, terms, intervals


class Clauses(NamedTuple):
    """Clauses and their shares, one list for each column: there can be many."""

    owner: list[int]
    length: list[int]  # shares of each
    block: list[int]  # of each share
    outside: list[int]
    listing: list[int]  # how many values it lists
    listed: list[int]  # values

    def add(self, owner: int, shares: Shares) -> None:
        """Put a clause behind the others."""
        self.owner.append(owner)
        self.length.append(len(shares[0]))
        for column, more in zip(self[2:], shares):
            column.extend(more)


def _tables(layout: Layout, hidden: Bools, clauses: Clauses, sums: list[Total]) -> Problem:
    value, block = _value_and_block(layout, hidden)
    share, clause, listed = _share_and_clause(clauses)
    term, total, coefficient, interval = _term_and_total(sums)
    shares, terms = np.arange(len(share) - 1), np.arange(len(term) - 1)
    lists: list[Ints] = []
    value[:, V_USES] = _append(lists, *_invert(np.repeat(shares, share[:-1, S_LISTED]), listed, len(value) - 1))
    block[:, B_SHARES] = _append(lists, *_invert(shares, share[:-1, S_BLOCK], len(block) - 1))
    block[:, B_TERMS] = _append(lists, *_invert(terms, term[:-1, T_BLOCK], len(block) - 1))
    share[:, S_VALUES] = _append(lists, _starts(share[:-1, S_LISTED]), listed)
    return Problem(
        value=value,
        block=block,
        share=share,
        clause=clause,
        term=term,
        total=total,
        lists=np.concatenate(lists),
        coefficient=coefficient,
        interval=interval,
        key=_keys(value, len(block), len(clause) + len(total)),
        changed=np.zeros((len(coefficient) + 1, 3), dtype=np.int64),
        marks=np.zeros(9, dtype=np.int64),
    )


def _value_and_block(layout: Layout, hidden: Bools) -> tuple[Ints, Ints]:
    value = np.zeros((sum(layout.sizes) + 1, 4), dtype=np.int32)
    block = np.zeros((len(layout.sizes) + 1, 14), dtype=np.int32)
    value[:-1, V_BLOCK] = np.repeat(np.arange(len(layout.sizes)), layout.sizes)
    value[:, V_ALIVE] = 1
    block[:, B_FIRST] = _starts(layout.sizes)
    block[:-1, B_FREE] = [len(members) == 1 for members in layout.blocks]
    block[:-1, B_HIDDEN] = hidden
    block[:-1, B_DOMAIN] = layout.sizes
    return value, block


def _share_and_clause(given: Clauses) -> tuple[Ints, Ints, Ints]:
    """The two tables, and the values that the shares list."""
    share = np.zeros((len(given.block) + 1, 5), dtype=np.int32)
    clause = np.zeros((len(given.owner) + 1, 7), dtype=np.int32)
    clause[:, C_SHARES] = _starts(given.length)
    clause[:-1, C_OWNER] = given.owner
    clause[:-1, C_LIVE] = given.length
    share[:-1, S_CLAUSE] = np.repeat(np.arange(len(given.owner)), given.length)
    share[:-1, S_BLOCK] = given.block
    share[:-1, S_OUTSIDE] = given.outside
    share[:-1, S_LISTED] = given.listing
    return share, clause, np.array(given.listed, dtype=np.int32)


def _term_and_total(sums: list[Total]) -> tuple[Longs, Longs, Longs, Longs]:
    """The two tables, the coefficients of the terms and the intervals of the sums."""
    terms = [term for _, parts, _ in sums for term in parts]
    term = np.zeros((len(terms) + 1, 5), dtype=np.int64)
    total = np.zeros((len(sums) + 1, 11), dtype=np.int64)
    total[:, Z_TERMS] = _starts(len(parts) for _, parts, _ in sums)
    total[:, Z_INTERVALS] = _starts(len(intervals) for _, _, intervals in sums)
    total[:-1, Z_OWNER] = [owner for owner, _, _ in sums]
    total[:-1, Z_GAP] = [_gap(intervals) for _, _, intervals in sums]
    total[:-1, Z_SPREAD] = [max(max(c) - min(c) for _, c in parts) for _, parts, _ in sums]
    total[:-1, Z_LOW] = [sum(min(c) for _, c in parts) for _, parts, _ in sums]
    total[:-1, Z_HIGH] = [sum(max(c) for _, c in parts) for _, parts, _ in sums]
    term[:-1, T_SUM] = np.repeat(np.arange(len(sums)), np.diff(total[:, Z_TERMS]))
    term[:-1, T_BLOCK] = [b for b, _ in terms]
    term[:, T_COEFFICIENTS] = _starts(len(c) for _, c in terms)
    term[:-1, T_LOW] = [min(c) for _, c in terms]
    term[:-1, T_HIGH] = [max(c) for _, c in terms]
    coefficient = np.array([c for _, coefficients in terms for c in coefficients], dtype=np.int64)
    interval = np.array([i for _, _, intervals in sums for i in intervals], dtype=np.int64).reshape(-1, 2)
    return term, total, coefficient, interval


def _keys(value: Ints, blocks: int, others: int) -> Hashes:
    """Random numbers for values, clauses and sums; a block's is the sum of those of its living values."""
    values = len(value)
    key = np.random.default_rng(20).integers(0, 2**64, (values + blocks + others, 2), dtype=np.uint64)
    key[values : values + blocks] = 0
    np.add.at(key, values + value[:-1, V_BLOCK], key[: values - 1])
    return key


def _append(lists: list[Ints], start: Ints, items: Ints) -> Ints:
    """Put the items behind the lists so far; where each list starts then."""
    before = sum(len(part) for part in lists)
    lists.append(items)
    return start + before


def _clauses(constraints: Constraints, layout: Layout, start: list[int], original: list[int]) -> Clauses | None:
    """The clauses that are not always true; None where one can never be met."""
    owners = constraints.clause_owners or (-1,) * len(constraints.clauses)
    offsets, home = constraints.offsets, layout.home_of
    unusual = {v for v, b in enumerate(original) if layout.position[b] >= 0 or constraints.sizes[b] != 2}
    place = [start[home[b]] + v - offsets[b] for v, b in enumerate(original)]
    seen: set[tuple[int, ...]] = set()
    out = Clauses([], [], [], [], [], [])
    for clause, owner in zip(constraints.clauses, owners):
        if not clause:
            return None
        values = sorted(set(clause))
        blocks = [original[v] for v in values]
        shares: Shares | None
        if not unusual.isdisjoint(values):
            shares = _shares(values, blocks, layout, start, offsets)
        elif len(set(blocks)) < len(blocks):
            shares = None
        else:  # a fast path for the usual case: each share lists one value
            one = [1] * len(values)
            shares = [home[b] for b in blocks], [0] * len(values), one, [place[v] for v in values]
        if shares is None:
            continue
        owned = _owner(owner, layout, constraints, shares[0]) if owner >= 0 else -1
        key = (*shares[3], *shares[1], *shares[2])
        if owned >= 0 or key not in seen:
            out.add(owned, shares)
            if owned < 0:
                seen.add(key)
    return out


def _shares(
    values: list[int], blocks: list[int], layout: Layout, start: list[int], offsets: tuple[int, ...]
) -> Shares | None:
    """The shares of a clause, or None where it is always true."""
    inside: dict[int, set[int]] = {}
    outside: dict[int, int] = {}  # selection -> the only position outside
    for v, b in zip(values, blocks):
        g, k = layout.home_of[b], layout.position[b]
        if k < 0:
            inside.setdefault(g, set()).add(v - offsets[b])
        elif v - offsets[b] == layout.true_value[b]:
            inside.setdefault(g, set()).add(k)
        elif outside.setdefault(g, k) != k:
            return None
    shares: Shares = [], [], [], []
    for g in sorted(inside.keys() | outside.keys()):
        size, listed = layout.sizes[g], inside.get(g, set())
        if g in outside and outside[g] not in listed:
            listed = set(range(size)) - {outside[g]}
        elif g in outside or len(listed) == size:
            return None
        flip = size > 4 and 2 * len(listed) > size
        picked = sorted(set(range(size)) - listed) if flip else sorted(listed)
        shares[0].append(g)
        shares[1].append(flip)
        shares[2].append(len(picked))
        shares[3].extend(start[g] + k for k in picked)
    return shares


def _sums(constraints: Constraints, layout: Layout, original: list[int]) -> list[Total] | None:
    """Owner, terms and intervals of each sum that is not always met; None where one can never be."""
    owners = constraints.sum_owners or (-1,) * len(constraints.sums)
    out = []
    for s, owner in zip(constraints.sums, owners):
        terms, base = _terms(s, constraints, layout, original)
        terms, intervals, high = _reduced(terms, [(a - base, b - base) for a, b in s.intervals])
        if not intervals:
            return None
        if intervals != [(0, high)]:
            _refuse_large(terms, high)
            out.append((_owner(owner, layout, constraints, [g for g, _ in terms]), terms, intervals))
    return out


def _reduced(terms: list[Term], intervals: list[tuple[int, int]]) -> tuple[list[Term], list[tuple[int, int]], int]:
    """The same sum with terms that begin at 0 and no common divisor, where it holds, and its greatest total."""
    low = sum(min(c) for _, c in terms)
    unit = gcd(*(x - min(c) for _, c in terms for x in c)) or 1
    terms = [(g, [(x - min(c)) // unit for x in c]) for g, c in terms]
    high = sum(max(c) for _, c in terms)
    clipped = [(max(-((low - a) // unit), 0), min((b - low) // unit, high)) for a, b in intervals]
    return terms, merged(clipped), high


def _refuse_large(terms: list[Term], high: int) -> None:
    if high > LARGEST:
        raise RuleError(
            f"a sum of {len(terms)} variables has totals up to {high:,} apart, and the compiler can deal with "
            f"{LARGEST:,}",
            remedy="Use smaller or rounder coefficients.",
        )


def _terms(s: Sum, constraints: Constraints, layout: Layout, original: list[int]) -> tuple[list[Term], int]:
    """Terms whose coefficients differ within the block, and what the others always add."""
    offsets = constraints.offsets
    per_block: dict[int, list[int]] = {}
    for v, c in zip(s.values, s.coefficients):
        b = original[v]
        g, k = layout.home_of[b], layout.position[b]
        coefficients = per_block.setdefault(g, [0] * (layout.sizes[g] + 1))  # the last adds to every value
        if k < 0:
            coefficients[v - offsets[b]] += c
        elif v - offsets[b] == layout.true_value[b]:
            coefficients[k] += c
        else:
            coefficients[k] -= c
            coefficients[-1] += c
    terms, base = [], 0
    for g in sorted(per_block):
        *coefficients, shared = per_block[g]
        base += shared
        if min(coefficients) == max(coefficients):
            base += coefficients[0]
        else:
            terms.append((g, coefficients))
    return terms, base


def _owner(owner: int, layout: Layout, constraints: Constraints, used: list[int]) -> int:
    """The hidden block that a constraint defines, or -1; soft blocks are never dropped, so they own nothing here."""
    if owner not in constraints.hidden or layout.home_of[owner] not in used:
        return -1
    return layout.home_of[owner]


def _gap(intervals: list[tuple[int, int]]) -> int:
    return max((b[0] - a[1] - 1 for a, b in pairwise(intervals)), default=0)


def _starts(sizes: Iterable[int]) -> Ints:
    start = np.concatenate([[0], np.cumsum(np.fromiter(sizes, dtype=np.int64))])
    if start[-1] > np.iinfo(np.int32).max:
        raise BudgetError(
            f"the rules list {start[-1]:,} values, more than the compiler can number. Drop or split rules, or ask for "
            'relaxation="clauses".'
        )
    return start.astype(np.int32)


def _invert(item: Longs, key: Ints | Longs, keys: int) -> tuple[Ints, Ints]:
    """For each key the items that have it, in order."""
    start = np.concatenate([[0], np.cumsum(np.bincount(key, minlength=keys))]).astype(np.int32)
    return start, item[np.argsort(key, kind="stable")].astype(np.int32)
