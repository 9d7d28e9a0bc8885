"""Prior: what all priors share. Most priors are one line in terms of the prediction p(y | x, V)."""

from __future__ import annotations

import inspect
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks
from dssl.priors.predictive import Answers, Family, Predictive

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Unbound:
    """A prior that has its options but no label space yet; called with a space, it becomes the prior.

    >>> from dssl.priors import DeterministicPrior
    >>> sharp = DeterministicPrior(power=10.0)
    >>> sharp
    DeterministicPrior(power=10.0),not bound to a label space yet
    >>> float(sharp(LabelSpace("a, b")).power)
    10.0
    """

    kind: Callable[..., Prior]
    options: Mapping[str, Any]

    def __call__(self, space: LabelSpace) -> Prior:
        return self.kind(space, **self.options)

    def __repr__(self) -> str:
        return f"{self._written('')},not bound to a label space yet"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name in ("kind", "options"):
            raise AttributeError(name)
        raise AttributeError(f"{self!r}, so it has no '{name}'\nWrite {self._written('space')}.")

    def _written(self, first: str) -> str:
        told = [first] * bool(first) + [f"{name}={value!r}" for name, value in self.options.items()]
        return f"{self.kind.__name__}({', '.join(told)})"


class _PriorType(ABCMeta):
    """Makes priors, and those without a space as `Unbound`. Copies and pickles do not come this way."""

    @property
    def __signature__(cls) -> inspect.Signature:
        made = inspect.signature(cls.__init__)  # type: ignore[misc]
        return made.replace(parameters=[*made.parameters.values()][1:])

    def __call__(cls, *args: Any, **options: Any) -> Any:
        first = next(iter(cls.__signature__.parameters), "")
        if args or "space" in options or first != "space" or inspect.isabstract(cls):
            return super().__call__(*args, **options)
        cls.__signature__.bind(None, **options)  # an error for options that it does not have
        return Unbound(cls, options)


LATER: Any = None  # for a space that is given later


class Prior(nn.Module, metaclass=_PriorType):
    """Prior over predictions.

    log q(θ), to be maximised on unlabelled data (Eq. DSSL)

    `prior(logits, evidence=None)` maps logits (..., width) to what training maximises, (...). `evidence` (..., width)
    holds 1, 0 or NaN as `space.encode` gives it: values it contradicts get weight zero. `log_prob` is log q itself,
    which differs from `prior(logits)` only in priors that scale it. Rows do not see each other: the loss of a batch is
    the mean of its samples' losses. Finite logits give finite numbers and gradients; −inf makes a value impossible;
    NaN or +inf makes its row's answer NaN, which training refuses.
    """

    def __init__(self, space: LabelSpace, circuit: Answers | None = None) -> None:
        super().__init__()
        self.space, self.circuit = space, circuit
        self.blocks = Blocks(space)

    @property
    def family(self) -> Family:
        """Which labels there are, and who answers for the rules."""
        return Family(self.blocks, self.circuit)

    @abstractmethod
    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        """log q(θ) of logits (..., width); shape (...)."""

    def forward(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        """What training maximises; shape (...)."""
        return self.log_prob(logits, evidence)

    def predictive(self, logits: Tensor, evidence: Tensor | None = None) -> Predictive:
        """p(y | x, V) of logits (..., width), which log q is a function of."""
        return Predictive(logits, self.family, evidence)

    def plot(self, **options: Any) -> Figure:
        """Draw q, log q and their gradients; `dssl.priors.plots` says what is drawn for which space."""
        from dssl.priors import plots  # matplotlib is loaded when first needed

        return plots.plot(self, **options)

    def extra_repr(self) -> str:
        return repr(self.space)


class CircuitPrior(Prior):
    """A prior that asks a circuit about the rules, and uses closed forms where there are none.

    `circuit` is compiled from the space unless given: give one to raise the budget (``space.compile(budget_s=600)``),
    to approximate, or to weight labels. Without rules nothing is compiled.
    """

    def __init__(self, space: LabelSpace = LATER, *, circuit: Answers | None = None) -> None:
        if not isinstance(space, LabelSpace):
            raise TypeError(f"a prior needs a LabelSpace, not {type(space).__name__}\nWrite LabelSpace(text).")
        super().__init__(space, space.compile() if circuit is None and space.rules else circuit)
