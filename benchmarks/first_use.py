"""What a machine that has compiled nothing yet pays for a first circuit and first answers, and what kernels then take.

python benchmarks/first_use.py [--rounds 5]

For this machine, AVX2 and a generic processor. Each has a cache of its own that is empty at first; the processor
seconds of a first process fill the first table. In every later round each target runs once, in turn, with what it has
kept; the second table has medians over rounds of each round's least processor time, and their ratios to this machine's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import llvmlite.binding

TARGETS = {
    "this machine": {},
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse4.1,+sse4.2,+popcnt,-avx512f"},
    "generic": {"NUMBA_CPU_NAME": "generic"},
}
FIRST = """
import time
import torch
from dssl import LabelSpace
torch.set_num_threads(1)
clock = [time.process_time()]
circuit = LabelSpace("a, b, c, d\\na -> b\\nb -> c\\nd -> !a").compile()
clock.append(time.process_time())
x = torch.randn(5, 4)
for question in (circuit.log_wmc, circuit.marginals, circuit.mpe):
    question(x, -x)
    clock.append(time.process_time())
print(*(b - a for a, b in zip(clock, clock[1:])), clock[-1] - clock[0])
"""
THEN = """
import random, time
import torch
from dssl import LabelSpace
torch.set_num_threads(1)
draw = random.Random(40)
clauses = [
    " | ".join(("" if draw.random() < .5 else "!") + f"v{i}" for i in draw.sample(range(40), 3)) for _ in range(100)
]
circuit = LabelSpace(", ".join(f"v{i}" for i in range(40)) + "\\n" + "\\n".join(clauses)).compile()
x = torch.randn(512, 40, generator=torch.Generator().manual_seed(0))
one = x[:1]
asked = (
    lambda: circuit.log_wmc(x, -x), lambda: circuit.marginals(x, -x), lambda: circuit.mpe(x, -x),
    lambda: circuit.sample(x, -x, 1), lambda: circuit.log_wmc(one, -one), lambda: circuit.marginals(one, -one),
)
for question in asked:
    question()
    least = float("inf")
    for _ in range(15):
        began = time.process_time()
        question()
        least = min(least, time.process_time() - began)
    print(1000 * least)
"""
NAMES = ("log WMC, 512 rows", "marginals, 512 rows", "best labels, 512 rows", "samples, 512 rows",
         "log WMC, one row", "marginals, one row")  # fmt: skip


def measured(code: str, target: str, folder: Path) -> list[float]:
    """The numbers that a process prints which compiles for a target and keeps its code in a folder."""
    own = {**TARGETS[target], "NUMBA_CACHE_DIR": str(folder / target), "DSSL_CACHE": str(folder / target / "circuits")}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
    done = subprocess.run([sys.executable, "-c", code], env={**kept, **own}, stdout=subprocess.PIPE, check=True)
    return [float(word) for word in done.stdout.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(f"this machine is {llvmlite.binding.get_host_cpu_name()}; seconds\n")
    print("| | first circuit | log WMC | marginals | best label | all four |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for target in TARGETS:
            print(f"| {target} |", " | ".join(f"{s:.2f}" for s in measured(FIRST, target, folder)), "|", flush=True)
        for target in TARGETS:
            measured(THEN, target, folder)  # compiles
        runs = {target: [] for target in TARGETS}  # type: dict[str, list[list[float]]]
        for _ in range(rounds):
            for target in TARGETS:
                runs[target].append(measured(THEN, target, folder))
    print(f"\nmilliseconds, medians of {rounds} rounds\n")
    print("| | " + " | ".join(TARGETS) + " | AVX2 / this | generic / this |\n|---" + "|---" * (len(TARGETS) + 2) + "|")
    for i, name in enumerate(NAMES):
        native, *others = (statistics.median(run[i] for run in runs[target]) for target in TARGETS)
        times = [f"{ms:.3f}" for ms in (native, *others)] + [f"{ms / native:.2f}" for ms in others]
        print(f"| {name} |", " | ".join(times), "|")


if __name__ == "__main__":
    main()
