"""The twin of circuits in mpmath: `Exact` walks the nodes one by one, with multiplication and addition only.

Weights are given for every value of every block, [false, true] of a binary variable. They are divided by their sum over
the block, so that a variable which a branch does not mention counts 1 there (MATH §4, identities 1 and 7).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

from mpmath import mp, mpf

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, LITERAL, OR, TRUE

Blocks = list[list[Any]]  # of every block, of every value


class Dual:
    """A number and its derivative."""

    __slots__ = ("d", "x")

    def __init__(self, x: Any, d: Any = 0) -> None:
        self.x, self.d = x, d

    def __add__(self, other: Any) -> Dual:
        return Dual(self.x + other.x, self.d + other.d) if isinstance(other, Dual) else Dual(self.x + other, self.d)

    def __mul__(self, other: Any) -> Dual:
        if isinstance(other, Dual):
            return Dual(self.x * other.x, self.x * other.d + self.d * other.x)
        return Dual(self.x * other, self.d * other)

    def __truediv__(self, other: Dual) -> Dual:
        return Dual(self.x / other.x, (self.d - self.x / other.x * other.d) / other.x)

    def __rsub__(self, other: Any) -> Dual:
        return Dual(other - self.x, -self.d)

    __radd__, __rmul__ = __add__, __mul__


class Exact:
    """A circuit, walked node by node with numbers of any kind."""

    def __init__(self, circuit: Circuit) -> None:
        self.circuit = circuit
        self.kind, literal = circuit.kind.tolist(), circuit.literal.tolist()
        ptr, child = circuit.ptr.tolist(), circuit.child.tolist()
        self.children = [child[a:b] for a, b in pairwise(ptr)]
        block, starts = circuit.block_of_column.tolist(), circuit.starts.tolist()
        self.binary = (~circuit.categorical).tolist()
        self.place: list[tuple[int, int]] = []  # block and value that a literal names
        for number in literal:
            b = block[abs(number) - 1] if number else 0
            value = int(number > 0) if self.binary[b] else number - 1 - starts[b]
            self.place.append((b, value))
        self.soft: Blocks = [[1 - mpf(p), mpf(p)] for p in circuit.soft]

    def _forward(self, weights: Blocks) -> list[Any]:
        """Of every node, Σ of products of weights; they sum to one in every block, so that a free block counts 1."""
        out: list[Any] = []
        for kind, (b, k), children in zip(self.kind, self.place, self.children):
            if kind == LITERAL:
                out.append(weights[b][k])
            elif kind == AND:
                product = out[children[0]]
                for child in children[1:]:
                    product = product * out[child]
                out.append(product)
            elif kind == OR:
                total = out[children[0]]
                for child in children[1:]:
                    total = total + out[child]
                out.append(total)
            else:
                out.append(mpf(kind == TRUE))
        return out

    def marginals(self, weights: Blocks) -> tuple[Any, Blocks]:
        """The sum, and the probability of every value given that labels are valid."""
        value = self._forward(weights)
        slope: list[Any] = [0] * len(value)
        slope[-1] = mpf(1)
        flow: Blocks = [[0] * len(block) for block in weights]
        for node in range(len(value) - 1, -1, -1):
            kind, d = self.kind[node], slope[node]
            if isinstance(d, int):  # nobody uses it
                continue
            if kind == LITERAL:
                b, k = self.place[node]
                flow[b][k] = flow[b][k] + d * value[node] / value[-1]
            elif kind == OR:
                for child in self.children[node]:
                    slope[child] = slope[child] + d
            elif kind == AND:
                self._share(self.children[node], d, value, slope)
        out = []
        for block, flows in zip(weights, flow):
            rest = 1 - sum(flows, mpf(0))  # the part in which nothing mentions this variable
            out.append([f + rest * w for f, w in zip(flows, block)])
        return value[-1], out

    def _share(self, children: Sequence[int], d: Any, value: list[Any], slope: list[Any]) -> None:
        """The slope of every factor is d times the product of the others."""
        before = [d]
        for child in children[:-1]:
            before.append(before[-1] * value[child])
        after: Any = 1
        for child, sofar in zip(reversed(children), reversed(before)):
            slope[child] = slope[child] + sofar * after
            after = after * value[child]

    def largest(self, logs: Blocks) -> Any:
        """max over valid labels of the sum of logs whose maximum in every block is 0: a free block counts 0."""
        out: list[Any] = []
        for kind, (b, k), children in zip(self.kind, self.place, self.children):
            if kind == LITERAL:
                out.append(logs[b][k])
            elif kind == AND:
                out.append(sum([out[child] for child in children], mpf(0)))
            elif kind == OR:
                out.append(max(out[child] for child in children))
            else:
                out.append(mpf(0) if kind == TRUE else mpf("-inf"))
        return out[-1]

    def allows(self, label: Sequence[bool]) -> bool:
        """Whether a label (width,) is valid."""
        starts = self.circuit.starts.tolist()
        picked = [[not on[0], *on] if binary else on for on, binary in self._cut(label, starts)]
        picked += [[True, True] for _ in self.soft]
        return bool(self._forward([[mpf(on) for on in block] for block in picked])[-1])

    def _cut(self, row: Sequence[Any], starts: Sequence[int]) -> Iterator[tuple[list[Any], bool]]:
        hard = len(self.binary) - len(self.soft)
        for a, b, binary in zip(starts[:hard], starts[1:], self.binary):
            yield list(row[a:b]), binary

    def log_theta(self, logits: Sequence[float]) -> Blocks:
        """log θ of all values of the space's blocks."""
        out = []
        for z, binary in self._cut(logits, self.circuit.starts.tolist()):
            exact = [mpf(0), mpf(z[0])] if binary else [mpf(x) for x in z]
            top = max(exact)
            total = top + mp.log(mp.fsum(mp.exp(x - top) for x in exact))
            out.append([x - total for x in exact])
        return out

    @cached_property
    def mass(self) -> Answer:
        """Σ over valid labels of 1, or of what soft rules give them."""
        hard = len(self.binary) - len(self.soft)
        sizes = [2 if binary else b - a for binary, (a, b) in zip(self.binary, pairwise(self.circuit.starts.tolist()))]
        return answer(self, [[mpf(0)] * size for size in sizes[:hard]])

    @cached_property
    def steps(self) -> int:
        """P: the products and sums that lead to one label, at most."""
        out: list[int] = []
        for kind, children in zip(self.kind, self.children):
            if kind == AND:
                out.append(sum(out[child] for child in children) + len(children) - 1)
            elif kind == OR:
                out.append(max(out[child] for child in children) + len(children) - 1)
            else:
                out.append(1)
        return out[-1]


