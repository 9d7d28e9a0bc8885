"""Functions of yeast genes in the Gene Ontology: 4,125 classes, 1,477 of them below several others, by the estimator.

    DSSL_DATA=… python experiments/go.py            # three seeds
    DSSL_DATA=… python experiments/go.py --seeds 1

Rules are the edges of the ontology, which no circuit holds: the estimator decides classes from the top down, and its
plan says so. Data, split and measure are those of C-HMCNN (Giunchiglia & Lukasiewicz 2020): AU(PRC), micro-averaged
over all pairs of a row and a class, the three ontologies' own classes left out. Networks learn from the training and
validation rows, and are tested on the others.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from dssl.data.published import Published, load_hmc
from dssl.models.estimators import DSSLClassifier

PUBLISHED = 0.413  # C-HMCNN on cellcycle, mean of ten runs
TOPS = ("GO0003674", "GO0005575", "GO0008150")  # functions, components, processes


def area(data: Published, y: NDArray[Any], p: NDArray[Any]) -> float:
    """AU(PRC) of probabilities p of labels y, both (n, width), without the classes at the top."""
    counted = np.array([name not in TOPS for name in data.space.columns])
    return float(average_precision_score(y[:, counted], p[:, counted], average="micro"))


def one(data: Published, seed: int, **options: Any) -> dict[str, float]:
    """One network, trained and tested."""
    assert data.valid is not None
    assert data.test is not None
    x = np.concatenate([data.train.x, data.valid.x])
    y = np.concatenate([data.train.y, data.valid.y]).astype(np.float32)
    began = time.perf_counter()
    model = DSSLClassifier(data.space, random_state=seed, **options).fit(x, y)
    seconds = time.perf_counter() - began
    marginals = model.predict_proba(data.test.x)
    coherent = [len(data.space.check((marginals > threshold).astype(np.float32))) for threshold in (0.1, 0.3, 0.5)]
    coherent.append(len(data.space.check(model.predict(data.test.x))))
    return {
        "area": area(data, data.test.y, marginals),
        "constant": area(data, data.test.y, np.tile(y.mean(axis=0), (len(data.test.y), 1))),
        "broken": float(sum(coherent)),
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="cellcycle")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=None, help="of training; as the estimator chooses by default")
    chosen = parser.parse_args()
    data = load_hmc(f"{chosen.set}_GO")
    for seed in range(chosen.seeds):
        found = one(data, seed, steps=chosen.steps)
        print(
            f"seed {seed}: AU(PRC) {found['area']:.4f} (C-HMCNN {PUBLISHED}, a constant {found['constant']:.3f}), "
            f"{found['broken']:.0f} incoherent predictions, {found['seconds']:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
