"""The compiler against PySDD, oxidd and pyganak's counter on the same instances, in one run, as ratios.

Run with ``python benchmarks/compile.py [--quick]``; DSSL_DATA adds the published instances. Contenders read clauses, by
the usual encodings where ours has sums. Seconds are those of the processor. Each call runs in a process of its own that
is ended after the time-out, the others' also after a second and twenty times as long as ours took; who is ended on an
instance is not asked again for it. Repetitions of all contenders are interleaved.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from multiprocessing.connection import Connection
from pathlib import Path

from instances import Instance, all_instances, grid_edges, random_cnf

RESULT = Path(__file__).parent / "results" / "compile.json"
Answer = tuple[float, int, int]  # seconds, size in edges (0 for a counter), models (-1 where not told)


def dssl(instance: Instance) -> Answer:
    from dssl.circuits.circuit import Circuit
    from dssl.circuits.compile.compiler import compile_constraints

    names = tuple(str(k) for k in range(instance.shown))
    begin = time.process_time()
    if n := instance.graph:
        circuit = Circuit.paths(grid_edges(n), (0, 0), (n - 1, n - 1))
        return time.process_time() - begin, circuit.edges, circuit.count()
    circuit = compile_constraints(instance.constraints, names, budget_s=600.0, cache=False)
    seconds = time.process_time() - begin
    return seconds, circuit.edges, circuit.count()


def pysdd(instance: Instance) -> Answer:
    """Vtree balanced, clauses conjoined shortest first, no dynamic minimisation: its fastest plain use."""
    from pysdd.sdd import SddManager, Vtree

    begin = time.process_time()
    manager = SddManager.from_vtree(Vtree(var_count=instance.variables, vtree_type="balanced"))
    root = manager.true()
    for clause in sorted(instance.clauses, key=len):
        part = manager.false()
        for literal in clause:
            part = part | manager.literal(literal)
        root = root & part
    return time.process_time() - begin, root.size(), -1


def oxidd(instance: Instance) -> Answer:
    """A BDD in the order of the variables, clauses conjoined in the order of their last variable."""
    from oxidd.bdd import BDDManager

    begin = time.process_time()
    manager = BDDManager(50_000_000, 1_000_000, 1)
    manager.add_vars(instance.variables)
    variables = [manager.var(k) for k in range(instance.variables)]
    root = manager.true()
    for clause in sorted(instance.clauses, key=lambda c: max(map(abs, c), default=0)):
        part = manager.false()
        for literal in clause:
            part = part | (variables[literal - 1] if literal > 0 else ~variables[-literal - 1])
        root = root & part
    return time.process_time() - begin, 2 * root.node_count(), -1


def ganak(instance: Instance) -> Answer:
    """Counts only: there is no circuit to keep. Helpers follow from the rest, so they do not change the count."""
    from pyganak import Counter

    begin = time.process_time()
    counter = Counter()
    counter.new_vars(instance.variables)
    counter.add_clauses(instance.clauses)
    models = counter.count()
    return time.process_time() - begin, 0, models


CONTENDERS: dict[str, Callable[[Instance], Answer]] = {
    "dssl": dssl,
    "pysdd": pysdd,
    "oxidd": oxidd,
    "ganak (count)": ganak,
}


def _child(name: str, instance: Instance, timeout: float, pipe: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(timeout), math.ceil(timeout)))
    pipe.send(CONTENDERS[name](instance))


def measure(name: str, instance: Instance, timeout: float) -> Answer | None:
    """One call in a process of its own; None where the system ended it, after the time-out."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(name, instance, timeout, theirs))
    process.start()
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        return None
    finally:
        process.kill()
        process.join()
        ours.close()


def compare(instance: Instance, timeout: float, repeats: int) -> dict[str, object]:
    """Medians of interleaved repetitions; slow ones are measured once."""
    seconds: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    edges: dict[str, int] = {}
    models: dict[str, int] = {}
    for _ in range(repeats):
        for name in CONTENDERS:
            if seconds[name] and (seconds[name][-1] == float("inf") or seconds[name][-1] > 2.0):
                continue
            if name != "dssl" and not instance.clauses:
                continue
            patience = timeout if name == "dssl" else min(timeout, 1 + 20 * seconds["dssl"][0])
            answer = measure(name, instance, patience)
            seconds[name].append(float("inf") if answer is None else answer[0])
            if answer is not None:
                edges[name], models[name] = answer[1], answer[2]
    told = {count for count in models.values() if count >= 0}
    return {
        "instance": instance.name,
        "seconds": {name: statistics.median(times) for name, times in seconds.items() if times},
        "edges": edges,
        "counts agree": len(told) <= 1,
    }


def _line(row: dict[str, object]) -> str:
    seconds: dict[str, float] = row["seconds"]  # type: ignore[assignment]
    edges: dict[str, int] = row["edges"]  # type: ignore[assignment]
    ours = seconds["dssl"]
    own = f"{'time-out':>20}" if ours == float("inf") else f"{ours:8.3f} s {edges['dssl']:9,}"
    cells = [f"{row['instance']:34}", own]
    for name in list(CONTENDERS)[1:]:
        if name not in seconds:
            cells.append(f"{'too many clauses':>24}")
        elif seconds[name] == float("inf"):
            cells.append(f"{'time-out':>24}")
        else:
            size = f"{edges[name]:,}" if edges.get(name) else "–"
            cells.append(f"{seconds[name]:8.3f} s {size:>9} ×{seconds[name] / ours:<5.1f}")
    return " | ".join(cells) + ("" if row["counts agree"] else "  COUNTS DIFFER")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small instances, a time-out of 5 s")
    parser.add_argument("--timeout", type=float, default=None)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    timeout = options.timeout or (5.0 if options.quick else 60.0)
    folder = os.environ.get("DSSL_DATA")
    from dssl.circuits.compile.compiler import compile_constraints
    from dssl.circuits.jit import patience

    with patience(0.0):  # kernels are compiled and loaded before anything is measured, also those of hard instances
        example = random_cnf(50, 2.0)
        compile_constraints(example.constraints, tuple(map(str, range(50))), cache=False).count()
    print(f"{'instance':34} | {'dssl':20} | " + " | ".join(f"{name:24}" for name in list(CONTENDERS)[1:]))
    rows = []
    for make in all_instances(Path(folder) if folder else None, options.quick):
        rows.append(compare(make(), timeout, options.repeats))
        print(_line(rows[-1]), flush=True)
    RESULT.parent.mkdir(exist_ok=True)
    settings = {"timeout_s": timeout, "repeats": options.repeats, "quick": options.quick}
    versions = {name: version(name) for name in ("numba", "numpy", "pysdd", "oxidd", "pyganak")}
    about = {"python": platform.python_version(), "machine": platform.machine(), "cores": os.cpu_count()}
    content = {"settings": settings, "versions": versions | about, "rows": rows}
    RESULT.write_text(json.dumps(content, indent=1, default=str).replace("Infinity", "null") + "\n")


if __name__ == "__main__":
    main()
