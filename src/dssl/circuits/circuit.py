"""Circuit: a deterministic, decomposable circuit over the columns of a label space, as flat arrays.

Nodes stand in topological order, children before parents, the root last. `kind` is one of FALSE, TRUE, LITERAL,
AND, OR; `literal` holds ``column + 1`` for "column is true" and ``-(column + 1)`` for "column is false"
(0 for other kinds); the children of node n are ``child[ptr[n]:ptr[n + 1]]``.

Columns are those of the space, followed by one column per soft rule (true exactly when the rule holds).
A binary column stands alone. The columns of a categorical variable form a block of which exactly one is true:
its literals are positive only, and two of them exclude each other. A variable that a branch does not mention is
free there.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from dssl import files
from dssl.circuits.formats import packed
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, levels
from dssl.errors import DataError
from dssl.logic.language.variables import shown

if TYPE_CHECKING:
    from torch import Generator, Tensor

    from dssl.circuits.verification import Verification

_MOST = (1 << 31) - 8  # nodes, edges and literals together: the kernels number them in 32 bits
_FORMAT, _VERSION = "dssl circuit", 1
_ANEW = "Compile the rules with this version of dssl and save the circuit again."
_DTYPES = {
    "kind": np.int8,
    "literal": np.int32,
    "ptr": np.int64,
    "child": np.int32,
    "starts": np.int32,
    "categorical": np.bool_,
}


@dataclass(frozen=True, eq=False)
class Circuit:
    """A deterministic, decomposable circuit; see the module's docstring for the form of its arrays.

    `log_pos` and `log_neg` of every query are float tensors (..., width): the log weight of each column being true
    and being false. Weights need not sum to one, and a weight of −inf is evidence. Every query is exact, batched over
    the leading shape and, where its answer is a number, differentiable. With `strict=True` a query raises `DataError`
    when the weights of a row leave no valid label; otherwise that row's log weight is −inf.

    Threads may share it: queries change nothing, and its arrays cannot be written to.
    """

    kind: NDArray[np.int8]
    literal: NDArray[np.int32]
    ptr: NDArray[np.int64]
    child: NDArray[np.int32]
    starts: NDArray[np.int32]  # first column of each block, and one past the last: soft rules are binary blocks
    categorical: NDArray[np.bool_]  # of each block
    names: tuple[str, ...]  # of the space's columns (soft rules' columns follow and have no name)
    soft: tuple[float, ...] = ()  # probability p of each soft rule

    def __post_init__(self) -> None:
        for name, dtype in _DTYPES.items():
            # a copy that nobody else can write to: what was proved of it stays true
            object.__setattr__(self, name, _sealed(np.array(getattr(self, name), dtype, order="C")))
        object.__setattr__(self, "names", tuple(self.names))
        object.__setattr__(self, "soft", tuple(float(p) for p in self.soft))
        if reason := _fault_of_shapes(self) or _fault_of_blocks(self) or _fault_of_nodes(self):
            raise DataError(f"these arrays are not a circuit: {reason}. See the docstring of dssl.circuits.circuit.")

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle or copy: numpy forgets that an array cannot be written to."""
        self.__dict__.update(state)
        for value in state.values():
            if isinstance(value, np.ndarray):
                _sealed(value)

    def __repr__(self) -> str:
        return f"Circuit({self.nodes} nodes, {self.edges} edges, {self.width} columns)"

    # ---- size ----

    @property
    def width(self) -> int:
        """Columns of the space: what `log_pos` and `log_neg` have last."""
        return len(self.names)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.kind)

    @property
    def edges(self) -> int:
        """Number of edges from parents to children."""
        return len(self.child)

    @property
    def depth(self) -> int:
        """Edges on the longest path from the root to a leaf."""
        return int(self.levels[-1])

    @cached_property
    def levels(self) -> NDArray[np.int32]:
        """Edges on the longest path from each node to a leaf, shape (nodes,)."""
        return _sealed(levels(self.ptr, self.child))

    @cached_property
    def block_of_column(self) -> NDArray[np.int32]:
        """The block each column belongs to, shape (columns,)."""
        return _sealed(np.repeat(np.arange(len(self.categorical), dtype=np.int32), np.diff(self.starts)))

    def count(self, over: Iterable[int] | None = None) -> int:
        """The number of valid labels, exactly: a Python integer of any size.

        A variable that nothing mentions is free and multiplies the count by its number of values; soft rules are
        settled by the other variables and never change it. `over` some blocks: how many of their labels can be
        completed to a valid one.
        """
        from dssl.circuits import counting, projection, proof

        proof.require_deterministic(self)
        return counting.models(self) if over is None else projection.projected(self, over)

    def log_weight(self, weights: NDArray[np.float64]) -> float:
        """log Σ over valid labels of Π literal weights: of each column being true and false, an array (width, 2)."""
        import torch

        with np.errstate(divide="ignore"):
            logs = torch.from_numpy(np.log(np.asarray(weights, np.float64)))
        return float(self.log_wmc(logs[:, 0].contiguous(), logs[:, 1].contiguous()))

    # ---- questions ----

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """log of the sum, over valid labels, of the product of literal weights (MATH §4); shape (...)."""
        from dssl.circuits import queries

        return queries.log_wmc(self, log_pos, log_neg, strict=strict)

    def marginals(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """P(column is true | valid, weights) of each column; shape (..., width).

        A row whose weights leave no valid label has marginals 0.
        """
        from dssl.circuits import queries

        return queries.marginals(self, log_pos, log_neg, strict=strict)

    def mpe(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The heaviest valid label, bool (..., width), and its log weight (...).

        A row whose weights leave no valid label has log weight −inf and a label that is all false.
        """
        from dssl.circuits import queries

        return queries.mpe(self, log_pos, log_neg, strict=strict)

    def top_k(self, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
        """The k heaviest valid labels, bool (..., k, width), heaviest first, and their log weights (..., k).

        Where fewer than k labels are valid the rest have log weight −inf and are all false.
        """
        from dssl.circuits import queries

        return queries.top_k(self, log_pos, log_neg, k, strict=strict)

    def sample(self, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: Generator | None = None) -> Tensor:
        """n independent valid labels for each row, drawn exactly in proportion to weight; bool (n, ..., width).

        The same `generator` state gives the same labels. A row whose weights leave no valid label is a `DataError`.
        """
        from dssl.circuits import queries

        return queries.sample(self, log_pos, log_neg, n, generator)

    def entropy(self, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
        """Entropy, in nats, of the distribution over valid labels in proportion to weight; shape (...).

        A row whose weights leave no valid label has entropy 0.
        """
        from dssl.circuits import queries

        return queries.entropy(self, log_pos, log_neg, strict=strict)

    # ---- inspection, files ----

    def verify(self) -> Verification:
        """Prove that every AND is decomposable and every OR deterministic, or name a counter-example."""
        from dssl.circuits import verification

        return verification.verify(self)

    def to_dot(self) -> str:
        """The circuit as Graphviz text, for circuits of up to 200 nodes."""
        from dssl.circuits.formats import drawing

        return drawing.to_dot(self)

    def to_svg(self) -> str:
        """The circuit as an SVG picture, for circuits of up to 200 nodes."""
        from dssl.circuits.formats import drawing

        return drawing.to_svg(self)

    def to_nnf(self) -> str:
        """The circuit as c2d's `.nnf` text over plain Boolean columns; see `dssl.circuits.formats.nnf.to_nnf`."""
        from dssl.circuits.formats import nnf

        return nnf.to_nnf(self)

    @classmethod
    def from_nnf(cls, source: str | Path, *, variables: int | None = None) -> Circuit:
        """Read c2d's or d4's `.nnf`, from a path or a text; see `dssl.circuits.formats.nnf.from_nnf`."""
        from dssl.circuits.formats import nnf

        return nnf.from_nnf(source, variables=variables)

    @classmethod
    def from_sdd(cls, path: str | Path, vtree: str | Path | None = None) -> Circuit:
        """Read an `.sdd` file; see `dssl.circuits.formats.sdd.from_sdd`."""
        from dssl.circuits.formats import sdd

        return sdd.from_sdd(path, vtree)

    @classmethod
    def paths(
        cls,
        edges: Mapping[str, tuple[Hashable, Hashable]] | Iterable[tuple[Hashable, Hashable]],
        source: Hashable,
        target: Hashable,
        *,
        budget_s: float = 60.0,
        budget_nodes: int = 20_000_000,
        budget_bytes: int | None = None,
    ) -> Circuit:
        """The simple paths of a graph, one column per edge; see `dssl.circuits.compile.native.paths.simple_paths`."""
        from dssl.circuits.compile.native import paths

        return paths.simple_paths(
            edges, source, target, budget_s=budget_s, budget_nodes=budget_nodes, budget_bytes=budget_bytes
        )

    def save(self, path: str | Path) -> None:
        """Write the circuit to `path` (npz, no pickle): the whole file appears, or none of it."""
        meta = {"format": _FORMAT, "version": _VERSION, "names": self.names, "soft": self.soft}
        arrays = {name: getattr(self, name) for name in _DTYPES}
        arrays["meta"] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
        with files.whole_file(path) as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | Path) -> Circuit:
        """Read a circuit that `save` wrote."""
        try:
            arrays = packed.arrays(path)
            meta = json.loads(bytes(arrays["meta"]))
            ours, version = meta["format"] == _FORMAT, meta["version"]
            fields = {name: arrays[name] for name in _DTYPES} if ours and version == _VERSION else None
        except DataError:  # a folder
            raise
        except (KeyError, TypeError, ValueError, RecursionError) as error:
            raise DataError(f"{path} is not a circuit saved by dssl, or was cut short. {_ANEW}") from error
        if fields is None:
            fact = (
                f"has circuit format {shown(str(version))}, and this dssl reads {_VERSION}"
                if ours
                else "is not a circuit"
            )
            raise DataError(f"{path} {fact}. {_ANEW}")
        try:
            _refuse_other_types(fields, meta["names"])
            return cls(**fields, names=tuple(meta["names"]), soft=tuple(meta["soft"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path} is damaged: {str(error).rstrip('.')}. {_ANEW}") from error


def _sealed(array: NDArray[Any]) -> NDArray[Any]:
    array.flags.writeable = False
    return array


def _refuse_other_types(fields: Mapping[str, NDArray[Any]], names: Any) -> None:
    """Numbers of another type may not fit the circuit's own, and would change silently."""
    for name, dtype in _DTYPES.items():
        if fields[name].dtype != dtype:
            raise ValueError(f"`{name}` is of {fields[name].dtype}, not of {np.dtype(dtype)}.")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("`names` are not texts.")


def _fault_of_shapes(c: Circuit) -> str:
    """Which array is not a vector, or nothing."""
    odd = next((name for name in _DTYPES if getattr(c, name).ndim != 1), None)
    return f"`{odd}` has shape {getattr(c, odd).shape}" if odd is not None else ""


def _fault_of_blocks(c: Circuit) -> str:
    """What is wrong with the blocks, or nothing."""
    sizes = np.diff(c.starts)
    hard = len(c.categorical) - len(c.soft)
    if len(c.starts) != len(c.categorical) + 1 or c.starts[0] != 0 or (sizes < 1).any():
        return "`starts` must rise from 0, with one entry more than `categorical`"
    if c.starts[-1] != c.width + len(c.soft):
        return f"`starts` ends at {c.starts[-1]}, but there are {c.width} names and {len(c.soft)} soft rules"
    if (sizes[~c.categorical] != 1).any():
        return "a binary block must have one column"
    if hard < 0 or c.categorical[hard:].any():
        return "the blocks of soft rules must be binary and come last"
    if not all(0 <= p <= 1 for p in c.soft):
        return f"soft rules need probabilities between 0 and 1, not {c.soft}"
    return ""


def _fault_of_nodes(c: Circuit) -> str:
    """What is wrong with the nodes, or nothing."""
    n, arity = len(c.kind), np.diff(c.ptr)
    if 2 * int(c.starts[-1]) + n + len(c.child) > _MOST:
        return f"{n:,} nodes and {len(c.child):,} edges over {c.starts[-1]:,} columns are more than kernels can number"
    if n == 0 or len(c.literal) != n or len(c.ptr) != n + 1:
        return f"`kind`, `literal` and `ptr` must describe the same nodes, at least one ({n} kinds)"
    if c.ptr[0] != 0 or c.ptr[-1] != len(c.child) or (arity < 0).any():
        return "`ptr` must rise from 0 to the number of edges"
    if c.kind.min() < FALSE or c.kind.max() > OR:
        return f"unknown kinds of node ({c.kind.min()} to {c.kind.max()})"
    if ((arity > 0) != (c.kind >= AND)).any():
        return "AND and OR need children, and other nodes have none"
    if len(c.child) and (c.child.min() < 0 or (c.child >= np.repeat(np.arange(n), arity)).any()):
        return "children must come before their parents"
    if ((c.literal != 0) != (c.kind == LITERAL)).any():
        return "literals, and only they, have a column"
    columns = np.abs(c.literal.astype(np.int64)) - 1
    if columns.max() >= c.starts[-1]:
        return f"a literal names column {columns.max() + 1} of {c.starts[-1]}"
    negative = columns[c.literal < 0]
    if c.categorical[c.block_of_column[negative]].any():
        return "a categorical variable has a negative literal"
    return ""
