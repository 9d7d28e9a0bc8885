"""The same seed gives the same weights, to the last bit: in another process, on more threads, after a break.

Across numbers of threads this holds where torch's own sums do not depend on them; `docs/trust.md` says when.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from circuits.strategies import literal_weights
from dssl.circuits import queries
from dssl.circuits.evaluate import launch
from dssl.logic.space import LabelSpace
from dssl.models.estimators import DSSLClassifier
from dssl.models.names import PRIORS, TERMS, make_prior, make_terms
from dssl.priors import DeterministicPrior, TNormPrior
from dssl.training.loop import Settings, train
from dssl.training.objective import Objective
from dssl.training.terms.augmentation import Noise
from training.tiny_runs import WIDTH, same_weights, tiny_data, tiny_network
from trust import right

FEW = "a, b, c\na -> b\nat_most(2, a, b, c)\n0.9 :: b -> c"
RULES = f"{FEW}\nd, e\nd -> !e"


def digest(network: nn.Module) -> str:
    out = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        out.update(name.encode())
        out.update(tensor.contiguous().numpy().tobytes())
    return out.hexdigest()[:16]


# ---- in another process, on more threads ----


def rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, classes and labels that obey the rules; the first are known. Large enough for torch to share out the work."""
    rng = np.random.default_rng(seed)
    valid = np.array([[0, 0, 0, 0, 0], [0, 1, 1, 0, 0], [0, 1, 0, 1, 0], [1, 1, 0, 0, 1], [0, 0, 1, 0, 0]], float)
    kind = rng.integers(0, 5, 700)
    x = rng.normal(size=(700, 40)) + 2 * np.eye(5, 40)[kind]
    known = np.arange(700) < 80
    return x, np.where(known, kind, -1), np.where(known[:, None], valid[kind], np.nan)


def fitted(seed: int = 0) -> dict[str, str]:
    """A digest of the weights of estimators of every prior, with and without rules, and of every term."""
    x, kinds, labels = rows()
    found = {}

    def fit(name: str, y: Any, rules: str | None = None, **options: Any) -> None:
        given = {"steps": 4, "random_state": seed, "prior_weight": 1.0, **options}
        found[name] = digest(DSSLClassifier(rules, **given).fit(x, y).network_)

    for prior in PRIORS:
        fit(f"prior {prior}", kinds, prior=prior, consistency=None, batch_size=80)
        fit(f"rules, prior {prior}", labels, RULES, prior=prior)
    for term in TERMS:
        fit(f"term {term}", kinds, consistency=term, augment="table")
    fit("half precision", kinds, consistency=None, settings={"amp": True})
    return found


CHILD = """
import sys
from dssl.app.cli import main

assert "torch" not in sys.modules
threads = int(sys.argv[1])
sys.argv[:2] = ["dssl", "fit"]
assert main() == 0  # first: it also says how torch is to add up

import json, torch
from trust.test_reproducibility import fitted

assert torch.get_num_threads() == threads
json.dump(fitted(), open("found.json", "w"))
"""


def in_a_process(folder: Path, threads: int) -> tuple[dict[str, str], bytes]:
    """What another process finds, with so many threads: digests, and the model of a command."""
    folder.mkdir()
    (folder / "data.csv").write_text(right.DATA)
    (folder / "a.rules").write_text(right.RULES)
    words = ["data.csv", "--rules", "a.rules", "--out", "run", "--steps", "4", "--quiet"]
    tests = Path(__file__).parents[1]
    env = {name: value for name, value in os.environ.items() if name not in ("MKL_CBWR", "PYTHONHASHSEED")}
    env |= {"OMP_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE", "PYTHONHASHSEED": str(threads)}
    env["PYTHONPATH"] = os.pathsep.join(map(str, (tests, tests.parent)))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHILD, str(threads), *words],
        cwd=folder, env=env, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (weights,) = (folder / "run" / "model").glob("*.safetensors")
    return json.loads((folder / "found.json").read_text()), weights.read_bytes()


def test_the_same_weights_in_another_process_and_on_two_threads(tmp_path: Path) -> None:
    threads = 2 if torch.backends.mkl.is_available() else 1  # other libraries make no promise across threads
    one, command = in_a_process(tmp_path / "one", 1)
    two, command_again = in_a_process(tmp_path / "two", threads)
    assert len(one) == 2 * len(PRIORS) + len(TERMS) + 1
    assert one == two
    assert command == command_again


