"""The stochastic case: what p(θ) is when classes overlap (MATH §6), in closed form for two Gaussians, else numerically.

With d = μ₁−μ₀, s = d²/σ² and ℓ = log(π₁/π₀), θ = p(y=1 | x) has logit θ | y=k ~ N(ℓ + (k−½)s, s).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Generator, Tensor

from dssl.errors import DataError
from dssl.logic.space import LabelSpace
from dssl.priors.prior import Prior
from dssl.priors.relaxations import POWER, DeterministicPrior

_NORMAL = 0.5 * math.log(2 * math.pi)


class GaussianPrior(Prior):
    """Two overlapping classes: x | y=k ~ N(μ_k, σ²) with p(y=k) = π_k.

    log q(θ) = log Σ_k π_k N(logit θ; ℓ + (k−½)s, s) − log θ(1−θ)

    >>> import torch
    >>> from dssl.priors import GaussianPrior
    >>> prior = GaussianPrior(means=(0.0, 2.0), variance=1.0, weights=(0.7, 0.3))
    >>> prior.log_prob(torch.zeros(1, 1)).exp()  # the density at θ = ½
    tensor([0.4055])

    `means`, `variance` and `weights` (which sum to one) are those of x. `space` has one variable with two values, by
    default one binary; the logit of θ is its single logit, or the second of two logits minus the first. Evidence
    that y = k gives the component p(θ, y=k). The density is of θ on [0, 1], and p(θ, y=1) = θ p(θ).

    Threads may share it, while none changes its parameters.
    """

    means: Tensor
    variance: Tensor
    weights: Tensor

    def __init__(
        self,
        means: Sequence[float],
        variance: float,
        weights: Sequence[float] = (0.5, 0.5),
        *,
        space: LabelSpace | None = None,
    ) -> None:
        super().__init__(LabelSpace("y") if space is None else space)
        if len(self.blocks.groups) != 1 or self.blocks.groups[0].size != 2 or len(self.space.variables) != 1:
            raise ValueError(f"GaussianPrior needs one variable with two values, not {self.space!r}")
        if len(means) != 2 or means[0] == means[1] or variance <= 0:
            raise ValueError(f"two different means and a positive variance are needed, not {means} and {variance}")
        if len(weights) != 2 or min(weights) <= 0 or abs(sum(weights) - 1) > 1e-6:
            raise ValueError(f"two positive weights that sum to one are needed, not {weights}")
        for name, value in (("means", means), ("variance", variance), ("weights", weights)):
            self.register_buffer(name, torch.tensor(value, dtype=torch.get_default_dtype()))

    @property
    def separation(self) -> Tensor:
        """s = (μ₁−μ₀)²/σ²."""
        return (self.means[1] - self.means[0]).square() / self.variance

    def logit_means(self) -> Tensor:
        """The means of logit θ given y=0 and y=1, shape (2,); its variance is s."""
        odds = self.weights[1].log() - self.weights[0].log()
        return odds + self.separation * torch.tensor([-0.5, 0.5], dtype=odds.dtype, device=odds.device)

    def log_components(self, logit: Tensor) -> Tensor:
        """log p(θ, y=k) at logits of θ (...); shape (..., 2)."""
        s = self.separation
        z = (logit.unsqueeze(-1) - self.logit_means()) / s.sqrt()
        log_jacobian = torch.nn.functional.logsigmoid(logit) + torch.nn.functional.logsigmoid(-logit)
        return self.weights.log() - 0.5 * z.square() - 0.5 * s.log() - _NORMAL - log_jacobian.unsqueeze(-1)

    def log_prob(self, logits: Tensor, evidence: Tensor | None = None) -> Tensor:
        return self.predictive(logits, evidence).weighing(self._densities).log_valid

    def _densities(self, log_theta: list[Tensor]) -> list[Tensor]:
        (values,) = log_theta
        return [self.log_components(values[..., 0, 1] - values[..., 0, 0]).unsqueeze(-2)]

    def density(self, theta: Tensor) -> Tensor:
        """p(θ) at θ in (0, 1); shape as θ."""
        return self.components(theta).sum(-1)

    def components(self, theta: Tensor) -> Tensor:
        """p(θ, y=k) at θ in (0, 1); shape (..., 2)."""
        return self.log_components(theta.logit()).exp()

    def mass(self, theta: Tensor) -> Tensor:
        """P(θ′ ≤ θ, y=k) for θ in [0, 1]; shape (..., 2)."""
        z = (theta.logit().unsqueeze(-1) - self.logit_means()) / self.separation.sqrt()
        return self.weights * torch.special.ndtr(z)

    def sample(self, n: int, generator: Generator | None = None) -> tuple[Tensor, Tensor]:
        """n draws of θ and of the labels y they came with, each (n,)."""
        like = self.weights
        y = (torch.rand(n, generator=generator, dtype=like.dtype, device=like.device) < like[1]).long()
        noise = torch.randn(n, generator=generator, dtype=like.dtype, device=like.device)
        return (self.logit_means()[y] + self.separation.sqrt() * noise).sigmoid(), y

    def limit(self, power: float = POWER) -> DeterministicPrior:
        """The deterministic prior with the same π: as s → ∞, and as T → ∞, both tend to Σ_k π_k δ(θ − e_k)."""
        binary = self.blocks.groups[0].binary
        weights = self.weights[1:] if binary else self.weights
        return DeterministicPrior(self.space, power, weights=weights, normalised=True)


def mixture_density(
    log_density: Callable[[Tensor], Tensor],
    weights: Sequence[float],
    support: tuple[float, float],
    *,
    k: int = 1,
    bins: int = 100,
    points: int = 100_001,
) -> Tensor:
    """p(θ_k, y=j) of any one-dimensional mixture, as averages over equal bins of θ_k: (bins, K), float64.

    >>> import torch
    >>> from dssl.priors import mixture_density
    >>> normal = lambda x: torch.stack([-0.5 * (x - mean) ** 2 for mean in (0.0, 2.0)], -1)
    >>> mixture_density(normal, (0.7, 0.3), (-8, 10), bins=20)[0].sum()  # mean density on θ < .05
    tensor(6.8503, dtype=torch.float64)

    `log_density` maps x (n,) to log p(x | y=j) (n, K), up to a common constant; `support` is where p(x) is not
    negligible. The mass of each small step in x is spread evenly over the θ it covers, so θ(x) need not be monotone,
    and may be flat.
    """
    x = torch.linspace(*support, points, dtype=torch.float64)
    pi = torch.tensor(weights, dtype=torch.float64)
    log_p = log_density(x).double()
    if log_p.shape != (points, len(pi)) or not 0 <= k < len(pi):
        raise DataError(f"log densities of shape {tuple(log_p.shape)} do not fit {len(pi)} weights and class {k}")
    log_joint = log_p + pi.log()  # (points, K)
    theta = log_joint.softmax(-1)[:, k]
    joint = log_joint.exp()
    mass = (joint[1:] + joint[:-1]) / 2  # (points − 1, K), in units of the step
    mass = mass / mass.sum()
    low, high = torch.minimum(theta[1:], theta[:-1]), torch.maximum(theta[1:], theta[:-1])
    width = (high - low).clamp_min(1e-12)
    edges = torch.linspace(0, 1, bins + 1, dtype=torch.float64)
    below = torch.stack([((edge - low) / width).clamp(0, 1) @ mass for edge in edges[1:-1]])  # (bins − 1, K)
    ends = torch.zeros_like(mass[:1]), mass.sum(0, keepdim=True)
    return torch.cat([ends[0], below, ends[1]]).diff(dim=0) * bins
