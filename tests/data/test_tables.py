"""Files in every format give the same table, whole or in parts, or say what is wrong with them."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl.data.labelling import find_labels
from dssl.data.tables import read, stream
from dssl.errors import DataError

FRAME = pl.DataFrame({"a": [1.5, None, 3.0], "b": ["x", "y, z", None], "y": [1, 0, None]})


def write(path: Path) -> Path:
    if path.suffix == ".parquet":
        FRAME.write_parquet(path)
    elif path.suffix == ".arff":
        rows = "1.5,x,1\n?,'y, z',0\n3.0,?,?\n"
        path.write_text(
            f"@relation r\n@attribute a numeric\n@attribute b {{x,'y, z'}}\n@attribute y {{0,1}}\n@data\n{rows}"
        )
    elif path.suffix == ".gz":
        path.write_bytes(gzip.compress(FRAME.write_csv().encode()))
    else:
        FRAME.write_csv(path, separator="\t" if path.suffix == ".tsv" else ",")
    return path


def plain(frame: pl.DataFrame) -> list[tuple[Any, ...]]:
    return [
        tuple(float(v) if name in "ay" and v is not None else v for name, v in row.items()) for row in frame.to_dicts()
    ]


@pytest.mark.parametrize("name", ["d.csv", "d.tsv", "d.parquet", "d.arff", "d.csv.gz"])
def test_formats_agree(tmp_path: Path, name: str) -> None:
    table = read(write(tmp_path / name))
    assert table.names == ["a", "b", "y"]
    assert plain(table.frame) == plain(FRAME)


@pytest.mark.parametrize("chunk", [None, 2])
def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path, chunk: int | None) -> None:
    for i in range(3):
        FRAME[i::3].write_parquet(tmp_path / f"part{i}.parquet")
    (tmp_path / "readme.txt").write_text("not a part")
    tables = list(stream(tmp_path, chunk=chunk))
    assert pl.concat([t.frame for t in tables]).equals(pl.concat([FRAME[i::3] for i in range(3)]))
    assert tables[0].place(0) == "row 1"


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.arff"])
def test_parts_are_the_whole_and_know_their_place(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / name)
    whole, parts = read(path), list(stream(path, chunk=2))
    assert [len(part) for part in parts] == [2, 1]
    assert pl.concat(part.frame for part in parts).equals(whole.frame)
    assert parts[1].place(0) == whole.place(2)
    assert whole.place(0) == ("line 2" if name == "d.csv" else "row 1")


def test_a_large_file_comes_in_bounded_parts(tmp_path: Path) -> None:
    path = tmp_path / "large.csv"
    path.write_text("a,b\n" + "".join(f"{i},{i % 7}\n" for i in range(50_000)))
    parts = list(stream(path, chunk=1000))
    assert max(len(part) for part in parts) <= 1000
    assert [int(v) for part in parts for v in part.frame["a"]] == list(range(50_000))
    assert parts[-1].place(len(parts[-1]) - 1) == "line 50001"


def test_semicolons_are_seen(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("a;b\n1,5;x\n")
    assert read(tmp_path / "d.csv").frame.to_dicts() == [{"a": "1,5", "b": "x"}]


def test_quotes_in_a_header_are_read_as_in_cells(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text('"a ""b""",c\n"x ""y""",2\n')
    assert read(tmp_path / "d.csv").frame.rows(named=True) == [{'a "b"': 'x "y"', "c": "2"}]


def test_arrays(tmp_path: Path) -> None:
    x = np.arange(6.0).reshape(3, 2)
    np.savez(tmp_path / "v.npz", X=x, y=np.array([0, -1, 1]))
    table = read(tmp_path / "v.npz")
    assert (table.names, table.labels) == (["x0", "x1", "y"], ("y",))
    assert table.images is None
    np.savez(tmp_path / "m.npz", X=x, y=np.array([[0, np.nan], [1, 1], [0, 1]]))
    assert read(tmp_path / "m.npz").frame["y1"].to_list() == [None, 1.0, 1.0]
    np.savez(tmp_path / "i.npz", X=np.zeros((3, 4, 5)), y=np.array(["cat", "", "dog"]))
    table = read(tmp_path / "i.npz")
    assert table.images is not None
    assert table.images.shape == (3, 4, 5)
    assert table.frame["y"].to_list() == ["cat", None, "dog"]
    np.savez(tmp_path / "u.npz", X=np.zeros((3, 1, 4, 5)))
    assert len(read(tmp_path / "u.npz")) == 3


