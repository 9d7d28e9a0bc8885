"""Kernels that are not compiled give the same answers, from the import on."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.evaluate import plain, vectors

SCRIPT = """
import sys, torch
from circuits.test_queries import parity
from dssl import LabelSpace
from dssl.circuits import queries
space = LabelSpace("a, b, c\\nk: {u, v, w}\\nat_most(1, a, b, c)\\nk = u -> a\\n0.9 :: b <-> k = v")
answers = [space.compile().count()]
circuit, generator = parity(6), torch.Generator().manual_seed(0)
for kind in (torch.float32, torch.float64):
    pos, neg = torch.randn(2, 19, 6, generator=generator).to(kind)
    pos[3, 2] = -torch.inf
    pos.requires_grad_()
    answers += [queries.log_wmc(circuit, pos, neg), queries.entropy(circuit, pos, neg)]
    answers += [*torch.autograd.grad(answers[-1].sum(), pos), queries.marginals(circuit, pos, neg)]
    answers += [*queries.top_k(circuit, pos, neg, 9), queries.sample(circuit, pos, neg, 3, generator)]
torch.save([x.detach() if torch.is_tensor(x) else x for x in answers], sys.argv[1])
"""


def test_every_answer_is_that_of_compiled_kernels(tmp_path):
    folder = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
    answers = []
    for name, off in (("plain", "1"), ("compiled", "0")):
        paths = os.pathsep.join([folder, *sys.path])
        environment = {**os.environ, "NUMBA_DISABLE_JIT": off, "PYTHONPATH": paths, "DSSL_CACHE": str(tmp_path)}
        subprocess.run([sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path / name)], env=environment, check=True)
        answers.append(torch.load(tmp_path / name))
    for ours, theirs in zip(*answers):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


def test_every_operation_has_a_compiled_twin():
    for operation in plain.OPERATIONS:
        assert hasattr(vectors, operation.__name__)


def test_tiles_are_counted_one_by_one():
    import numpy as np

    cell = np.array([5])
    assert plain.atomic_add(cell.ctypes.data, 2) == 5
    assert cell[0] == 7


@pytest.mark.parametrize("rows", [1, 17])
def test_queries_run_here(rows):
    pos, neg = torch.zeros(2, rows, 4)
    assert queries.log_wmc(parity(4), pos, neg)[0].exp().item() == pytest.approx(8)
