"""Threads: whether public objects can be shared by them, and which operations of torch depend on their number.

    python attacks/threads.py                       both parts
    python attacks/threads.py --part sharing        every public object asked by several threads at once
    python attacks/threads.py --part bits           other bits on another number of threads, by MKL_CBWR
    python attacks/threads.py --threads 8

Sharing: answers must be those of a lone thread, to the last bit; see docs/threads.md. Bits: weights are the same on any
number of threads if everything that training calls is; see docs/trust.md. Each setting has a process of its own, as MKL
reads the variable once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "threads.json"
ROWS, HIDDEN, OUTPUTS = (80, 320, 2048), 256, (3, 5, 10, 16, 100)
SETTINGS = ("", "AUTO,STRICT")


def results() -> Iterator[tuple[str, object]]:
    """Kinds of operations of a training step, each with numbers that are the same every time."""
    import torch
    from torch import nn

    generator = torch.Generator().manual_seed(0)

    def some(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    for n in ROWS:
        for width in (*OUTPUTS, HIDDEN):
            x, w, b, g = some(n, HIDDEN), some(width, HIDDEN), some(width), some(n, width)
            yield "linear: outputs", nn.functional.linear(x, w, b)
            yield "linear: gradients of inputs", g @ w
            yield "linear: gradients of weights", g.t() @ x
            yield "linear: gradients of biases", g.sum(0)
    for inside, outside in ((1, 32), (32, 64)):
        x, w = some(320, inside, 8, 8).requires_grad_(), some(outside, inside, 3, 3).requires_grad_()
        out = nn.functional.conv2d(x, w, padding=1)
        grads = torch.autograd.grad(out, (x, w), some(*out.shape))
        yield "convolution: outputs", out.detach()
        yield "convolution: gradients of inputs", grads[0]
        yield "convolution: gradients of weights", grads[1]
    for name, norm in (("group norm", nn.GroupNorm(8, 32)), ("batch norm", nn.BatchNorm2d(32))):
        out = norm(some(320, 32, 8, 8))
        yield f"{name}: outputs", out.detach()
        yield f"{name}: gradients of weights", torch.autograd.grad(out, norm.weight, some(*out.shape))[0]
    x = some(4096, 100)
    yield "softmax, logsumexp of rows", torch.cat([x.log_softmax(-1), x.logsumexp(-1, keepdim=True)], -1)
    yield "mean over rows", x.mean(0)
    yield "norm of gradients", nn.utils.get_total_norm([x, some(256, 256)])
    yield "one sum of 32,768 numbers", some(32_768).sum()
    yield "one sum of more", some(300_000).sum()


def differing(threads: int) -> dict[str, bool]:
    """Of every kind of operation, whether one and so many threads give other bits."""
    import torch

    torch.set_num_threads(1)
    one = list(results())
    torch.set_num_threads(threads)
    out: dict[str, bool] = {}
    for (name, a), (_, b) in zip(one, results()):
        out[name] = out.get(name, False) or not torch.equal(a, b)  # type: ignore[arg-type]
    return out


def sharing(threads: int, rounds: int) -> dict[str, list[str]]:
    """What went wrong for each public name, after a line about each."""
    from attacks.shared_objects import cases, faults

    out = {}
    for case in cases():
        out[case.name] = faults(case, threads, rounds)
        said = "; ".join(sorted(set(out[case.name]))) or "every answer as alone"
        print(f"{case.name:24} {threads} threads × {rounds} rounds: {said}", flush=True)
    return out


def bits(threads: int) -> dict[str, dict[str, bool]]:
    """Of every kind of operation, whether threads change bits, by setting; as a table, too."""
    found: dict[str, dict[str, bool]] = {}
    for setting in SETTINGS:
        env = {name: value for name, value in os.environ.items() if name not in ("MKL_CBWR", "OMP_NUM_THREADS")}
        env |= {"MKL_CBWR": setting} if setting else {}
        words = [sys.executable, __file__, "--worker", "--threads", str(threads)]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        for name, other in json.loads(done.stdout).items():
            found.setdefault(name, {})[setting or "unset"] = other
    print(f"{'other bits on ' + str(threads) + ' threads':36}" + "".join(f"{s or 'unset':>14}" for s in SETTINGS))
    for name, row in found.items():
        print(f"{name:36}" + "".join(f"{'yes' if other else 'no':>14}" for other in row.values()))
    return found


def main() -> int:
    """Both parts, or one; what was found as JSON. 1 if a shared object gave another answer."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=["sharing", "bits"], default=None)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        print(json.dumps(differing(given.threads)))
        return 0
    import torch

    facts = json.loads(given.out.read_text(encoding="utf-8")) if given.out.exists() else {}
    versions = {"python": platform.python_version(), "torch": torch.__version__, "machine": platform.machine()}
    facts |= {"versions": versions}
    wrong: dict[str, list[str]] = {}
    if given.part != "bits":
        wrong = sharing(given.threads, given.rounds)
        facts["sharing"] = {"threads": given.threads, "rounds": given.rounds, "faults": wrong}
    if given.part != "sharing":
        facts |= {"threads": given.threads, "differ": bits(given.threads)}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(wrong.values()))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    sys.exit(main())
