"""Ridge models: what ridge regression learned from labels, as a module that answers for any row."""

from __future__ import annotations

import torch
from torch import Tensor

from dssl.logic.space import LabelSpace
from dssl.models.auto.beside import Machine, digits

KINDS = ("linear", "wide", "narrow", "laplace")


class RidgeModel(Machine):
    """Logits (n, width) of rows x (n, features) by their similarities to some rows, the marks (m, features).

    Predictions of label columns are mean + K(x, marks) · coefficients.
    """

    marks: Tensor
    coefficients: Tensor
    scale: Tensor

    def __init__(self, space: LabelSpace, kind: str, marks: int, features: int) -> None:
        super().__init__(space)
        if kind not in KINDS:
            raise ValueError(f"there is no similarity {kind!r}: choose among {', '.join(KINDS)}")
        self.kind = kind
        self.register_buffer("marks", torch.zeros(marks, features))
        self.register_buffer("coefficients", torch.zeros(marks, space.width))
        self.register_buffer("scale", torch.tensor(1.0))

    def moves(self, x: Tensor) -> Tensor:
        # sums of large terms of both signs: in single precision a row's answer would depend on the rows beside it
        exact = digits(x)
        marks, coefficients, scale = (part.to(exact) for part in (self.marks, self.coefficients, self.scale))
        return similarity(self.kind, x.flatten(1).to(exact), marks, scale) @ coefficients


def similarity(kind: str, x: Tensor, marks: Tensor, scale: Tensor) -> Tensor:
    """Similarities of rows (n, features) to marks (m, features): (n, m)."""
    product = x @ marks.T
    if kind == "linear":
        return product / scale
    apart = (x.square().sum(1, keepdim=True) + marks.square().sum(1) - 2 * product).clamp_min(0) / scale
    return {"wide": -apart, "narrow": -4 * apart, "laplace": -apart.sqrt()}[kind].exp()
