"""What a machine that has compiled nothing yet pays for a first circuit and first answers, and what kernels then take.

python benchmarks/first_use.py            in processor seconds, for this machine, AVX2 and a generic processor
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

TARGETS = {
    "this machine": {},
    "AVX2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx,+avx2,+fma,+sse4.1,+sse4.2,+popcnt,-avx512f"},
    "generic": {"NUMBA_CPU_NAME": "generic"},
}
ASKED = """
import time
import torch
from dssl import LabelSpace
from dssl.circuits import queries
torch.set_num_threads(1)
clock = [time.process_time()]
circuit = LabelSpace("a, b, c, d\\na -> b\\nb -> c\\nd -> !a").compile()
clock.append(time.process_time())
x = torch.randn(5, 4)
for question in (queries.log_wmc, queries.marginals, queries.mpe):
    question(circuit, x, -x)
    clock.append(time.process_time())
wide = LabelSpace("\\n".join([", ".join(f"x{i}" for i in range(60)), *(f"x{i} -> x{i+1} | x{i+2}" for i in range(58))]))
circuit, x = wide.compile(), torch.randn(512, 60)
queries.marginals(circuit, x, -x)
took = []
for _ in range(9):
    began = time.process_time()
    queries.marginals(circuit, x, -x)
    took.append(time.process_time() - began)
print(*(f"{b - a:.2f}" for a, b in zip(clock, clock[1:])), f"{1000 * min(took):.1f}")
"""


def main() -> None:
    print(
        "| | first circuit | log WMC | marginals | best label | 512 rows of marginals, ms |\n|---|---|---|---|---|---|"
    )
    for name, target in TARGETS.items():
        with tempfile.TemporaryDirectory() as folder:
            fresh = {"NUMBA_CACHE_DIR": folder, "DSSL_CACHE": folder}
            done = subprocess.run(
                [sys.executable, "-c", ASKED], env={**os.environ, **target, **fresh}, stdout=subprocess.PIPE, check=True
            )
        print(f"| {name} |", " | ".join(done.stdout.decode().split()), "|", flush=True)


if __name__ == "__main__":
    main()
