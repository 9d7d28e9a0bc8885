"""The kernels of log WMC: the same in every width of tile, and marginals that are flows."""

from __future__ import annotations

import pytest
import torch

from circuits.test_queries import parity
from dssl.circuits.evaluate import launch, layered
from dssl.circuits.evaluate.program import program_of

WIDTHS = [(64, torch.float32), (32, torch.float32), (16, torch.float32), (1, torch.float32), (16, torch.float64)]


@pytest.mark.parametrize(("lanes", "dtype"), WIDTHS)
def test_every_width_gives_the_same(monkeypatch, lanes, dtype):
    circuit = parity(25)
    program = program_of(circuit)
    monkeypatch.setattr(launch, "_tile", lambda *_: (lanes, 1))
    pos, neg = torch.randn(2, 70, 25, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 20
    value, alone, mu = torch.empty(70, dtype=dtype), torch.empty(70, dtype=dtype), torch.empty(70, 25, dtype=dtype)
    given = pos.to(dtype), neg.to(dtype)
    assert launch.launch("gradient", program, *given, value, mu) == 0
    assert launch.launch("log_wmc", program, *given, alone) == 0
    assert torch.equal(value, alone)
    exact = given[0].double(), given[1].double()
    expected = layered.log_wmc(circuit, *exact), layered.marginals(circuit, *exact)
    tight = 1e-10 if dtype == torch.float64 else 3e-6
    torch.testing.assert_close(value.double(), expected[0], rtol=tight, atol=tight)
    torch.testing.assert_close(mu.double(), expected[1], rtol=0, atol=tight)


def test_samples_without_a_valid_label_are_counted():
    circuit = parity(2)
    pos, neg = torch.zeros(2, 40, 2)
    neg[[3, 20, 39]] = -torch.inf
    value = torch.empty(40)
    assert launch.launch("log_wmc", program_of(circuit), pos, neg, value) == 3
    assert (value == -torch.inf).sum() == 3


def test_nothing_underflows():
    circuit = parity(400)
    pos, neg = torch.full((2, 3, 400), -1e4)
    pos[:, ::2] = -3e4
    value, mu = torch.empty(3), torch.empty(3, 400)
    launch.launch("gradient", program_of(circuit), pos, neg, value, mu)
    # with an odd number to be true, one of the columns at equal odds decides
    assert torch.isfinite(value).all()
    torch.testing.assert_close(mu[:, 1::2], torch.full((3, 200), 0.5))
    assert mu[:, ::2].abs().max() < 1e-6
