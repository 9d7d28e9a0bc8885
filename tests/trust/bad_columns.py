"""Columns of tables that cannot be what they seem: cells, labels, and files of transformers that were edited."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dssl.data import TableTransformer
from dssl.data.labelling import find_labels
from dssl.data.tables import read
from trust.bad import Bad, both, deep, nothing, put

LONG = "x" * 100_000
INF = float("inf")


def fitted(name: str, columns: Any, said: str, **options: Any) -> Bad:
    """A transformer that is fitted to columns."""
    return Bad(f"columns: {name}", nothing, lambda _: TableTransformer(**options).fit(columns), said)


def asked(name: str, trained: Any, new: Any, said: str, **options: Any) -> Bad:
    """A fitted transformer that is given other rows."""
    return Bad(f"rows: {name}", nothing, lambda _: TableTransformer(**options).fit(trained).transform(new), said)


def labelled(
    name: str,
    content: str,
    said: str,
    label: Sequence[str] | None = ("y",),
    rules: str = "",
    separator: str | None = None,
) -> Bad:
    """Labels of a CSV file, with rules or without."""

    def call(folder: Path) -> Any:
        table = read(folder / "d.csv")
        found = find_labels(table, label, folder / "a.rules" if rules else None, separator)
        return found.read(table)

    return Bad(f"labels: {name}", both(put("d.csv", content), put("a.rules", rules or "a")), call, said)


@cache
def _kept() -> dict[str, Any]:
    n = 40
    frame = pl.DataFrame(
        {
            "size": [f"{i % 7},5 kg" for i in range(n)],
            "home": ["sea", "wood"] * (n // 2),
            "day": [f"2020-{i % 12 + 1:02}-{i % 28 + 1:02}" for i in range(n)],
            "note": [f"the {i % 5} old door of house {i}" for i in range(n)],
        }
    )
    columns = [asdict(column) for column in TableTransformer().fit(frame).columns_]
    return {"format": "dssl table", "version": 1, "columns": columns}


def edited(name: str, change: Callable[[Any], object], said: str) -> Bad:
    """A saved transformer, changed; what `change` gives back, if anything, replaces it."""

    def content() -> bytes:
        state = json.loads(json.dumps(_kept()))
        out = change(state)
        return json.dumps(state if out is None else out).encode()

    return Bad(f"table file: {name}", put("t.json", content), lambda f: TableTransformer.load(f / "t.json"), said)


def damaged(name: str, content: bytes | str, said: str) -> Bad:
    """A file that is no saved transformer at all."""
    return Bad(f"table file: {name}", put("t.json", content), lambda f: TableTransformer.load(f / "t.json"), said)


def arff(name: str, content: str, said: str) -> Bad:
    """An ARFF file with a hierarchy of classes."""
    return Bad(f"hierarchy: {name}", put("d.arff", content), lambda f: read(f / "d.arff"), said)


def column(state: Any, place: int) -> Any:
    return state["columns"][place]


NUMBERS = [str(i) for i in range(30)]
FEATURES = [
    fitted(
        "a text among numbers",
        {"a": [*NUMBERS, "many"]},
        "row 30: column 'a' holds numbers, but here 'many' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a decimal comma among points",
        {"a": [*(f"{i}.25" for i in range(30)), "3,5"]},
        "row 30: column 'a' holds numbers, but here '3,5' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a decimal point among commas",
        {"a": [*(f"{i},25" for i in range(30)), "3.5"]},
        "row 30: column 'a' holds numbers, but here '3.5' … Correct it, leave the cell empty if",
    ),
    fitted(
        "two dashes before a number",
        {"a": [*NUMBERS, "--5"]},
        "row 30: column 'a' holds numbers, but here '--5' … Correct it, leave the cell empty if",
    ),
    fitted(
        "an opening bracket alone",
        {"a": [*NUMBERS, "(5"]},
        "row 30: column 'a' holds numbers, but here '(5' … Correct it, leave the cell empty if",
    ),
    fitted(
        "groups of two digits",
        {"a": [*(f"{i},000" for i in range(1, 30)), "12,34,56"]},
        "row 29: column 'a' holds numbers, but here '12,34,56' … Correct it, leave the cell empty if",
    ),
    fitted(
        "numbers in kilograms and grams",
        {"a": ["1 kg", "300 g"] * 9},
        "column 'a' has numbers in kg, g: '1 kg' in row 0, '300 g' … Give all of them in one unit, or",
    ),
    fitted(
        "prices in two currencies",
        {"a": ["$5", "7 €", "$8"] * 9},
        "column 'a' has numbers in $, €: '$5' in row 0, '7 €' in … Give all of them in one unit, or",
    ),
    fitted(
        "an infinite number", {"a": [1.0, INF, 2.0]}, "row 1: column 'a' holds inf … Give a finite number, or leave the"
    ),
    fitted(
        "an infinite number as text",
        {"a": ["1", "inf", "2"]},
        "row 1: column 'a' holds inf … Give a finite number, or leave the",
    ),
    fitted(
        "a number of 400 digits",
        {"a": ["1", "9" * 400, "2"]},
        "row 1: column 'a' holds inf … Give a finite number, or leave the",
    ),
    fitted(
        "a date that is none",
        {"a": [*(f"2020-01-{d:02}" for d in range(1, 30)), "2020-02-31"]},
        "row 29: column 'a' holds dates, but here '2020-02-31' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a date in month 13",
        {"a": [*(f"{d}.1.2020" for d in range(1, 30)), "1.13.2020"]},
        "row 29: column 'a' holds dates, but here '1.13.2020' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a text among dates",
        {"a": [*(f"{d}.1.2020" for d in range(1, 30)), "soon"]},
        "row 29: column 'a' holds dates, but here 'soon' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a day that no month has",
        {"a": [*(f"{d}.1.2020" for d in range(1, 30)), "31.2.2020"]},
        "row 29: column 'a' holds dates, but here '31.2.2020' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a column to ignore that is not there",
        {"a": ["1", "2"]},
        "has no column 'b' (ignore) … Its columns: a.",
        ignore=["b"],
    ),
    fitted(
        "a text column that is not there",
        {"note": ["a b", "b a"]},
        "has no column 'notes' (text) … Did you mean 'note'? Its columns:",
        text=["notes"],
    ),
    fitted(
        "categories that are not there",
        {"a": ["1", "2"]},
        "has no column 'A' (categorical) … Its columns: a.",
        categorical=["A"],
    ),
    fitted(
        "an embedding of no column",
        {"a": ["1", "2"]},
        "has no column 'b' (embeddings) … Its columns: a.",
        embeddings={"b": len},
    ),
    fitted(
        "an embedding of other length",
        {"a": ["x", "y"]},
        "the embedding of column 'a' gave shape (1, 1) for 2 texts … It must give the same number of",
        embeddings={"a": lambda t: [[1.0]]},
    ),
    fitted(
        "an embedding without numbers",
        {"a": ["x", "y"]},
        "the embedding of column 'a' gave shape (2, 0) for 2 texts … It must give the same number of",
        embeddings={"a": lambda t: np.zeros((len(t), 0))},
    ),
    fitted(
        "an embedding that is not finite",
        {"a": ["x"]},
        "the embedding of column 'a' gave shape (1, 1) for 1 texts … It must give the same number of",
        embeddings={"a": lambda t: np.full((len(t), 1), INF)},
    ),
    fitted(
        "a scale that is not known",
        {"a": ["1", "2"]},
        "scale='robust' is not known … Give True, False or 'auto'.",
        scale="robust",
    ),
    fitted(
        "one word among numbers that would be a gap if it recurred",
        {"a": [*(f"{i}.5" for i in range(30)), "pending"]},
        "row 30: column 'a' holds numbers, but here 'pending' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a slip besides a word for unknown",
        {"a": [*(f"{i}.5" for i in range(30)), "late", "late", "3.x5"]},
        "row 32: column 'a' holds numbers, but here '3.x5' … Correct it, leave the cell empty if",
    ),
    fitted(
        "sizes in two letters",
        {"a": [*(f"{i}.5k" for i in range(30)), "3kk"]},
        "row 30: column 'a' holds numbers, but here '3kk' … Correct it, leave the cell empty if",
    ),
    fitted(
        "a bound without a number",
        {"a": [*(f"{i}.5" for i in range(30)), "<5", "<"]},
        "row 31: column 'a' holds numbers, but here '<' … Correct it, leave the cell empty if",
    ),
    fitted("a vector", [1.0, 2.0], "X has shape (2,) … Give a frame, or an array with one"),
    fitted("three dimensions", np.zeros((2, 2, 2)), "X has shape (2, 2, 2) … Give a frame, or an array with one"),
]
ROWS = [
    asked(
        "no column of that name",
        {"a": [1.0, 2.0]},
        {"b": [1.0]},
        "has no column a, which the model was trained on … Its columns: b. Add what is missing;",
    ),
    asked(
        "several columns missing",
        {"a": [1.0, 2.0], "b": [2.0, 1.0]},
        {"c": [1.0]},
        "has no columns a, b, which the model was trained on … Its columns: c. Add what is missing;",
    ),
    asked(
        "another width",
        np.array([[1.0, 2.0], [3.0, 1.0]]),
        np.zeros((1, 3)),
        "X has shape (1, 3) where 2 columns were fitted … Give a frame, or an array with one",
    ),
    asked(
        "another unit",
        {"a": ["1 kg", "2 kg"]},
        {"a": ["3 g"]},
        "row 0: column 'a' held numbers in kg in training, but … Correct it, or leave the cell empty",
    ),
    asked(
        "a unit where there was none",
        {"a": ["1", "2"]},
        {"a": ["3 g"]},
        "row 0: column 'a' held numbers in training, but here '3 g' … Correct it, or leave the cell empty",
    ),
    asked(
        "doors for rooms",
        {"a": ["1 room", "2 rooms"]},
        {"a": ["3 doors"]},
        "row 0: column 'a' held numbers in room in training, but … Correct it, or leave the cell empty",
    ),
    asked(
        "another word for unknown",
        {"a": [*(f"{i}.5" for i in range(30)), "late", "late"]},
        {"a": ["3.5", "late", "later"]},
        "row 2: column 'a' held numbers in training, but here … Correct it, or leave the cell empty",
    ),
    asked(
        "a number that is no compact date",
        {"a": list(range(20200101, 20200129))},
        {"a": [20200101, 20201399]},
        "row 1: column 'a' held dates in training, but here '20201399' … Correct it, or leave the cell empty",
    ),
    asked(
        "a list of numbers for several names",
        {"a": ["x, y", "y, z", "x, z", "x, y, z", "x"]},
        pl.DataFrame({"a": [[7]]}),
        "column 'a' holds List(Int64) here, and several cells in … Give the column as it was.",
    ),
    asked(
        "a decimal point for commas",
        {"a": ["1,5", "2,5"]},
        {"a": ["3.25"]},
        "row 0: column 'a' held numbers with decimal commas in … Correct it, or leave the cell empty",
    ),
    asked(
        "a decimal comma for points",
        {"a": ["1.5", "2.5"]},
        {"a": ["3,25"]},
        "row 0: column 'a' held numbers in training, but here … Correct it, or leave the cell empty",
    ),
    asked(
        "a text for a number",
        {"a": ["1.5", "2.5"]},
        {"a": ["1.5", "many", "more"]},
        "row 1: column 'a' held numbers in training, but here … Correct it, or leave the cell empty",
    ),
    asked(
        "an infinite number",
        {"a": ["1.5", "2.5"]},
        {"a": [INF]},
        "row 0: column 'a' held numbers in training, but here 'inf' … Correct it, or leave the cell empty",
    ),
    asked(
        "a date in another form",
        {"a": ["2020-01-01", "2020-05-02"]},
        {"a": ["1.2.2020"]},
        "row 0: column 'a' held dates in training, but here … Correct it, or leave the cell empty",
    ),
    asked(
        "a number for a date",
        {"a": ["2020-01-01", "2020-05-02"]},
        {"a": [5]},
        "row 0: column 'a' held dates in training, but here '5' … Correct it, or leave the cell empty",
    ),
    asked(
        "neither yes nor no",
        {"a": ["yes", "no"]},
        {"a": ["yes", "perhaps"]},
        "row 1: column 'a' held true or false in training, but … Correct it, or leave the cell empty",
    ),
    asked(
        "a date for a number",
        {"a": ["1", "2"]},
        {"a": np.array(["2020-01-01"], "datetime64[D]")},
        "row 0: column 'a' held numbers in training, but here … Correct it, or leave the cell empty",
    ),
]
LABELS = [
    labelled(
        "a slip",
        "x,y\n1,cat\n2,cta\n",
        "line 3, column 'y': 'y' cannot be 'cta' … Did you mean 'cat'? Allowed: cat,",
        rules="y: {cat, dog}",
    ),
    labelled(
        "twelve slips",
        "x,y\n1,cat\n" + "2,cta\n" * 12,
        "column 'y': 12 cells hold no value of 'y' … Did you mean 'cat'? Allowed: cat,",
        rules="y: {cat, dog}",
    ),
    labelled(
        "a long slip",
        f"x,y\n1,cat\n2,{LONG}\n",
        "line 3, column 'y': 'y' cannot be … Allowed: cat, dog; empty for unknown.",
        rules="y: {cat, dog}",
    ),
    labelled(
        "neither yes nor no",
        "x,y,z\n1,yes,0\n2,perhaps,1\n",
        "line 3, column 'y': 'y' cannot be 'perhaps' … Allowed: 0, 1, true, false, yes, no;",
        ["y", "z"],
        "y, z",
    ),
    labelled(
        "not a class that there is",
        "x,y\n1,cat\n2,!bird\n",
        "line 3, column 'y': 'y' cannot be '!bird' … Allowed: cat, dog; empty for unknown.",
        rules="y: {cat, dog}",
    ),
    labelled(
        "one of classes that there are not",
        "x,y\n1,cat\n2,cat|bird\n",
        "line 3, column 'y': 'y' cannot be 'cat|bird' … Allowed: cat, dog; empty for unknown.",
        rules="y: {cat, dog}",
    ),
    labelled(
        "none of all classes",
        "x,y\n1,cat\n2,!cat|dog\n",
        "line 3, column 'y': 'y' cannot be '!cat|dog' … Allowed: cat, dog; empty for unknown.",
        rules="y: {cat, dog}",
    ),
    labelled(
        "a mark alone",
        "x,y\n1,cat\n2,!\n",
        "line 3, column 'y': 'y' cannot be '!' … Allowed: cat, dog; empty for unknown.",
        rules="y: {cat, dog}",
    ),
    labelled(
        "nothing after the bar",
        "x,y\n1,cat\n2,cat|\n",
        "line 3, column 'y': 'y' cannot be 'cat|' … Did you mean 'cat'? Allowed: cat,",
        rules="y: {cat, dog}",
    ),
    labelled(
        "a name in a cell that is not declared",
        "x,y\n1,a b\n2,b c\n3,a\n4,b\n5,a d b\n",
        "line 6, column 'y': 'y' cannot be 'd' … Allowed: a, b, c; empty for unknown.",
        rules="a, b, c",
    ),
    labelled(
        "amounts",
        "x,y\n" + "".join(f"1,{i}.5\n" for i in range(40)),
        "the label column 'y' holds 40 different numbers in 40 … dssl predicts classes. Put them into a",
    ),
    labelled(
        "amounts with commas",
        "x;y\n" + "".join(f"1;{i},5\n" for i in range(40)),
        "the label column 'y' holds 40 different numbers in 40 … dssl predicts classes. Put them into a",
    ),
    labelled(
        "two columns called alike",
        "Y ,y_, Y\n1,2,3\n",
        "has several columns named like 'y': 'Y ', ' Y' … Name one of them exactly: --label",
        ["y"],
    ),
    labelled(
        "columns of rules called alike",
        "x, LEGS,Legs\n1,1,0\n",
        "a.rules': ' LEGS', 'Legs' … Rename one of them, or give it to",
        None,
        "legs",
    ),
    labelled(
        "a separator for two columns",
        "x,y,z\n1,a,b\n",
        "--label-separator is for one label column, and there are 2 … Give --label COLUMN with it.",
        ["y", "z"],
        separator=";",
    ),
    labelled(
        "a separator without a label",
        "x,y,z\n1,a,b\n",
        "--label-separator is for one label column, and there are 0 … Give --label COLUMN with it.",
        None,
        separator=";",
    ),
    labelled(
        "separators alone",
        "x,y\n1,;\n2,;;\n",
        "the label column 'y' is empty … Label some rows, or leave it out of",
        separator=";",
    ),
    labelled(
        "an empty column of names",
        "x,y\n1,\n2,\n",
        "the label column 'y' is empty … Label some rows, or leave it out of",
        separator=";",
    ),
    labelled(
        "a column nearly called so",
        "x,kind\n1,a\n2,b\n",
        "has no column 'kinds' (--label) … Did you mean 'kind'? Its columns: x,",
        ["kinds"],
    ),
    labelled(
        "a short line",
        "x,y,z\n1,a,b\n2,b\n",
        "cannot be read: line 3 has 2 cells for 3 columns … Write a ',' for each cell that is",
    ),
    labelled(
        "a short line among quotes",
        'x,y,z\n1,"a,a",b\n2,"b\nb",c\n"3",a\n',
        "cannot be read: line 5 has 2 cells for 3 columns … Write a ',' for each cell that is",
    ),
    labelled(
        "one cell for three columns",
        "x,y,z\n1,a,b\n2\n",
        "cannot be read: line 3 has 1 cell for 3 columns … Write a ',' for each cell that is",
    ),
]
FILES = [
    damaged(
        "empty", b"", "is damaged: Expecting value: line 1 column 1 (char 0) … Fetch an intact copy, or fit again."
    ),
    damaged(
        "not UTF-8",
        b"\xff\xfe",
        "is damaged: 'utf-8' codec can't decode byte 0xff in … Fetch an intact copy, or fit again.",
    ),
    damaged(
        "a list", "[]", "is damaged: list indices must be integers or slices, not … Fetch an intact copy, or fit again."
    ),
    damaged("a number", "7", "is damaged: 'int' object is not subscriptable … Fetch an intact copy, or fit again."),
    damaged(
        "nested deep",
        deep("[", "]"),
        "is damaged: maximum recursion depth exceeded while … Fetch an intact copy, or fit again.",
    ),
    damaged(
        "another format",
        '{"format": "dssl preprocessing", "version": 1, "columns": []}',
        "was written by another program or a newer dssl … Upgrade dssl, or fit again.",
    ),
    damaged(
        "a pickle",
        b"\x80\x04\x95",
        "is damaged: 'utf-8' codec can't decode byte 0x80 in … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a later version",
        lambda s: s.update(version=99),
        "was written by another program or a newer dssl … Upgrade dssl, or fit again.",
    ),
    edited(
        "no columns",
        lambda s: s.pop("columns"),
        "is damaged: list indices must be integers or slices, not … Fetch an intact copy, or fit again.",
    ),
    edited(
        "columns that are numbers",
        lambda s: s.update(columns=[7]),
        "is damaged: a column, or its vocabulary, is 7 … Fetch an intact copy, or fit again.",
    ),
    edited(
        "columns by name",
        lambda s: s.update(columns={"a": 1}),
        "is damaged: a column, or its vocabulary, is 'a' … Fetch an intact copy, or fit again.",
    ),
    edited(
        "an entry too many",
        lambda s: column(s, 0).update(evil=1),
        "is damaged: Column.__init__() got an unexpected keyword … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a name that is a number",
        lambda s: column(s, 0).update(name=7),
        "is damaged: the column 7 has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a strange kind",
        lambda s: column(s, 0).update(kind="code"),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a kind that is a list",
        lambda s: column(s, 0).update(kind=["numeric"]),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a strange form",
        lambda s: column(s, 0).update(form="semicolon"),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a strange unit",
        lambda s: column(s, 0).update(unit="8 stones"),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "words for unknown that are one text",
        lambda s: column(s, 0).update(gaps="late"),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "words for unknown that are numbers",
        lambda s: column(s, 0).update(gaps=[999]),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "several names with nothing between them",
        lambda s: column(s, 1).update(kind="several", form="", fill=""),
        "is damaged: the column 'home' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "several names of none",
        lambda s: column(s, 1).update(kind="several", form=",", values=[], fill=""),
        "is damaged: the column 'home' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a unit of one letter that there is not",
        lambda s: column(s, 0).update(unit="x"),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a spread of 0",
        lambda s: column(s, 0).update(scales=[[1.0, 0.0]]),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a scale too many",
        lambda s: column(s, 0).update(scales=[[1.0, 1.0]] * 2),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a scale that is not finite",
        lambda s: column(s, 0).update(scales=[[1.0, float("nan")]]),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "bounds that are texts",
        lambda s: column(s, 0).update(bounds=["a", "b"]),
        "is damaged: the column 'size' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "categories that are numbers",
        lambda s: column(s, 1).update(values=[1, 2]),
        "is damaged: the column 'home' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "rare categories that are a number",
        lambda s: column(s, 1).update(rare=7),
        "is damaged: the column 'home' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a date filled with no date",
        lambda s: column(s, 2).update(fill="yesterday"),
        "is damaged: the column 'day' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "dates beyond all calendars",
        lambda s: column(s, 2).update(bounds=[0, 1e12]),
        "is damaged: the column 'day' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a part of dates that there is not",
        lambda s: column(s, 2).update(values=["moon"]),
        "is damaged: the column 'day' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "texts without words",
        lambda s: column(s, 3).update(vocabulary=None),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a word twice",
        lambda s: column(s, 3)["vocabulary"].update(words=["a", "a"], idf=[1, 1]),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "words that are numbers",
        lambda s: column(s, 3)["vocabulary"].update(words=[1], idf=[1]),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "more words than weights",
        lambda s: column(s, 3)["vocabulary"].update(idf=[1.0]),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "weights that are texts",
        lambda s: column(s, 3)["vocabulary"].update(words=["a"], idf=["b"]),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a vocabulary that is a list",
        lambda s: column(s, 3).update(vocabulary=[1]),
        "is damaged: a column, or its vocabulary, is [1] … Fetch an intact copy, or fit again.",
    ),
    edited(
        "a weight that is infinite",
        lambda s: column(s, 3).update(weight=INF),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
    edited(
        "an embedding that is not given",
        lambda s: column(s, 3).update(kind="embedded", width=3, embedding="m.E"),
        "column 'note' was embedded by 'm.E', which is not given … Give it again: embeddings={'note': …}.",
    ),
    edited(
        "an embedding of no width",
        lambda s: column(s, 3).update(kind="embedded", width=0),
        "is damaged: the column 'note' has entries that do not fit … Fetch an intact copy, or fit again.",
    ),
]
TOP = "@relation r\n@attribute x numeric\n@attribute c hierarchical "
HIERARCHIES = [
    arff(
        "a class that is not in it",
        TOP + "a,a/b\n@data\n1,a/c\n",
        "row 1 has the class 'a/c', which the hierarchy does not … Use files of one set: the hierarchy",
    ),
    arff(
        "paths among edges",
        TOP + "root/a,a/b/c\n@data\n1,a\n",
        "d.arff' has the entry 'a/b/c' among edges … Write paths from the top, such as",
    ),
    arff(
        "an edge without an end",
        TOP + "root/a,a\n@data\n1,a\n",
        "d.arff' has the entry 'a' among edges parent/child … Write paths from the top, such as",
    ),
    arff(
        "attributes called alike",
        "@attribute c numeric\n@attribute c hierarchical a\n@data\n1,a\n",
        "has two attributes 'c' … Rename one of them.",
    ),
    arff("no rows", TOP + "a,b\n@data\n", "has no rows … Give a file with one row per sample."),
    arff(
        "an entry too few", TOP + "a,b\n@data\na\n", "line 5: 1 entries for 2 attributes … Correct or remove the line."
    ),
]
CASES = FEATURES + ROWS + LABELS + FILES + HIERARCHIES
