"""Prior: what every prior shares, from logits and evidence to weights of values, and on to closed forms or circuits."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Generator, Tensor, nn

from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Answers(Protocol):
    """What a prior asks of compiled rules; `Circuit` answers all of it, an approximation some."""

    def log_wmc(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> Tensor: ...

    def mpe(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> tuple[Tensor, Tensor]: ...

    def entropy(self, log_pos: Tensor, log_neg: Tensor, /, *, strict: bool = False) -> Tensor: ...

    def sample(self, log_pos: Tensor, log_neg: Tensor, /, n: int = 1, generator: Generator | None = None) -> Tensor: ...


class Prior(nn.Module, ABC):
    """Prior over predictions.

    log q(θ), to be maximised on unlabelled data (Eq. DSSL)

    `prior(logits, evidence=None)` maps logits (..., width) to what training maximises, (...). `evidence` (..., width)
    holds 1, 0 or NaN as `space.encode` gives it: values it contradicts get weight zero. `log_prob` is log q itself,
    which differs from the former only in priors that scale it. Rows do not see each other: the loss of a batch is
    the mean of its samples' losses. Finite logits give finite numbers and gradients; −inf is a value that cannot be;
    NaN or +inf makes its row's answer NaN, which training refuses.
    """

    def __init__(self, space: LabelSpace) -> None:
        super().__init__()
        self.space = space
        self.blocks = Blocks(space)

    @abstractmethod
    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        """log q(θ) of logits (..., width); shape (...)."""

    def forward(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        """What training maximises; shape (...)."""
        return self.log_prob(logits, evidence)

    def plot(self, **options: Any) -> Figure:
        """Draw q, log q and their gradients; see `dssl.priors.plots` for what is drawn of which space."""
        from dssl.priors import plots  # matplotlib is loaded when first needed

        return plots.plot(self, **options)

    def extra_repr(self) -> str:
        return repr(self.space)

    # ---- for subclasses ----

    def log_theta(self, logits: Tensor) -> list[Tensor]:
        """log θ of all values by group of blocks: (..., n, K). Half precision is widened: log q needs the digits."""
        self._check(logits)
        logits = logits.float() if logits.dtype.itemsize < 4 else logits
        return [z.log_softmax(-1) for z in self.blocks.logits(logits)]

    def observed(self, values: list[Tensor], evidence: Tensor | None) -> list[Tensor]:
        """The log weights of values with those that evidence contradicts at −inf."""
        if evidence is None:
            return values
        self._check(evidence)
        allowed = self.blocks.allowed(evidence)
        return [value.masked_fill(~a, -math.inf) for value, a in zip(values, allowed)]

    def _check(self, x: Tensor) -> None:
        if x.dim() == 0 or x.shape[-1] != self.space.width or not x.is_floating_point():
            raise DataError(
                f"logits and evidence of shape {tuple(x.shape)} and type {x.dtype} do not fit\n"
                f"Give floats of shape (..., {self.space.width}): one column each of {self.space!r}."
            )


class CircuitPrior(Prior):
    """A prior that asks a circuit about the rules, and uses closed forms where there are none.

    `circuit` is compiled from the space unless given: give one to raise the budget (``space.compile(budget_s=600)``),
    to approximate, or to weight labels. Without rules nothing is compiled.
    """

    def __init__(self, space: LabelSpace, *, circuit: Answers | None = None) -> None:
        super().__init__(space)
        self.circuit = space.compile() if circuit is None and space.rules else circuit

    def ask(self, query: str, values: list[Tensor]) -> Any:
        """A query of the circuit at the log weights of values by group."""
        return _ask(self.circuit, query, *self.blocks.literals(values))


@torch.compiler.disable
def _ask(circuit: Any, query: str, log_pos: Tensor, log_neg: Tensor) -> Any:
    """Out of the sight of `torch.compile`, which cannot trace kernels and calls this as it is."""
    if torch._C._functorch.is_functorch_wrapped_tensor(log_pos):
        raise RuntimeError(
            "rules cannot be evaluated inside torch.func.vmap, grad or jvp: their circuit runs in kernels that torch "
            "does not see into. Call the prior on the whole batch, of any leading shape, and use torch.autograd."
        )
    return getattr(circuit, query)(log_pos, log_neg)


def total(values: list[Tensor]) -> Tensor:
    """log of the sum over all labels without rules: blocks are independent, so their sums multiply; shape (...)."""
    return over_blocks([value.logsumexp(-1) for value in values])


def over_blocks(parts: list[Tensor]) -> Tensor:
    """What blocks contribute, (..., n) by group, added up; shape (...)."""
    out = parts[0].sum(-1)
    for part in parts[1:]:
        out = out + part.sum(-1)
    return out