def images(folder: Path) -> Path:
    image = pytest.importorskip("PIL.Image", reason="images need pillow")
    random = np.random.default_rng(0)
    for name in ("cat/1.png", "cat/2.png", "dog/1.png", "unlabelled/9.png"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        image.fromarray(random.integers(0, 256, (6, 4), dtype=np.uint8)).save(path)
    return folder


def test_folders_of_images(tmp_path: Path) -> None:
    table = read(images(tmp_path))
    assert table.images is not None
    assert table.images.shape == (4, 1, 6, 4)
    assert table.frame["class"].to_list() == ["cat", "cat", "dog", None]
    assert table.labels == ("class",)
    larger = read(tmp_path, (8, 8), 3).images
    assert larger is not None
    assert larger.shape == (4, 3, 8, 8)
    first = next(iter(stream(tmp_path, chunk=3))).images
    np.testing.assert_array_equal(first, table.images[:3])


def test_folders_of_images_with_a_list(tmp_path: Path) -> None:
    images(tmp_path)
    (tmp_path / "labels.csv").write_text("path,tail,claws\ncat/2.png,1,0\ndog/1.png,,1\n")
    table = read(tmp_path)
    assert table.labels == ("tail", "claws")
    assert table.frame["tail"].to_list() == [None, "1", None, None]
    (tmp_path / "labels.csv").write_text("path,tail\ncat/7.png,1\n")
    with pytest.raises(DataError, match=r"lists 'cat/7.png', which is not an image in that folder"):
        read(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("d.csv", b"", "is empty"),
        ("d.csv", b"a,b\n", "has no rows"),
        ("d.csv", b"a,b\n1,2,3\n", "line 2 has 3 cells for 2 columns"),
        ("d.csv", b"a,a\n1,2\n", "has two columns 'a'"),
        ("d.csv", b"a,b\n\xff,1\n", "not UTF-8 text"),
        ("d.parquet", b"nonsense", "cannot be read as Parquet"),
        ("d.npz", b"nonsense", "is not an NPZ file"),
        ("d.arff", b"nonsense\n", "line 1: this is not an attribute"),
        ("d.arff", b"@relation r\n@attribute c hierarchical a,a/b\n@data\nb\n", "row 1 has the class 'b', which the"),
        ("d.doc", b"", "has a format that dssl does not read"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path: Path, name: str, content: bytes, said: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"Z": np.zeros(3)}, "has no array X; its arrays: Z"),
        ({"X": np.zeros(3)}, r"X has shape \(3,\)"),
        ({"X": np.array([["a"]])}, "of <U1"),
        ({"X": np.zeros((3, 2)), "y": np.zeros(2)}, r"y has shape \(2,\) for 3 rows"),
    ],
)
def test_what_is_wrong_with_arrays_is_said(tmp_path: Path, arrays: dict[str, Any], said: str) -> None:
    np.savez(tmp_path / "d.npz", **arrays)
    with pytest.raises(DataError, match=said):
        read(tmp_path / "d.npz")


def test_files_and_images_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path / "d.csv")
    with pytest.raises(DataError, match="there are no images"):
        read(tmp_path)
    pytest.importorskip("PIL", reason="images need pillow")
    (tmp_path / "a.png").write_text("nonsense")
    with pytest.raises(DataError, match=r"a\.png' cannot be read"):
        read(tmp_path)


def test_short_lines_are_refused_like_long_ones(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b,c\n1,2,3\n4,5,\n6,7\n")
    for chunk in (None, 2):
        with pytest.raises(
            DataError, match=r"line 4 has 2 cells for 3 columns\nWrite a ',' for each cell that is empty"
        ):
            list(stream(path, chunk=chunk))
    path.write_text('a,b,c\n1,2,3\n4,"5,5",\n\n')
    assert read(path).frame["b"].to_list()[:2] == ["2", "5,5"]


def test_some_rows_keep_their_places(tmp_path: Path) -> None:
    path = tmp_path / "d.csv"
    path.write_text("a,b\n1,2\n3,4\n5,6\n")
    some = read(path).take(np.array([2, 0]))
    assert [some.place(i) for i in range(2)] == ["line 4", "line 2"]
    assert some.frame["a"].to_list() == ["5", "1"]
    assert some.slice(1, 2).place(0) == some.take(np.array([1])).place(0) == "line 2"


def test_hierarchical_arff_has_its_own_labels(tmp_path: Path) -> None:
    path = tmp_path / "d.arff"
    path.write_text(
        "@relation r\n@attribute x numeric\n@attribute k {a,b}\n@attribute class hierarchical 01,01/02,03\n@data\n"
        "1,a,01/02@03\n?,b,?\n3,a,\n"
    )
    table = read(path)
    assert (table.labels, table.frame["k"].to_list()) == (("class",), ["a", "b", "a"])
    assert table.hierarchy == {"01": [], "01/02": ["01"], "03": []}
    found = find_labels(table, None, None)
    assert found.space.count() == 6
    np.testing.assert_array_equal(found.encode(table), [[1, 1, 1], [np.nan] * 3, [0, 0, 0]])
    rules = tmp_path / "more.rules"
    rules.write_text('"03" -> "01"\n')
    assert find_labels(table, None, rules).space.count() == found.space.count() - 1