@dataclass(frozen=True)
class Answer:
    """What is true of one row's weights: log Σ, marginals of all values, and the bounds of `precision`."""

    log: Any
    marginals: Blocks
    bound: Any  # of log, in u
    bound_of_share: Any  # of a probability, in u


def answer(exact: Exact, logs: Blocks, power: float = 0.0) -> Answer:
    """The weighted count at log weights of values, soft rules on top. `power`: T, if the weights come from logits."""
    logs = [*logs, *([mp.log(w) for w in block] for block in exact.soft)]
    weights, totals = [], []
    for block in logs:
        top = max(block)
        total = top + mp.log(mp.fsum(mp.exp(x - top) for x in block))
        totals.append(total)
        weights.append([mp.exp(x - total) for x in block])
    value, mu = exact.marginals(weights)
    load = mp.fsum(m * abs(x) for ms, xs in zip(mu, logs) for m, x in zip(ms, xs) if m)
    share = load + exact.steps + (1 + mpf(power)) * len(logs)
    return Answer(mp.fsum(totals) + mp.log(value), mu, 4 * (share + len(logs) * mp.fsum(map(abs, totals))), 4 * share)


def entropy(exact: Exact, logs: Blocks) -> tuple[Any, Blocks]:
    """H(y | V) = log Σ − E[log w], and its derivatives −Cov·log w by the logs of the space's values."""
    logs = [*logs, *([mp.log(w) for w in block] for block in exact.soft)]
    weights, totals = [], []
    for block in logs:
        total = mp.log(mp.fsum(mp.exp(x) for x in block))
        share = [mp.exp(x - total) for x in block]
        mean = mp.fsum(s * x for s, x in zip(share, block))
        weights.append([Dual(s, s * (x - mean)) for s, x in zip(share, block)])
        totals.append(total)
    value, mu = exact.marginals(weights)
    log = mp.fsum(totals) + mp.log(value.x if isinstance(value, Dual) else value)  # a constant has no derivative
    h = log - mp.fsum(m.x * x for ms, xs in zip(mu, logs) for m, x in zip(ms, xs) if m.x)
    return h, [[-m.d for m in block] for block in mu]


def columns(exact: Exact, values: Blocks) -> list[Any]:
    """Of every column of the space, what its value true has."""
    hard = len(exact.binary) - len(exact.soft)
    return [x for block, binary in zip(values[:hard], exact.binary) for x in (block[1:] if binary else block)]
