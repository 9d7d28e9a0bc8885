"""Subsumption: clauses that say less than another are left out.

Rules written by a machine, as those of feature models are, can say the same thing many times over: of 15,692 clauses of
FreeBSD's, 2,091 say it all. Every step of a search looks at what is left of the clauses, so it pays to have few.
"""

from __future__ import annotations

from dataclasses import replace

from dssl.logic.reasoning.constraints import Constraints

PATIENCE = 5  # comparisons for each value of a clause, on average, after which the rest is kept as it is


def without_subsumed(constraints: Constraints) -> Constraints:
    """The same constraints without clauses that list all values of another, and perhaps more.

    >>> weak = Constraints((2, 2, 2), (False,) * 3, ((1, 3), (1, 3, 5), (0, 3)), (), visible=3)
    >>> without_subsumed(weak).clauses
    ((1, 3), (0, 3))
    """
    clauses = constraints.clauses
    lengths = [len(clause) for clause in clauses]
    if not clauses or min(lengths) == max(lengths):
        return constraints
    kept = _kept(constraints, lengths)
    if len(kept) == len(clauses):
        return constraints
    owners, rules = constraints.clause_owners, constraints.clause_rules
    return replace(
        constraints,
        clauses=tuple(clauses[k] for k in kept),
        clause_owners=tuple(owners[k] for k in kept) if owners else (),
        clause_rules=tuple(rules[k] for k in kept) if rules else (),
    )


def _kept(constraints: Constraints, lengths: list[int]) -> list[int]:
    """The numbers of the clauses to keep, rising.

    Each clause waits at one of its values; a longer one asks those that wait at any of its own.
    """
    owners = constraints.clause_owners or (-1,) * len(lengths)
    waiting: dict[int, list[tuple[frozenset[int], int]]] = {}
    kept: list[int] = []
    patience, longest = PATIENCE * sum(lengths), max(lengths)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    for place, k in enumerate(order):
        if patience < 0:
            return sorted(kept + order[place:])
        clause, owner, said = frozenset(constraints.clauses[k]), owners[k], False
        for shorter in filter(None, map(waiting.get, clause)):
            patience -= len(shorter)
            if any(other <= clause and may_speak_for(by, owner) for other, by in shorter):
                said = True
                break
        if not said:
            kept.append(k)
            if clause and lengths[k] < longest:
                rarest = min(clause, key=lambda v: len(waiting.get(v, ())))
                waiting.setdefault(rarest, []).append((clause, owner))
    return sorted(kept)


def may_speak_for(by: int, owner: int) -> bool:
    """Whether a clause owned by a block may stand for one owned by another: not if it can be dropped before it.

    A hidden block is dropped with the clauses that define it. One that no block owns stays until the end. Where it is
    itself what is left out, the block that owns the other one could not be dropped as long as it was open.
    """
    return by < 0 or owner < 0 or by == owner
