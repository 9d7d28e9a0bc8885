"""Run a kernel on tensors: choose the tile, compile once, hand the tiles to the threads."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from dssl.circuits.evaluate import best, expectations, heaviest, samples, threads, wmc
from dssl.circuits.evaluate.program import Program
from dssl.circuits.jit import PLAIN, announced, source_stamp

_CACHE = 1 << 20  # bytes of a core's own cache
_SMALL = 3_000_000  # words × samples below which a second thread costs more than it saves
_LONG = 20_000_000  # words × samples, tens of milliseconds, from which a call must react to Ctrl-C
_DRAWN = 4  # words that take as long as one column of a label that is drawn or found


class Kernel(NamedTuple):
    """What answers for a tile, the rows of lanes that needs per column, slot, bias and node, and the lanes.

    Each width is compiled by itself, which takes seconds, so only what runs in every training step has several.
    """

    tile: Any  # the function that answers for one tile
    columns: int
    slots: int
    biases: int
    nodes: int = 0
    walks: bool = False  # whether it needs to know where nodes end
    lanes: tuple[int, ...] = (16,)


_NO_WALK = np.empty(0, np.int32), np.empty((0, 2), np.int64)
_HOT = (64, 32, 16, 1)

KERNELS = {
    "log_wmc": Kernel(wmc.log_wmc, 2, 2, 0, lanes=_HOT),
    "gradient": Kernel(wmc.gradient, 2, 3, 1, lanes=_HOT),
    "entropy": Kernel(expectations.entropy, 2, 3, 0),
    "covariance": Kernel(expectations.covariance, 3, 5, 2),
    "best": Kernel(best.best, 2, 1, 1, walks=True),
    "k_best": Kernel(heaviest.k_best, 2, 1, 0, nodes=1, walks=True),
    "sample": Kernel(samples.sample, 2, 2, 1, walks=True),
}


@cache
def _compiled(name: str, lanes: int, bits: int) -> Any:
    tile = KERNELS[name].tile
    source = source_stamp(Path(tile.__code__.co_filename))
    return wmc.kernel(tile, lanes, bits, int(source[:8], 16))


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
    lanes, workers = _tile(kernel, program, batch, size, torch.get_num_threads())
    address = given.data_ptr() if isinstance(given, Tensor) else given
    task = np.array(
        (
            program.columns, program.slots, program.biases, program.root, batch,
            log_pos.data_ptr(), log_pos.stride(0), log_pos.stride(1),
            log_neg.data_ptr(), log_neg.stride(0), log_neg.stride(1),
            address, number, out.data_ptr(), 0 if out2 is None else out2.data_ptr(),
        ),
        wmc.TASK,
    ).reshape(1)  # fmt: skip
    if PLAIN:
        task = task.view(np.recarray)
    walk = program.walk if kernel.walks else _NO_WALK
    run = _compiled(name, lanes, 8 * size)
    bound = partial(run, program.stream, *walk, program.blocks, program.soft, task)
    rows = kernel.columns * program.columns + kernel.slots * program.slots + kernel.biases * program.biases
    rows += kernel.nodes * program.nodes
    tiles, scratch = -(-batch // lanes), rows * lanes * size
    if not PLAIN and not run.nopython_signatures:
        counters = np.full(3, threads.NO_MORE)
        with announced():
            bound(0, counters.ctypes.data)  # compiled on no tile
    long = batch * (program.work + _DRAWN * number * program.columns) >= _LONG
    return threads.run(bound, tiles, scratch, workers, (log_pos, log_neg, given, out, out2), long=long)
