"""Run a kernel on tensors: choose the tile, compile once, hand the tiles to the team."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dssl.circuits import decode, kernels, moments, team
from dssl.circuits.jit import announced
from dssl.circuits.program import Program

_CACHE = 1 << 20  # bytes of a core's own cache
_SMALL = 3_000_000  # words × samples below which a second thread costs more than it saves


class Kernel(NamedTuple):
    """How to compile a kernel, the rows of lanes it needs for each column, slot and choice, and the lanes of a tile.

    Each width is compiled by itself, which takes seconds, so only what runs in every training step has several.
    """

    compile: Callable[[int, int, int], Any]  # (lanes, bits, source)
    columns: int
    slots: int
    choices: int
    lanes: tuple[int, ...] = (16,)


_HOT = (64, 32, 16, 1)

KERNELS = {
    "log_wmc": Kernel(kernels.log_wmc, 2, 2, 0, _HOT),
    "gradient": Kernel(kernels.gradient, 2, 3, 1, _HOT),
    "entropy": Kernel(moments.entropy, 2, 3, 0),
    "covariance": Kernel(moments.covariance, 3, 5, 2),
    "best_weight": Kernel(decode.best_weight, 2, 1, 0),
    "best": Kernel(decode.best, 2, 2, 1),
    "sample": Kernel(decode.sample, 2, 2, 1),
}

_SOURCE = zlib.crc32(
    b"".join(
        (Path(__file__).parent / f"{name}.py").read_bytes()
        for name in ("simd", "program", "kernels", "moments", "decode")
    )
)


@cache
def _compiled(name: str, lanes: int, bits: int) -> Any:
    return KERNELS[name].compile(lanes, bits, _SOURCE)


def _tile(kernel: Kernel, program: Program, batch: int, size: int, threads: int) -> tuple[int, int]:
    """Lanes of a tile and threads to use: tables within the cache, and a tile for every thread of a large call."""
    if batch * program.work < _SMALL:
        threads = 1
    if size != 4 or kernel.lanes == (16,):
        return 16, threads
    if batch == 1:
        return 1, 1
    row = size * (kernel.columns * program.columns + kernel.slots * program.slots)
    lanes = 64
    while lanes > 16 and (lanes * threads >= 2 * batch or (lanes * row > _CACHE and 16 * row <= _CACHE)):
        lanes //= 2
    return lanes, threads


def launch(
    name: str,
    program: Program,
    log_pos: Tensor,
    log_neg: Tensor,
    out: Tensor,
    out2: Tensor | None = None,
    *,
    given: int | Tensor = 0,
    number: int = 0,
) -> int:
    """Run a kernel on (batch, width) tensors of any strides. Results go to `out` and `out2`, which are contiguous.

    What a kernel writes, and the meaning of `given` and `number`, is said where it is defined. Returns the number of
    samples without a valid label.
    """
    batch, size = log_pos.shape[0], log_pos.element_size()
    if batch == 0:
        return 0
    kernel = KERNELS[name]
    lanes, threads = _tile(kernel, program, batch, size, torch.get_num_threads())
    address = given.data_ptr() if isinstance(given, Tensor) else given
    task = np.array(
        (
            program.columns, program.slots, program.choices, program.root, batch,
            log_pos.data_ptr(), log_pos.stride(0), log_pos.stride(1),
            log_neg.data_ptr(), log_neg.stride(0), log_neg.stride(1),
            address, number, out.data_ptr(), 0 if out2 is None else out2.data_ptr(),
        ),
        kernels.TASK,
    ).reshape(1)  # fmt: skip
    walk = (program.origin,) if name == "sample" else ()
    run = _compiled(name, lanes, 8 * size)
    bound = partial(run, program.stream, *walk, program.blocks, program.soft, task)
    rows = kernel.columns * program.columns + kernel.slots * program.slots + kernel.choices * program.choices
    tiles, scratch = -(-batch // lanes), rows * lanes * size
    if run.nopython_signatures:
        return team.run(bound, tiles, scratch, threads, (log_pos, log_neg, given, out, out2))
    with announced():
        return team.run(bound, tiles, scratch, 1)
