"""A variational autoencoder of rows and labels: what M1 and M2 of Kingma et al. (2014) have in common."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from dssl.training.networks import Standardise

_LOG_2PI = math.log(2 * math.pi)


class Autoencoder(nn.Module):
    """p(z) p(y) p(x | y, z) with q(z | x, y), both with one hidden layer of `hidden` units.

    −log p(x, y) ≤ L(x, y) = KL(q(z | x, y) ‖ p(z)) − E_q(z | x, y)[log p(x | y, z)] − log p(y)

    Called with x (n, …) it gives L of all m `labels` (m, width), with one draw of z each: (n, m). z is a standard
    Gaussian of `latent` dimensions, p(y) is uniform. `example` (rows, …) tells how x is modelled: features between 0
    and 1 are Bernoulli, all others Gaussian, standardised, with a variance each.
    """

    labels: Tensor

    def __init__(self, labels: Tensor, example: Tensor, latent: int, hidden: int) -> None:
        super().__init__()
        example = example.flatten(1).float()
        self.features, width = example.shape[1], labels.shape[1]
        self.pixels = bool((example >= 0).all() and (example <= 1).all())
        self.register_buffer("labels", labels)
        self.scale = Standardise(example[:1])
        self.scale.fit(example)
        self.see, self.told = nn.Linear(self.features, hidden), nn.Linear(width, hidden, bias=False)
        self.encode = nn.Sequential(nn.ReLU(), nn.Linear(hidden, 2 * latent))
        self.imagine, self.asked = nn.Linear(latent, hidden), nn.Linear(width, hidden, bias=False)
        self.decode = nn.Sequential(nn.ReLU(), nn.Linear(hidden, self.features))
        self.log_variance = nn.Parameter(torch.zeros(self.features))

    def latents(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z | x, y) for all labels, (n, m, latent) each."""
        seen = self.see(self.scale(x.flatten(1)))
        mean, log_variance = self.encode(seen[:, None] + self.told(self.labels)).chunk(2, -1)
        return mean, log_variance

    def forward(self, x: Tensor) -> Tensor:
        mean, log_variance = self.latents(x)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        out = self.decode(self.imagine(z) + self.asked(self.labels))  # (n, m, features)
        away = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1)
        return away - self._log_density(x.flatten(1), out) + math.log(len(self.labels))

    def _log_density(self, x: Tensor, out: Tensor) -> Tensor:
        """log p(x | y, z), (n, m), from what the decoder says."""
        if self.pixels:
            every = x[:, None].expand_as(out)
            return -functional.binary_cross_entropy_with_logits(out, every, reduction="none").sum(-1)
        squares = (self.scale(x)[:, None] - out).square() * (-self.log_variance).exp()
        return -0.5 * (squares + self.log_variance + _LOG_2PI).sum(-1)
