"""Lowering: the loops that turn the arrays of a circuit into the stream of a program, step by step (see `program`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.evaluate.words import END, FIRST, HEAD, LAST, LOGGED, SLOT, TAIL, TOUCH
from dssl.circuits.jit import allocating, unlocked
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE

MOST_FACTORS = 64  # factors of a product
_BITS = 120  # of a mantissa before it must be normalised
_GAIN = 3  # loads that a shared product must save to get a slot: its own factors, a store, and the branch

Ints = NDArray[np.int32]


@unlocked
def fold(
    kind: NDArray[np.int8], literal: Ints, ptr: NDArray[np.int64], child: Ints, lone: NDArray[np.bool_]
) -> tuple[int, NDArray[np.int8], NDArray[np.int64], Ints]:
    """Fold constants and single children away: (root, kind of each node, children in compressed rows).

    Children and root are ids: slots of literals and constants, and ``base + n`` for node n.
    """
    nodes, one = len(kind), 2 * len(lone)
    zero, base = one + 1, one + 2
    alias = np.empty(nodes, np.int32)
    new_ptr = np.zeros(nodes + 1, np.int64)
    new_child = np.empty(len(child), np.int32)
    end = 0
    for n in range(nodes):
        start = end
        if kind[n] == LITERAL:
            alias[n] = 2 * abs(literal[n]) - 2 + (literal[n] < 0)
        elif kind[n] == TRUE or kind[n] == FALSE:
            alias[n] = one if kind[n] == TRUE else zero
        else:
            neutral, absorbing = (one, zero) if kind[n] == AND else (zero, -1)
            for j in range(ptr[n], ptr[n + 1]):
                x = alias[child[j]]
                if x == absorbing:
                    new_child[start], end = absorbing, start + 1
                    break
                if x != neutral:
                    new_child[end] = x
                    end += 1
            first = new_child[start] if end > start else neutral
            if end - start <= 1:
                alias[n], end = first, start
            elif kind[n] == OR and end - start == 2 and first < one and first ^ 1 == new_child[start + 1]:
                alias[n], end = (one, start) if lone[first >> 1] else (base + n, end)
            else:
                alias[n] = base + n
        new_ptr[n + 1] = end
    return alias[nodes - 1], kind, new_ptr, new_child[:end]


@unlocked
def fuse(
    top: int, kind: NDArray[np.int8], ptr: NDArray[np.int64], child: Ints, base: int
) -> tuple[int, NDArray[np.int64], NDArray[np.int64], Ints]:
    """Nodes as sums of products: (root's number, products of each node, factors of each product, factors).

    A factor is a slot of a literal or constant, or ``base +`` the number of a node.
    """
    if top < base:
        return 0, np.array([0, 1]), np.array([0, 1]), np.array([top], np.int32)
    number, nodes, most = _number(top, kind, ptr, child, base)
    node_ptr, product_ptr = np.zeros(nodes + 1, np.int64), np.zeros(most + 1, np.int64)
    factor = np.empty(most, np.int32)
    products = factors = 0
    terms, parts = [top], [top]  # stacks: what is left of a sum, and of one of its products
    terms.clear()
    parts.clear()
    for n in range(len(kind)):
        if number[n] < 0:
            continue
        terms.append(base + n)
        while len(terms) > 0:
            t = terms.pop()
            if _opened(t - base, OR, n, kind, number):
                terms.extend(child[ptr[t - base] : ptr[t - base + 1]][::-1])
                continue
            parts.append(t)
            while len(parts) > 0:
                x = parts.pop()
                if _opened(x - base, AND, n, kind, number):
                    parts.extend(child[ptr[x - base] : ptr[x - base + 1]][::-1])
                else:
                    factor[factors] = x if x < base else base + number[x - base]
                    factors += 1
            products += 1
            product_ptr[products] = factors
        node_ptr[number[n] + 1] = products
    return number[top - base], node_ptr, product_ptr[: products + 1], factor[:factors]


@allocating
def _opened(x: int, wanted: int, n: int, kind: NDArray[np.int8], number: Ints) -> bool:
    """Whether x is a node of the wanted kind whose children are written as part of node n."""
    return x >= 0 and kind[x] == wanted and (x == n or number[x] < 0)


@allocating
def _number(top: int, kind: NDArray[np.int8], ptr: NDArray[np.int64], child: Ints, base: int) -> tuple[Ints, int, int]:
    """Numbers of the nodes that get a slot, −1 for those that are part of what uses them; how many; all factors."""
    uses = np.zeros(len(kind), np.int64)
    parent = np.full(len(kind), -1, np.int32)
    uses[top - base] = 1
    for n in range(len(kind) - 1, -1, -1):
        if uses[n] > 0:
            for j in range(ptr[n], ptr[n + 1]):
                if child[j] >= base:
                    uses[child[j] - base] += 1
                    parent[child[j] - base] = n
    number = np.full(len(kind), -1, np.int32)
    size = np.ones(len(kind), np.int64)  # factors written where a node is used
    nodes = factors = 0
    for n in range(len(kind)):
        if uses[n] == 0:
            continue
        whole = 0
        for j in range(ptr[n], ptr[n + 1]):
            whole += size[child[j] - base] if child[j] >= base else 1
        if kind[n] == AND:
            part = uses[n] == 1 or uses[n] * (whole - 1) < whole + _GAIN
        else:
            part = uses[n] == 1 and kind[parent[n]] == OR
        if part and base + n != top:
            size[n] = whole
        else:
            number[n] = nodes
            nodes, factors = nodes + 1, factors + whole
    return number, nodes, factors


@unlocked
def share(
    node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Ints]:
    """Give products of literals that occur often a node of their own."""
    nodes, products = len(node_ptr) - 1, len(product_ptr) - 1
    literals = np.zeros(products, np.int64)  # literals of each product, sorted to its front
    for p in range(products):
        row = factor[product_ptr[p] : product_ptr[p + 1]]
        row.sort()
        literals[p] = np.searchsorted(row, base - 2)
    leader, count = _equal_fronts(product_ptr, factor, literals)
    saved = count * (literals - 1) - literals
    worth = (leader == np.arange(products)) & (saved >= _GAIN)
    shared = np.where(worth, nodes - 1 + np.cumsum(worth), -1)  # of leaders: the node of their literals
    new_product = np.zeros(products + worth.sum() + 1, np.int64)
    new_factor = np.empty(len(factor) - saved[worth].sum(), np.int32)
    end = 0
    for p in range(products):
        start, n = product_ptr[p], shared[leader[p]]
        if n >= 0:
            new_factor[end] = base + n
            end, start = end + 1, start + literals[p]
        end = _copied(factor, start, product_ptr[p + 1], new_factor, end)
        new_product[p + 1] = end
    for first in np.flatnonzero(worth):
        start = product_ptr[first]
        end = _copied(factor, start, start + literals[first], new_factor, end)
        new_product[products + shared[first] - nodes + 1] = end
    return np.append(node_ptr, np.arange(products + 1, len(new_product))), new_product, new_factor


@allocating
def _copied(source: Ints, start: int, stop: int, target: Ints, end: int) -> int:
    """Copy a part of `source` to the place `end` of `target`; returns the place after it."""
    target[end : end + stop - start] = source[start:stop]
    return end + stop - start


@allocating
def _equal_fronts(
    product_ptr: NDArray[np.int64], factor: Ints, literals: NDArray[np.int64]
) -> tuple[NDArray[np.int64], Ints]:
    """The first product that begins with the same literals as each product, and how many have it as their first."""
    products = len(literals)
    leader = np.arange(products)
    count = np.zeros(products, np.int32)
    mask = 1
    while mask < 2 * products:
        mask *= 2
    table = np.full(mask, -1, np.int64)
    mask -= 1
    for p in range(products):
        k, start = literals[p], product_ptr[p]
        if k >= 2:
            key = np.uint64(k)
            for j in range(start, start + k):
                key = (key ^ np.uint64(factor[j])) * np.uint64(0x9E3779B97F4A7C15)
                key ^= key >> np.uint64(29)
            cell = np.int64(key & np.uint64(mask))
            while table[cell] >= 0:
                q = table[cell]
                if literals[q] == k and np.all(
                    factor[start : start + k] == factor[product_ptr[q] : product_ptr[q] + k]
                ):
                    leader[p] = q
                    break
                cell = (cell + 1) & mask
            table[cell] = leader[p]
        count[leader[p]] += 1
    return leader, count


@unlocked
def cut(
    node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Ints]:
    """Make every 64 factors of a longer product a node of its own. One pass: very long products need another."""
    nodes, products = len(node_ptr) - 1, len(product_ptr) - 1
    sizes = product_ptr[1:] - product_ptr[:-1]
    extra = np.where(sizes > MOST_FACTORS, (sizes + MOST_FACTORS - 1) // MOST_FACTORS, 0)
    total = extra.sum()
    new_node = np.empty(nodes + total + 1, np.int64)
    new_product = np.empty(products + total + 1, np.int64)
    new_factor = np.empty(len(factor) + total, np.int32)
    new_node[: nodes + 1] = node_ptr
    new_product[0] = end = 0
    made = 0
    for p in range(products):
        if extra[p] > 0:
            new_factor[end : end + extra[p]] = np.arange(base + nodes + made, base + nodes + made + extra[p])
            end, made = end + extra[p], made + extra[p]
        else:
            new_factor[end : end + sizes[p]] = factor[product_ptr[p] : product_ptr[p + 1]]
            end += sizes[p]
        new_product[p + 1] = end
    made = 0
    for p in range(products):
        for i in range(extra[p]):
            part = factor[
                product_ptr[p] + i * MOST_FACTORS : min(product_ptr[p] + (i + 1) * MOST_FACTORS, product_ptr[p + 1])
            ]
            new_factor[end : end + len(part)] = part
            end, made = end + len(part), made + 1
            new_product[products + made] = end
            new_node[nodes + made] = products + made
    return new_node, new_product, new_factor


@unlocked
def depth_first(
    root: int, node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> Ints:
    """The nodes in depth-first order, parts before what they are part of, the root last."""
    order = np.empty(len(node_ptr) - 1, np.int32)
    found = np.zeros(len(node_ptr) - 1, np.bool_)
    stack = np.empty(len(factor) + len(node_ptr), np.int64)
    stack[0] = root
    height, done = 1, 0
    while height > 0:
        height -= 1
        n = stack[height]
        if n < 0:  # everything below is done
            order[done] = -1 - n
            done += 1
        elif not found[n]:
            found[n] = True
            stack[height] = -1 - n
            height += 1
            for j in range(product_ptr[node_ptr[n]], product_ptr[node_ptr[n + 1]]):
                if factor[j] >= base and not found[factor[j] - base]:
                    stack[height] = factor[j] - base
                    height += 1
    return order[:done]


@allocating
def _limits(node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int) -> Ints:
    """Bits before the point that each node's mantissa may have, so that no product of mantissas has more than 120."""
    longest = np.ones(len(node_ptr) - 1, np.int32)  # product that a node is used in
    for p in range(len(product_ptr) - 1):
        size = product_ptr[p + 1] - product_ptr[p]
        for j in range(product_ptr[p], product_ptr[p + 1]):
            if factor[j] >= base:
                longest[factor[j] - base] = max(longest[factor[j] - base], size)
    return _BITS // longest


@allocating
def _last_uses(
    order: Ints, node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> tuple[NDArray[np.int64], int]:
    """The position in the stream of the last word that names each node, and the length of the stream."""
    last_use = np.zeros(len(node_ptr) - 1, np.int64)
    length = 0
    for n in order:
        for j in range(product_ptr[node_ptr[n]], product_ptr[node_ptr[n + 1]]):
            if factor[j] >= base:
                last_use[factor[j] - base] = length
            length += 1
        length += 1
    return last_use, length


@allocating
def _flags(j: int, start: int, stop: int, head: bool, tail: bool) -> int:
    """The flags of a factor by its place in a product, and by the place of that in its node."""
    flags = FIRST if j == start else 0
    if j == stop - 1:
        flags |= LAST | (HEAD if head else 0) | (TAIL if tail else 0)
    return flags


@unlocked
def write(
    order: Ints, node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> tuple[NDArray[np.uint32], int, int, int]:
    """Give slots and write the stream: (stream, slots, biases, slot of the root)."""
    last_use, length = _last_uses(order, node_ptr, product_ptr, factor, base)
    stream = np.empty(length, np.uint32)
    slot = np.empty(len(node_ptr) - 1, np.int64)
    limit = _limits(node_ptr, product_ptr, factor, base)
    bits = np.ones(len(node_ptr) - 1, np.int32)  # 2^bits bounds the mantissa
    free = [base]
    free.clear()
    slots, end, biases = base, 0, 0
    for n in order:
        first, last = node_ptr[n], node_ptr[n + 1] - 1
        biases += last - first
        most = 1
        for p in range(first, last + 1):
            start, stop, grown = product_ptr[p], product_ptr[p + 1], 0
            for j in range(start, stop):
                node = factor[j] - base
                word = np.int64(factor[j]) if node < 0 else slot[node]
                grown += 1 if node < 0 else bits[node]
                if node >= 0 and last_use[node] == end:
                    free.append(slot[node])
                    word |= TOUCH
                stream[end] = word | _flags(j, start, stop, p == first, p == last)
                end += 1
            most = max(most, grown) + (p > first)
        if len(free) == 0:
            free.append(slots)
            slots += 1
        slot[n] = stream[end] = free.pop()
        if most > limit[n] or end == length - 1:
            stream[end] |= LAST
        else:
            bits[n] = most
        end += 1
    return stream, slots, biases, slot[order[len(order) - 1]]


@unlocked
def walk(stream: NDArray[np.uint32], slots: int, nodes: int) -> tuple[Ints, NDArray[np.int64]]:
    owner = np.full(len(stream), -1, np.int32)
    ends = np.empty((nodes, 2), np.int64)
    writer = np.full(slots, -1, np.int32)  # the node whose value a slot holds
    biases = node = i = 0
    while i < len(stream):
        word = stream[i]
        owner[i] = writer[word & SLOT]
        i += 1
        if word & LAST:
            biases += (word & HEAD) == 0
            if word & TAIL:
                writer[stream[i] & SLOT] = owner[i] = node
                ends[node, END], ends[node, LOGGED] = i, biases
                node += 1
                i += 1
    return owner, ends
