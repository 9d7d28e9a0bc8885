"""The queries of a circuit as layers of plain torch operations: any device, any number of derivatives.

Literal weights are first turned into weights of *values* (see `layers`): value k of a categorical block weighs
w_k Π_{j≠k} w̄_j (MATH §4, identity 7). They are normalised block by block and the constant added back (identity 1),
so a variable that a branch does not mention needs no attention: its values sum to one, or have the maximum one.

Inside, the leading shape of the weights is flattened into rows, and rows stand last: (values, rows), (nodes, rows),
(edges, rows). A row whose weights leave no valid label has log weight −inf, and gradient, marginals and entropy 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate.layers import Layer, Layers, layers_of
from dssl.circuits.nodes import OR
from dssl.errors import DataError

_HELD = 1 << 24  # numbers that one step of tracing, sampling or the k-best search may hold
_SHOWN = 10  # rows that an error lists

Reduce = Callable[[Tensor, Tensor, int], Tensor]  # (edges, rows), node of each edge, nodes → (nodes, rows)
Scores = Callable[[int], Tensor]  # OR layer → (edges in, rows): the heaviest edge of a node is the one to follow


# ---- queries ----


def normalise(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor]:
    """Normalised log weights of all values, (..., values), and the log of the constant taken out, (...).

    Identities 1 and 7 of MATH §4. A block whose values all weigh nothing keeps −inf and makes the constant −inf.
    """
    log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
    leaf, constant = _normalised(circuit, _values(circuit, log_pos, log_neg), _logsumexp)
    return leaf.t().reshape(*log_pos.shape[:-1], len(leaf)), constant.reshape(log_pos.shape[:-1])


def log_wmc(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> Tensor:
    """log of the sum over valid labels of the product of literal weights; shape (...)."""
    log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
    leaf, constant = _normalised(circuit, _values(circuit, log_pos, log_neg), _logsumexp)
    total = _evaluate(circuit, leaf, _logsumexp) + constant
    # Filling anew cuts the gradient of rows without a valid label.
    return total.masked_fill(total == -math.inf, -math.inf).reshape(log_pos.shape[:-1])


def marginals(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> Tensor:
    """P(column is true | valid, weights), the gradient of log WMC (identity 3); shape (..., width)."""
    log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
    wanted = torch.is_grad_enabled() and (log_pos.requires_grad or log_neg.requires_grad)
    mu = _gradient(lambda x: log_wmc(circuit, x, log_neg), log_pos, wanted)[1]
    return mu + (mu.detach().clamp(0, 1) - mu.detach())  # rounding may take it a little beyond; its gradient stays


def entropy(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> Tensor:
    """Entropy in nats of the distribution over valid labels; shape (...).

    Identity 6 subtracts numbers as large as the weights. The same entropy is a sum of small ones: a valid label is a
    choice at each OR on the way down and a value of each block not mentioned there, so the entropies of these add up,
    each times the probability of getting there.
    """
    log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
    leaf, constant = _normalised(circuit, _values(circuit, log_pos, log_neg), _logsumexp)
    wanted = torch.is_grad_enabled() and leaf.requires_grad
    kept: dict[int, Tensor] = {}
    with torch.enable_grad():
        leaf = leaf if wanted else leaf.detach().requires_grad_()
        value = _evaluate(circuit, leaf, _logsumexp, kept)
        inputs = [leaf, *kept.values()]
        flow = torch.autograd.grad(value.sum(), inputs, create_graph=wanted, materialize_grads=True)
    layers, blocks = layers_of(circuit, leaf.device), len(circuit.categorical)
    free = 1 - _sum(flow[0], layers.block_of_value, blocks)  # (blocks, rows): probability of not being mentioned
    out = (free * _sum(-leaf.exp() * _finite(leaf), layers.block_of_value, blocks)).sum(0)
    for (i, edges), reached in zip(kept.items(), flow[1:]):
        layer = layers.layers[i]
        total = _logsumexp(edges, layer.parent, layer.size).clamp(min=torch.finfo(leaf.dtype).min)
        out = out - (reached * _finite(edges - total.index_select(0, layer.parent))).sum(0)
    out = out.masked_fill(value + constant == -math.inf, 0).reshape(log_pos.shape[:-1])
    return out if wanted else out.detach()


def _finite(x: Tensor) -> Tensor:
    """Logs of probabilities with 0 for −inf, which is only ever multiplied by a probability of 0."""
    return x.masked_fill(x == -math.inf, 0)


def mpe(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor]:
    """The heaviest valid label, bool (..., width), and its log weight (...), differentiable."""
    labels, weight = top_k(circuit, log_pos, log_neg, 1)
    return labels.squeeze(-2), weight.squeeze(-1)


def top_k(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k heaviest valid labels, bool (..., k, width), and their log weights (..., k), differentiable.

    Where fewer than k labels are valid, the rest are all false and weigh −inf.
    """
    pos, neg = with_soft(circuit, log_pos, log_neg)  # (..., columns)
    with torch.no_grad():
        values = _values(circuit, log_pos, log_neg)
        step = max(1, _HELD // max(1, len(values) * len(circuit.categorical) * (k - 1)))
        found = [_k_heaviest(circuit, part, k) for part in values.split(step, dim=1)]
        chosen, weight = (torch.cat(parts, dim=-1) for parts in zip(*found))  # (k, values, rows), (k, rows)
        none = (weight == -math.inf).t().reshape(*pos.shape[:-1], k)
        chosen = chosen[:, layers_of(circuit, pos.device).true_value]  # (k, columns, rows)
        labels = chosen.permute(2, 0, 1).reshape(*pos.shape[:-1], k, pos.shape[-1]) & ~none.unsqueeze(-1)
    weight = torch.where(labels, pos.unsqueeze(-2), neg.unsqueeze(-2)).sum(-1).masked_fill(none, -math.inf)
    return labels[..., : circuit.width], or_nan(weight, pos, neg)


def or_nan(weight: Tensor, log_pos: Tensor, log_neg: Tensor) -> Tensor:
    """The weights (..., k), NaN in rows where a literal's is: comparisons skip it, and perhaps no label has it."""
    return weight.masked_fill((log_pos.isnan() | log_neg.isnan()).any(-1, keepdim=True), math.nan)


def sample(
    circuit: Circuit, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """n labels for each row, drawn exactly and independently; bool (n, ..., width).

    At each OR a child is drawn in proportion to its value, and a block that is not mentioned from its own weights,
    both as the maximum of log weights plus Gumbel noise; in float64 wherever the device has it.
    """
    log_pos, log_neg = torch.broadcast_tensors(log_pos.detach(), log_neg.detach())
    if log_pos.device.type != "mps":
        log_pos, log_neg = log_pos.double(), log_neg.double()
    leaf, constant = _normalised(circuit, _values(circuit, log_pos, log_neg), _logsumexp)
    step = max(1, _HELD // (circuit.edges + len(leaf) + 1))
    drawn, empty = [], []
    for rows, extra in zip(leaf.split(step, dim=1), constant.split(step)):
        kept: dict[int, Tensor] = {}
        empty.append(_evaluate(circuit, rows, _logsumexp, kept) + extra == -math.inf)
        drawn.append(
            torch.cat([_draw(circuit, rows, kept, m, generator) for m in _shares(n, step // max(1, len(extra)))], 1)
        )
    require_valid(torch.cat(empty).reshape(log_pos.shape[:-1]))
    chosen = torch.cat(drawn, dim=2)[layers_of(circuit, leaf.device).true_value[: circuit.width]]  # (width, n, rows)
    return chosen.permute(1, 2, 0).reshape(n, *log_pos.shape[:-1], circuit.width)


def _draw(circuit: Circuit, leaf: Tensor, kept: dict[int, Tensor], n: int, generator: torch.Generator | None) -> Tensor:
    """n draws for each row: the values chosen, bool (values, n, rows)."""

    def perturbed(weights: Tensor) -> Tensor:  # (x, rows) → (x, n · rows)
        shape = (len(weights), n, leaf.shape[1])
        noise = torch.empty(shape, dtype=leaf.dtype, device=leaf.device).exponential_(generator=generator)
        return (weights.unsqueeze(1) - noise.log()).flatten(1)

    chosen = _trace(layers_of(circuit, leaf.device), lambda layer: perturbed(kept[layer]), perturbed(leaf))
    return chosen.unflatten(1, (n, leaf.shape[1]))


def _shares(n: int, most: int) -> list[int]:
    """n cut into parts of at most `most`, at least one part."""
    most = max(1, most)
    return [most] * ((n - 1) // most) + [(n - 1) % most + 1 if n else 0]


def require_valid(empty: Tensor) -> None:
    """An error that names the first rows without a valid label, if there are any."""
    if bool(empty.any()):
        rows = [tuple(row) if len(row) != 1 else row[0] for row in empty.nonzero().tolist()]
        shown = ", ".join(map(str, rows[:_SHOWN])) + (", …" if len(rows) > _SHOWN else "")
        where = f"in rows {shown}" if empty.dim() else "given"
        raise DataError(
            f"no valid label has a weight above zero with the weights {where}. "
            "Check the evidence (weights of −inf) of these rows against the rules, or leave them out."
        )


# ---- from literal weights to normalised leaves ----


def with_soft(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor]:
    """The weights of all columns, (..., columns): one per soft rule after the space's."""
    log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
    if log_pos.shape[-1] != circuit.width:
        raise DataError(
            f"the weights have {log_pos.shape[-1]} columns, and the circuit has {circuit.width}. "
            "Pass one weight per column, in the order of the circuit's names."
        )
    if not circuit.soft:
        return log_pos, log_neg
    p = log_pos.new_tensor(circuit.soft, dtype=torch.float64 if log_pos.device.type != "mps" else None)
    shape = (*log_pos.shape[:-1], len(circuit.soft))
    on, off = (x.to(log_pos.dtype).expand(shape) for x in (p.log(), (-p).log1p()))
    return torch.cat([log_pos, on], -1), torch.cat([log_neg, off], -1)


def _values(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> Tensor:
    """The log weight of every value (identity 7), not normalised: (values, rows)."""
    log_pos, log_neg = with_soft(circuit, log_pos, log_neg)
    rows, columns = math.prod(log_pos.shape[:-1]), log_pos.shape[-1]
    pos, neg = log_pos.reshape(rows, columns).t(), log_neg.reshape(rows, columns).t()
    layers = layers_of(circuit, log_pos.device)
    out = [pos[:0]]
    for family in layers.families:
        p = pos.index_select(0, family.columns.flatten()).unflatten(0, family.columns.shape)  # (blocks, d, rows)
        n = neg.index_select(0, family.columns.flatten()).unflatten(0, family.columns.shape)
        value = p + sum_of_others(n, 1) if family.categorical else torch.cat([n, p], 1)
        out.append(value.flatten(0, 1))
    return torch.cat(out).index_select(0, layers.unsort)


def sum_of_others(x: Tensor, dim: int = -1) -> Tensor:
    """The sum of all others along a dimension; adds up from both ends, since −inf cannot be subtracted again."""
    size = x.shape[dim]
    zero = torch.zeros_like(x.narrow(dim, 0, 1))
    before = torch.cat([zero, x.narrow(dim, 0, size - 1).cumsum(dim)], dim)
    after = torch.cat([x.narrow(dim, 1, size - 1).flip(dim).cumsum(dim).flip(dim), zero], dim)
    return before + after


def _normalised(circuit: Circuit, values: Tensor, reduce: Reduce) -> tuple[Tensor, Tensor]:
    """Values with each block's total (or maximum) taken out, (values, rows), and what was taken out, (rows,)."""
    block = layers_of(circuit, values.device).block_of_value
    total = reduce(values, block, len(circuit.categorical))  # (blocks, rows)
    return values - total.masked_fill(total == -math.inf, 0).index_select(0, block), total.sum(0)


# ---- up and down the layers ----


def _evaluate(circuit: Circuit, leaf: Tensor, reduce: Reduce, kept: dict[int, Tensor] | None = None) -> Tensor:
    """The root's log value, (rows,); puts what enters each OR layer, (edges in, rows), into `kept`."""
    layers = layers_of(circuit, leaf.device)
    constants = leaf.new_zeros(1, leaf.shape[1]), leaf.new_full((1, leaf.shape[1]), -math.inf)
    node = torch.cat([leaf, *constants])
    pieces: dict[tuple[int, int], Tensor] = {}
    top, root = layers.root
    for i, layer in enumerate(layers.layers[: top + 1]):
        if i:
            edges = torch.cat([pieces.pop(source) for source in layer.sources])  # (edges in, rows)
            node = (reduce if layer.kind == OR else _sum)(edges, layer.parent, layer.size)  # (nodes, rows)
            if kept is not None and layer.kind == OR:
                kept[i] = edges
        for piece, part in enumerate(node.index_select(0, layer.uses).split(layer.pieces)):
            pieces[i, piece] = part
    return node[root]


def _sum(x: Tensor, parent: Tensor, size: int) -> Tensor:
    return x.new_zeros(size, x.shape[1]).index_add(0, parent, x)


def _maximum(x: Tensor, parent: Tensor, size: int) -> Tensor:
    index = parent.unsqueeze(1).expand_as(x)
    return x.new_full((size, x.shape[1]), -math.inf).scatter_reduce(0, index, x, "amax")


def _logsumexp(x: Tensor, parent: Tensor, size: int) -> Tensor:
    """log of the sum of exponentials of each node's edges; −inf, with gradient 0, where all of them are −inf."""
    top = _maximum(x.detach(), parent, size)
    finite = top.clamp(min=torch.finfo(x.dtype).min)  # −inf − (−inf) would be NaN
    total = _sum((x - finite.index_select(0, parent)).exp(), parent, size)
    # The total is at least 1, or 0 where all edges are −inf: there the clamp cuts the gradient.
    return top + total.clamp(min=1).log()


def _gradient(function: Callable[[Tensor], Tensor], x: Tensor, wanted: bool) -> tuple[Tensor, Tensor]:
    """The value of `function` at x and the gradient of its sum; `wanted`: as a function that has a gradient itself."""
    with torch.enable_grad():
        # A view of its own, so that nothing else the function uses depends on it.
        x = x.view_as(x) if wanted and x.requires_grad else x.detach().requires_grad_()
        value = function(x)
        (gradient,) = torch.autograd.grad(value.sum(), x, create_graph=wanted, materialize_grads=True)
    return (value, gradient) if wanted else (value.detach(), gradient)


def _trace(layers: Layers, scores: Scores, leaf: Tensor) -> Tensor:
    """Walk down from the root, into all children of an AND and the child of an OR that scores highest.

    A block that no literal on the way mentions takes its highest value in `leaf`, (values, rows).
    Returns the values chosen, one per block: bool (values, rows).
    """
    top, root = layers.root
    reached: dict[tuple[int, int], Tensor] = {}  # piece → which of its edges were walked, (edges, rows)
    for i in range(top, -1, -1):
        layer = layers.layers[i]
        node = torch.zeros(layer.size, leaf.shape[1], dtype=torch.uint8, device=leaf.device)
        if i == top:
            node[root] = 1
        elif layer.pieces:
            marks = [_piece(reached, (i, part), size, node) for part, size in enumerate(layer.pieces)]
            node.index_add_(0, layer.uses, torch.cat(marks))
        if i:
            walked = node.index_select(0, layer.parent)
            if layer.kind == OR:
                walked *= _first_highest(scores(i), layer)
            sizes = [layers.layers[source].pieces[part] for source, part in layer.sources]
            reached.update(zip(layer.sources, walked.split(sizes)))
    met = node[: len(leaf)] > 0
    return _highest_of_block(layers, leaf.masked_fill(met, math.inf))


def _piece(reached: dict[tuple[int, int], Tensor], key: tuple[int, int], size: int, like: Tensor) -> Tensor:
    """The marks of a piece; none where it leads to nodes that the root does not reach."""
    return reached.pop(key) if key in reached else like.new_zeros(size, like.shape[1])


def _first_highest(scores: Tensor, layer: Layer) -> Tensor:
    """Which edge of each node scores highest, the first of equals: bool (edges, rows)."""
    top = _maximum(scores, layer.parent, layer.size).index_select(0, layer.parent)
    number = torch.arange(len(scores), dtype=torch.int32, device=scores.device).unsqueeze(1)
    candidate = number.expand_as(scores).masked_fill(scores != top, len(scores))
    first = number.new_full((layer.size, scores.shape[1]), len(scores))
    first = first.scatter_reduce(0, layer.parent.unsqueeze(1).expand_as(scores), candidate, "amin")
    return first.index_select(0, layer.parent) == number


def _highest_of_block(layers: Layers, values: Tensor) -> Tensor:
    """Which value of each block is highest, the first of equals: bool (values, rows)."""
    out = [torch.zeros(0, values.shape[1], dtype=torch.bool, device=values.device)]
    for family in layers.families:
        block = values[family.values]  # (blocks, d, rows)
        number = torch.arange(block.shape[1], device=values.device).unsqueeze(1)
        out.append((block.argmax(1, keepdim=True) == number).flatten(0, 1))
    return torch.cat(out).index_select(0, layers.unsort)


# ---- the heaviest labels ----


def _heaviest(circuit: Circuit, values: Tensor) -> tuple[Tensor, Tensor]:
    """The heaviest valid label as the values it takes, bool (values, rows), and its log weight, (rows,)."""
    layers = layers_of(circuit, values.device)
    found = []
    for part in values.split(max(1, _HELD // (layers.edges + 1)), dim=1):
        kept: dict[int, Tensor] = {}
        leaf, constant = _normalised(circuit, part, _maximum)
        weight = _evaluate(circuit, leaf, _maximum, kept) + constant
        found.append((_trace(layers, kept.__getitem__, leaf), weight))
    chosen, weights = zip(*found)
    return torch.cat(chosen, dim=1), torch.cat(weights)


def _k_heaviest(circuit: Circuit, values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k heaviest valid labels as the values they take, bool (k, values, rows), and their log weights, (k, rows).

    Each label that is found splits what is left of its part of the space (Lawler): one new part for each block, in
    which the blocks before it agree with the label and the block itself does not.
    """
    block = layers_of(circuit, values.device).block_of_value
    split = torch.arange(len(circuit.categorical) - len(circuit.soft), device=values.device).view(-1, 1, 1)
    before, here = block.unsqueeze(1) < split, block.unsqueeze(1) == split  # (parts, values, 1)
    chosen, weight = (x.unsqueeze(0) for x in _heaviest(circuit, values))
    parts = values.unsqueeze(0)  # (parts, values, rows): values outside a part weigh −inf
    out = []
    for left in range(k - 1, -1, -1):
        best = weight.argmax(0, keepdim=True)  # (1, rows)
        of_value = best.unsqueeze(1).expand(1, *values.shape)
        label, part = chosen.gather(0, of_value), parts.gather(0, of_value)
        out.append((label, weight.gather(0, best)))
        if left:
            spent = weight.gather(0, best).unsqueeze(1) == -math.inf  # nothing is left anywhere
            fresh = part.masked_fill((before & ~label) | (here & label) | spent, -math.inf)
            found = _heaviest(circuit, fresh.permute(1, 0, 2).flatten(1))
            weight = torch.cat([weight.scatter(0, best, -math.inf), found[1].reshape(len(fresh), values.shape[1])])
            weight, keep = weight.topk(min(left, len(weight)), dim=0)
            keep = keep.unsqueeze(1).expand(-1, *values.shape)
            chosen = torch.cat([chosen, found[0].unflatten(1, (len(fresh), values.shape[1])).transpose(0, 1)]).gather(
                0, keep
            )
            parts = torch.cat([parts, fresh]).gather(0, keep)
    labels, weights = zip(*out)
    return torch.cat(labels), torch.cat(weights)
