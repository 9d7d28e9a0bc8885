"""Launching kernels: tiles that fit, memory that does not grow with the batch, compiled once for all processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from circuits.test_queries import parity
from dssl.circuits import queries
from dssl.circuits.evaluate import launch, threads
from dssl.circuits.evaluate.program import program_of


@pytest.mark.parametrize("name", sorted(launch.KERNELS))
def test_tiles_cover_small_batches_and_share_large_ones(name):
    kernel, program = launch.KERNELS[name], program_of(parity(200))
    for batch in (1, 2, 16, 17, 64, 65, 1000):
        for size in (4, 8):
            lanes, threads = launch._tile(kernel, program, batch, size, 2)
            assert lanes in kernel.lanes
            assert threads in (1, 2)
    assert launch._tile(launch.KERNELS["gradient"], program, 100_000, 4, 2) == (64, 2)
    assert launch._tile(launch.KERNELS["gradient"], program, 64, 4, 2)[1] == 1  # too little work for two


def test_scratch_does_not_grow_with_the_batch():
    circuit = parity(300)
    sizes = []
    for batch in (64, 512, 4096):
        threads._memory.size = 0
        pos, neg = (x.requires_grad_() for x in torch.randn(2, batch, 300))
        queries.log_wmc(circuit, pos, neg).sum().backward()
        sizes.append(threads._memory.size)
    assert len(set(sizes)) == 1
    assert sizes[0] < 64 * 4 * (3 * program_of(circuit).slots + program_of(circuit).biases + 2 * 300) + 64


SCRIPT = """
import torch
from circuits.test_queries import parity
from dssl.circuits import queries
print(queries.log_wmc(parity(4), torch.zeros(3, 4), torch.zeros(3, 4)).tolist()[0])
"""


@pytest.mark.compiled
def test_a_second_process_does_not_compile(tmp_path):
    paths = os.pathsep.join([os.path.dirname(os.path.dirname(__file__)), *sys.path])
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": paths}
    runs = [
        subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert runs[0].stderr.count("compiling") == 1
    assert "compiling" not in runs[1].stderr
    assert runs[0].stdout == runs[1].stdout
