"""Evaluation of circuits, forward and forward + backward of log WMC: ours against others, interleaved in one run.

Run ``python benchmarks/evaluate.py`` (``--quick`` for the small circuits only). Prints a table and writes
``benchmarks/results/evaluate.json``. Contenders, all on the same circuit and weights (T = 1, where klay is right too):

* `naive`: a loop over the nodes in torch, one operation a node;
* `klay 1`, `klay 2`: klay 0.1.2, ``compile=False``, batch first, on one and on two threads;
* `pysdd`: PySDD's own weighted model count, sample by sample, on the smallest circuit;
* `ours 1`, `ours 2`: through autograd, on one and on two threads; `kernel 1`: the kernel alone;
* `limit 1`: the same loads and stores with no arithmetic, on one thread (see `memory_limit`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from instances import Instance, grid_edges, grid_paths, published_hierarchy, random_cnf
from memory_limit import moving

from dssl.circuits.circuit import Circuit
from dssl.circuits.compile.compiler import compile_constraints
from dssl.circuits.evaluate.program import program_of
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE

BATCHES = (1, 64, 512)
NAIVE_NODES = 25_000  # above, a naive loop takes minutes
KLAY_BYTES = 6e9  # above, klay's tensors do not fit beside everything else
RESULTS = Path(__file__).parent / "results" / "evaluate.json"

NAMES = ("naive", "klay 1", "klay 2", "pysdd", "ours 1", "ours 2", "kernel 1", "limit 1")

Call = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def circuits(data: Path | None, quick: bool) -> dict[str, Circuit]:
    def compiled(instance: Instance) -> Circuit:
        names = tuple(f"x{i}" for i in range(len(instance.constraints.sizes)))
        return compile_constraints(instance.constraints, names)

    found = {"4×4 grid": Circuit.paths(grid_edges(4), (0, 0), (3, 3))}
    if data is not None:
        found["FunCat tree"] = compiled(published_hierarchy(data, "cellcycle_FUN"))
    found["7×7 grid"] = Circuit.paths(grid_edges(7), (0, 0), (6, 6))
    found["3-CNF 40"] = compiled(random_cnf(40, 2.5))
    if not quick:
        found["3-CNF 60"] = compiled(random_cnf(60, 2))
        found["3-CNF 62"] = compiled(random_cnf(62, 2))
    return found


def naive(circuit: Circuit) -> Call:
    """One torch operation a node, in the log domain."""

    def call(log_pos: torch.Tensor, log_neg: torch.Tensor) -> torch.Tensor:
        values: list[torch.Tensor] = []
        for kind, literal, start, end in zip(circuit.kind, circuit.literal, circuit.ptr, circuit.ptr[1:]):
            if kind == LITERAL:
                values.append(log_pos[:, literal - 1] if literal > 0 else log_neg[:, -literal - 1])
            elif kind in (FALSE, TRUE):
                values.append(log_pos.new_full((len(log_pos),), 0.0 if kind == TRUE else -math.inf))
            else:
                below = torch.stack([values[x] for x in circuit.child[start:end]])
                values.append(below.sum(0) if kind == AND else below.logsumexp(0))
        return values[-1]

    return call


def klay(circuit: Circuit, compiled: bool = False) -> Call:
    import klay

    built, nodes = klay.Circuit(), []
    for kind, literal, start, end in zip(circuit.kind, circuit.literal.tolist(), circuit.ptr, circuit.ptr[1:]):
        below = [nodes[x] for x in circuit.child[start:end]]
        make = {
            FALSE: built.false_node,
            TRUE: built.true_node,
            LITERAL: lambda literal=literal: built.literal_node(literal),
            AND: lambda below=below: built.and_node(below),
            OR: lambda below=below: built.or_node(below),
        }
        nodes.append(make[int(kind)]())
    built.set_root(nodes[-1])
    module = built.to_torch_module(semiring="log", compile=compiled)
    return lambda log_pos, log_neg: module(log_pos, log_neg).reshape(len(log_pos))


def pysdd(instance: Instance) -> Call:
    from pysdd.sdd import SddManager, Vtree

    manager = SddManager.from_vtree(Vtree(instance.variables, vtree_type="balanced"))
    root = manager.true()
    for clause in instance.clauses:
        term = manager.false()
        for literal in clause:
            term = manager.disjoin(term, manager.literal(literal))
        root = manager.conjoin(root, term)

    def call(log_pos: torch.Tensor, log_neg: torch.Tensor) -> torch.Tensor:
        out = []
        for pos, neg in zip(log_pos.double().tolist(), log_neg.double().tolist()):
            counter = root.wmc(log_mode=True)
            for v in range(instance.variables):
                counter.set_literal_weight(manager.literal(v + 1), pos[v])
                counter.set_literal_weight(manager.literal(-v - 1), neg[v])
            out.append(counter.propagate())
        return torch.tensor(out)

    return call


def step(call: Call, z: torch.Tensor, backward: bool) -> Callable[[], Any]:
    """What is timed: the call on log σ(z), log σ(−z), with the gradient of its sum where wanted."""
    pos, neg = (torch.nn.functional.logsigmoid(s * z).requires_grad_(backward) for s in (1, -1))
    ones = torch.ones(len(z))
    if backward:
        return lambda: torch.autograd.grad(call(pos, neg), (pos, neg), ones)
    return lambda: call(pos, neg)


def interleaved(steps: dict[str, Callable[[], Any]], seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run all in turn until each has had its time, at least three times after one that does not count.

    Returns seconds on the clock, and of the calling thread's processor: the latter are fair on a busy machine too,
    for contenders on one thread.
    """
    times: dict[str, list[float]] = {name: [] for name in steps}
    processor: dict[str, list[float]] = {name: [] for name in steps if not name.endswith("2")}
    for one in steps.values():
        one()
    while any(len(t) < 3 or (sum(t) < seconds and len(t) < 200) for t in times.values()):
        for name, one in steps.items():
            if len(times[name]) < 3 or sum(times[name]) < seconds:
                torch.set_num_threads(2 if name.endswith("2") else 1)
                start, busy = time.perf_counter(), time.thread_time()
                one()
                times[name].append(time.perf_counter() - start)
                if name in processor:
                    processor[name].append(time.thread_time() - busy)
    return times, processor


