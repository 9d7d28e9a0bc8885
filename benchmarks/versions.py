"""Two versions of dssl against each other in one run: compiling, circuits, priors and training, by what both can do.

    python benchmarks/versions.py OLD/src NEW/src [--rounds 5]

Each round starts one process per version and alternates which comes first; a process measures every task several times
and tells the least processor seconds, and medians over rounds are compared. Nothing is taken from the compile cache.
Writes benchmarks/results/versions.json.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "versions.json"

TASKS = """
import json, random, time
import numpy as np, torch
from dssl import DeterministicPrior, DSSLClassifier, EntropyPrior, LabelSpace

torch.set_num_threads(1)
seconds = {}

def task(name, call, repeats=5):
    call()
    least = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        call()
        least = min(least, time.process_time() - began)
    seconds[name] = least

def cnf(n, ratio):
    draw = random.Random(n)
    clauses = [" | ".join(("" if draw.random() < .5 else "!") + f"v{i}" for i in draw.sample(range(n), 3))
               for _ in range(int(n * ratio))]
    return ", ".join(f"v{i}" for i in range(n)) + "\\n" + "\\n".join(clauses)

def names(n):
    return ", ".join(f"v{i}" for i in range(n))

def classes(n):
    draw = random.Random(0)
    rules = [f"v{i} -> v{draw.randrange(i)}" for i in range(1, n)]
    return names(n) + "\\n" + "\\n".join(rules)

spaces = {
    "3-CNF 40, ratio 2.5": cnf(40, 2.5), "3-CNF 50, ratio 2": cnf(50, 2), "3-CNF 60, ratio 3": cnf(60, 3),
    "exactly one of 300": names(300) + "\\nexactly_one(" + names(300) + ")",
    "at most 5 of 50": names(50) + "\\nat_most(5, " + names(50) + ")",
    "hierarchy of 300": classes(300),
}
for name, text in spaces.items():
    space = LabelSpace(text)
    task("read " + name, lambda: LabelSpace(text), 3)
    task("compile " + name, lambda: LabelSpace(text).compile(), 3)
    circuit = space.compile()
    for batch in (1, 64, 512):
        z = torch.randn(batch, space.width, generator=torch.Generator().manual_seed(0), requires_grad=True)
        pos, neg = torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)
        task(f"log WMC {name}, {batch}", lambda: torch.autograd.grad(circuit.log_wmc(
            torch.nn.functional.logsigmoid(z), torch.nn.functional.logsigmoid(-z)).sum(), z), 20)
    pos, neg = pos.detach(), neg.detach()
    task("most probable " + name, lambda: circuit.mpe(pos, neg), 10)
    task("marginals " + name, lambda: circuit.marginals(pos, neg), 10)
    task("samples " + name, lambda: circuit.sample(pos, neg, 1), 10)
for name, prior in {"E": EntropyPrior, "DP": DeterministicPrior}.items():
    for k in (10, 1000):
        made = prior(LabelSpace.classes(range(k)))
        z = torch.randn(128, k, requires_grad=True)
        task(f"prior {name}, {k} classes", lambda: torch.autograd.grad(made(z).sum(), z), 50)
x = np.random.default_rng(0).normal(size=(2000, 64)).astype(np.float32)
y = np.where(np.arange(2000) < 200, np.arange(2000) % 10, -1)
for prior in (None, "deterministic"):
    loop = dict(prior=prior, prior_weight=.3, consistency=None, network="mlp", steps=150, random_state=0)
    model = DSSLClassifier(**loop)
    if "calibrate" in model.get_params():
        model.set_params(calibrate=False)
    task(f"150 steps of training, prior {prior}", lambda: model.fit(x, y), 2)
print(json.dumps(seconds))
"""


def measured(source: Path) -> dict[str, float]:
    """Processor seconds by task, in a process of its own that has no compile cache."""
    nowhere = str(Path(os.devnull) / "none")
    where = {"PYTHONPATH": str(source.resolve()), "DSSL_CACHE": nowhere, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", TASKS], env={**os.environ, **where}, capture_output=True, text=True, check=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs=2, type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    for source in chosen.sources:
        measured(source)  # compiles kernels
    runs: list[list[dict[str, float]]] = [[], []]
    for number in range(chosen.rounds):
        for which in (0, 1) if number % 2 == 0 else (1, 0):
            runs[which].append(measured(chosen.sources[which]))
    rows = []
    for name in runs[0][0]:
        old, new = (statistics.median(run[name] for run in each) for each in runs)
        rows.append({"task": name, "old": old, "new": new, "ratio": new / old})
        print(f"{name:48}{1e3 * old:12.3f} ms{1e3 * new:12.3f} ms{new / old:8.2f}", flush=True)
    ratios = [row["ratio"] for row in rows]
    print(f"new / old: median {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")
    about = {"machine": platform.machine(), "cores": os.cpu_count(), "rounds": chosen.rounds}
    RESULTS.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
