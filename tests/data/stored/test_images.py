"""Images of folders, decoded when a batch needs them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from dssl import LabelSpace
from dssl.data.stored.images import ImageFolderData
from dssl.errors import DataError

SPACE = LabelSpace("kind: {cat, dog, eel}\nlegs\nkind = eel -> !legs")

# ---- arrays ----


def picture(path: Path, value: int, size: tuple[int, int] = (6, 4)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (value, 0, 255)).save(path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture(tmp_path / "cat" / "1.png", 10)
    picture(tmp_path / "dog" / "2.PNG", 20, (12, 12))
    picture(tmp_path / "unlabelled" / "3.png", 30)
    picture(tmp_path / "4.bmp", 40)
    (tmp_path / "notes.txt").write_text("not an image")
    return tmp_path


def test_sub_folders_name_classes(folder: Path) -> None:
    data = ImageFolderData(folder, LabelSpace.classes(["cat", "dog"]), size=(4, 6))
    assert [path.name for path in data.paths] == ["4.bmp", "1.png", "2.PNG", "3.png"]
    batch = data.batch([1, 2, 3])
    assert batch.x.shape == (3, 3, 4, 6)
    assert batch.x[:, 0, 0, 0].tolist() == pytest.approx([10 / 255, 20 / 255, 30 / 255])
    assert batch.x[:, 2].min() == 1
    np.testing.assert_array_equal(batch.y, [[1, 0], [0, 1], [np.nan, np.nan]])
    assert (data.labelled.tolist(), data.unlabelled.tolist()) == ([1, 2], [0, 3])


def test_a_table_names_labels_of_several_variables(folder: Path) -> None:
    csv = folder / "labels.csv"
    csv.write_text("file,kind,legs\n4.bmp,eel,0\ncat/1.png,cat,\n")
    data = ImageFolderData(folder, SPACE, labels=csv, size=(4, 4), channels=1)
    np.testing.assert_array_equal(data.batch([0, 1]).y, SPACE.encode([{"kind": "eel", "legs": 0}, {"kind": "cat"}]))
    assert data.batch([0]).x.shape == (1, 1, 4, 4)
    assert data.labelled.tolist() == [0, 1]


def test_worker_processes_decode_the_same_pixels(folder: Path) -> None:
    space = LabelSpace.classes(["cat", "dog"])
    alone = ImageFolderData(folder, space, size=(4, 6))
    team = ImageFolderData(folder, space, size=(4, 6), workers=1)
    try:
        assert torch.equal(team.batch([3, 0, 1]).x, alone.batch([3, 0, 1]).x)
        assert len(pickle.loads(pickle.dumps(team))) == 4  # goes to other processes without its own
    finally:
        team.close()


def test_folders_that_do_not_fit_are_refused(folder: Path, tmp_path: Path) -> None:
    space = LabelSpace.classes(["cat", "dog"])
    with pytest.raises(DataError, match="no images"):
        ImageFolderData(tmp_path / "nothing", space, size=(2, 2))
    with pytest.raises(DataError, match="one variable, not of 2"):
        ImageFolderData(folder, SPACE, size=(2, 2))
    with pytest.raises(DataError, match="2 channels"):
        ImageFolderData(folder, space, size=(2, 2), channels=2)
    with pytest.raises(DataError, match="dog"):
        ImageFolderData(folder, LabelSpace.classes(["cat", "cow"]), size=(2, 2))
    for text, says in (
        ("file,kind\nnone.png,cat\n", "'none.png', which is not an image"),
        ("file,kind\n4.bmp\n", "row 1"),
    ):
        (folder / "bad.csv").write_text(text)
        with pytest.raises(DataError, match=says):
            ImageFolderData(folder, SPACE, labels=folder / "bad.csv", size=(2, 2))
    (folder / "4.bmp").write_bytes(b"BM not really")
    with pytest.raises(DataError, match=r"4.bmp' cannot be read"):
        ImageFolderData(folder, space, size=(2, 2)).batch([0])