def measure(name: str, circuit: Circuit, seconds: float) -> list[dict[str, Any]]:
    rows = []
    program = program_of(circuit)
    others: dict[str, Call] = dict.fromkeys(("klay 1", "klay 2"), klay(circuit))
    if circuit.nodes <= NAIVE_NODES:
        others["naive"] = naive(circuit)
    if name == "4×4 grid":
        others["pysdd"] = pysdd(grid_paths(4))
    for batch in BATCHES:
        z = torch.randn(batch, circuit.width, generator=torch.Generator().manual_seed(0))
        for backward in (False, True):
            calls: dict[str, Call] = {"ours 1": circuit.log_wmc, "ours 2": circuit.log_wmc}
            for other, call in others.items():
                fits = not other.startswith("klay") or circuit.edges * batch * 4 * (4 if backward else 2) < KLAY_BYTES
                if fits and not (other == "pysdd" and backward):
                    calls[other] = call
            steps = {label: step(call, z, backward) for label, call in calls.items()}
            steps["kernel 1"] = step(circuit.marginals if backward else circuit.log_wmc, z, False)
            if batch > 1:
                steps["limit 1"] = moving(program, batch, backward)
            times, processor = interleaved(steps, seconds)
            row: dict[str, Any] = {
                "circuit": name, "edges": circuit.edges, "words": len(program.stream), "slots": program.slots,
                "batch": batch, "backward": backward,
                "seconds": {n: statistics.median(t) for n, t in times.items()},
                "processor": {n: statistics.median(t) for n, t in processor.items()},
                "spread": {n: float(np.subtract(*np.percentile(t, [75, 25]))) for n, t in times.items()},
                "runs": {n: len(t) for n, t in times.items()},
            }  # fmt: skip
            rows.append(row)
            print(line(row), flush=True)
    return rows


def ratio_to_klay(row: dict[str, Any]) -> float:
    seconds = row["seconds"]
    return float(min(seconds["klay 1"], seconds["klay 2"]) / min(seconds["ours 1"], seconds["ours 2"]))


def alone_to_klay(row: dict[str, Any]) -> float:
    return float(row["processor"]["klay 1"] / row["processor"]["ours 1"])


def line(row: dict[str, Any]) -> str:
    seconds = row["seconds"]

    def cell(name: str) -> str:
        return f"{seconds[name] * 1e3:9.3f}" if name in seconds else "        –"

    ratio = f"{ratio_to_klay(row):6.0f}× {alone_to_klay(row):6.0f}×" if "klay 2" in seconds else "      –"
    what = "forward+backward" if row["backward"] else "forward"
    cells = " ".join(map(cell, NAMES))
    return f"{row['circuit']:<12}{row['edges']:>9,} {row['batch']:>4} {what:<17}{cells} {ratio}"


def accuracy(circuit: Circuit, power: float = 10.0) -> tuple[float, float]:
    """Largest relative errors of float32 against float64 on the same weights: of log WMC, of the gradient's row."""
    z = 3 * torch.randn(64, circuit.width, generator=torch.Generator().manual_seed(1))
    pos, neg = (power * torch.nn.functional.logsigmoid(s * z) for s in (1, -1))
    value, exact = circuit.log_wmc(pos, neg).double(), circuit.log_wmc(pos.double(), neg.double())
    mu, right = circuit.marginals(pos, neg).double(), circuit.marginals(pos.double(), neg.double())
    relative = ((value - exact).abs() / exact.abs()).max().item()
    return relative, ((mu - right).abs().amax(1) / right.amax(1)).max().item()


