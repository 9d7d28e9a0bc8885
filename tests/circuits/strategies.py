"""Random label spaces in normal form, and the plainest way from a normal form to a circuit.

`constraint_sets` draws `Constraints` of binaries, categoricals, clauses, sums and soft rules that can be enumerated.
`naive_circuit` expands them block by block, apart from the compiler, so tests of circuits do not rest on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from hypothesis import strategies as st

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.logic.reasoning.constraints import Constraints, Sum

# ---- random normal forms ----


@st.composite
def constraint_sets(draw: Callable, *, blocks: int = 6, soft: int = 2, choices: int = 1500) -> Constraints:
    """Constraints without hidden blocks, with at most `choices` combinations of visible values; may contradict."""
    sizes: list[int] = []
    categorical: list[bool] = []
    for _ in range(draw(st.integers(1, blocks))):
        kind = draw(st.booleans())
        size = draw(st.integers(1, 4)) if kind else 2
        if np.prod([*sizes, size]) <= choices:
            sizes.append(size)
            categorical.append(kind)
    visible = len(sizes)
    values = st.integers(0, sum(sizes) - 1)
    clauses = draw(
        st.lists(st.lists(values, min_size=min(2, sum(sizes)), max_size=5, unique=True).map(tuple), max_size=6)
    )
    sums = draw(st.lists(value_sums(sum(sizes)), max_size=2))
    probabilities = draw(st.lists(st.sampled_from([0.1, 0.5, 0.9, 0.99]), max_size=soft))
    for _ in probabilities:
        formula = draw(st.lists(values, min_size=1, max_size=3, unique=True))
        clauses += soft_rule(sizes[:visible], formula, true_value=sum(sizes) + 1)
        sizes.append(2)
        categorical.append(False)
    return Constraints(tuple(sizes), tuple(categorical), tuple(clauses), tuple(sums), visible, tuple(probabilities))


@st.composite
def value_sums(draw: Callable, total: int) -> Sum:
    """A sum over some of the values 0..total-1."""
    values = draw(st.lists(st.integers(0, total - 1), min_size=1, max_size=8, unique=True))
    coefficients = draw(st.lists(st.integers(-2, 3), min_size=len(values), max_size=len(values)))
    bounds = sorted(draw(st.lists(st.integers(-5, 12), min_size=2, max_size=4, unique=True)))
    return Sum(tuple(values), tuple(coefficients), tuple(zip(bounds[::2], bounds[1::2])))


def soft_rule(sizes: list[int], formula: list[int], true_value: int) -> list[tuple[int, ...]]:
    """Clauses that make a binary block true exactly when one of the values of `formula` is chosen."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    clauses = [(true_value - 1, *formula)]
    for value in formula:
        block = int(np.searchsorted(offsets, value, side="right")) - 1
        others = [v for v in range(offsets[block], offsets[block + 1]) if v != value]
        clauses.append((*others, true_value))
    return clauses


def literal_weights(circuit: Circuit, seed: int, *, evidence: float = 0.0, scale: float = 2.0) -> tuple:
    """Random log weights (width,), (width,) that do not sum to one; a share `evidence` of them is −inf."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(0, scale, (2, circuit.width))
    weights[rng.random(weights.shape) < evidence] = -np.inf
    return weights[0], weights[1]


def with_soft(circuit: Circuit, log_pos: np.ndarray, log_neg: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The weights with those of the soft rules behind, as the oracle's rows have their columns."""
    p = np.array(circuit.soft, dtype=float)
    return np.concatenate([log_pos, np.log(p)]), np.concatenate([log_neg, np.log1p(-p)])


# ---- circuits ----

Key = tuple[int, int, tuple[int, ...]]


def circuit_of(
    nodes: Iterable[Key], sizes: Iterable[int] = (), names: Iterable[str] = (), soft: Iterable[float] = ()
) -> Circuit:
    """A circuit from (kind, literal, children) in order; `sizes`: 0 for a binary block, d for a categorical one."""
    nodes, sizes = list(nodes), list(sizes)
    starts = np.cumsum([0, *(max(size, 1) for size in sizes)])
    names = tuple(names) or tuple(f"x{i + 1}" for i in range(starts[-1] - len(tuple(soft))))
    return Circuit(
        kind=np.array([kind for kind, _, _ in nodes]),
        literal=np.array([literal for _, literal, _ in nodes]),
        ptr=np.cumsum([0, *(len(children) for _, _, children in nodes)]),
        child=np.array([x for _, _, children in nodes for x in children]),
        starts=starts,
        categorical=np.array([size > 0 for size in sizes], dtype=bool),
        names=names,
        soft=tuple(soft),
    )


def naive_circuit(constraints: Constraints) -> Circuit:
    """Shannon expansion with components and memo: deterministic and decomposable, and not smooth."""
    return _Expansion(constraints).circuit()


Clauses = frozenset[tuple[int, ...]]
Sums = frozenset[
    tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]
]  # ((value, coefficient), …), intervals


