"""Makes boards.npz and test.npz: sudokus of pictures of digits. Of boards.npz four cells are told, one of each digit.

python examples/sudoku/make.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from dssl import LabelSpace

BOARDS, TEST, SEED = 30, 10, 0


def main() -> None:
    """Writes both files; no picture is in two cells."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    pictures, digits = load_digits(return_X_y=True)
    random = np.random.default_rng(SEED)
    valid = np.array(
        [list(board.values()) for board in LabelSpace.read(Path(__file__).parent / "sudoku.rules").valid()]
    )
    y = valid[random.integers(len(valid), size=BOARDS + TEST)]  # (n, 16)
    places = np.zeros_like(y)
    for digit in range(1, 5):
        places[y == digit] = random.choice(np.flatnonzero(digits == digit), (y == digit).sum(), replace=False)
    x = pictures.reshape(-1, 8, 8)[places]  # (n, 16, 8, 8)
    told = np.full((BOARDS, 16), np.nan)
    for digit in range(1, 5):
        told[0, np.flatnonzero(y[0] == digit)[0]] = digit
    np.savez(folder / "boards.npz", X=x[:BOARDS], y=told)
    np.savez(folder / "test.npz", X=x[BOARDS:], y=y[BOARDS:])


if __name__ == "__main__":
    main()
