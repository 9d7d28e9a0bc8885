"""Program: a circuit as the stream of numbers that the kernels run from front to back, and backward.

**Simplified.** Constants are folded, ``x ∨ ¬x`` is TRUE (its normalised weights sum to one), nodes with one child are
that child. What is left is written as *sums of products*: an AND with one parent (or few, if short) becomes part of
their products, an OR with a single parent that is an OR part of its parent's sum. Products of literals that occur often
become nodes of their own, and products of more than 64 factors are cut, so that mantissas cannot overflow.

**Slots.** A value has a slot in a table of ``slots`` rows. Slots ``2·column`` and ``2·column + 1`` hold the weights of
"column is true" and "column is false"; slot ``one`` the number 1 and slot ``one + 1`` the number 0. Nodes are put in
depth-first order and use the remaining slots; a slot is free again after its value's last use.

**Stream.** Each node is one stretch of 32-bit words: the factors of its first product, of its second, and so on, then
the slot its value goes to, flagged ``LAST`` where its mantissa must be brought back into [1, 2): products and sums
leave it longer, and it is let grow to 2^120 (see `_limits`). A factor is a slot number and flags:

* ``LAST``: the last factor of a product, ``FIRST``: its first; a product of one factor has both;
* on the last factor, ``HEAD``: this product is the first of its node, ``TAIL``: it is the last;
* ``TOUCH``: no later word names this value. The backward pass meets it first here, and stores instead of adding.

A sum p₁ + p₂ + … is formed from left to right; each addition p = a + b logs the *choice* a / p. The backward pass takes
the choices from the end of the log: a share ``1 − choice`` of the flow goes to b, the rest is passed on to a. The same
stretch thus serves sums, maxima (choice 0 or 1), expectations and samples (a coin with that bias).
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dssl.circuits.circuit import AND, FALSE, LITERAL, OR, TRUE, Circuit
from dssl.circuits.simd import jit

LAST, FIRST, TAIL, HEAD, TOUCH = (1 << bit for bit in (31, 30, 29, 28, 27))
SLOT = TOUCH - 1
_MOST = 64  # factors of a product
_BITS = 120  # of a mantissa before it must be normalised
_GAIN = 3  # loads that a shared product must save to have a slot: its own factors, a store, and the branch

Ints = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Program:
    """What the kernels need of a circuit; see the module's docstring."""

    stream: NDArray[np.uint32]
    blocks: NDArray[np.int64]  # (blocks, 3): first column, one past the last, 1 if categorical
    soft: NDArray[np.float64]  # (soft rules, 2): log p, log(1 - p)
    columns: int  # of the space and of soft rules
    slots: int
    choices: int  # entries of the log
    root: int  # slot of the result

    @property
    def work(self) -> int:
        """Words to run and literals to prepare: what a sample costs."""
        return len(self.stream) + 4 * self.columns

    @cached_property
    def origin(self) -> NDArray[np.int64]:
        """For walks from the root, of each word: the position of the slot word of the node a factor refers to.

        -1 for literals and constants; of a node's slot word, the choices logged up to its end.
        """
        return _origins(self.stream, self.slots)


_programs: weakref.WeakKeyDictionary[Circuit, Program] = weakref.WeakKeyDictionary()


def program_of(circuit: Circuit) -> Program:
    """The circuit's program, built on first use and kept as long as the circuit."""
    program = _programs.get(circuit)
    if program is None:
        program = _programs[circuit] = build_program(circuit)
    return program


