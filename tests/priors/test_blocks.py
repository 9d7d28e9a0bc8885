"""Columns by groups of blocks, and the accuracy of log(1−θ)."""

from __future__ import annotations

import math

import pytest
import torch

from dssl.priors.blocks import Blocks, log_rest, log_sum, wide
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


@pytest.mark.parametrize("space", SPACES)
def test_values_one_after_the_other_and_logits_again(space):
    blocks, x = Blocks(SPACES[space]), logits_of(SPACES[space], 5)
    values = [z[0] for z in blocks.logits(x)]
    flat = blocks.flat(values)
    assert flat.shape == (sum(max(2, len(v.columns)) if v.binary else len(v.columns) for v in SPACES[space].variables),)
    assert all(torch.equal(a, b) for a, b in zip(blocks.cut(flat), values))
    moved = [z.log_softmax(-1) for z in blocks.logits(x)]
    again = [z.log_softmax(-1) for z in blocks.logits(blocks.as_logits(moved))]
    for a, b in zip(moved, again):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("space", SPACES)
def test_a_label_is_complete_if_it_leaves_one_value_for_every_variable(space):
    blocks, known = Blocks(SPACES[space]), evidence_of(SPACES[space], 8)
    expected = [
        all(int(a[row, j].sum()) == 1 for a in blocks.allowed(known) for j in range(a.shape[1])) for row in range(8)
    ]
    assert blocks.complete(known).tolist() == expected


def test_sums_of_nothing_have_no_gradient():
    x = torch.tensor([[0.0, 1.0], [-math.inf, -math.inf]], requires_grad=True)
    total = log_sum(x)
    assert total.tolist() == [pytest.approx(math.log(1 + math.e)), -math.inf]
    total[0].backward()
    assert bool(x.grad.isfinite().all())


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_half_precision_is_widened_and_nothing_else(kind):
    assert wide(torch.zeros(1, dtype=kind)).dtype == (kind if kind.itemsize >= 4 else torch.float32)
