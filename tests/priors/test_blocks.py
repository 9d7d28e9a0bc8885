"""Columns by groups of blocks, and the accuracy of log(1−θ)."""

from __future__ import annotations

import math

import pytest
import torch

from dssl.priors.blocks import Blocks, exclusive_sum, log_rest
from priors.cases import SPACES, evidence_of, logits_of


@pytest.mark.parametrize("space", SPACES)
def test_cutting_and_joining(space):
    blocks, x = Blocks(SPACES[space]), logits_of(SPACES[space], 5)
    assert torch.equal(blocks.joined(blocks.columns(x)), x)
    theta = [z.softmax(-1) for z in blocks.logits(x)]
    positive, negative = blocks.literals(theta)
    for variable, (start, stop) in zip(SPACES[space].variables, SPACES[space].spans):
        expected = x[:, start:stop].sigmoid() if variable.binary else x[:, start:stop].softmax(-1)
        torch.testing.assert_close(positive[:, start:stop], expected)
        torch.testing.assert_close(negative[:, start:stop], 1 - expected if variable.binary else 0 * expected)


@pytest.mark.parametrize("space", SPACES)
def test_allowed_values_are_those_of_some_completion(space):
    blocks, known = Blocks(SPACES[space]), evidence_of(SPACES[space], 8)
    for group, allowed in zip(blocks.groups, blocks.allowed(known)):
        for j, i in enumerate(group.variables):
            start, stop = SPACES[space].spans[i]
            for row in range(8):
                entries = known[row, start:stop].tolist()
                for value in range(group.size):
                    label = [float(value)] if group.binary else [float(k == value) for k in range(group.size)]
                    fits = all(math.isnan(e) or e == x for e, x in zip(entries, label))
                    assert bool(allowed[row, j, value]) == fits


@pytest.mark.parametrize("z", [[0.0, 0.0], [0.0, 40.0], [0.0, 1e4, -1e4], [1.0, 2.0, 3.0], [0.0] * 1000, [5.0]])
def test_log_rest_is_accurate_at_both_ends(z):
    log_theta = torch.tensor(z, dtype=torch.float32).log_softmax(-1)
    exact = torch.tensor(z, dtype=torch.float64)
    for k in range(min(len(z), 5)):
        others = torch.cat([exact[:k], exact[k + 1 :]])
        expected = others.logsumexp(0) - exact.logsumexp(0) if len(others) else torch.tensor(-math.inf)
        torch.testing.assert_close(log_rest(log_theta)[k].double(), expected.double(), rtol=1e-5, atol=1e-7)


def test_exclusive_sum_keeps_minus_infinity_apart():
    x = torch.tensor([1.0, -math.inf, 3.0])
    assert exclusive_sum(x).tolist() == [-math.inf, 4.0, -math.inf]
    assert exclusive_sum(x[:1]).tolist() == [0.0]
