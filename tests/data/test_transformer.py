"""TableTransformer: scikit-learn's conventions, scikit-learn's encoders as oracles, and files without pickle."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dssl import DSSLClassifier
from dssl.data import TableTransformer
from dssl.data.tables import Table
from dssl.data.transformer import Notes, as_table
from dssl.errors import DataError

RANDOM = np.random.default_rng(0)
N = 120
NOTES = [" ".join(words) for words in RANDOM.choice("red blue old new door wall roof floor".split(), (N, 25))]
MIXED = pl.DataFrame(
    {
        "size": RANDOM.normal(5, 2, N),
        "price": [f"{v:,.2f} €".translate(str.maketrans(",.", ".,")) for v in RANDOM.uniform(1, 9999, N)],
        "colour": RANDOM.choice(["red", "blue", "green"], N),
        "day": [f"{d:02}.{m:02}.2021" for d, m in zip(RANDOM.integers(1, 29, N), RANDOM.integers(1, 13, N))],
        "note": NOTES,
    }
)


def test_categories_are_those_of_scikit_learn() -> None:
    values = ["a"] * 500 + ["b"] * 450 + [f"r{i}" for i in range(50)]
    ours = TableTransformer().fit({"c": values})
    theirs = OneHotEncoder(handle_unknown="infrequent_if_exist", min_frequency=0.01).fit([[v] for v in values])
    new = ["a", "b", "r3", "never seen"]
    np.testing.assert_array_equal(ours.transform({"c": new}), theirs.transform([[v] for v in new]).toarray())
    assert ours.get_feature_names_out().tolist() == ["c=a", "c=b", "c=(other)"]


def test_texts_are_those_of_scikit_learn() -> None:
    ours = TableTransformer().fit({"note": NOTES}).transform({"note": NOTES})
    theirs = TfidfVectorizer(sublinear_tf=True, min_df=2).fit_transform(NOTES)
    np.testing.assert_allclose(ours.toarray(), theirs.toarray(), rtol=1e-5)


def test_numbers_beside_texts_are_scaled_as_by_scikit_learn() -> None:
    fitted = TableTransformer(ignore=["price", "colour", "day"]).fit(MIXED)
    x = fitted.transform(MIXED)
    assert sp.issparse(x)
    size = MIXED["size"].to_numpy()[:, None]
    np.testing.assert_allclose(x[:, [0]].toarray(), StandardScaler().fit_transform(size), atol=1e-5)


def test_texts_count_as_much_as_all_other_columns() -> None:
    fitted = TableTransformer().fit(MIXED)
    x, names = fitted.transform(MIXED).toarray(), fitted.get_feature_names_out()
    text = np.array([name.startswith("note: ") for name in names])
    rest = np.array([not name.startswith(("note: ", "colour=")) for name in names])
    assert np.square(x[:, text]).sum(axis=1) == pytest.approx(np.full(N, 4), rel=1e-4)  # four other columns
    assert np.square(x[:, rest]).sum(axis=1).mean() == pytest.approx(3, rel=1e-3)  # a date counts as one


def test_scale_can_be_asked_for_or_forbidden() -> None:
    plain = TableTransformer().fit_transform({"a": [1.0, 3.0, 8.0]})
    assert plain.tolist() == [[1], [3], [8]]
    assert TableTransformer(scale=True).fit_transform({"a": [1.0, 3.0]}).tolist() == [[-1], [1]]
    raw = TableTransformer(scale=False).fit_transform({"a": [1.0, 3.0] * (N // 2), "note": NOTES})
    assert raw[:2, 0].toarray().ravel().tolist() == [1, 3]
    with pytest.raises(DataError, match="scale='yes' is not known"):
        TableTransformer(scale="yes").fit({"a": [1]})


def test_frames_of_all_kinds_are_the_same_table() -> None:
    expected = TableTransformer().fit_transform(MIXED).toarray()
    frames = [MIXED.to_dict(as_series=False), pd.DataFrame(MIXED.to_dict(as_series=False))]
    frames.append(frames[1].astype({"colour": "category", "note": "string"}))
    for frame in frames:
        np.testing.assert_array_equal(TableTransformer().fit_transform(frame).toarray(), expected)


def test_what_pandas_has_for_unknown() -> None:
    frame = pd.DataFrame(
        {
            "a": pd.array([1, None, 3, 3], dtype="Int64"), "b": pd.array(["x", None, "y", "y"], dtype="string"),
            "c": pd.array([True, None, False, True], dtype="boolean"), "d": pd.Categorical(["u", "v", None, "u"]),
        }
    )  # fmt: skip
    fitted = TableTransformer().fit(frame)
    assert [column.kind for column in fitted.columns_] == ["numeric", "categorical", "boolean", "categorical"]
    assert [column.missing for column in fitted.columns_] == [1, 1, 1, 1]


def test_months_of_pandas_and_frames_that_wait() -> None:
    months = pd.DataFrame({"month": pd.period_range("2019-01", periods=40, freq="M")})
    assert TableTransformer().fit(months).get_feature_names_out().tolist() == [
        "month: age in days", "month: month, sine", "month: month, cosine",
    ]  # fmt: skip
    expected = TableTransformer().fit_transform(MIXED).toarray()
    np.testing.assert_array_equal(TableTransformer().fit_transform(MIXED.lazy()).toarray(), expected)


def test_two_columns_of_one_name() -> None:
    with pytest.raises(DataError, match=r"X has two columns 'a'\nRename one of them."):
        TableTransformer().fit(pd.DataFrame(np.zeros((3, 2)), columns=["a", "a"]))


def test_columns_are_found_by_name() -> None:
    fitted = TableTransformer().fit(MIXED)
    turned = MIXED.select(reversed(MIXED.columns)).with_columns(more=pl.lit("x"))
    np.testing.assert_array_equal(fitted.transform(turned).toarray(), fitted.transform(MIXED).toarray())
    with pytest.raises(DataError, match="'X' has no column size, which the model was trained on"):
        fitted.transform(MIXED.drop("size"))


def test_arrays_have_columns_by_their_place() -> None:
    fitted = TableTransformer().fit(np.array([["a", 1.5], ["b", None], ["a", 2.5]], dtype=object))
    assert fitted.get_feature_names_out().tolist() == ["x0=a", "x0=b", "x1", "x1 is missing"]
    assert fitted.transform(np.array([["b", 4.0]], dtype=object)).tolist() == [[0, 1, 4, 0]]
    for odd in (np.zeros((2, 3)), np.zeros(3)):
        with pytest.raises(DataError, match=r"where 2 columns were fitted\nGive a frame"):
            fitted.transform(odd)


def test_scikit_learn_conventions() -> None:
    asked = TableTransformer(text=["note"], categorical=["size"], scale=False)
    assert clone(asked).get_params() == asked.get_params()
    fitted = TableTransformer().fit(MIXED)
    assert fitted.n_features_in_ == 5
    assert fitted.feature_names_in_.tolist() == MIXED.columns
    dense = TableTransformer(ignore=["note"]).set_output(transform="pandas").fit_transform(MIXED)
    assert list(dense.columns[:2]) == ["size", "price"]


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_frames_out_of_texts(kind: str) -> None:
    given = pd.DataFrame(MIXED.to_dict(as_series=False), index=np.arange(N) + 7)
    fitted = TableTransformer().set_output(transform=kind).fit(given)
    frame = fitted.transform(given)
    assert list(frame.columns) == fitted.get_feature_names_out().tolist()
    np.testing.assert_array_equal(frame.to_numpy(), TableTransformer().fit_transform(MIXED).toarray())
    assert kind == "polars" or list(frame.index) == list(given.index)
    pipe = make_pipeline(TableTransformer(), DSSLClassifier(steps=5)).set_output(transform=kind)
    pipe.fit(given, ["door door" in note for note in NOTES])
    assert list(pipe[-1].feature_names_in_) == fitted.get_feature_names_out().tolist()


def test_it_works_in_pipelines() -> None:
    door = np.array(["door door" in note for note in NOTES])
    for model in (LogisticRegression(), DSSLClassifier(steps=20, random_state=0)):
        pipe = make_pipeline(TableTransformer(), model).fit(MIXED, door)
        assert pipe.predict(MIXED).shape == (N,)
        assert len(pipe[0].get_feature_names_out()) == pipe[-1].n_features_in_


def test_new_dates_count_as_the_last_that_were_seen() -> None:
    fitted = TableTransformer().fit({"day": ["2019-01-01", "2020-03-01", "2021-03-01"]})
    names = fitted.get_feature_names_out().tolist()
    notes = Notes()
    x = fitted.rows(as_table({"day": ["2031-05-01", "2021-03-01", None]}), notes)
    assert (
        "1 dates of 'day' are far outside what the model was trained on (2019-01-01 to 2021-03-01)"
        in notes.sentences()[1]
    )
    assert x[0, names.index("day: age in days")] == x[1, names.index("day: age in days")] == 0
    assert x[0, names.index("day: month, sine")] == pytest.approx(np.sin(5 * np.pi / 6))
    assert x[2].tolist() == fitted.transform({"day": ["2020-03-01"]})[0].tolist()  # the middle one fills gaps


def test_times_of_day_are_places_on_a_circle() -> None:
    fitted = TableTransformer().fit({"at": ["0:00", "6:30", "23:59"]})
    x = fitted.transform({"at": ["23:59", "0:00", "6:00 pm"]})
    np.testing.assert_allclose(x[:, 0], [23 + 59 / 60, 0, 18], rtol=1e-6)
    np.testing.assert_allclose(x[0, 1:], x[1, 1:], atol=0.005)
    np.testing.assert_allclose(x[2, 1:], [-1, 0], atol=1e-6)


@pytest.mark.parametrize("moved", [0.0, -1e9])
def test_numbers_with_a_long_tail_count_by_their_size(moved: float) -> None:
    """Divided by their spread, all but a few would be one number."""
    x = 10.0 ** np.linspace(-3, 9, 200) + moved
    fitted = TableTransformer().fit({"x": x})
    (column,) = fitted.columns_
    assert column.tail is not None
    assert column.shown.endswith("long tail")
    centre, unit = column.tail
    z = fitted.transform({"x": x})[:, 0]
    np.testing.assert_allclose(z, [math.asinh((v - centre) / unit) for v in x], rtol=1e-5)
    assert (np.diff(z) >= 0).all()


@pytest.mark.parametrize(
    "x", [np.arange(300.0), np.arange(300) % 100 == 0, [*range(299), 1e300], 1 + np.arange(20) * 1e-16]
)
def test_other_numbers_stay_as_they_are(x: Any) -> None:
    (column,) = TableTransformer().fit({"x": np.asarray(x, float)[::-1]}).columns_
    assert column.tail is None


def test_dates_at_the_ends_of_the_calendar() -> None:
    days = ["0001-01-01", "2020-01-01", "9999-12-31"]
    assert np.isfinite(TableTransformer().fit_transform({"day": days})).all()


def test_what_is_far_outside_is_said() -> None:
    fitted, notes = TableTransformer().fit({"a": [1.0, 2.0, 5.0]}), Notes()
    fitted.rows(as_table({"a": [9.0, 9.1, -3.1, 3.0]}), notes)
    assert notes.sentences() == [
        "2 numbers of 'a' are far outside what the model was trained on (1 to 5); first 9.1 in row 1"
    ]


@pytest.mark.parametrize(
    ("trained", "new", "said"),
    [
        (["1 kg", "2 kg"], "3 g", "held numbers in kg in training, but here '3 g'"),
        (["1,5", "2,5"], "3.25", "held numbers with decimal commas in training, but here '3.25'"),
        (["1.5", "2.5"], "3,25", "held numbers in training, but here '3,25'"),
        (["1.5", "2.5"], "3 kg", "held numbers in training, but here '3 kg'"),
        (["2020-01-01", "2020-01-02"], "1.2.2020", "held dates in training, but here '1.2.2020'"),
        (["yes", "no"], "perhaps", "held true or false in training, but here 'perhaps'"),
    ],
)
def test_other_ways_of_writing_are_errors_with_their_place(trained: list[str], new: str, said: str) -> None:
    fitted = TableTransformer().fit({"a": trained})
    with pytest.raises(DataError, match=rf"'X', row 1: column 'a' {said}\nCorrect it"):
        fitted.transform({"a": [trained[0], new]})
    fitted.transform({"a": [trained[0], None]})


CELLS = st.one_of(st.none(), st.sampled_from(["red", "7", "yes", "1,5", "2 kg", "2020-01-02", "the old red door"]))


@settings(deadline=None)
@given(st.lists(CELLS, min_size=1, max_size=40), st.sampled_from(["auto", True, False]))
def test_any_column_becomes_finite_numbers_row_by_row(cells: list[str | None], scale: Any) -> None:
    frame = pl.DataFrame({"a": pl.Series(cells, dtype=pl.String)})
    try:
        fitted = TableTransformer(scale=scale).fit(frame)
    except DataError:  # a slip among numbers
        return
    whole = fitted.transform(frame)
    dense = whole.toarray() if sp.issparse(whole) else whole
    assert dense.shape == (len(cells), len(fitted.get_feature_names_out()))
    assert np.isfinite(dense).all()
    rows = [fitted.transform(frame[i : i + 1]) for i in range(len(cells))]
    single = [row.toarray() if sp.issparse(row) else row for row in rows]
    np.testing.assert_allclose(np.concatenate(single), dense, atol=1e-6)


# ---- files ----


def test_it_is_kept_as_json(tmp_path: Path) -> None:
    fitted, path = TableTransformer().fit(MIXED), tmp_path / "table.json"
    fitted.save(path)
    again = TableTransformer.load(path)
    assert again.columns_ == fitted.columns_
    np.testing.assert_array_equal(again.transform(MIXED).toarray(), fitted.transform(MIXED).toarray())
    state = json.loads(path.read_text())
    path.write_text(json.dumps({**state, "version": 99}))
    with pytest.raises(DataError, match="newer dssl"):
        TableTransformer.load(path)


def edited(fitted: TableTransformer, column: int, **changes: Any) -> str:
    state: dict[str, Any] = {"format": "dssl table", "version": 1}
    columns = [asdict(c) for c in fitted.columns_]
    columns[column] |= changes
    return json.dumps({**state, "columns": columns})


@pytest.mark.parametrize(
    ("column", "changes"),
    [
        (0, {"fill": "x"}), (0, {"scales": [[0, 0]]}), (0, {"scales": [[0]]}), (0, {"scales": 7}),
        (0, {"kind": "code"}), (0, {"kind": ["numeric"]}), (0, {"bounds": [1]}), (0, {"weight": "x"}),
        (1, {"form": "odd"}), (1, {"unit": "x"}),
        (2, {"values": [1]}), (2, {"rare": 3}), (2, {"others": 1}), (2, {"fill": 3}),
        (3, {"form": "x"}), (3, {"fill": "never"}), (3, {"values": ["century"]}), (3, {"bounds": None}),
        (3, {"bounds": [1e300, 1e300]}), (4, {"vocabulary": None}), (4, {"vocabulary": {"words": ["a"], "idf": []}}),
        (4, {"vocabulary": {"words": 1, "idf": 2}}), (4, {"vocabulary": [1]}), (4, {"evil": 1}),
    ],
)  # fmt: skip
def test_files_that_were_edited_are_refused(tmp_path: Path, column: int, changes: dict[str, Any]) -> None:
    path, fitted = tmp_path / "table.json", TableTransformer().fit(MIXED)
    path.write_text(edited(fitted, column))
    TableTransformer.load(path)
    path.write_text(edited(fitted, column, **changes))
    with pytest.raises(DataError, match=r"is damaged: .*\nFetch an intact copy, or fit again"):
        TableTransformer.load(path)


# ---- embeddings ----


def lengths(texts: list[str]) -> Any:
    return np.array([[len(text), text.count(" ")] for text in texts])


def test_embeddings_are_saved_by_name_and_asked_for(tmp_path: Path) -> None:
    fitted = TableTransformer(embeddings={"note": lengths}, ignore=["price", "day"]).fit(MIXED)
    assert fitted.get_feature_names_out().tolist()[-2:] == ["note: 0", "note: 1"]
    x = fitted.transform(MIXED)
    np.testing.assert_array_equal(x[:, -2], [len(note) for note in NOTES])
    fitted.save(tmp_path / "table.json")
    with pytest.raises(DataError, match=r"embedded by '.*test_transformer.lengths', which is not given\nGive it again"):
        TableTransformer.load(tmp_path / "table.json")
    again = TableTransformer.load(tmp_path / "table.json", {"note": lengths})
    np.testing.assert_array_equal(again.transform(MIXED), x)


def test_embeddings_may_be_objects_with_transform() -> None:
    hashed = TfidfVectorizer(max_features=3).fit(NOTES)
    x = TableTransformer(embeddings={"note": hashed}).fit_transform({"note": NOTES})
    np.testing.assert_allclose(x, hashed.transform(NOTES).toarray(), rtol=1e-6)


@pytest.mark.parametrize(
    "odd",
    [lambda texts: [1.0], lambda texts: np.full((len(texts), 2), np.nan), lambda texts: np.zeros((len(texts), 0))],
)
def test_odd_embeddings_are_refused(odd: Any) -> None:
    with pytest.raises(DataError, match=r"the embedding of column 'note' gave shape .*\nIt must give the same number"):
        TableTransformer(embeddings={"note": odd}).fit({"note": NOTES})


def test_places_are_those_of_the_file() -> None:
    table = Table(Path("d.csv"), "CSV", pl.DataFrame({"a": ["1", "2", "x"]}), first=2)
    fitted = TableTransformer().fit({"a": ["1", "2", "4"]})
    with pytest.raises(DataError, match=r"'d.csv', line 4: column 'a'"):
        fitted.rows(table.take(np.array([2, 0])), Notes())


@pytest.mark.parametrize("fill", ["2024-02-29", "20240229", "2024-W09-4", "2024-02-29T12:30+02:00"])
def test_a_date_that_fills_gaps_may_have_any_iso_form(tmp_path: Path, fill: str) -> None:
    """A file may have been written by hand: what is accepted on load is also used."""
    frame = pl.DataFrame({"day": ["2024-01-01", None, "2024-03-01", "2024-02-11"] * 5})
    TableTransformer().fit(frame).save(tmp_path / "t.json")
    state = json.loads((tmp_path / "t.json").read_text())
    (column,) = [c for c in state["columns"] if c["kind"] == "date"]
    column["fill"] = fill
    (tmp_path / "t.json").write_text(json.dumps(state))
    assert np.isfinite(np.asarray(TableTransformer.load(tmp_path / "t.json").transform(frame))).all()
