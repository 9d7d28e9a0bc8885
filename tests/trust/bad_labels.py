"""Labels and features that do not fit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.utils._param_validation import InvalidParameterError

import dssl
from dssl.errors import DataError, RuleError
from trust.bad import Bad, nothing

SPACE = dssl.LabelSpace("a, b\nspecies: {cat, dog}\nage: 0..9\na -> !b")
X = np.random.default_rng(0).normal(size=(8, 3))
Y = np.array([0, 1, 0, 1, -1, -1, -1, -1])
A, B = dssl.symbols("a b")
SCIKIT = (ValueError, TypeError, InvalidParameterError)  # never our own, which are subclasses
NAN, INF = float("nan"), float("inf")


def label(name: str, y: Any, said: str) -> Bad:
    return Bad(f"labels: {name}", nothing, lambda _: SPACE.encode(y), said)


def fitted(name: str, x: Any, y: Any, said: str, kind: type[Exception] = DataError, **options: Any) -> Bad:
    """An estimator on data that do not fit; ValueError where scikit-learn's own words are the convention."""
    settings = {"steps": 2, "network": "linear", "random_state": 0, **options}
    return Bad(f"fit: {name}", nothing, lambda _: dssl.DSSLClassifier(**settings).fit(x, y), said, kind, kind in SCIKIT)


def asked(name: str, x: Any, said: str, kind: type[Exception] = DataError) -> Bad:
    def call(_: Any) -> Any:
        return dssl.DSSLClassifier(steps=2, network="linear", random_state=0).fit(X, Y).predict(x)

    return Bad(f"predict: {name}", nothing, call, said, kind, kind in SCIKIT)


def told(name: str, evidence: Any, said: str, rules: str | None = "a, b\na -> !b") -> Bad:
    """Evidence about eight rows that does not fit; without rules about classes 0 and 1."""

    def call(_: Any) -> Any:
        y = Y if rules is None else np.array([[1, 0], [0, 1]] * 4)
        return (
            dssl.DSSLClassifier(rules, steps=2, network="linear", random_state=0)
            .fit(X, y)
            .predict(X, evidence=evidence)
        )

    return Bad(f"evidence: {name}", nothing, call, said)


def made(name: str, call: Callable[[], Any], said: str, kind: type[Exception] = ValueError) -> Bad:
    return Bad(name, nothing, lambda _: call(), said, kind, kind in (ValueError, TypeError))


