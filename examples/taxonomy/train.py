"""Tags products in a taxonomy: 150 tagged titles, 1,350 untagged ones, and a page of rules.

python examples/taxonomy/train.py
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from dssl import DSSLClassifier, LabelSpace

HERE = Path(__file__).parent


def main() -> None:
    """Trains three models and compares them on the test titles."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="train for a moment only")
    args = parser.parse_args()
    torch.set_num_threads(1)  # such small matrices gain nothing from more

    space = LabelSpace.read(HERE / "products.rules")
    texts, Y = read("products.csv", space)
    test_texts, truth = read("test.csv", space)
    words = CountVectorizer(binary=True).fit(texts)
    X, X_test = words.transform(texts), words.transform(test_texts)
    tagged = ~np.isnan(Y).any(axis=1)
    print(f"{tagged.sum()} titles with tags, {(~tagged).sum()} without, {len(words.vocabulary_)} words")
    print(f"{space.count()} of {2**space.width:,} sets of tags are valid\n")

    common = {
        "steps": 150 if args.quick else 400,
        "learning_rate": 3e-3,
        "settings": {"standardise": False},
        "random_state": 0,
    }
    models = {
        "tags alone, no rules": DSSLClassifier(prior=None, **common),
        "tags and rules": DSSLClassifier(space, prior=None, **common),
        "tags, rules, untagged titles": DSSLClassifier(space, objective={"constrained": True}, **common),
    }
    print(f"{'learned from':32}{'all tags right':>15}{'invalid':>10}")
    for name, model in models.items():
        found = model.fit(X, Y).predict(X_test)
        right = np.mean((found == truth).all(axis=1))
        print(f"{name:32}{right:15.1%}{len(space.check(found)) / len(found):10.1%}")


def read(name: str, space: LabelSpace) -> tuple[list[str], NDArray[np.float64]]:
    """Titles, and their tags as a matrix with one column per tag; a row without tags is NaN throughout."""
    with (HERE / name).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    Y = np.full((len(rows), space.width), np.nan)
    for i, row in enumerate(rows):
        if row["tags"]:
            Y[i] = np.isin(space.columns, row["tags"].split())
    return [row["text"] for row in rows], Y


if __name__ == "__main__":
    main()
