"""Counting: how many labels a circuit allows, exactly, whatever their number.

The share of all labels that a node allows is a fraction, whose denominator is a product of sizes of blocks. Modulo a
prime that is larger than any block, a fraction is a number: literals weigh one over the size of their block, products
multiply, sums add, and the root times the number of all labels is the count modulo that prime. A few primes of 31
bits, whose product is larger than the number of all labels, determine the count. Beyond `MOST_BITS` that takes so
many primes that Python's integers are quicker.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.jit import entry
from dssl.circuits.nodes import AND, LITERAL, OR, TRUE

if TYPE_CHECKING:
    from dssl.circuits.circuit import Circuit

MOST_BITS = 20_000  # of the number of all labels, for counting by primes
SLICE = 1_000_000  # nodes that are dealt with before Python looks up, to see Ctrl-C
_WITNESSES = (2, 3, 5, 7)  # they distinguish primes from other numbers below 3,215,031,751


def models(c: Circuit) -> int:
    """The number of labels that a deterministic, decomposable circuit allows; soft rules never change it."""
    sizes = np.where(c.categorical, np.diff(c.starts), 2)
    hard = len(sizes) - len(c.soft)
    everything = _product(sizes[:hard].tolist())
    sizes[hard:] = 1
    of_literal = sizes[c.block_of_column[np.maximum(np.abs(c.literal) - 1, 0)]] if len(sizes) else c.literal
    count = _by_primes if everything.bit_length() <= MOST_BITS else _in_integers
    return count(c, everything, of_literal)


def _product(sizes: list[int]) -> int:
    """Of many small numbers: equal ones as powers, since one at a time takes quadratic time."""
    return math.prod(size**n for size, n in Counter(sizes).items())


def _by_primes(c: Circuit, everything: int, of_literal: NDArray[Any]) -> int:
    distinct, which = np.unique(of_literal, return_inverse=True)
    which = which.astype(np.int32)
    value = np.zeros(c.nodes, dtype=np.uint64)
    found, modulus, candidates = 0, 1, primes()
    while modulus <= everything:
        prime = next(candidates)
        inverse = np.array([pow(int(max(size, 1)), -1, prime) for size in distinct], dtype=np.uint64)
        for first in range(0, c.nodes, SLICE):
            last = min(first + SLICE, c.nodes)
            share_of_nodes(c.kind, which, inverse, c.ptr, c.child, value, np.uint64(prime), first, last)
        residue = int(value[-1]) * everything % prime
        found += modulus * ((residue - found) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    return found


def _in_integers(c: Circuit, everything: int, of_literal: NDArray[Any]) -> int:
    """Each node's number of labels over *all* hard variables, whether it mentions them or not.

    A conjunction multiplies such counts and divides by the number of all labels; the division is exact because
    the children share no variable. A literal divides by the size of its block, or by one for a soft rule.
    """
    # with binaries only, shifts beat divisions
    shift = everything.bit_length() - 1 if everything.bit_count() == 1 else 0
    kind, divisor, ptr, child = c.kind.tolist(), of_literal.tolist(), c.ptr.tolist(), c.child.tolist()
    counts = [0] * len(kind)  # of literals only when asked for: each has as many bits as there are variables

    def count(x: int) -> int:
        return everything // divisor[x] if kind[x] == LITERAL else counts[x]

    for node, k in enumerate(kind):
        if k == TRUE:
            counts[node] = everything
        elif k == OR:
            counts[node] = sum(count(x) for x in child[ptr[node] : ptr[node + 1]])
        elif k == AND:
            product, small = -1, []
            for x in child[ptr[node] : ptr[node + 1]]:
                if kind[x] == LITERAL:
                    small.append(divisor[x])
                elif product < 0:
                    product = counts[x]
                else:
                    product = product * counts[x] >> shift if shift else product * counts[x] // everything
            rest, by = everything if product < 0 else product, _product(small)
            counts[node] = rest >> by.bit_length() - 1 if by.bit_count() == 1 else rest // by
    return count(len(kind) - 1)


def primes() -> Iterator[int]:
    """Primes of 31 bits, the largest first.

    >>> it = primes()
    >>> next(it), next(it)
    (2147483647, 2147483629)
    """
    yield from filter(_is_prime, range(2**31 - 1, 2**30, -2))


def _is_prime(n: int) -> bool:
    """Miller and Rabin's test with witnesses that are never wrong for odd numbers of this size."""
    halvings = ((n - 1) & (1 - n)).bit_length() - 1
    for witness in _WITNESSES:
        x = pow(witness, (n - 1) >> halvings, n)
        if x == 1:
            continue
        for _ in range(halvings):
            if x == n - 1:
                break
            x = x * x % n
        else:
            return False
    return True


@entry
def share_of_nodes(kind, which, inverse, ptr, child, value, prime, begin, end):  # type: ignore[no-untyped-def]
    """The share of all labels that some nodes allow, modulo a prime."""
    one = np.uint64(1)
    for n in range(begin, end):
        total = np.uint64(0)
        if kind[n] == TRUE or kind[n] == AND:
            total = one
        elif kind[n] == LITERAL:
            total = inverse[which[n]]
        if kind[n] == AND:
            for k in range(ptr[n], ptr[n + 1]):
                total = total * value[child[k]] % prime
        elif kind[n] == OR:
            for k in range(ptr[n], ptr[n + 1]):
                total += value[child[k]]
            total %= prime
        value[n] = total
