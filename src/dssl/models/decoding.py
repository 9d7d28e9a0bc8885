"""Decoder: logits in, valid labels and their probabilities out. All that a deployed network needs."""

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
from dssl.models.decisions import DECISIONS, Prediction, by_marginals, most_probable
from dssl.priors.blocks import Blocks
from dssl.priors.mixture import output_width, predicted
from dssl.priors.predictive import Answers, Family, Predictive

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
    `decision` says which label is best, see `dssl.models.decisions`. With several `components`, logits are those of a
    `Mixture`, (n, M·width + M).
    Columns are those of the space; results are arrays with one row per row of logits.

    `evidence` (n, width), as `LabelSpace.encode` gives it, is what is known about each row: answers are then given it
    too, exactly. Evidence that leaves no valid label is an error.

    >>> fins = [[np.nan, 1, np.nan]]  # they were seen
    >>> decoder.decode([[2.0, 1.0, -1.0]], evidence=fins)
    [{'legs': False, 'fins': True, 'wings': False}]
    """

    def __init__(
        self,
        space: LabelSpace | str,
        circuit: Answers | None = None,
        decision: str = "most probable",
        *,
        components: int = 1,
    ) -> None:
        self.space = LabelSpace(space) if isinstance(space, str) else space
        self.circuit = circuit if circuit is not None or not self.space.rules else self.space.compile()
        self.decision, self.components, self._blocks = decision, components, Blocks(self.space)

    def predictive(self, logits: Tensor, evidence: Tensor | None = None, *, rules: bool = True) -> Prediction:
        """p(y | x, V) of logits (..., width), given the evidence if there is any, or without the rules."""
        family = Family(self._blocks, self.circuit if rules else None)
        return predicted(logits, family, self.components, evidence, strict=self.components == 1)

    def decode(self, logits: Any, form: str = "records", evidence: Any = None) -> Any:
        """The best valid label of each row, in any form that `LabelSpace.decode` knows."""
        return self.space.decode(self.best(logits, evidence), form)

    def best(self, logits: Any, evidence: Any = None) -> Columns:
        """The best valid label by `decision`, by default the most probable, as columns (n, width) of 0 and 1."""
        return self._by_rows(logits, lambda z, e: DECISIONS[self.decision](self.predictive(z, e)), evidence)

    def raw(self, logits: Any) -> Columns:
        """What the network alone would say, without the rules: the most probable value of each variable, as columns."""
        alone = (
            most_probable if self.components == 1 else by_marginals
        )  # without rules and with one component, the same
        return self._by_rows(logits, lambda z, _: alone(self.predictive(z, rules=False)))

    def theta(self, logits: Any) -> NDArray[np.float32]:
        """θ, the network's own probability of each column (n, width): softmax within blocks, sigmoid for binaries."""
        return self._by_rows(logits, lambda z, _: self.predictive(z, rules=False).theta)

    def marginals(self, logits: Any, evidence: Any = None) -> NDArray[np.float32]:
        """The probability of each column given that the label is valid (n, width)."""
        return self._by_rows(logits, lambda z, e: self.predictive(z, e).marginals, evidence)

    def sample(self, logits: Any, n: int = 1, seed: int | None = None, evidence: Any = None) -> Columns:
        """`n` valid labels for each row, drawn from p(y | valid): columns (n, rows, width)."""
        generator = torch.Generator()
        generator.manual_seed(seed) if seed is not None else generator.seed()
        z = self._checked(logits)
        return self.predictive(z, self._seen(evidence, z)).sample(n, generator).numpy().astype(np.float32)

    def contradicted(self, evidence: Any) -> dict[int, str]:
        """The rows whose evidence (n, width) leaves no valid label, each with the rules that it contradicts."""
        known = torch.from_numpy(np.asarray(evidence, np.float32))
        bad: list[int] = []
        for start in range(0, len(known) if self.circuit is not None else 0, _ROWS):
            part = known[start : start + _ROWS]
            even = Predictive(torch.zeros_like(part), Family(self._blocks, self.circuit), part)
            bad += (start + (even.log_valid == -torch.inf).nonzero()[:, 0]).tolist()
        found = self.space.check(known[bad].numpy()) if bad else ()
        return {bad[row]: "; ".join(map(str, rules)) for row, rules in found}

    def violations(self, logits: Any) -> Violations:
        """Which rules the raw predictions would break in which rows."""
        return self.space.check(self.raw(logits))

    # ---- shared ----

    def _by_rows(self, logits: Any, answer: Any, evidence: Any = None) -> NDArray[np.float32]:
        z = self._checked(logits)
        seen = self._seen(evidence, z)
        out = np.empty((len(z), self.space.width), dtype=np.float32)
        for start in range(0, len(z), _ROWS):
            rows = slice(start, start + _ROWS)
            out[rows] = answer(z[rows], None if seen is None else seen[rows]).numpy()
        return out

    def _seen(self, evidence: Any, z: Tensor) -> Tensor | None:
        """Evidence about the rows of logits z, checked."""
        if evidence is None:
            return None
        known = self.space.encode(evidence)
        if len(known) != len(z):
            raise DataError(
                f"evidence about {len(known):,} rows for {len(z):,} rows of X\nGive one row of evidence for each."
            )
        bad = self.contradicted(known)
        if bad:
            row, rules = next(iter(bad.items()))
            more = f", and {len(bad) - 1:,} rows more" if len(bad) > 1 else ""
            raise DataError(
                f"row {row}{more}: the evidence contradicts the rules: {rules}\n"
                "Correct it, or leave some of it unknown."
            )
        return torch.from_numpy(known)

    def _checked(self, logits: Any) -> Tensor:
        array = logits.detach().cpu() if isinstance(logits, Tensor) else torch.from_numpy(np.array(logits, np.float32))
        z = array.to(torch.float32)
        width = output_width(self.space.width, self.components)
        if z.dim() != 2 or z.shape[1] != width:
            each = "one column each" if self.components == 1 else f"for {self.components} components"
            raise DataError(
                f"logits of shape {tuple(z.shape)} do not fit\nGive a matrix (n, {width}), {each} of {self.space!r}."
            )
        bad = ~z.isfinite().all(1)
        if bool(bad.any()):
            raise DataError(
                f"the network's output is not finite in {int(bad.sum())} rows, first in row {int(bad.int().argmax())}\n"
                "Training may have diverged: lower the learning rate, and look for extreme values in the features."
            )
        return z