def added_memory(circuit: Circuit, batch: int = 512) -> float:
    """Bytes that a forward + backward of a large batch adds to the process, beside its arguments and gradients."""
    z = torch.randn(batch, circuit.width)
    pos, neg = (torch.nn.functional.logsigmoid(s * z).requires_grad_() for s in (1, -1))
    most, stop = 0, threading.Event()

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def watch() -> None:
        nonlocal most
        while not stop.wait(0.002):
            most = max(most, resident())

    before, watcher = resident(), threading.Thread(target=watch)
    watcher.start()
    circuit.log_wmc(pos, neg).sum().backward()
    most = max(most, resident())
    stop.set()
    watcher.join()
    return float(most - before)


def small_call(circuit: Circuit, repeats: int = 500) -> float:
    """Median seconds of forward + backward at batch 64, called again and again with nothing between."""
    one = step(circuit.log_wmc, torch.randn(64, circuit.width, generator=torch.Generator().manual_seed(0)), True)
    times = []
    for _ in range(repeats + 50):
        begin = time.perf_counter()
        one()
        times.append(time.perf_counter() - begin)
    return statistics.median(times[50:])


def klay_compiled(circuit: Circuit, seconds: float) -> dict[str, float]:
    """klay's default, which compiles for each shape of the batch: seconds of the first call, and of later ones."""
    z = torch.randn(512, circuit.width, generator=torch.Generator().manual_seed(0))
    theirs, ours = step(klay(circuit, compiled=True), z, True), step(circuit.log_wmc, z, True)
    begin = time.perf_counter()
    theirs()
    first = time.perf_counter() - begin
    times, _ = interleaved({"klay 2": theirs, "ours 2": ours}, seconds)
    return {"first call": first} | {name: statistics.median(t) for name, t in times.items()}


def slope(rows: list[dict[str, Any]]) -> float:
    """Exponent of the kernel's processor time over edges × batch, from 10⁶ on: 1 is linear."""
    chosen = [r for r in rows if r["backward"] and r["edges"] * r["batch"] > 1e6]
    x = [math.log(r["edges"] * r["batch"]) for r in chosen]
    y = [math.log(r["processor"]["kernel 1"]) for r in chosen]
    return float(np.polyfit(x, y, 1)[0]) if len(set(x)) > 1 else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small circuits, little time")
    parser.add_argument("--seconds", type=float, default=None, help="time for each contender and row")
    arguments = parser.parse_args()
    seconds = arguments.seconds or (0.2 if arguments.quick else 1.5)
    folder = os.environ.get("DSSL_DATA")
    found = circuits(Path(folder) if folder else None, arguments.quick)
    memory = {name: added_memory(c) for name, c in found.items()}  # first, while nothing is held
    print("milliseconds; last: klay / ours, on the better of 1 and 2 threads; and of processor time on 1 thread")
    print(f"{'circuit':<12}{'edges':>9} batch{'':<17}{' '.join(f'{n:>9}' for n in NAMES)}  ratios")
    rows = [row for name, circuit in found.items() for row in measure(name, circuit, seconds)]
    small = small_call(found["4×4 grid"])
    print(f"one call on the 4×4 grid, batch 64, forward+backward, with nothing between: {small * 1e6:.0f} µs")
    default = None if arguments.quick else klay_compiled(found["4×4 grid"], seconds)
    if default is not None:
        print(f"klay's default, 4×4 grid, batch 512, forward+backward: {default['first call']:.0f} s to compile, then "
              f"{default['klay 2'] * 1e3:.2f} ms, ours {default['ours 2'] * 1e3:.3f} ms")  # fmt: skip
    errors = {name: accuracy(c) for name, c in found.items()}
    for name, (value, gradient) in errors.items():
        print(f"{name}: float32 at T=10: log WMC within {value:.1e}, gradient within {gradient:.1e}; "
              f"batch 512 adds {memory[name] / 1e6:.0f} MB")  # fmt: skip
    print(f"kernel time grows as (edges × batch)^{slope(rows):.2f}")
    RESULTS.parent.mkdir(exist_ok=True)
    settings = {"quick": arguments.quick, "seconds": seconds, "threads": 2, "load": os.getloadavg()}
    machine = {
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "torch": torch.__version__,
    }
    RESULTS.write_text(
        json.dumps(
            {
                "settings": settings,
                "machine": machine,
                "rows": rows,
                "errors": errors,
                "memory": memory,
                "klay compiled": default,
                "small call": small,
                "slope": slope(rows),
            },
            indent=1,
            ensure_ascii=False,
        )
    )


if __name__ == "__main__":
    main()
