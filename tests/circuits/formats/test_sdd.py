"""Files of the SDD package: published ones are read with the right counts, and bad ones say where they are bad."""

from __future__ import annotations

import pytest

from circuits.formats.test_nnf import models
from dssl.circuits.circuit import Circuit


@pytest.mark.parametrize(
    ("name", "vtree", "columns", "count"),
    [
        ("permutation-4.sdd", "permutation-4.vtree", 16, 24),
        ("4-grid-all-pairs-sd.sdd", "4-grid-out.vtree.sd", 40, 14_248),
    ],
)
def test_published_sdd_files(data_folder, name, vtree, columns, count):
    folder = data_folder / "grid"
    circuit = Circuit.from_sdd(folder / name, folder / vtree)
    assert circuit.width == columns
    assert circuit.count() == count
    assert Circuit.from_sdd(folder / name).count() == count
    assert circuit.verify()
    assert Circuit.from_nnf(circuit.to_nnf()).count() == count


SDD = "c x\nsdd 5\nL 0 0 1\nL 1 0 -1\nL 2 2 2\nF 3\nD 4 1 2 0 2 1 3\n"


def test_sdd(tmp_path):
    (tmp_path / "a.sdd").write_text(SDD)
    (tmp_path / "a.vtree").write_text("vtree 5\nL 0 1\nL 2 2\nI 1 0 2\nL 4 3\nI 3 1 4\n")
    assert models(Circuit.from_sdd(tmp_path / "a.sdd")) == {(True, True)}
    assert Circuit.from_sdd(tmp_path / "a.sdd", tmp_path / "a.vtree").count() == 2


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (SDD.replace("L 2 2 2", "L 2 2 0"), 5, "found `L 2 2 0`"),
        (SDD.replace("D 4 1 2 0 2 1 3", "D 4 1 2 0 2 1"), 7, "lines of an SDD"),
        (SDD.replace("D 4 1 2 0 2 1 3", "D 4 1 2 0 2 1 9"), 7, "node 9 is not above"),
        ("\n".join(SDD.splitlines()[:-1]), 6, "announces 5 nodes, and the file has 4"),
        ("sdd 0", 1, "announces 0 nodes"),
    ],
)
def test_bad_sdd_files_say_where(tmp_path, text, line, reason):
    (tmp_path / "a.sdd").write_text(text)
    with pytest.raises(ValueError, match=rf"a\.sdd, line {line}: .*{reason}"):
        Circuit.from_sdd(tmp_path / "a.sdd")


def test_files_that_are_not_text(tmp_path):
    (tmp_path / "a.sdd").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"a\.sdd, byte 0: not a text file"):
        Circuit.from_sdd(tmp_path / "a.sdd")
    (tmp_path / "a.vtree").write_text("vtree 1\nQ 0 1\n")
    (tmp_path / "b.sdd").write_text(SDD)
    with pytest.raises(ValueError, match=r"a\.vtree, line 2: "):
        Circuit.from_sdd(tmp_path / "b.sdd", tmp_path / "a.vtree")
