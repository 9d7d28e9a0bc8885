"""Elements: which array of the rules the parts of a row belong to, and the network that reads all of them alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.data.features import Standardiser
from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.language.arrays import Arrays
from dssl.logic.language.variables import Variable, listed, nearest
from dssl.logic.space import LabelSpace
from dssl.models.auto.outputs import begin_at
from dssl.priors.mixture import output_width
from dssl.training.elements.network import ElementNetwork, make_element_network
from dssl.training.elements.readers import IN_CONTEXT
from dssl.training.networks import make_network

MOST_TOKENS = 1_000_000


@dataclass(frozen=True)
class Elements:
    """What the elements of a row show: `names[i]` are the variables of element i, alike for all elements.

    `called`: the array they are of, or a few names. `axes` of a row number the elements. With a `vocabulary` they are
    tokens: whole numbers below it. `reason`: why they are taken for elements.
    """

    called: str
    names: tuple[tuple[str, ...], ...]
    reason: str
    axes: int = 1
    vocabulary: int | None = None

    def __len__(self) -> int:
        return len(self.names)

    def places(self, space: LabelSpace) -> NDArray[np.int64]:
        """The columns of the space that each element tells of (k, outputs)."""
        spans = {variable.name: range(*span) for variable, span in zip(space.variables, space.spans)}
        return np.array([[column for name in names for column in spans[name]] for names in self.names], dtype=np.int64)

    def anchored(self, space: LabelSpace, columns: Columns) -> bool:
        """Whether, by label columns (n, width), some element has each of the values, and of yes and no both."""
        told = columns[:, self.places(space)].reshape(-1, self.places(space).shape[1])
        either = [variable.binary for name in self.names[0] for variable in space.variables if variable.name == name]
        both = not any(either) or bool((told == 0).any(axis=0).all())
        return both and bool((told == 1).any(axis=0).all())

    def said(self, space: LabelSpace, network: str) -> tuple[str, str]:
        """As a line of a plan: what the elements are, and why."""
        read = {name for names in self.names for name in names}
        rest = [variable.name for variable in space.variables if variable.name not in read]
        unread = f"; {listed(rest, 3)} {'is' if len(rest) == 1 else 'are'} not read" if rest else ""
        alike = "each among its neighbours" if network in IN_CONTEXT else "each by itself"
        return self.called, f"{len(self)}, read {alike} by one {network}: {self.reason}{unread}"


# ---- finding them ----


def find_elements(
    space: LabelSpace, shape: Sequence[int], asked: Any = "auto", network: Any = "auto"
) -> Elements | None:
    """The elements of rows of some shape, or None if a row is read as a whole.

    >>> pair = LabelSpace("digit[1..2]: 0..9\\ntotal: 0..18\\ndigit[1] + digit[2] = total")
    >>> find_elements(pair, (2, 28, 28)).names
    (('digit[1]',), ('digit[2]',))
    >>> find_elements(pair, (3, 28, 28)) is None
    True

    `asked`: the name of an array; names of arrays of the same length, if each element shows one variable of each;
    names of variables, one per element; None for none. "auto": the one array that has as many elements as rows have
    parts. Columns of a table are parts only for networks that read sequences, and a user's own module reads a whole row
    unless told otherwise.
    """
    if asked is None:
        return None
    if not isinstance(asked, str) or asked != "auto":
        return _told(space, tuple(shape), [asked] if isinstance(asked, str) else list(asked))
    among = isinstance(network, str) and network in IN_CONTEXT
    found = [] if isinstance(network, nn.Module) or len(shape) < (1 if among else 2) else list(_fitting(space, shape))
    if len(found) > 1:
        names = listed(one.called for one in found)
        raise DataError(
            f"rows of shape {tuple(shape)} have as many parts as several arrays have elements: {names}\n"
            f"Say which are shown, as in elements={found[0].called!r}; a list, if each part shows one of each; or "
            "elements=None, to read a row as a whole."
        )
    if among and not found:
        raise DataError(
            f"'{network}' reads elements of a row, and no array of the rules has as many elements as rows of shape "
            f"{tuple(shape)} have parts\nDeclare one, as in tag[1..{shape[0]}]: {{…}}; or name them by elements=[…]."
        )
    return found[0] if found else None


def _fitting(space: LabelSpace, shape: Sequence[int]) -> Iterator[Elements]:
    """The arrays that have as many elements, all alike, as rows have parts."""
    variables = {variable.name: variable for variable in space.variables}
    for name, array in Arrays(variables).elements.items():
        members = [variables[one] for one in array.values()]
        axes = _axes(list(array), shape)
        if axes and len(members) > 1 and _alike(members):
            parts = " × ".join(map(str, shape[:axes]))
            channels = "; elements=None would take them for channels" if len(shape) == 3 else ""
            reason = f"the one array that fits rows of {parts} parts{channels}"
            yield Elements(name, tuple((one.name,) for one in members), reason, axes)


def _axes(indices: Sequence[tuple[Any, ...]], shape: Sequence[int]) -> int:
    """How many axes of a row number the elements of an array: one, those of a whole grid, or 0 if it does not fit."""
    if len(indices) == shape[0]:
        return 1
    grid = tuple(len(set(axis)) for axis in zip(*indices))
    return len(grid) if tuple(shape[: len(grid)]) == grid and math.prod(grid) == len(indices) else 0


def _alike(variables: Sequence[Variable]) -> bool:
    return all(one.kind == variables[0].kind and one.values == variables[0].values for one in variables)


def _told(space: LabelSpace, shape: tuple[int, ...], asked: list[str]) -> Elements:
    """The elements that were asked for: arrays, or variables."""
    variables = {variable.name: variable for variable in space.variables}
    arrays = Arrays(variables).elements
    odd = next((name for name in asked if name not in arrays and name not in variables), None)
    if odd is not None or not asked:
        raise DataError(
            f"elements={asked!r}: there is no array and no variable {odd!r}\n"
            f"{nearest(str(odd), [*arrays, *variables])}Arrays: {listed(arrays) or 'none'}. "
            f"Variables: {listed(variables)}."
        )
    if all(name in arrays for name in asked):
        columns = [list(arrays[name].values()) for name in asked]
        axes = _axes(list(arrays[asked[0]]), shape)
    else:
        columns, axes = [[name for one in asked for name in arrays.get(one, {"": one}).values()]], 1
    if len({len(column) for column in columns}) > 1 or not axes or math.prod(shape[:axes]) != len(columns[0]):
        counts = listed(f"{len(column):,}" for column in columns)
        raise DataError(
            f"elements={asked!r}: {counts} elements, and rows of shape {shape} have {shape[0]:,} parts\n"
            "Give X as (n, elements, …), with the elements in the order of the variables."
        )
    if not all(_alike([variables[name] for name in column]) for column in columns):
        raise DataError(
            f"elements={asked!r} have different values, and one reader gives the same for all\n"
            "Declare them with the same values; rules can exclude some."
        )
    return Elements(listed(asked, 3), tuple(zip(*columns)), "as asked for", axes)


# ---- x for them ----


def standardiser_of(
    x: Any, weight: NDArray[np.float64], elements: Elements | None, network: Any, standardise: bool
) -> Standardiser:
    """How rows x (n, …) are brought to one scale: elements share theirs; whole numbers that are looked up stay."""
    if takes_whole_numbers(x, elements, network):
        return Standardiser(np.zeros(1), np.ones(1), whole=True)
    if elements is not None:
        each = x.reshape(len(x) * len(elements), *x.shape[1 + elements.axes :])
        x = each[:, None] if each.ndim in (1, 3) else each  # one feature, one channel
        weight = np.repeat(weight, len(elements))
    return Standardiser.fit(x, weight) if standardise else Standardiser.none(x)


def takes_whole_numbers(x: Any, elements: Elements | None, network: Any) -> bool:
    """Whether x is handed over as whole numbers: tokens, or the inputs of a module that looks them up."""
    if x.dtype.kind not in "iu" or not hasattr(x, "ndim"):
        return False
    if isinstance(network, nn.Module):
        return any(isinstance(module, nn.Embedding | nn.EmbeddingBag) for module in network.modules())
    return elements is not None and x.ndim == 1 + elements.axes


def with_tokens(elements: Elements | None, x: Any, network: Any) -> Elements | None:
    """The elements with their vocabulary, if they are tokens: numbers up to the largest in x."""
    if elements is None or isinstance(network, nn.Module) or not takes_whole_numbers(x, elements, network):
        return elements
    largest = int(x.max())
    if not 0 <= largest < MOST_TOKENS:
        raise DataError(
            f"the largest token of X is {largest:,}\nNumber tokens from 0, up to {MOST_TOKENS:,} different ones."
        )
    return replace(elements, vocabulary=largest + 1)


# ---- the network ----


def network_name(network: str, elements: Elements | None, shape: Sequence[int]) -> str:
    """The name that "auto" stands for, for rows of some shape."""
    if network != "auto":
        return network
    if elements is None:
        return "mlp" if len(shape) == 1 else "cnn"
    if elements.vocabulary is not None:
        return "sequence"
    return "cnn" if len(shape) - elements.axes > 1 else "mlp"


def build_network(
    network: str | nn.Module,
    elements: Elements | None,
    example: Tensor,
    space: LabelSpace,
    *,
    components: int = 1,
    seed: int | None = None,
) -> nn.Module:
    """The network of an estimator for rows like `example` (n, …), before it has learned anything."""
    named = network if isinstance(network, nn.Module) else network_name(network, elements, example.shape[1:])
    if elements is None:
        return make_network(named, example, output_width(space.width, components), seed=seed)
    if components > 1:
        raise ValueError(
            f"components={components} are for rows that are read as a whole, and here each element is read by itself\n"
            "Use components=1, or elements=None."
        )
    return make_element_network(
        named, example, elements.places(space), space.width, axes=elements.axes, vocabulary=elements.vocabulary,
        seed=seed,
    )  # fmt: skip


@torch.no_grad()
def begin_at_frequencies(network: nn.Module, elements: Elements, space: LabelSpace, outputs: Any) -> None:
    """Predictions of every element begin near the mean of those in `outputs` (width,).

    Constants of variables that no element tells of begin there too, unless a rule is about them: then they begin at 0,
    and what was read decides by the rule.
    """
    assert isinstance(network, ElementNetwork)
    begin_at(network.reader, np.asarray(outputs[elements.places(space)].mean(axis=0)))
    ruled = {name for rule in space.rules for name in rule.formula.names()}
    free = np.concatenate([np.full(len(v.columns), v.name not in ruled) for v in space.variables])
    network.constants.copy_(torch.from_numpy(np.where(free, outputs, 0.0)[network.unread]))
