"""ARFF: quoting, nominal values, missing entries, sparse rows, hierarchies."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from dssl.data.formats.arff import parents_of, read_arff, with_parents
from dssl.errors import DataError

TEXT = r"""% a comment
@RELATION 'some thing'

@attribute length NUMERIC
@attribute 'Swainson\'s Thrush' {0,1}
@ATTRIBUTE "size of it" { small, 'very large', other }
@DATA
1.5, 1, small
?,0,'very large'

% between
-2e3,?,other
"""


def write(folder: Path, text: str, name: str = "a.arff") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


@pytest.mark.parametrize("name", ["a.arff", "a.arff.gz"])
def test_names_values_and_gaps(tmp_path: Path, name: str) -> None:
    table = read_arff(write(tmp_path, TEXT, name))
    assert table.features == ("length", "Swainson's Thrush", "size of it")
    assert table.values == ((), ("0", "1"), ("small", "very large", "other"))
    np.testing.assert_array_equal(table.x, [[1.5, 1, 0], [np.nan, 0, 1], [-2000, np.nan, 2]])
    assert table.hierarchy is None


def test_sparse_rows(tmp_path: Path) -> None:
    text = "@relation r\n@attribute a numeric\n@attribute b {0,1}\n@attribute c real\n@data\n{0 2.5, 2 -1}\n{}\n{1 1}\n"
    assert read_arff(write(tmp_path, text)).x.tolist() == [[2.5, 0, -1], [0, 0, 0], [0, 1, 0]]


def test_a_hierarchy_and_its_labels_are_kept_as_they_are_written(tmp_path: Path) -> None:
    text = "@relation r\n@attribute a numeric\n@attribute class hierarchical 01,01/02,05\n@data\n1,01/02@05\n2,01\n"
    table = read_arff(write(tmp_path, text))
    assert (table.features, table.hierarchy, table.labels) == (("a",), ("01", "01/02", "05"), ("01/02@05", "01"))
    assert table.x.tolist() == [[1], [2]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("@relation r\n@attribute a numeric\n", "no @data"),
        ("hello\n@data\n", "line 1: this is not an attribute"),
        ("@attribute a string\n@data\n", "type 'string' are not supported"),
        ("@attribute a numeric\n@data\n1,2\n", "line 3: 2 entries for 1 attributes"),
        ("@attribute a numeric\n@data\nx\n", "the entry 'x'"),
        ("@attribute a {b,c}\n@data\nd\n", "the entry 'd'"),
    ],
)
def test_files_that_are_not_understood_are_refused_with_the_line(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(DataError, match=says):
        read_arff(write(tmp_path, text))


def test_edges_and_paths_do_not_mix() -> None:
    assert parents_of(["root/a", "root/b", "a/c", "b/c"]) == {"a": [], "b": [], "c": ["a", "b"]}
    for odd in ("a/b/c", "a"):
        with pytest.raises(DataError, match=rf"the entry '{odd}' among edges parent/child\nWrite paths from the top"):
            parents_of(["root/a", odd])


def test_classes_come_with_all_above_them() -> None:
    parents = parents_of(["root/a", "root/b", "a/c", "b/c"])
    assert sorted(with_parents("c", parents, "row 1")) == ["a", "b", "c"]
    assert with_parents("", parents, "row 1") == []
    with pytest.raises(DataError, match="row 1 has the class 'd', which the hierarchy does not have"):
        with_parents("a@d", parents, "row 1")