class _Expansion:
    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints
        self.block = [b for b, size in enumerate(constraints.sizes) for _ in range(size)]
        self.nodes: list[Key] = [(FALSE, 0, ()), (TRUE, 0, ())]
        self.number = {key: i for i, key in enumerate(self.nodes)}
        self.memo: dict[tuple[Clauses, Sums], int] = {}
        widths = [size if kind else 1 for size, kind in zip(constraints.sizes, constraints.categorical)]
        self.starts = np.cumsum([0, *widths])

    def circuit(self) -> Circuit:
        c = self.constraints
        sums = frozenset((tuple(zip(s.values, s.coefficients)), s.intervals) for s in c.sums)
        root = self.expand(frozenset(tuple(sorted(set(clause))) for clause in c.clauses), sums)
        used = sorted(self.below(root))
        renumber = {node: i for i, node in enumerate(used)}
        nodes = [(k, lit, tuple(renumber[x] for x in ch)) for k, lit, ch in (self.nodes[n] for n in used)]
        sizes = [size if kind else 0 for size, kind in zip(c.sizes, c.categorical)]
        return circuit_of(nodes, sizes, soft=c.soft)

    def below(self, root: int) -> set[int]:
        seen, stack = {root}, [root]
        while stack:
            fresh = set(self.nodes[stack.pop()][2]) - seen
            seen |= fresh
            stack += fresh
        return seen

    def node(self, kind: int, children: list[int], literal: int = 0) -> int:
        unit, zero = (TRUE, FALSE) if kind == AND else (FALSE, TRUE)  # also the numbers of these nodes
        if kind != LITERAL:
            children = [x for x in children if x != unit]
            if kind == AND and zero in children:
                return zero
            if len(children) < 2:
                return children[0] if children else unit
        key = (kind, literal, tuple(children))
        if key not in self.number:
            self.number[key] = len(self.nodes)
            self.nodes.append(key)
        return self.number[key]

    def expand(self, clauses: Clauses, sums: Sums) -> int:
        """The node of what is left to satisfy."""
        if () in clauses or any(not values and not _inside(0, inside) for values, inside in sums):
            return FALSE
        sums = frozenset(s for s in sums if s[0])
        if (clauses, sums) not in self.memo:
            parts = self.components(clauses, sums)
            made = self.node(AND, [self.expand(*p) for p in parts]) if len(parts) != 1 else self.branch(clauses, sums)
            self.memo[clauses, sums] = made
        return self.memo[clauses, sums]

    def components(self, clauses: Clauses, sums: Sums) -> list[tuple[Clauses, Sums]]:
        """What is left, cut where no block is shared."""
        parts: list[tuple[set[int], list, list]] = []
        for item, slot in [*((x, 1) for x in clauses), *((x, 2) for x in sums)]:
            values = item if slot == 1 else [v for v, _ in item[0]]
            joined: tuple[set[int], list, list] = ({self.block[v] for v in values}, [], [])
            joined[slot].append(item)
            for part in [part for part in parts if part[0] & joined[0]]:
                parts.remove(part)
                joined = (joined[0] | part[0], joined[1] + part[1], joined[2] + part[2])
            parts.append(joined)
        return [(frozenset(c), frozenset(s)) for _, c, s in sorted(parts, key=lambda part: min(part[0]))]

    def branch(self, clauses: Clauses, sums: Sums) -> int:
        """Decide the first block that is mentioned; values with the same rest share a branch."""
        mentioned = {self.block[v] for x in clauses for v in x} | {self.block[v] for x in sums for v, _ in x[0]}
        block = min(mentioned)
        rests: dict[int, list[int]] = {}
        for v in range(self.constraints.offsets[block], self.constraints.offsets[block + 1]):
            rests.setdefault(self.expand(*self.choose(block, v, clauses, sums)), []).append(self.literal(block, v))
        if len(rests) == 1:
            return next(iter(rests))
        return self.node(OR, [self.node(AND, [self.node(OR, values), rest]) for rest, values in rests.items()])

    def choose(self, block: int, value: int, clauses: Clauses, sums: Sums) -> tuple[Clauses, Sums]:
        """What is left once `value` of `block` is chosen."""
        rest = frozenset(
            tuple(v for v in clause if self.block[v] != block) for clause in clauses if value not in clause
        )
        less = []
        for values, inside in sums:
            shift = dict(values).get(value, 0)
            kept = tuple((v, k) for v, k in values if self.block[v] != block)
            less.append((kept, tuple((low - shift, high - shift) for low, high in inside)))
        return rest, frozenset(less)

    def literal(self, block: int, value: int) -> int:
        index = value - self.constraints.offsets[block]
        column = int(self.starts[block]) + 1
        categorical = self.constraints.categorical[block]
        return self.node(LITERAL, [], column + index if categorical else column if index else -column)


def _inside(total: int, intervals: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= total <= high for low, high in intervals)
