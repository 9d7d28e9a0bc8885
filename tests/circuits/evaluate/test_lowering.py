"""Steps from a circuit to a stream: sums of products that stay the same function."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings

from circuits.strategies import constraint_sets, naive_circuit
from dssl.circuits.evaluate.lowering import MOST_FACTORS, cut, depth_first, fold, fuse, share
from dssl.circuits.nodes import log_values


def value(root, node_ptr, product_ptr, factor, base, table) -> float:
    """The sum of products below a node, by recursion."""

    def of(x: int) -> float:
        return table[x] if x < base else node(x - base)

    def node(n: int) -> float:
        products = range(node_ptr[n], node_ptr[n + 1])
        return sum(math.prod(of(x) for x in factor[product_ptr[p] : product_ptr[p + 1]]) for p in products)

    return node(root)


@settings(max_examples=20, deadline=None)
@given(constraint_sets())
def test_every_step_keeps_the_function(constraints) -> None:
    c = naive_circuit(constraints)
    columns = int(c.starts[-1])
    base, table = 2 * columns + 2, np.ones(2 * columns + 2)
    true = np.random.default_rng(0).uniform(0.1, 0.9, columns)
    table[0:-2:2], table[1:-2:2], table[-1] = true, 1 - true, 0
    lone = np.zeros(columns, np.bool_)
    lone[c.starts[:-1][~c.categorical]] = True
    expected = np.exp(log_values(c.kind, c.literal, c.ptr, c.child, np.log(true), np.log1p(-true)))[-1]
    top, kinds, ptr, child = fold(c.kind, c.literal, c.ptr, c.child, lone)
    root, *sums = fuse(top, kinds, ptr, child, base)
    assert np.isclose(value(root, *sums, base, table), expected)
    shared = share(*sums, base)
    assert np.isclose(value(root, *shared, base, table), expected)
    assert depth_first(root, *shared, base)[-1] == root


def test_long_products_are_cut_and_mean_the_same() -> None:
    base, n = 402, 3 * MOST_FACTORS + 5
    table = np.ones(base)
    table[:n] = np.random.default_rng(0).uniform(0.9, 1.1, n)
    whole = np.array([0, 1]), np.array([0, n]), np.arange(n, dtype=np.int32)
    parts = cut(*whole, base)
    assert np.diff(parts[1]).max() <= MOST_FACTORS
    assert np.isclose(value(0, *parts, base, table), value(0, *whole, base, table))
