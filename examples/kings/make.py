"""Makes boards.npz and test.npz: drawn boards with two kings. Of boards.npz one board is told.

python examples/kings/make.py [FOLDER]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from dssl import LabelSpace

BOARDS, TEST, SEED = 60, 100, 0
KING = np.array([[0, 0, 1, 0, 0], [0, 1, 1, 1, 0], [0, 0, 1, 0, 0], [1, 1, 1, 1, 1], [0, 1, 1, 1, 0]])


def drawn(value: str, dark: bool, random: np.random.Generator) -> NDArray[np.float64]:
    """A square (5, 5) with its king: white and black are close in shade, light and dark squares further apart."""
    shade = {"empty": 0.0, "white": 0.5, "black": -0.5}[value]
    return (0.3 if dark else 0.7) + shade * KING + 0.25 * random.normal(size=(5, 5))


def main() -> None:
    """Writes both files."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    random = np.random.default_rng(SEED)
    valid = np.array([list(board.values()) for board in LabelSpace.read(Path(__file__).parent / "kings.rules").valid()])
    y = valid[random.integers(len(valid), size=BOARDS + TEST)]  # (n, 16)
    x = np.array([[drawn(v, (at // 4 + at) % 2 == 0, random) for at, v in enumerate(board)] for board in y])
    told = y[:BOARDS].copy()
    told[1:] = ""
    np.savez(folder / "boards.npz", X=x[:BOARDS].reshape(-1, 4, 4, 5, 5), y=told)
    np.savez(folder / "test.npz", X=x[BOARDS:].reshape(-1, 4, 4, 5, 5), y=y[BOARDS:])


if __name__ == "__main__":
    main()
