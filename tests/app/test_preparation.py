"""Preparation: what is learned from, what is held out, what a run depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from dssl.app.options import Options
from dssl.app.preparation import Preparation, prepare
from dssl.app.terminal import Terminal
from dssl.data.stored import larger
from dssl.data.tables import read
from dssl.errors import DataError
from dssl.priors.relaxations import DeterministicPrior

RULES = "legs, fins, wings\nlegs -> !fins\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    legs = (random.random(60) < 0.5).astype(int)
    frame = pl.DataFrame({"a": random.normal(size=60), "b": ["x", "y"] * 30, "legs": legs, "fins": 1 - legs})
    known = pl.Series(np.arange(60) < 40)
    frame = frame.with_columns(pl.when(known).then(pl.col(name)).alias(name) for name in ("legs", "fins"))
    frame.write_csv(tmp_path / "d.csv")
    (tmp_path / "d.rules").write_text(RULES)
    return tmp_path / "d.csv"


def prepared(data: Path, **options: Any) -> Preparation:
    return prepare(data, Options(rules=data.with_suffix(".rules"), **options))


def test_rows_are_split_by_their_labels(data: Path) -> None:
    ready = prepared(data, test_share=0.25)
    assert ready.test is not None
    assert (len(ready.train), len(ready.test), int(ready.train.labelled.sum())) == (50, 10, 30)
    assert ready.test.labelled.all()
    assert not set(ready.test.names) & set(ready.train.names)
    assert ready.notes == ("no column gives 'wings': it is learned from the rules alone",)
    whole = prepared(data)
    by_name = dict(zip(whole.train.names, whole.train.x.tolist()))
    assert [by_name[name] for name in ready.test.names] == ready.test.x.tolist()


def test_the_split_depends_on_the_seed_only(data: Path) -> None:
    first, again, other = (prepared(data, test_share=0.25, seed=seed).test for seed in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.names == again.names != other.names


def test_columns_are_judged_by_the_rows_that_are_learned_from(data: Path) -> None:
    plain = prepared(data, test_share=0.25, seed=3)
    assert plain.test is not None
    held = {int(name.split()[1]) - 1 for name in plain.test.names}
    lines = data.read_text().splitlines()
    for i in held:  # what is held out says nothing about the mean, the range and the categories
        cells = lines[i].split(",")
        lines[i] = ",".join(["1000", "unheard of", *cells[2:]])
    data.write_text("\n".join(lines))
    changed = prepared(data, test_share=0.25, seed=3)
    assert changed.preprocessing == plain.preprocessing
    np.testing.assert_array_equal(changed.train.x, plain.train.x)
    assert any("among the rows held out: 10 numbers of 'a' are far outside" in note for note in changed.notes)


def test_texts_are_features_in_sparse_rows(data: Path) -> None:
    frame = pl.read_csv(data)
    words = np.random.default_rng(0).choice(["red", "blue", "old", "new", "door", "wall", "roof", "floor"], (60, 5))
    frame.with_columns(note=pl.Series([" ".join(row) for row in words])).write_csv(data)
    ready = prepared(data, test_share=0.25)
    assert sp.issparse(ready.train.x)
    kinds = {column.name: column.kind for column in ready.preprocessing.columns}
    assert kinds == {"a": "numeric", "b": "categorical", "note": "text"}
    assert ready.facts()["inputs"] == [ready.train.x.shape[1]]
    fitted = ready.model(progress=False).set_params(steps=5).fit(ready.train.x, ready.train.y)
    assert ready.weights() == sum(p.numel() for p in fitted.network_.parameters())
    assert prepared(data, ignore=["note"]).preprocessing.inputs == ["a", "b=x", "b=y"]
    assert prepared(data, text=["b"]).preprocessing.columns[1].kind == "left out"  # no word of two letters


def test_facts(data: Path) -> None:
    ready = prepared(data)
    facts = ready.facts()
    assert facts["rows"] == {"labelled": 40, "unlabelled": 20, "test": 0}
    assert facts["inputs"] == [3]
    assert facts["valid_labels"] == 6
    assert facts["known"]["legs"] == int(np.nansum(ready.train.known[:, 0]))
    assert facts["network"] == "mlp"
    assert facts["weights"] == sum(p.numel() for p in ready.model(progress=False).fit(
        ready.train.x, ready.train.y).network_.parameters())  # fmt: skip


def test_the_identity_is_of_what_the_model_depends_on(data: Path) -> None:
    first = prepared(data, steps=5).identity()
    assert prepared(data, steps=5, devices=2, out=Path("other")).identity() == first
    assert prepared(data, steps=6).identity() != first
    data.write_text(data.read_text().replace(",x,", ",z,", 1))
    assert prepared(data, steps=5).identity() != first


def test_the_model_gets_what_was_said_and_defaults_otherwise(data: Path) -> None:
    model = prepared(data, prior="none", steps=3, devices=2, ema=0.9, balance=0.5).model(log="log.csv")
    assert (model.prior, model.steps, model.random_state) == (None, 3, 0)
    assert model.settings == {"devices": 2, "ema": 0.9, "log": "log.csv"}
    assert model.objective == {"balance": 0.5}
    assert prepared(data).model().prior == "auto"
    sharp = prepared(data, power=4.0).model().prior
    assert sharp == DeterministicPrior(power=4.0)
    assert prepared(data, consistency=["vat"], augment="table").model().consistency == "vat"
    assert prepared(data, consistency=["vat", "mixup"]).model().consistency == ["vat", "mixup"]


def test_further_rows_and_test_files(data: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("b,a,other\nz,1.5,q\nz,2.5,q\n")
    ready = prepared(data, unlabelled=more, test=data)
    assert (len(ready.train), int(ready.train.labelled.sum())) == (62, 40)
    assert ready.train.names[-2:] == ["unlabelled 1", "unlabelled 2"]
    assert "b=z" in ready.preprocessing.inputs
    assert ready.test is not None
    assert len(ready.test) == 60
    assert any("they are left out: other" in note for note in ready.notes)


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("a,legs,fins\n1,,\n2,,\n", {}, "no row is labelled"),
        ("legs,fins\n1,0\n0,1\n", {}, "has no column to learn from besides legs, fins"),
        ("a,legs,fins\n1,1,0\n1,0,1\n", {}, "has no column to learn from"),
        ("a,legs,fins\n1,1,1\n2,0,1\n", {}, "the labels of 1 of 2 rows break the rules"),
        ("a,legs,fins\n1,1,0\n2,0,1\n", {"test_share": 0.2}, "2 labelled rows are too few to hold out a share of 0.2"),
        ("a,legs,fins\n1,1,0\n2,0,1\n", {"steps": 0}, "The 'steps' parameter"),
        ("a,legs,fins\n1,1,0\n2,0,1\n", {"ema": 1.5}, "ema=1.5: it must be from 0 to below 1"),
    ],
)
def test_what_cannot_be_learned_from(data: Path, content: str, options: dict[str, Any], said: str) -> None:
    data.write_text(content)
    with pytest.raises(DataError) as caught:
        prepared(data, **options)
    assert said in str(caught.value)
    assert "\n" in str(caught.value)  # a remedy


@pytest.mark.parametrize("on_violation", ["warn", "drop", "repair"])
def test_labels_that_break_rules_may_pass(data: Path, on_violation: str) -> None:
    data.write_text("a,legs,fins\n1,1,1\n5,0,1\n3,1,0\n")
    notes = prepared(data, on_violation=on_violation).notes
    assert any("line 2" in note and "break the rules" in note for note in notes)


def test_files_that_do_not_go_with_the_data(data: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("a\n1\n")
    with pytest.raises(DataError, match=r"has no column 'b' \(--unlabelled\)"):
        prepared(data, unlabelled=more)
    np.savez(tmp_path / "images.npz", X=np.zeros((2, 1, 3, 3)))
    with pytest.raises(DataError, match="do not go together"):
        prepared(data, unlabelled=tmp_path / "images.npz")
    more.write_text("a,b,legs,fins\n1,x,,\n")
    with pytest.raises(DataError, match="has no labelled row to measure on"):
        prepared(data, test=more)
    more.write_text("a,b,legs\n1,x,1\n")
    with pytest.raises(DataError, match=r"has no column 'fins' \(--test\)"):
        prepared(data, test=more)


def test_people_see_the_plan(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prepared(data, steps=7).show(Terminal())
    said = capsys.readouterr().out
    for part in ("categorical", "x, y", "40 labelled, 20 unlabelled, 0 test", "legs, fins: 6 valid", "steps 7"):
        assert part in said


def test_a_column_called_like_a_label_is_no_feature(data: Path) -> None:
    frame = pl.read_csv(data)
    frame.with_columns(pl.col("legs").alias("Legs ")).write_csv(data)
    ready = prepared(data)
    assert ready.preprocessing.inputs == ["a", "b=x", "b=y"]
    assert (
        "column 'Legs ' is left out: it has the name of the label 'legs'; rename it if it is a feature" in ready.notes
    )
    frame.rename({"legs": "Legs "}).write_csv(data)  # the label itself, carelessly written
    assert prepared(data).labelling.columns == ("Legs ", "fins")


def test_a_column_that_tells_the_label_is_kept_unless_it_holds_names_of_the_rules(data: Path) -> None:
    frame = pl.read_csv(data)
    frame.with_columns(code=pl.when(pl.col("legs") == 1).then(pl.lit("p")).otherwise(pl.lit("q"))).write_csv(data)
    honest = prepared(data)
    assert "code=p" in honest.preprocessing.inputs
    assert any("column 'code' alone tells the label 'legs' in every labelled row" in note for note in honest.notes)
    assert not any("code" in note for note in prepared(data, ignore=["code"]).notes)
    assert not any("code" in note for note in prepared(data, categorical=["code"]).notes)
    frame.with_columns(code=pl.when(pl.col("legs") == 1).then(pl.lit("Legs")).otherwise(pl.lit("fins"))).write_csv(data)
    ready = prepared(data)
    assert any("column 'code' is left out: it holds names of the rules" in note for note in ready.notes)
    assert "code" not in [column.name for column in ready.preprocessing.columns]
    assert "code=Legs" in prepared(data, categorical=["code"]).preprocessing.inputs
    pl.read_csv(data).select("legs", "fins", "code").write_csv(data)
    with pytest.raises(DataError, match="no column to learn from besides legs, fins and code, which tells the label"):
        prepared(data)


def test_classes_that_differ_in_capitals_only_are_pointed_out(data: Path) -> None:
    names = ["Cat", "cat", "dog", "A", "a"]
    pl.read_csv(data).drop("legs", "fins").with_columns(kind=pl.Series(names * 12)).write_csv(data)
    notes = prepare(data, Options(label=["kind"])).notes
    assert notes == ("'Cat' and 'cat' are two values of 'kind': write them alike if they are one",)


def test_one_column_of_many_names(data: Path) -> None:
    frame = pl.read_csv(data)
    topics = [None if legs is None else "legs walk" if legs else "walk" for legs in frame["legs"]]
    frame.drop("legs", "fins").with_columns(topics=pl.Series(topics)).write_csv(data)
    ready = prepare(data, Options(label=["topics"], label_separator=" "))
    assert ready.space.columns == ("legs", "walk")
    assert ready.preprocessing.separator == " "
    ready.model(progress=False).set_params(steps=3).fit(ready.train.x, ready.train.y)


def test_groups_are_held_out_whole(data: Path) -> None:
    frame = pl.read_csv(data)
    house = [None if i == 0 else f"h{i % 20}" for i in range(60)]
    frame.with_columns(house=pl.Series(house)).write_csv(data)
    ready = prepared(data, test_share=0.25, group="house")
    assert ready.test is not None
    assert ready.preprocessing.inputs == ["a", "b=x", "b=y"]  # a group is no feature
    rows = {part: [int(name.split()[1]) - 2 for name in getattr(ready, part).names] for part in ("train", "test")}
    own = {part: {house[i] for i in numbers if house[i]} for part, numbers in rows.items()}
    assert own["test"]
    assert not own["train"] & own["test"]
    assert ready.test.labelled.all()
    left = 60 - len(ready.train) - len(ready.test)
    assert f"{left:,} unlabelled rows are left out: rows of their 'house' are held out" in ready.notes
    plain = prepared(data, test_share=0.25, ignore=["house"])
    assert plain.test is not None
    assert len(plain.test) == 10
    frame.with_columns(house=pl.Series(["x", "y"] * 30)).write_csv(data)
    with pytest.raises(
        DataError, match=r"2 values of 'house' with labelled rows are too few to hold out a share of 0.25"
    ):
        prepared(data, test_share=0.25, group="house")


def news(folder: Path, *topics: str) -> Path:
    random = np.random.default_rng(0)
    words = [f"word{i}" for i in range(30)]
    texts = [" ".join(random.choice(words, 6)) + f" number {i}" for i in range(len(topics))]
    path = folder / "news.csv"
    pl.DataFrame({"text": texts, "topics": topics}).write_csv(path)
    return path


def test_topics_of_texts_are_never_empty_unless_some_are(tmp_path: Path) -> None:
    names = [f"t{i}" for i in range(25)]
    ready = prepare(news(tmp_path, *names, *names[::-1]), Options(label=["topics"], label_separator=" "))
    assert ready.space.count() == 2**25 - 1
    assert any("every labelled cell of 'topics' has a name" in note for note in ready.notes)
    ready.model(progress=False).set_params(steps=3).fit(ready.train.x, ready.train.y)
    other = prepare(news(tmp_path, *names, *names, "[]"), Options(label=["topics"], label_separator=" "))
    assert not other.space.rules


def test_topics_that_only_test_rows_have_are_missed(tmp_path: Path) -> None:
    test = news(tmp_path, "t1 new", "t2").rename(tmp_path / "test.csv")
    data = news(tmp_path, *[f"t{i % 25}" for i in range(50)])
    ready = prepare(data, Options(label=["topics"], label_separator=" ", test=test))
    assert ready.test is not None
    assert ready.test.missed is not None
    assert ready.test.missed.tolist() == [1, 0]
    assert any("1 labels in 'topics' have names that training rows do not have" in note for note in ready.notes)


def parquet(folder: Path, rows: int = 3000) -> Path:
    random = np.random.default_rng(0)
    kind = random.integers(0, 2, rows)
    frame = pl.DataFrame(
        {
            "size": random.normal(size=rows) + 3 * kind, "price": [f"{v:.2f} €".replace(".", ",") for v in kind + 0.5],
            "colour": random.choice(["red", "blue"], rows),
            "kind": [("cat", "dog")[k] if i % 10 == 0 else None for i, k in enumerate(kind)],
        }
    )  # fmt: skip
    path = folder / "parts"
    path.mkdir()
    for i in range(3):
        frame[i * rows // 3 : (i + 1) * rows // 3].write_parquet(path / f"{i}.parquet")
    return path


def test_large_parquet_is_streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = parquet(tmp_path)
    whole = prepare(data, Options(label=["Kind"]))
    monkeypatch.setattr(larger, "_MOST_CELLS", 1000)
    monkeypatch.setattr(larger, "_SAMPLE", 200)
    ready = prepare(data, Options(label=["Kind"], test_share=0.25))
    assert whole.stream is None
    assert ready.stream is not None
    assert ready.test is not None
    assert ready.preprocessing.inputs == whole.preprocessing.inputs
    assert (len(ready.train), len(ready.test)) == (350, 50)
    assert ready.facts()["rows"] == {"labelled": 250, "unlabelled": 2700, "test": 50}
    assert "what columns mean was decided on 400 of 3,000 rows; all are learned from" in ready.notes
    held = [int(name.split()[1]) - 1 for name in ready.test.names]
    assert not np.isin(held, ready.stream.labelled).any()
    np.testing.assert_allclose(ready.stream.batch([7, 2999]).x, whole.train.x[[7, 2999]], rtol=1e-6)
    model = ready.model(progress=False).set_params(steps=30, calibrate=False).fit(ready.stream)
    assert model.score(ready.test.x, ready.test.y) > 0.9


@pytest.mark.parametrize(("options", "said"), [
    ({"label": ["kind"], "unlabelled": Path("x.csv")}, "too large for --unlabelled"),
    ({"label": ["kid"]}, "has no column 'kid'"),
    ({}, "it is not clear which column"),
])  # fmt: skip
def test_large_parquet_is_refused_as_small_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], said: str
) -> None:
    monkeypatch.setattr(larger, "_MOST_CELLS", 1000)
    with pytest.raises(DataError, match=said):
        prepare(parquet(tmp_path), Options(**options))


def test_a_bad_cell_of_a_part_is_named_with_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = parquet(tmp_path)
    last = pl.read_parquet(data / "2.parquet").with_columns(pl.col("price").str.replace("0,50 €", "free"))
    last.write_parquet(data / "2.parquet")
    monkeypatch.setattr(larger, "_MOST_CELLS", 1000)
    monkeypatch.setattr(larger, "_SAMPLE", 5)
    monkeypatch.setattr("dssl.data.stored.larger.sample_parquet", lambda *_: read(data / "0.parquet").slice(0, 400))
    with pytest.raises(DataError, match="held numbers in € in training"):
        list(prepare(data, Options(label=["kind"])).stream.parts())  # type: ignore[union-attr]