def build_program(circuit: Circuit) -> Program:
    """Simplify, order and write down the circuit as a program."""
    columns = circuit.width + len(circuit.soft)
    base = 2 * columns + 2
    starts = circuit.starts.astype(np.int64)
    lone = np.zeros(columns, np.bool_)  # columns with a negative literal
    lone[starts[:-1][~circuit.categorical]] = True
    top, kinds, ptr, child = _fold(circuit.kind, circuit.literal, circuit.ptr, circuit.child, lone)
    root, node_ptr, product_ptr, factor = _fuse(top, kinds, ptr, child, base)
    node_ptr, product_ptr, factor = _share(node_ptr, product_ptr, factor, base)
    while np.diff(product_ptr).max() > _MOST:
        node_ptr, product_ptr, factor = _cut(node_ptr, product_ptr, factor, base)
    order = _depth_first(root, node_ptr, product_ptr, factor, base)
    stream, slots, choices, last = _write(order, node_ptr, product_ptr, factor, base)
    probability = np.array(circuit.soft, np.float64)
    with np.errstate(divide="ignore"):  # a rule that holds for certain
        soft = np.stack([np.log(probability), np.log1p(-probability)], axis=1)
    return Program(
        stream=stream,
        blocks=np.stack([starts[:-1], starts[1:], circuit.categorical.astype(np.int64)], axis=1),
        soft=soft,
        columns=columns,
        slots=slots,
        choices=choices,
        root=last,
    )