LABELS = [
    label(
        "none",
        [],
        "labels of shape (0,) do not fit a space of 4 variables and … Give records, a data frame, or a matrix",
    ),
    label("a number", 7, "labels cannot be read from int … Give a list, an array or a data frame."),
    label(
        "a text",
        "cat",
        "labels of shape () do not fit a space of 4 variables and 14 … Give records, a data frame, or a matrix",
    ),
    label(
        "a generator",
        (row for row in [[1, 0, 0, 0]]),
        "labels cannot be read from generator … Give a list, an array or a data frame.",
    ),
    label(
        "three dimensions",
        np.zeros((2, 2, 2)),
        "labels of shape (2, 2, 2) do not fit a space of 4 variables … Give records, a data frame, or a matrix",
    ),
    label(
        "a column too many",
        np.zeros((2, 5)),
        "labels of shape (2, 5) do not fit a space of 4 variables … Give records, a data frame, or a matrix",
    ),
    label(
        "rows of different lengths",
        [[1, 0, 0, 0], [1]],
        "the rows of the labels differ in length … Give every row the same number of",
    ),
    label("infinity", [[INF, 0, 0, 0]], "row 0: 'a' cannot be inf … Allowed: 0, 1, true, false; None, NaN"),
    label("a half", [[0.5, 0, 0, 0]], "row 0: 'a' cannot be 0.5 … Allowed: 0, 1, true, false; None, NaN"),
    label(
        "two for a binary variable", [[2, 0, 0, 0]], "row 0: 'a' cannot be 2 … Allowed: 0, 1, true, false; None, NaN"
    ),
    label("minus two", [[-2, 0, 0, 0]], "row 0: 'a' cannot be -2 … Allowed: 0, 1, true, false; None, NaN"),
    label("10^300", [[1e300, 0, 0, 0]], "row 0: 'a' cannot be 1e+300 … Allowed: 0, 1, true, false; None, NaN"),
    label(
        "complex numbers", np.zeros((1, 4), complex), "row 0: 'a' cannot be 0j … Allowed: 0, 1, true, false; None, NaN"
    ),
    label(
        "dates",
        np.zeros((1, 4), "datetime64[s]"),
        "row 0: 'a' cannot be datetime.datetime(1970, 1, 1, 0, 0) … Allowed: 0, 1, true, false; None, NaN",
    ),
    label(
        "a class outside the space",
        [{"species": "zebra"}],
        "row 0: 'species' cannot be 'zebra … Allowed: cat, dog; None, NaN or -1 for",
    ),
    label(
        "a class of a million letters",
        [{"species": "x" * 1_000_000}],
        "row 0: 'species' cannot be … Allowed: cat, dog; None, NaN or -1 for",
    ),
    label(
        "a number outside the range",
        [{"age": 10}],
        "row 0: 'age' cannot be 10 … Allowed: 0, 1, 2, 3, 4, 5, 6, 7, … (10",
    ),
    label(
        "a variable outside the space",
        [{"weight": 3}],
        "the labels have a column 'weight' that the space does not … Drop or rename it. Declared: a, b,",
    ),
    label(
        "a variable of a million letters",
        [{"x" * 1_000_000: 1}],
        "the labels have a column … Drop or rename it. Declared: a, b,",
    ),
    label(
        "lists in records",
        [{"a": [1]}],
        "the column 'a' of the labels has shape (1, 1) … Give one entry per row, and every column",
    ),
    label(
        "records in records", [{"a": {"b": 1}}], "row 0: 'a' cannot be {'b': 1} … Allowed: 0, 1, true, false; None, NaN"
    ),
    label("bytes", [{"species": b"cat"}], "row 0: 'species' cannot be b'cat … Allowed: cat, dog; None, NaN or -1 for"),
    label(
        "columns of different lengths",
        {"a": [1, 0], "b": [1]},
        "columns of different lengths: [1, 2] … Give every column the same number of",
    ),
    label(
        "columns called alike",
        pd.DataFrame([[1, 0]], columns=["a", "a"]),
        "the column 'a' of the labels has shape (1, 2) … Give one entry per row, and every column",
    ),
    label(
        "two values at once",
        np.array([[0, 0, 1, 1] + [0] * 10], float),
        "row 0: 'species' has several values in its columns … A categorical variable has exactly one:",
    ),
    label(
        "no value left",
        np.array([[0, 0, 0, 0] + [1] + [0] * 9], float),
        "row 0: 'species' has no value left in its columns … A categorical variable has exactly one:",
    ),
    made(
        "labels: a strange form",
        lambda: SPACE.decode(np.zeros((1, 14)), "yaml"),
        "there is no form 'yaml' of labels … Choose one of records, values, indices,",
        DataError,
    ),
    made(
        "labels: columns of another width",
        lambda: SPACE.decode(np.zeros((1, 3))),
        "columns of shape (1, 3) do not fit … Give a matrix (n, 14).",
        DataError,
    ),
    made(
        "labels: check of text",
        lambda: SPACE.check("nonsense"),
        "labels of shape () do not fit a space of 4 variables and 14 … Give records, a data frame, or a matrix",
        DataError,
    ),
]
DATA = [
    fitted(
        "NaN in X",
        np.where(X > 1, NAN, X),
        Y,
        "X contains NaN: 3 entries, first in row 2, feature 0 … Fill them in first, for instance",
    ),
    fitted(
        "infinity in X",
        np.where(X > 1, INF, X),
        Y,
        "X contains inf (infinity): 3 entries, first in row 2, … Fill them in first, for instance",
    ),
    fitted(
        "NaN in a sparse X",
        sp.csr_matrix(np.where(X > 1, NAN, X)),
        Y,
        "X contains NaN: 3 entries, first in row 2, feature 0 … Fill them in first, for instance",
    ),
    fitted(
        "numbers beyond float32 in X",
        X * 1e300,
        Y,
        "X contains numbers beyond float32: 24 entries, first in row … Fill them in first, for instance",
    ),
    fitted("texts in X", np.full((8, 3), "a"), Y, "dtype='numeric' is not compatible with arrays of", ValueError),
    fitted(
        "objects in X",
        np.array([[object()] * 3] * 8),
        Y,
        "float() argument must be a string or a real number, not",
        TypeError,
    ),
    fitted(
        "complex numbers in X", X + 1j, Y, "Complex data not supported … [ 1.36646347+1.j -0.66519467+1.j ", ValueError
    ),
    fitted(
        "one dimension in X",
        X[:, 0],
        Y,
        "Expected 2D array, got 1D array instead … Reshape your data either using",
        ValueError,
    ),
    fitted("no rows", X[:0], Y[:0], "Found array with 0 sample(s) (shape=(0, 3)) while a minimum", ValueError),
    fitted("no columns", X[:, :0], Y, "Found array with 0 feature(s) (shape=(8, 0)) while a", ValueError),
    fitted(
        "fewer labels than rows", X, Y[:5], "Found input variables with inconsistent numbers of samples:", ValueError
    ),
    fitted("no labels at all", X, None, "This DSSLClassifier estimator requires y to be passed, but", ValueError),
    fitted(
        "no row labelled",
        X,
        np.full(8, -1),
        "no row is labelled, so there are no classes to learn … Label at least one row of each class;",
    ),
    fitted(
        "no row labelled, with rules",
        X,
        np.full((8, 2), NAN),
        "none of the 8 rows is labelled … Label some rows of each class.",
        rules="a, b\na -> b",
    ),
    fitted(
        "infinite classes",
        X,
        np.where(Y == 1, INF, Y),
        "the labels contain infinity … Use whole numbers or names for classes,",
    ),
    fitted(
        "fractions as classes",
        X,
        Y + 0.25,
        "Unknown label type: continuous … Maybe you are trying to fit a",
        ValueError,
    ),
    fitted(
        "names and numbers mixed",
        X,
        np.array(["a", 1, "b", 2, None, None, None, None], object),
        "the labels mix int and str … Use names or numbers, not both.",
    ),
    fitted(
        "labels in three dimensions",
        X,
        np.zeros((8, 2, 2)),
        "labels of shape (8, 2, 2) do not fit … Give a vector of classes, or a matrix",
    ),
    fitted(
        "labels that break a rule",
        X,
        [[1, 1]] * 8,
        "labels: 8 of 8 rows break the rules … Correct these rows or rules; or pass",
        rules="a, b\na -> !b",
    ),
    fitted(
        "labels outside the rules' values",
        X,
        ["zebra"] * 8,
        "row 0: 'k' cannot be 'zebra … Allowed: cat, dog; None, NaN or -1 for",
        rules="k: {cat, dog}",
    ),
    fitted(
        "rules about other columns",
        X,
        np.zeros((8, 5)),
        "labels of shape (8, 5) do not fit a space of 2 variables … Give records, a data frame, or a matrix",
        rules="a, b",
    ),
    fitted("rules that are a number", X, Y, "rules are a int … Give text, a path, formulas or a", RuleError, rules=7),
    fitted(
        "formulas without names",
        X,
        np.zeros((8, 2)),
        "formulas do not say which variables there are … Give y as a data frame or records with",
        RuleError,
        rules=[A >> B],
    ),
    fitted(
        "too few rows to hold any out",
        X,
        Y,
        '4 labelled rows are too few to hold out a fraction of 0.2 … Leave "patience" out of the',
        settings={"patience": 5},
    ),
    fitted(
        "a network for images",
        X,
        Y,
        "cnn' wants images (n, channels, height, width), but a row of … Reshape x, or use 'mlp'.",
        network="cnn",
    ),
    fitted(
        "an unknown setting",
        X,
        Y,
        "there is no setting 'speed': choose among accelerator,",
        ValueError,
        settings={"speed": "high"},
    ),
    fitted(
        "a setting out of range",
        X,
        Y,
        "eval_every=0: it must be a whole number, 1 or more",
        ValueError,
        settings={"eval_every": 0},
    ),
    asked("another width", X[:, :2], "X has 2 features, but DSSLClassifier is expecting 3", ValueError),
    asked(
        "numbers beyond float32",
        X * 1e300,
        "X contains numbers beyond float32: 24 entries, first in row … Fill them in first, for instance",
    ),
    asked(
        "NaN",
        np.full((1, 3), NAN),
        "X contains NaN: 3 entries, first in row 0, feature 0 … Fill them in first, for instance",
    ),
    asked(
        "infinity",
        np.full((1, 3), INF),
        "X contains inf (infinity): 3 entries, first in row 0, … Fill them in first, for instance",
    ),
    asked(
        "one row without a dimension",
        X[0],
        "Expected 2D array, got 1D array instead … Reshape your data either using",
        ValueError,
    ),
    asked("texts", [["a", "b", "c"]], "dtype='numeric' is not compatible with arrays of", ValueError),
    asked("no rows", X[:0], "Found array with 0 sample(s) (shape=(0, 3)) while a minimum", ValueError),
    made(
        "weights: negative",
        lambda: dssl.DSSLClassifier(steps=2).fit(X, Y, sample_weight=-np.ones(8)),
        "Negative values in data passed to `sample_weight`.",
    ),
    made(
        "weights: all zero",
        lambda: dssl.DSSLClassifier(steps=2).fit(X, Y, sample_weight=np.zeros(8)),
        "all sample weights are zero, so no row counts",
    ),
    made(
        "weights: NaN",
        lambda: dssl.DSSLClassifier(steps=2).fit(X, Y, sample_weight=np.full(8, NAN)),
        "Input sample_weight contains NaN.",
    ),
    made(
        "weights: too few",
        lambda: dssl.DSSLClassifier(steps=2).fit(X, Y, sample_weight=np.ones(3)),
        "sample_weight of shape (3,) does not fit",
    ),
    made(
        "predict before fit",
        lambda: dssl.DSSLClassifier().predict(X),
        "This DSSLClassifier instance is not fitted yet … Call 'fit' with appropriate arguments",
    ),
    made(
        "save before fit",
        lambda: dssl.save(dssl.DSSLClassifier(), "model"),
        "This DSSLClassifier instance is not fitted yet … Call 'fit' with appropriate arguments",
    ),
    made(
        "save of another thing",
        lambda: dssl.save({"a": 1}, "model"),
        "a dict cannot be saved, only a DSSLClassifier … Pickle it, or save that.",
        DataError,
    ),  # type: ignore[arg-type]
]
EVIDENCE = [
    told("against a rule", [[NAN, NAN]] * 5 + [[1, 1]] * 3, "row 5, and 2 rows more: the evidence … Correct"),
    told("for too few rows", [[1, 0]], "evidence about 1 rows for 8 rows of X … Give one row of evidence for each."),
    told("for too many rows", [[1, 0]] * 9, "evidence about 9 rows for 8 rows of X … Give one row of evidence"),
    told("of another width", [[1, 0, 1]] * 8, "labels of shape (8, 3) do not fit … Give records, a data frame"),
    told("a probability", [[0.5, 0]] * 8, "row 0: 'a' cannot be 0.5 … Allowed"),
    told("a strange variable", [{"c": 1}] * 8, "a column 'c' that the space does not declare … Drop"),
    told("a strange value", [{"a": "maybe"}] * 8, "row 0: 'a' cannot be 'maybe' … Allowed"),
    told("a number", 1, "labels of shape () do not fit … Give a vector of classes"),
    told("a text", "a", "labels of shape () do not fit … Give"),
    told("ragged", [[1, 0], [1]] * 4, "the rows of the labels differ in length … Give every row the same number"),
    told("infinite", [[INF, 0]] * 8, "row 0: 'a' cannot be inf … Allowed"),
    told(
        "a class that is not there",
        [7] * 8,
        "row 0: the class 7 is not among … Known: 0, 1",
        None,
    ),
    told("no class left", [[0, 0]] * 8, "row 0: 'class' has no value left … leave columns NaN", None),
    told("two classes", [[1, 1]] * 8, "row 0: 'class' has several values … leave columns NaN", None),
    told("columns of other classes", [[NAN, 0, 0]] * 8, "labels of shape (8, 3) do not fit … Give", None),
]
CASES = LABELS + DATA + EVIDENCE