def test_another_seed_gives_other_weights() -> None:
    x, kinds, _ = rows()
    same, other = (
        digest(DSSLClassifier(steps=2, network="linear", consistency=None, random_state=seed).fit(x, kinds).network_)
        for seed in (0, 1)
    )
    assert same != other


# ---- circuits ----


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_answers_of_a_circuit_depend_on_neither_threads_nor_tiles(
    kind: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"v{i}" for i in range(12)]
    circuit = LabelSpace(f"{', '.join(names)}\nk: {{x, y, z}}\nat_most(5, {', '.join(names)})\nk = x -> v0").compile()
    drawn = [literal_weights(circuit, seed, scale=3.0) for seed in range(70)]
    pos, neg = (torch.tensor(np.stack(side), dtype=kind) for side in zip(*drawn))

    def answers() -> list[Tensor]:
        free = pos.clone().requires_grad_()
        loss = queries.log_wmc(circuit, free, neg)
        out = [loss.detach(), *torch.autograd.grad(loss.sum(), free)]
        out += [query(circuit, pos, neg) for query in (queries.log_wmc, queries.marginals, queries.entropy)]
        out += [*queries.top_k(circuit, pos, neg, 2)]
        return [*out, queries.sample(circuit, pos, neg, 3, torch.Generator().manual_seed(0))]

    expected = answers()
    for lanes, threads in ((64, 1), (32, 2), (16, 2)):

        def tile(kernel: launch.Kernel, *_: Any, lanes: int = lanes, threads: int = threads) -> tuple[int, int]:
            return lanes if lanes in kernel.lanes and kind == torch.float32 else 16, threads

        monkeypatch.setattr(launch, "_tile", tile)
        for a, b in zip(expected, answers()):
            assert torch.equal(a, b)


# ---- after a break ----


class _PowerCut(Exception):
    pass


def objective(name: str) -> Objective:
    """One prior, or one term beside a prior, on three classes or on rules."""
    kind, _, word = name.partition(" ")
    space = LabelSpace(FEW) if kind == "rules" else LabelSpace.classes(["a", "b", "c"])
    labels = np.array([[0, 0, 0], [0, 1, 1], [0, 1, 0]] if kind == "rules" else np.eye(WIDTH), np.float32)
    if kind == "term":
        return Objective(
            space,
            make_prior(partial(DeterministicPrior, power=10.0), space, labels),
            consistency=make_terms(word),
            augment=(Noise(0.1), Noise(0.5)),
        )
    prior = TNormPrior(space, word) if word in ("product", "goedel", "lukasiewicz") else make_prior(word, space, labels)
    return Objective(space, prior, 0.5)


NAMES = [f"prior {p}" for p in PRIORS] + [f"rules {p}" for p in PRIORS] + [f"term {t}" for t in TERMS]
NAMES += ["rules product", "rules goedel", "rules lukasiewicz"]


@pytest.mark.filterwarnings("ignore:ExclusivityPrior gives no signal")
@pytest.mark.parametrize("name", NAMES)
def test_a_run_that_was_cut_ends_in_the_same_bits(name: str, tmp_path: Path) -> None:
    chosen = Settings(
        steps=8,
        labelled_batch=8,
        unlabelled_batch=16,
        eval_every=2,
        checkpoint_every=3,
        ema=0.9,
        seed=1,
        accelerator="cpu",
    )
    data = tiny_data()
    if name.startswith("rules"):
        data._y[data.labelled] = torch.tensor([0.0, 1.0, 0.0])

    def run(folder: Path | None, cut: bool = False) -> nn.Module:
        scores = iter(range(100))

        def score(network: nn.Module) -> float:
            if cut and (now := next(scores)) == 2:
                raise _PowerCut(now)
            return 0.0 if cut else next(scores)

        return train(tiny_network(), objective(name), data, replace(chosen, checkpoint=folder), validate=score).network

    whole = run(None)
    with pytest.raises(_PowerCut):
        run(tmp_path, cut=True)
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000003.safetensors"]
    assert same_weights(run(tmp_path), whole)
