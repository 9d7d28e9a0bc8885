"""Data that are read a block at a time: parts that do not go together, cells that do not fit what a sample said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from dssl import DSSLClassifier, LabelSpace
from dssl.data import TableTransformer
from dssl.data.labelling import find_labels
from dssl.data.preprocessing import Preprocessing, TableData
from dssl.data.rows import ArrayData
from dssl.data.stored.parquet import ParquetData
from dssl.data.tables import read, sample_parquet
from dssl.training.logs import MLflow
from trust.bad import Bad, nothing

N = 40
SPACE = LabelSpace.classes(["cat", "dog"])
X = np.random.default_rng(0).normal(size=(N, 2)).astype(np.float32)
Y = SPACE.encode(["cat", "dog"] * (N // 2))
GOOD: dict[str, Any] = {
    "size": [i / 7 for i in range(N)],
    "price": [f"{i % 9}.50 €" for i in range(N)],
    "home": ["sea", "wood"] * (N // 2),
    "day": [f"2020-{i % 12 + 1:02}-{i % 28 + 1:02}" for i in range(N)],
    "fast": ["yes", "no", "no", "yes"] * (N // 4),
    "class": ["cat", "dog"] * (N // 2),
}


def parts(second: dict[str, Any], drop: str = "") -> Callable[[Path], None]:
    """A good part, and another."""

    def make(folder: Path) -> None:
        (folder / "p").mkdir()
        pl.DataFrame(GOOD).write_parquet(folder / "p" / "0.parquet")
        other = pl.DataFrame({**GOOD, **second}, strict=False)
        other.drop([drop] if drop else []).write_parquet(folder / "p" / "1.parquet")

    return make


def streamed(folder: Path) -> Any:
    """All rows, by what the first part said."""
    table = read(folder / "p" / "0.parquet")
    labelling = find_labels(table, ["class"], None)
    names = [name for name in table.names if name != "class"]
    fitted = TableTransformer().fit(table.frame.select(names))
    kept = Preprocessing(fitted.columns_, labels=("class",), label_names=("class",))
    return list(TableData(folder / "p", kept, labelling, np.arange(0)).parts())


def cell(name: str, column: str, value: Any, said: str) -> Bad:
    """One odd cell in the second part."""
    return Bad(f"parts: {name}", parts({column: [*GOOD[column][:-1], value]}), streamed, said)


def blocks(name: str, second: dict[str, Any], said: str, drop: str = "", **more: Any) -> Bad:
    """Numbers of two parts."""

    def call(folder: Path) -> Any:
        options = {"features": ["size"], "labels": "class", "space": SPACE, **more}
        return list(ParquetData(folder / "p", **options).parts())

    return Bad(f"blocks: {name}", parts(second, drop), call, said)


def fit(name: str, data: Callable[[], Any], said: str, *given: Any, **options: Any) -> Bad:
    return Bad(f"fit of data: {name}", nothing, lambda _: DSSLClassifier(**options).fit(data(), *given), said)


def frame(name: str, columns: Callable[[], Any], said: str) -> Bad:
    return Bad(f"frames: {name}", nothing, lambda _: TableTransformer().fit(columns()), said)


def unmarked(folder: Path) -> Any:
    return sample_parquet(folder / "p", ["kind"], 5, 5)


IN = "held numbers in € in training"
CASES = [
    cell("a text for a price", "price", "free", f"row 80: column 'price' {IN}, but here 'free' … Correct it, or leave"),
    cell("another currency", "price", "5 $", f"column 'price' {IN}, but here '5 $' … Correct it, or leave the cell"),
    cell("no unit and a text", "price", "5 € or so", f"column 'price' {IN}, but here '5 € or so' … Correct it"),
    cell("a day that is not", "day", "2020-02-31", "held dates in training, but here '2020-02-31' … Correct it"),
    cell("a date of another form", "day", "3.4.2020", "held dates in training, but here '3.4.2020' … Correct it"),
    cell("a word for a date", "day", "today", "held dates in training, but here 'today' … Correct it, or leave"),
    cell("neither yes nor no", "fast", "slow", "held true or false in training, but here 'slow' … Correct it"),
    cell("infinity", "size", float("inf"), "column 'size' held numbers in training, but here 'inf' … Correct it"),
    cell("a new class", "class", "cod", "row 80, column 'class': 'class' cannot be 'cod' … Allowed: cat, dog; empty"),
    cell("a class nearly right", "class", "dgo", "'class' cannot be 'dgo' … Did you mean 'dog'?"),
    Bad("parts: a column that one has not", parts({}, "size"), streamed, "has no column 'size' … Its columns: "),
    Bad("parts: texts for numbers", parts({"size": ["a"] * N}), streamed,
        "held numbers in training, but here 'a', and 39 more like it … Correct it, or leave the cell empty"),
    Bad("parts: lists for categories", parts({"home": [["sea"]] * N}), streamed,
        "column 'home' holds List(String) here … Give the column as it was."),
    Bad("parts: no such label", parts({}), unmarked, "cannot be read as Parquet … Check the file."),
    blocks("NaN among features", {"size": [float("nan")] * N}, "has missing or infinite entries … Fill them in"),
    blocks("empty cells among features", {"size": [None] * N}, "has missing or infinite entries … Fill them in"),
    blocks("infinity among features", {"size": [float("inf")] * N}, "has missing or infinite entries … Fill them in"),
    blocks("no such feature", {}, "has no column 'height' … Its columns: class", features=["height"]),
    blocks("no such weight", {}, "has no column 'w' … Its columns: class", weight="w"),
    blocks("a feature that one part has not", {}, "has no column 'size' … Its columns: class", drop="size"),
    blocks("one column for two variables", {}, "one label column, 'class', for 2 variables … Give a list of columns",
           space=LabelSpace("a, b")),
    fit("labels beside it", lambda: ArrayData(X, Y), "has its own labels and weights … Leave out y", Y, rules=SPACE),
    fit("warm_start", lambda: ArrayData(X, Y), "has its own labels and weights … Leave out y", rules=SPACE,
        warm_start=True),
    fit("no space", lambda: ArrayData(X, Y), "no names for them … Give the label space that they are columns of"),
    fit("another space", lambda: ArrayData(X, Y), "2 columns, and the rules have 3 … Give the estimator no rules",
        rules="a, b, c"),
    fit("no label", lambda: ArrayData(X, np.full((N, 2), np.nan)), "none of the 40 rows is labelled … Label some rows",
        rules=SPACE),
    fit("no rows", lambda: ArrayData(X[:0], Y[:0]), "the data have no rows … Give rows, of which some", rules=SPACE),
    fit("labels that break a rule", lambda: ArrayData(X, np.ones((N, 2))),
        "break … Rows are counted among the 40 labelled ones.", rules="a, b\na -> !b"),
    frame("two columns of one name", lambda: pd.DataFrame(X, columns=["a", "a"]), "two columns 'a' … Rename one"),
    frame("names that are one as text", lambda: pd.DataFrame(X, columns=[1, "1"]), "two columns '1' … Rename one"),
    Bad("callbacks: MLflow without a store", nothing,
        lambda _: MLflow()({"step": 1}), "MLflow needs the package mlflow … Install it: pip install 'dssl[mlflow]'"),
]  # fmt: skip
