"""Leaks are found by their name, by where they are empty and by what they say; honest columns are let be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl import LabelSpace
from dssl.data.labelling import Labelling
from dssl.data.leaks import copies, leaking, perfect
from dssl.data.tables import Table
from dssl.logic.language.variables import Variable

RANDOM = np.random.default_rng(0)
KIND = [None if i % 2 else "cat" if i % 4 else "dog" for i in range(80)]
LABELLING = Labelling(("kind",), ("kind",), LabelSpace("kind: {cat, dog}"))


def table(**columns: Any) -> Table:
    return Table(Path("d.csv"), "CSV", pl.DataFrame({"kind": KIND, **columns}), first=2)


def found(given: Table, **more: Any) -> dict[str, str]:
    return leaking(given, given.names[1:], LABELLING, LABELLING.encode(given), **more)


@pytest.mark.parametrize("name", ["Kind", " kind ", "KIND_", "kind=cat", "Kind = Dog"])
def test_columns_called_like_a_label(name: str) -> None:
    leak = table(**{name: list(range(80)), "kindness": list(range(80))})
    assert list(found(leak)) == [name]
    assert found(leak, asked=[name]) == {}


def test_columns_that_are_empty_where_the_label_is() -> None:
    weight = RANDOM.normal(size=80).tolist()
    follows = [w if k else None for w, k in zip(weight, KIND)]
    nearly = [*follows[:-1], 1.0]  # one unlabelled row has it
    half = [w if k and i % 8 else None for i, (w, k) in enumerate(zip(weight, KIND))]
    said = found(table(weight=weight, follows=follows, nearly=nearly, half=half))
    assert list(said) == ["follows"]
    assert "empty in every unlabelled row" in said["follows"]


def test_copies_hold_names_of_the_rules_and_tell_the_label() -> None:
    again = [k.upper() if k else "cat" for k in KIND]
    wrong = ["DOG" if i == 6 else k for i, k in enumerate(again)]
    code = ["1" if k == "cat" else "2" for k in KIND]
    noisy = ["1" if k == "cat" and i != 6 else "2" for i, k in enumerate(KIND)]
    fine = [f"{c}{i % 3}" for i, c in enumerate(code)]  # determines the label, and says more
    unique = [f"{c}{i}" for i, c in enumerate(code)]
    given = table(again=again, wrong=wrong, code=code, noisy=noisy, fine=fine, unique=unique, same=["x"] * 80)
    known = LABELLING.encode(given)
    assert copies(given, given.names[1:], LABELLING, known) == {"again": "kind"}
    assert perfect(given, given.names[1:], LABELLING, known) == {"again": "kind", "code": "kind"}


def test_another_level_of_the_same_rules_is_a_copy_too() -> None:
    space = LabelSpace("group: {pet, fish}\nitem: {cat, dog, cod}\nitem=cod <-> group=fish")
    items = ["cat", "dog", "cod", "cat"] * 10
    frame = pl.DataFrame({"group": ["fish" if i == "cod" else "pet" for i in items], "article": items, "x": items})
    given = Table(Path("d.csv"), "CSV", frame.with_columns(x=pl.Series(["a", "b", "c", "a"] * 10)), first=2)
    labelling = Labelling(("group",), ("group",), space)
    assert copies(given, ["article", "x"], labelling, labelling.encode(given)) == {"article": "group"}


@pytest.mark.parametrize(("classes", "left_out"), [(2, False), (3, True)])
def test_numbers_that_equal_a_label_of_many_values(classes: int, left_out: bool) -> None:
    y = [i % classes for i in range(60)]
    given = Table(Path("d.csv"), "CSV", pl.DataFrame({"y": y, "x": y}), first=2)
    labelling = Labelling(("y",), ("y",), LabelSpace.of([Variable.choice("y", list(range(classes)))]))
    assert bool(copies(given, ["x"], labelling, labelling.encode(given))) is left_out


def test_few_labels_prove_nothing() -> None:
    given = table(again=[k or "cat" for k in KIND]).slice(0, 30)
    assert copies(given, ["again"], LABELLING, LABELLING.encode(given)) == {}
