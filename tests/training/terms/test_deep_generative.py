"""M2: its two losses in terms of the bound, on every kind of label space."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import oracle
from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.models.estimators import DSSLClassifier
from dssl.training.terms.deep_generative import M2
from priors.cases import SPACES, evidence_of, logits_of
from training.looks import look_at


class Fixed(nn.Module):
    """Stands for the autoencoder: the bound of label k of row i is as given."""

    def __init__(self, labels: Tensor, bound: Tensor, features: int) -> None:
        super().__init__()
        self.labels, self.bound, self.features = labels, bound, features

    def forward(self, x: Tensor) -> Tensor:
        return self.bound


SMALL = sorted(name for name, space in SPACES.items() if space.count() <= 64)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("known", [False, True])
def test_the_sum_over_labels(name: str, known: bool) -> None:
    """U(x) = Σ_y q(y | x) (L(x, y) + log q(y | x)) with q given the rules and what is known (Eqs. 7 and 8)."""
    space = LabelSpace.of(SPACES[name].variables, [r for r in SPACES[name].rules if r.probability is None])
    logits = logits_of(space, 4)
    y = evidence_of(space, 4, seed=3) if known else None
    rows = oracle.valid_columns(space.constraints)
    term = M2()
    term.prepare(space, nn.Identity(), ArrayData(logits.numpy(), np.full((4, space.width), np.nan)))
    assert term.model is not None
    labels = term.model.labels.numpy().astype(bool)
    assert {tuple(row) for row in labels} == {tuple(row) for row in rows}
    bound = torch.rand(4, len(labels), dtype=torch.float64) * 5
    term.model = Fixed(term.model.labels.double(), bound, 7)  # type: ignore[assignment]
    found = term(look_at(space, logits, y))
    for i in range(4):
        p = oracle.probabilities(labels, *oracle.log_literals(space.variables, logits[i]))
        if y is not None:
            p = oracle.given_labels(labels.astype(float), p, y[i].numpy())
        expected = sum(q * (float(b) + math.log(q)) for q, b in zip(p, bound[i]) if q > 0) / 7
        assert found[i].item() == pytest.approx(expected, rel=1e-6)


def test_a_labelled_row_costs_the_bound_of_its_label() -> None:
    space = LabelSpace.classes(["a", "b", "c"])
    logits = logits_of(space, 2)
    term = M2()
    term.prepare(space, nn.Identity(), ArrayData(logits.numpy(), np.full((2, 3), np.nan)))
    bound = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=torch.float64)
    term.model = Fixed(torch.eye(3, dtype=torch.float64), bound, 2)  # type: ignore[assignment]
    y = torch.tensor([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0]], dtype=torch.float64)
    assert term(look_at(space, logits, y)).tolist() == [1.0, 2.0]


def test_it_learns_where_classes_are_clouds() -> None:
    """Three labels and 300 rows of three clouds: the model of x finds them."""
    random = np.random.default_rng(0)
    kind = np.arange(300) % 3
    x = np.array([[0.0, 3.0], [3.0, 0.0], [-3.0, -2.0]])[kind] + random.normal(size=(300, 2))
    y = np.where(np.arange(300) < 3, kind, -1)
    model = DSSLClassifier(prior=None, consistency=M2(hidden=64, latent=4), steps=300, random_state=0, calibrate=False)
    assert model.fit(x, y).score(x, kind) > 0.9


def test_too_many_labels_and_tokens_are_refused() -> None:
    data = ArrayData(np.zeros((2, 3)), np.full((2, 7), np.nan))
    with pytest.raises(ValueError, match="at most 64, and this space has 128"):
        M2().prepare(LabelSpace("a, b, c, d, e, f, g"), nn.Identity(), data)
    tokens = ArrayData(torch.zeros(2, 3, dtype=torch.int64), np.full((2, 1), np.nan))
    with pytest.raises(DataError, match=r"x is of torch\.int64"):
        M2().prepare(LabelSpace("a"), nn.Identity(), tokens)
    with pytest.raises(ValueError, match=r"Call objective\.prepare"):
        M2()(look_at(LabelSpace("a"), torch.zeros(1, 1)))
