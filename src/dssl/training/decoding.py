"""Decoder: logits in, valid labels and their probabilities out. All a deployed network needs besides itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dssl.errors import DataError
from dssl.logic.labels import Columns
from dssl.logic.space import LabelSpace
from dssl.logic.validity import Violations
from dssl.priors.blocks import Blocks
from dssl.priors.prior import Answers

_ROWS = 8192  # decoded at a time: bounds memory on long inputs


class Decoder:
    """Answers about labels from a network's logits (n, width), as arrays or tensors; every label it gives is valid.

    >>> decoder = Decoder("legs, fins, wings\\nlegs -> !fins")
    >>> decoder.decode([[2.0, 1.0, -1.0]])  # raw, legs and fins would both hold
    [{'legs': True, 'fins': False, 'wings': False}]
    >>> decoder.marginals([[2.0, 1.0, -1.0]]).round(2)
    array([[0.67, 0.24, 0.27]], dtype=float32)
    >>> print(decoder.violations([[2.0, 1.0, -1.0]]))
    1 of 1 rows break the rules
      line 2: legs -> !fins
        1 row: 0

    `space`: a `LabelSpace` or its text. `circuit` answers for the rules; it is compiled from the space unless given.
    Columns are those of the space; results are arrays of as many rows as the logits have.
    """

    def __init__(self, space: LabelSpace | str, circuit: Answers | None = None) -> None:
        self.space = LabelSpace(space) if isinstance(space, str) else space
        self.circuit = circuit if circuit is not None or not self.space.rules else self.space.compile()
        self._blocks = Blocks(self.space)

    def decode(self, logits: Any, form: str = "records") -> Any:
        """The most probable valid label of each row, in any form that `LabelSpace.decode` knows."""
        return self.space.decode(self.best(logits), form)

    def best(self, logits: Any) -> Columns:
        """The most probable valid label as columns (n, width) of 0 and 1."""
        if self.circuit is None:
            return self.raw(logits)
        circuit = self.circuit
        return self._by_rows(logits, lambda z: circuit.mpe(*self._literals(z), strict=True)[0])

    def raw(self, logits: Any) -> Columns:
        """What the network alone would say, rules or not: the most probable value of each variable, as columns."""
        return self._by_rows(logits, self._arg_max)

    def theta(self, logits: Any) -> NDArray[np.float32]:
        """θ, the network's own probability of each column (n, width): softmax within blocks, sigmoid for binaries."""
        return self._by_rows(logits, lambda z: self._literals(z)[0].exp())

    def marginals(self, logits: Any) -> NDArray[np.float32]:
        """The probability of each column given that the label is valid (n, width)."""
        if self.circuit is None:
            return self.theta(logits)
        circuit: Any = self.circuit
        return self._by_rows(logits, lambda z: circuit.marginals(*self._literals(z), strict=True).clamp(0, 1))

    def sample(self, logits: Any, n: int = 1, seed: int | None = None) -> Columns:
        """`n` valid labels for each row, drawn from p(y | valid): columns (n, rows, width)."""
        generator = torch.Generator()
        generator.manual_seed(seed) if seed is not None else generator.seed()
        z = self._checked(logits)
        log_pos, log_neg = self._literals(z)
        if self.circuit is not None:
            return self.circuit.sample(log_pos, log_neg, n, generator).numpy().astype(np.float32)
        values = [t.log_softmax(-1).exp() for t in self._blocks.logits(z)]  # (rows, variables, K) by group
        parts = []
        for group, p in zip(self._blocks.groups, values):
            flat = p.flatten(0, -2)  # (rows · variables, K)
            drawn = torch.multinomial(flat, n, replacement=True, generator=generator).T
            one = torch.nn.functional.one_hot(drawn, p.shape[-1]).unflatten(1, p.shape[:-1])
            parts.append(one[..., 1:] if group.binary else one)
        return self._blocks.joined(parts).numpy().astype(np.float32)

    def violations(self, logits: Any) -> Violations:
        """Which rules the raw predictions would break in which rows."""
        return self.space.check(self.raw(logits))

    # ---- shared ----

    def _literals(self, logits: Tensor) -> tuple[Tensor, Tensor]:
        return self._blocks.literals([z.log_softmax(-1) for z in self._blocks.logits(logits)])

    def _arg_max(self, logits: Tensor) -> Tensor:
        parts = []
        for group, z in zip(self._blocks.groups, self._blocks.columns(logits)):
            parts.append(z > 0 if group.binary else torch.nn.functional.one_hot(z.argmax(-1), group.size).bool())
        return self._blocks.joined(parts)

    def _by_rows(self, logits: Any, answer: Any) -> NDArray[np.float32]:
        z = self._checked(logits)
        out = np.empty(z.shape, dtype=np.float32)
        for start in range(0, len(z), _ROWS):
            out[start : start + _ROWS] = answer(z[start : start + _ROWS]).numpy()
        return out

    def _checked(self, logits: Any) -> Tensor:
        array = logits.detach().cpu() if isinstance(logits, Tensor) else torch.from_numpy(np.array(logits, np.float32))
        z = array.to(torch.float32)
        if z.dim() != 2 or z.shape[1] != self.space.width:
            raise DataError(
                f"logits of shape {tuple(z.shape)} do not fit\nGive a matrix (n, {self.space.width}), one column each "
                f"of {self.space!r}."
            )
        bad = ~z.isfinite().all(1)
        if bool(bad.any()):
            raise DataError(
                f"the network's output is not finite in {int(bad.sum())} rows, first in row {int(bad.int().argmax())}\n"
                "Training may have diverged: lower the learning rate, and look for extreme values in the features."
            )
        return z
