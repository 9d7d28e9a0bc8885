"""Several processes: which one computes which rows, and how gradients become those of a single process.

Each rank runs the network on its share of the global batch. Logits and labels are gathered, so every rank evaluates
the objective on the *global* batch, with gradient through its own rows only; summed over ranks, the gradients of the
weights are exactly those of one process, whatever the objective does with the batch: no term need be a mean over rows.

Processes are started by `launch`, or from outside (torchrun), which `outside` recognises. A rank started by `launch`
is a fresh Python that never runs the user's script again: no ``if __name__ == "__main__":`` is needed, and notebooks
and the console work like scripts. Functions and classes of the script travel along by value.
"""

from __future__ import annotations

import atexit
import logging
import os
import pickle
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from dssl.errors import DataError
from dssl.files import write_whole
from dssl.training.signals import stoppable

_SIGNALS = os.name == "posix"  # on Windows Ctrl-C reaches all processes of a window by itself, and no other signal does


@dataclass(frozen=True)
class Ranks:
    """This process among all: its number, how many there are, its device."""

    rank: int = 0
    world: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    @property
    def first(self) -> bool:
        return self.rank == 0

    def share(self, n: int) -> slice:
        """The rows of n that are this rank's: consecutive, in the order of ranks, sizes differing by at most one."""
        return slice(n * self.rank // self.world, n * (self.rank + 1) // self.world)

    def gather(self, rows: Tensor, n: int) -> Tensor:
        """The n rows (n, k) of which each rank gives its share; gradient flows to this rank's rows only."""
        if self.world == 1:
            return rows
        shares = [Ranks(r, self.world).share(n) for r in range(self.world)]
        longest = max(s.stop - s.start for s in shares)
        padded = rows.detach().new_zeros((longest, *rows.shape[1:]))  # ranks may differ by a row, gather does not
        padded[: len(rows)] = rows.detach()
        parts = [torch.empty_like(padded) for _ in shares]
        dist.all_gather(parts, padded)
        own = [part[: s.stop - s.start] for part, s in zip(parts, shares)]
        own[self.rank] = rows
        return torch.cat(own)

    def together(
        self, n: int, logits: Tensor, y: Tensor, weight: Tensor, flag: bool
    ) -> tuple[Tensor, Tensor, Tensor, bool]:
        """The global batch of n rows out of every rank's, and whether any rank raises the flag: one exchange for all.

        logits, y: (rows, width), weight: (rows,).
        """
        if self.world == 1:
            return logits, y, weight, flag
        raised = torch.full_like(logits[:, :1], float(flag)).detach()
        columns = torch.cat([logits, y.to(logits), weight[:, None].to(logits), raised], 1)
        logits, y, weight, raised = self.gather(columns, n).split([logits.shape[1], y.shape[1], 1, 1], 1)
        return logits, y.detach(), weight[:, 0].detach(), bool(raised.any())

    @torch.no_grad()
    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replaces every gradient by its sum over ranks."""
        if self.world == 1:
            return
        held = [p for p in parameters if p.requires_grad]
        if not held:
            return
        flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in held])
        dist.all_reduce(flat)
        for p, grad in zip(held, flat.split([p.numel() for p in held])):
            p.grad = grad.view_as(p)

    @torch.no_grad()
    def same(self, network: nn.Module) -> None:
        """Gives every rank the first one's weights and buffers."""
        if self.world > 1:
            for tensor in network.state_dict().values():
                dist.broadcast(tensor, 0)

    def agreed(self, value: float) -> float:
        """The first rank's value, on every rank."""
        if self.world == 1:
            return value
        packed = torch.tensor([value], dtype=torch.float64).view(torch.uint8)  # some devices have no float64
        held = packed.to(self.device)
        dist.broadcast(held, 0)
        return float(held.cpu().view(torch.float64).item())

    def any(self, flag: bool) -> bool:
        """Whether the flag is up on any rank."""
        if self.world == 1:
            return flag
        raised = torch.tensor([float(flag)], device=self.device)
        dist.all_reduce(raised)
        return bool(raised.item())


# ---- batch norm over the global batch ----


class _Sum(torch.autograd.Function):
    """Sum over ranks, of values forward and of gradients backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        total = x.clone()
        dist.all_reduce(total)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        total = grads[0].clone()
        dist.all_reduce(total)
        return total


NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)


class GlobalBatchNorm(nn.BatchNorm1d):
    """Batch norm with the mean and variance of the global batch, for any number of dimensions, with uneven ranks."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training and self.running_mean is not None:
            return nn.functional.batch_norm(
                x, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        over = [d for d in range(x.ndim) if d != 1]
        shape = [1, -1, *[1] * (x.ndim - 2)]
        count = _Sum.apply(x.new_tensor(x.numel() / x.shape[1]))
        mean = _Sum.apply(x.sum(over)) / count
        centred = x - mean.view(shape)
        variance = _Sum.apply(centred.square().sum(over)) / count
        remembers = self.training and self.track_running_stats
        if remembers and self.running_mean is not None and self.running_var is not None:
            with torch.no_grad():
                self.num_batches_tracked.add_(1)  # type: ignore[union-attr]
                share = self.momentum if self.momentum is not None else 1 / float(self.num_batches_tracked)  # type: ignore[arg-type]
                self.running_mean.lerp_(mean, share)
                self.running_var.lerp_(variance * count / (count - 1).clamp_min(1), share)
        out = centred * (variance + self.eps).rsqrt().view(shape)
        return out if self.weight is None else out * self.weight.view(shape) + self.bias.view(shape)


@contextmanager
def global_batch_norm(network: nn.Module, ranks: Ranks) -> Iterator[None]:
    """Within it, every batch norm of the network sees the global batch; weights and their names stay."""
    norms = [m for m in network.modules() if isinstance(m, NORMS)] if ranks.world > 1 else []
    kinds = [norm.__class__ for norm in norms]
    for norm in norms:
        norm.__class__ = GlobalBatchNorm
    try:
        yield
    finally:
        for norm, kind in zip(norms, kinds):
            norm.__class__ = kind


# ---- starting ----


def outside() -> bool:
    """Whether this process is one of several that were started from outside, say by torchrun."""
    return "LOCAL_RANK" in os.environ and int(os.environ.get("WORLD_SIZE", "1")) > 1


def join(accelerator: str, timeout: timedelta) -> Ranks:
    """This process's place among the ranks; if there are several, lightning-fabric sets up device and connection."""
    if not outside():
        return Ranks(device=device_of(accelerator))
    from lightning_fabric import Fabric
    from lightning_fabric.plugins.environments import TorchElasticEnvironment
    from lightning_fabric.strategies import DDPStrategy

    local = int(os.environ.get("LOCAL_WORLD_SIZE", os.environ["WORLD_SIZE"]))
    nodes = int(os.environ["WORLD_SIZE"]) // local
    # named, so that a job system's own variables are not taken for it
    strategy = DDPStrategy(cluster_environment=TorchElasticEnvironment(), timeout=timeout)
    fabric = Fabric(accelerator=accelerator, devices=local, num_nodes=nodes, strategy=strategy)
    if not dist.is_initialized():
        log = logging.getLogger("lightning_fabric")
        level = log.level
        log.setLevel(logging.WARNING)  # it prints a banner
        fabric.launch()
        log.setLevel(level)
        atexit.register(_part)
    return Ranks(dist.get_rank(), dist.get_world_size(), fabric.device)


def _part() -> None:
    """Ends the connection while Python still runs: gloo's threads abort a process that ends with one open."""
    if dist.is_initialized():
        dist.destroy_process_group()


def device_of(accelerator: str) -> torch.device:
    """The device that a setting names: with "auto" the machine's own accelerator, if it has one."""
    best = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if accelerator == "auto":
        return best if best is not None and best.type in ("cuda", "mps") else torch.device("cpu")
    if accelerator != "cpu" and (best is None or best.type != accelerator):
        raise DataError(f"accelerator='{accelerator}', but this machine has {best or 'none'}\nUse 'auto' or 'cpu'.")
    return torch.device(accelerator)


def launch(function: Callable[..., Any], *args: Any, devices: int) -> Any:
    """Runs function(*args) in `devices` new processes and gives what the first one returned.

    A process that dies ends the others and raises here; an exception of a rank is raised here as it was there.
    """
    import cloudpickle

    processes: list[subprocess.Popen[bytes]] = []

    def stop() -> None:
        if not processes:
            raise KeyboardInterrupt
        for process in processes if _SIGNALS else ():  # they save and exit
            process.send_signal(signal.SIGINT)

    with stoppable(stop), tempfile.TemporaryDirectory(prefix="dssl-ranks-") as folder:
        write_whole(Path(folder) / "call", cloudpickle.dumps((function, args)))
        environment = _environment(devices)
        processes += [
            subprocess.Popen(
                [sys.executable, "-c", "from dssl.training.processes import main; main()", folder],
                env={**environment, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                start_new_session=_SIGNALS,  # Ctrl-C reaches them through this process, once
            )
            for rank in range(devices)
        ]
        _watch(processes, Path(folder))
        return pickle.loads((Path(folder) / "result").read_bytes())


def _environment(devices: int) -> dict[str, str]:
    """What torchrun would set, and the modules that the caller can import."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    threads = max(1, torch.get_num_threads() // devices)
    return {
        "OMP_NUM_THREADS": str(threads),
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": str(devices),
        "LOCAL_WORLD_SIZE": str(devices),
        "GROUP_RANK": "0",
    }


def _watch(processes: list[subprocess.Popen[bytes]], folder: Path) -> None:
    """Waits for all processes; the first to fail ends them all."""
    try:
        while any(process.poll() is None for process in processes):
            if any(process.poll() for process in processes):
                break
            time.sleep(0.05)
        codes = [process.poll() or 0 for process in processes]
        if any(codes):
            _raise_for(codes, folder)
    finally:
        for process in processes:
            if process.poll() is None:
                process.kill()
            process.wait()


def _raise_for(codes: list[int], folder: Path) -> None:
    """The error of the rank that failed first: without it the others fail too."""
    killed = [rank for rank, code in enumerate(codes) if code < 0]
    errors = sorted(folder.glob("error-*"), key=lambda file: file.stat().st_mtime_ns)
    if errors and not killed:
        raise pickle.loads(errors[0].read_bytes())
    rank = killed[0] if killed else next(rank for rank, code in enumerate(codes) if code)
    code = codes[rank]
    how = f"was ended by signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"ended with code {code}"
    raise RuntimeError(
        f"rank {rank} of the training {how}, so the others were ended too\n"
        "With a checkpoint folder the same call resumes from the last checkpoint. "
        "Signal 9 is often the system running out of memory: use fewer processes or smaller batches."
    )


def main() -> None:
    """One rank: runs the call in the folder named by the first argument. The first rank leaves the result there."""
    import cloudpickle

    folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
    threading.Thread(target=_leave_with, args=(os.getppid(),), daemon=True).start()
    try:
        function, args = pickle.loads((folder / "call").read_bytes())
        result = function(*args)
        if rank == 0:
            write_whole(folder / "result", cloudpickle.dumps(result))
    except BaseException as error:
        (folder / f"error-{rank}").write_bytes(_portable(error))
        os._exit(1)  # without closing connections, whose other side may wait for us


def _portable(error: BaseException) -> bytes:
    """The exception, or one that quotes it if it cannot be pickled."""
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(error)
        pickle.loads(data)
    except Exception:
        data = cloudpickle.dumps(RuntimeError("".join(traceback.format_exception(error))))
    return data


def _leave_with(parent: int) -> None:
    """Ends this rank when the process that started it is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
