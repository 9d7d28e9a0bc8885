"""Learns to read digits from sums: of each pair of pictures only the total is known.

python examples/digit_sums/train.py
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn

from dssl import DSSLClassifier, LabelSpace

HERE = Path(__file__).parent
PAIRS, TEST, SEED = 600, 500, 0  # pairs to learn from, digits to test on, seed of the split


class Pair(nn.Module):
    """Reads both digits with the same weights. Nothing is read of the total: its logits are 0, and the rule decides."""

    def __init__(self) -> None:
        super().__init__()
        self.digit = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))

    def forward(self, x: Tensor) -> Tensor:  # (n, 128) → (n, 10 + 10 + 19)
        left, right = x.split(64, dim=1)
        return torch.cat([self.digit(left), self.digit(right), x.new_zeros(len(x), 19)], dim=1)


def main() -> None:
    """Trains on sums, with and without some digits told, and on those digits alone; compares them on new digits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the sums only, for a moment")
    args = parser.parse_args()
    torch.set_num_threads(1)  # such small matrices gain nothing from more

    space = LabelSpace.read(HERE / "digit_sums.rules")
    x, digits, x_test, truth = pairs()
    print(f"{len(x)} pairs, {space.count()} valid labels of {10 * 10 * 19:,}\n")
    print(f"{'known':36}{'digits right':>14}{'sums right':>12}{'invalid':>9}")
    for name, told, sums in (
        ("all sums", 0, True),
        ("all sums, digits of 20 pairs", 20, True),
        ("digits of 20 pairs", 20, False),
    )[: 1 if args.quick else 3]:
        labels = known(digits, told=told, sums=sums)
        model = DSSLClassifier(
            space,
            prior=None,
            network=Pair(),
            constrained=True,  # log P(what is known | a + b = total)
            steps=200 if args.quick else 400,
            learning_rate=3e-3,
            standardise=False,
            random_state=SEED,
        ).fit(x, labels)
        found = model.predict(x_test)  # (n, 3): a, b, total
        invalid = len(space.check(found))
        right, sums_right = np.mean(found[:, :2] == truth[:, :2]), np.mean(found[:, 2] == truth[:, 2])
        print(f"{name:36}{right:14.1%}{sums_right:12.1%}{invalid:9}")


def pairs() -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Pictures side by side (n, 128) and their digits and totals (n, 3), to learn from and to test on.

    No picture is in two pairs, or on both sides.
    """
    pictures, digits = load_digits(return_X_y=True)
    rows = np.random.default_rng(SEED).permutation(len(digits))
    parts = []
    for part in (rows[: 2 * PAIRS], rows[-TEST:]):
        left, right = part.reshape(2, -1)
        parts.append(np.hstack([pictures[left], pictures[right]]) / 16)
        parts.append(np.stack([digits[left], digits[right], digits[left] + digits[right]], axis=1))
    return parts[0], parts[1], parts[2], parts[3]


def known(digits: NDArray[np.int64], *, told: int, sums: bool) -> NDArray[np.float64]:
    """Labels (n, 3) of which only totals are known, but for the first `told` rows; without `sums`, those rows only."""
    out = digits.astype(np.float64)
    out[told:, :2] = np.nan
    if not sums:
        out[told:] = np.nan
    return out


if __name__ == "__main__":
    main()
