"""Makes pairs.npz and test.npz: pairs of pictures of digits, of which the first file tells only the totals.

python examples/digit_sums/make.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

PAIRS, TEST, SEED = 600, 250, 0


def main() -> None:
    """Writes both files; no picture is in two pairs."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    pictures, digits = load_digits(return_X_y=True)
    rows = np.random.default_rng(SEED).permutation(len(digits))
    for name, pairs in (("pairs", rows[: 2 * PAIRS]), ("test", rows[-2 * TEST :])):
        pairs = pairs.reshape(-1, 2)
        y = np.column_stack([digits[pairs], digits[pairs].sum(axis=1)]).astype(float)  # (n, 3): two digits, total
        if name == "pairs":
            y[:, :2] = np.nan
        np.savez(folder / f"{name}.npz", X=pictures.reshape(-1, 8, 8)[pairs], y=y)  # X (n, 2, 8, 8)


if __name__ == "__main__":
    main()