@jit
def _fold(
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


@jit
def _fuse(
    top: int, kind: NDArray[np.int8], ptr: NDArray[np.int64], child: Ints, base: int
) -> tuple[int, NDArray[np.int64], NDArray[np.int64], Ints]:
    """Nodes as sums of products: (root's number, products of each node, factors of each product, factors).

    A factor is a slot of a literal or constant, or ``base +`` the number of a node.
    """
    uses = np.zeros(len(kind), np.int64)
    parent = np.full(len(kind), -1, np.int32)
    if top >= base:
        uses[top - base] = 1
    for n in range(len(kind) - 1, -1, -1):
        if uses[n] > 0:
            for j in range(ptr[n], ptr[n + 1]):
                if child[j] >= base:
                    uses[child[j] - base] += 1
                    parent[child[j] - base] = n
    number = np.full(len(kind), -1, np.int32)  # -1: part of what it is used in
    size = np.ones(len(kind), np.int64)  # factors written where a node is used
    kept = factors = 0
    for n in range(len(kind)):
        if uses[n] > 0:
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
                number[n] = kept
                kept, factors = kept + 1, factors + whole
    node_ptr = np.zeros(max(kept, 1) + 1, np.int64)
    product_ptr = np.zeros(factors + 2, np.int64)
    factor = np.empty(factors + 1, np.int32)
    if top < base:
        factor[0], product_ptr[1], node_ptr[1] = top, 1, 1
        return 0, node_ptr, product_ptr[:2], factor[:1]
    products = factors = 0
    terms, parts = [top], [top]  # stacks
    terms.clear()
    parts.clear()
    for n in range(len(kind)):
        if number[n] < 0:
            continue
        terms.append(base + n)
        while len(terms) > 0:  # a term is a part of the sum
            t = terms.pop()
            if t >= base and kind[t - base] == OR and (t - base == n or number[t - base] < 0):
                terms.extend(child[ptr[t - base] : ptr[t - base + 1]][::-1])
                continue
            parts.append(t)
            while len(parts) > 0:
                x = parts.pop()
                if x >= base and kind[x - base] == AND and (x - base == n or number[x - base] < 0):
                    parts.extend(child[ptr[x - base] : ptr[x - base + 1]][::-1])
                else:
                    factor[factors] = x if x < base else base + number[x - base]
                    factors += 1
            products += 1
            product_ptr[products] = factors
        node_ptr[number[n] + 1] = products
    return number[top - base], node_ptr, product_ptr[: products + 1], factor[:factors]


@jit
def _share(
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
    shared = np.full(products, -1, np.int32)  # of leaders: the node of their literals
    extra = added = dropped = 0
    for n in range(nodes):
        for p in range(node_ptr[n], node_ptr[n + 1]):
            k = literals[p]
            if count[leader[p]] * (k - 1) < k + _GAIN:
                continue
            if shared[leader[p]] < 0:
                shared[leader[p]] = nodes + extra
                extra += 1
                added += k
            dropped += k - 1
    new_node = np.empty(nodes + extra + 1, np.int64)
    new_product = np.zeros(products + extra + 1, np.int64)
    new_factor = np.empty(len(factor) - dropped + added, np.int32)
    new_node[: nodes + 1] = node_ptr
    end = 0
    for p in range(products):
        start = product_ptr[p]
        if shared[leader[p]] >= 0:
            new_factor[end] = base + shared[leader[p]]
            end, start = end + 1, start + literals[p]
        size = product_ptr[p + 1] - start
        new_factor[end : end + size] = factor[start : start + size]
        end += size
        new_product[p + 1] = end
    for p in range(products):
        n = shared[p]
        if n >= 0:  # leaders come in the order in which their nodes were numbered
            new_factor[end : end + literals[p]] = factor[product_ptr[p] : product_ptr[p] + literals[p]]
            end += literals[p]
            new_product[products + n - nodes + 1] = end
            new_node[n + 1] = products + n - nodes + 1
    return new_node, new_product, new_factor


@jit
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


@jit
def _cut(
    node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], Ints]:
    """Make every 64 factors of a longer product a node of its own. One pass: very long products need another."""
    nodes, products = len(node_ptr) - 1, len(product_ptr) - 1
    sizes = product_ptr[1:] - product_ptr[:-1]
    extra = np.where(sizes > _MOST, (sizes + _MOST - 1) // _MOST, 0)
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
            part = factor[product_ptr[p] + i * _MOST : min(product_ptr[p] + (i + 1) * _MOST, product_ptr[p + 1])]
            new_factor[end : end + len(part)] = part
            end, made = end + len(part), made + 1
            new_product[products + made] = end
            new_node[nodes + made] = products + made
    return new_node, new_product, new_factor


@jit
def _depth_first(
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


@jit
def _limits(node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int) -> Ints:
    """Bits before the point that each node's mantissa may have, so that no product of mantissas has more than 120."""
    longest = np.ones(len(node_ptr) - 1, np.int32)  # product that a node is used in
    for p in range(len(product_ptr) - 1):
        size = product_ptr[p + 1] - product_ptr[p]
        for j in range(product_ptr[p], product_ptr[p + 1]):
            if factor[j] >= base:
                longest[factor[j] - base] = max(longest[factor[j] - base], size)
    return _BITS // longest


@jit
def _write(
    order: Ints, node_ptr: NDArray[np.int64], product_ptr: NDArray[np.int64], factor: Ints, base: int
) -> tuple[NDArray[np.uint32], int, int, int]:
    """Give slots and write the stream: (stream, slots, choices, slot of the root)."""
    nodes = len(order)
    last_use = np.zeros(len(node_ptr) - 1, np.int64)  # position in the stream
    length = 0
    for n in order:
        for j in range(product_ptr[node_ptr[n]], product_ptr[node_ptr[n + 1]]):
            if factor[j] >= base:
                last_use[factor[j] - base] = length
            length += 1
        length += 1
    stream = np.empty(length, np.uint32)
    slot = np.empty(len(node_ptr) - 1, np.int32)
    limit = _limits(node_ptr, product_ptr, factor, base)
    bits = np.ones(len(node_ptr) - 1, np.int32)  # 2^bits bounds the mantissa
    free = [base]
    free.clear()
    slots, end, choices = base, 0, 0
    for n in order:
        first, last = node_ptr[n], node_ptr[n + 1] - 1
        choices += last - first
        most = 1
        for p in range(first, last + 1):
            grown = 0
            for j in range(product_ptr[p], product_ptr[p + 1]):
                x = factor[j]
                word = x if x < base else slot[x - base]
                grown += 1 if x < base else bits[x - base]
                if x >= base and last_use[x - base] == end:
                    free.append(slot[x - base])
                    word |= TOUCH
                if j == product_ptr[p]:
                    word |= FIRST
                if j == product_ptr[p + 1] - 1:
                    word |= LAST | (HEAD if p == first else 0) | (TAIL if p == last else 0)
                stream[end] = word
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
    return stream, slots, choices, slot[order[nodes - 1]]


@jit
def _origins(stream: NDArray[np.uint32], slots: int) -> NDArray[np.int64]:
    origin = np.full(len(stream), -1, np.int64)
    writer = np.full(slots, -1, np.int64)
    choices, i = 0, 0
    while i < len(stream):
        word = stream[i]
        origin[i] = writer[word & SLOT]
        i += 1
        if word & LAST:
            choices += (word & HEAD) == 0
            if word & TAIL:
                writer[stream[i] & SLOT] = i
                origin[i] = choices
                i += 1
    return origin
