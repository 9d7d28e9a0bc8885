"""Every door that takes the path of a file: one rule for a file that is not there and for a folder in its place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fuzz.targets import has_remedy

import dssl
from dssl import Circuit, LabelSpace
from dssl.app.options import Options
from dssl.app.summary import Summary
from dssl.data import TableTransformer, published
from dssl.data.formats.arff import read_arff
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import read
from dssl.errors import DataError
from dssl.priors.learned import LearnedPrior
from dssl.training import checkpoints

DOORS: dict[str, Callable[[Path], object]] = {
    "LabelSpace.read": LabelSpace.read,
    "LabelSpace.dimacs": LabelSpace.dimacs,
    "Circuit.load": Circuit.load,
    "Circuit.from_nnf": Circuit.from_nnf,
    "Circuit.from_sdd": Circuit.from_sdd,
    "LearnedPrior.load": LearnedPrior.load,
    "load": dssl.load,
    "table": read,
    "arff": read_arff,
    "idx": published.read_idx,
    "cifar": published.read_cifar,
    "svhn": published.read_svhn,
    "mulan": published.read_label_names,
    "TableTransformer.load": TableTransformer.load,
    "Preprocessing.load": Preprocessing.load,
    "checkpoint": checkpoints.load,
    "Summary.load": Summary.load,
    "settings": lambda path: Options().with_file(path),
}
every_door = pytest.mark.parametrize("door", DOORS)


@every_door
def test_what_is_not_there_is_a_missing_file(tmp_path: Path, door: str) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        DOORS[door](tmp_path / "missing")
    assert "missing" in str(caught.value)


@every_door
def test_a_folder_is_no_file(tmp_path: Path, door: str) -> None:
    place = tmp_path / "folder"
    place.mkdir()
    with pytest.raises(DataError, match="folder") as caught:
        DOORS[door](place)
    assert has_remedy(str(caught.value))
    if door not in ("load", "table"):  # which read folders, but not empty ones
        assert "folder is a folder\nName the file inside it." in str(caught.value)


def test_a_vtree_too(tmp_path: Path) -> None:
    sdd = tmp_path / "a.sdd"
    sdd.write_text("sdd 1\nL 0 0 1\n")
    with pytest.raises(FileNotFoundError):
        Circuit.from_sdd(sdd, tmp_path / "missing")
    with pytest.raises(DataError, match="is a folder"):
        Circuit.from_sdd(sdd, tmp_path)


def test_a_circuit_too_large_to_draw_is_our_error() -> None:
    names = ", ".join(f"x{i}" for i in range(40))
    circuit = LabelSpace(f"{names}\nexactly(20, {names})")
    for draw in (circuit.compile().to_dot, circuit.compile().to_svg):
        with pytest.raises(DataError, match="a drawing shows up to"):
            draw()
