"""Committee: networks that were trained apart, and answer together.

Where most columns are rare, two networks that differ only in their first weights rank rows differently, and their
mean ranks them better than either.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Committee(nn.Module):
    """The mean of what networks say about rows x: (n, width).

    >>> committee = Committee(nn.Linear(2, 1), nn.Linear(2, 1))
    >>> x = torch.ones(1, 2)
    >>> bool(torch.isclose(committee(x), (committee.members[0](x) + committee.members[1](x)) / 2).all())
    True
    """

    def __init__(self, *members: nn.Module) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([member(x) for member in self.members]).mean(0)
