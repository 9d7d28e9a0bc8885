"""Outputs: where a network's predictions begin, and what its outputs mean.

A network that has learned nothing should predict the label frequencies. Where rules are a forest of implications (a
class holds only if the class above it does), its outputs are log odds given the class above: each is then learned
from the rows that have the class above, and p(y | V) is a product of them (MATH §8).
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.circuits.beyond.cascade import Cascade
from dssl.logic.labels import Columns
from dssl.logic.language.formula import Implies, Is
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import over_blocks
from dssl.priors.predictive import Family, Predictive
from dssl.training.optimisers import plain

Floats = NDArray[np.float64]

_SCALED = 0.1  # of the last layer's first weights: predictions begin near the frequencies
_APART = 0.5  # standard deviation of what is added to the first outputs of components
_LEAN = 1e-4  # weight of b² in the search for b, which keeps it finite where frequencies contradict the rules


def forest(space: LabelSpace) -> NDArray[np.int64] | None:
    """The column of the class above each, −1 for those at the top, if the rules are a forest of implications.

    >>> forest(LabelSpace("cat, animal, stone\\ncat -> animal")).tolist()
    [1, -1, -1]
    >>> forest(LabelSpace("cat, stone\\ncat -> !stone")) is None
    True
    """
    if not space.rules or not all(variable.binary for variable in space.variables):
        return None
    place = {variable.name: i for i, variable in enumerate(space.variables)}
    above = np.full(space.width, -1)
    for rule in space.rules:
        formula = rule.formula
        plain = isinstance(formula, Implies) and isinstance(formula.premise, Is) and isinstance(formula.conclusion, Is)
        if rule.probability is not None or not plain:
            return None
        child, parent = place[formula.premise.name], place[formula.conclusion.name]  # type: ignore[attr-defined]
        if above[child] not in (-1, parent) or child == parent:
            return None
        above[child] = parent
    return above if _acyclic(above) else None


def _acyclic(above: NDArray[np.int64]) -> bool:
    at = np.arange(len(above))
    for _ in range(len(above)):
        at = np.where(at >= 0, above[at], -1)
        if (at < 0).all():
            return True
    return False


class Conditional(nn.Module):
    """From u, the log odds of each class given the class above it, to the logits z whose p(y | V) has these.

    On a forest p(y | V) ∝ Π_k exp(z_k y_k) is p(y_k | y_above) = σ(u_k) with z_k = u_k − Σ_c softplus(u_c), the sum
    over the classes c right below k. Shapes (n, width) both. Of a mixture it is done in each of its components, and
    their weights stay.
    """

    def __init__(self, above: NDArray[np.int64], components: int = 1) -> None:
        super().__init__()
        self.width, self.components = len(above), components
        self.register_buffer("below", torch.from_numpy(np.flatnonzero(above >= 0)), persistent=False)
        self.register_buffer("above", torch.from_numpy(above[above >= 0]), persistent=False)

    below: Tensor
    above: Tensor

    def forward(self, u: Tensor) -> Tensor:
        if self.components == 1:
            return self._logits(u)
        cut = self.components * self.width
        return torch.cat([self._logits(u[:, :cut].reshape(-1, self.width)).reshape(-1, cut), u[:, cut:]], 1)

    def _logits(self, u: Tensor) -> Tensor:
        inner = nn.functional.softplus(u.index_select(1, self.below))
        return u.index_add(1, self.above, inner, alpha=-1)


def first_outputs(
    space: LabelSpace, columns: Columns, weight: Floats | None = None, above: NDArray[np.int64] | None = None
) -> Floats:
    """Log odds of label columns (n, width), where known; with `above`, among the rows that have the class above.

    A row of `weight` w counts as w rows, 1 unless given; so in the functions below.

    >>> space = LabelSpace.classes(["cat", "dog"])
    >>> first_outputs(space, space.encode(["cat"] * 8 + ["dog"] * 2)).round(2).tolist()
    [0.61, -0.61]

    Counts are shrunk by half a row for each value, so what never occurred is rare, not impossible.
    """
    out, weight = np.zeros(space.width), _each(columns, weight)
    for i, (variable, (start, stop)) in enumerate(zip(space.variables, space.spans)):
        known = ~np.isnan(columns[:, start:stop]).any(axis=1)
        if above is not None and above[i] >= 0:
            known &= columns[:, above[i]] == 1
        counts = weight[known] @ columns[known, start:stop]
        if variable.binary:
            out[start] = np.log(counts[0] + 0.5) - np.log(weight[known].sum() - counts[0] + 0.5)
        else:
            log = np.log(counts + 0.5)
            out[start:stop] = log - log.mean()
    return out


def _each(columns: Columns, weight: Floats | None) -> Floats:
    return np.ones(len(columns)) if weight is None else weight


def open_outputs(cascade: Cascade, columns: Columns, weight: Floats | None = None) -> Floats:
    """Log odds of each class of label columns (n, width) among the rows that have all classes above it.

    >>> space = LabelSpace("cat, pet, animal\\ncat -> pet\\ncat -> animal")
    >>> rows = space.encode([[1, 1, 1], [0, 1, 1], [0, 1, 0], [0, 0, 1]])
    >>> open_outputs(Cascade(space.implications), rows).round(2).tolist()  # of two, three of four, three of four
    [0.0, 0.85, 0.85]
    """
    holds, weight = columns == 1, _each(columns, weight)
    open_ = cascade.open(torch.from_numpy(holds)).numpy() & ~np.isnan(columns)
    counts, rows = weight @ (holds & open_), weight @ open_
    return np.asarray(np.log(counts + 0.5) - np.log(rows - counts + 0.5))


def coherent_outputs(
    space: LabelSpace, columns: Columns, weight: Floats | None = None, family: Family | None = None
) -> Floats:
    """Outputs b whose p(y | V) has the frequencies of label columns (n, width), and the largest entropy of all such.

    >>> space = LabelSpace("cat, dog\\n!(cat & dog)")
    >>> b = coherent_outputs(space, space.encode([[1, 0]] * 6 + [[0, 1]] * 3))
    >>> Predictive(torch.from_numpy(b), space).marginals.round(decimals=2).tolist()
    [0.63, 0.33]

    They minimise log Σ_{y∈V} exp(b·y) − m·b, which is convex (MATH §8). The frequencies m are those of the labels and
    of one more row that has every valid label alike, so what never occurred is rare, not impossible.
    """
    family = family or Family.of(space)
    even = Predictive(torch.zeros(space.width, dtype=torch.float64), family).marginals
    counts = torch.from_numpy(_each(columns, weight))
    known = torch.from_numpy(columns.astype(np.float64))
    share = (counts @ known.nan_to_num(0) + even) / (counts @ (~known.isnan()).double() + 1)
    b = torch.zeros(space.width, dtype=torch.float64, requires_grad=True)
    search = plain(torch.optim.LBFGS)([b], max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        free = over_blocks([z.logsumexp(-1) for z in family.blocks.logits(b)])
        value = Predictive(b, family).log_valid + free - share @ b + _LEAN * b.square().sum()
        value.backward()
        return value

    search.step(loss)
    return b.detach().numpy()


def of_components(outputs: Floats, components: int, seed: int | None = None) -> Floats:
    """First outputs (width,) as those of a mixture whose components weigh alike; of one component as they are.

    >>> of_components(np.array([1.0, -1.0]), 2).tolist()
    [1.0, -1.0, 1.0, -1.0, 0.0, 0.0]

    With a seed each begins a little elsewhere: components that begin alike learn alike.
    """
    if components == 1:
        return outputs
    each = np.tile(outputs, (components, 1))
    if seed is not None:
        each += _APART * np.random.default_rng(seed).normal(size=each.shape)
    return np.concatenate([each.ravel(), np.zeros(components)])


@torch.no_grad()
def begin_at(network: nn.Module, outputs: Floats) -> None:
    """Sets a network's last linear layer so that its predictions begin near `outputs` (width,)."""
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    if layers and layers[-1].out_features == len(outputs) and layers[-1].bias is not None:
        layers[-1].weight.mul_(_SCALED)
        layers[-1].bias.copy_(torch.from_numpy(outputs))


def drop(network: nn.Module, last: float, inner: float = 0.0) -> None:
    """Sets the shares of hidden units that are dropped: by the last dropout layer, and by those before it."""
    layers = [module for module in network.modules() if isinstance(module, nn.Dropout)]
    for layer in layers:
        layer.p = last if layer is layers[-1] else inner
