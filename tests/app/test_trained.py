"""A trained model at work on files, against the model in Python."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dssl import DSSLClassifier, LabelSpace, save
from dssl.app.trained import Trained
from dssl.data.columns import Column
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import Table, read
from dssl.errors import DataError

SPACE = LabelSpace("species: {cat, dog, trout}\nfins\nage: 0..2\nspecies = trout <-> fins")


@pytest.fixture(scope="module")
def model() -> DSSLClassifier:
    random = np.random.default_rng(0)
    x = random.normal(size=(30, 2))
    valid = list(SPACE.valid())
    y = [valid[i] for i in random.integers(0, len(valid), 30)]
    return DSSLClassifier(SPACE, steps=10, random_state=0).fit(x, y)


@pytest.fixture
def trained(model: DSSLClassifier, tmp_path: Path) -> Trained:
    run = tmp_path / "run"
    save(model, run / "model")
    columns = (Column("a", "numeric", fill=0.0), Column("b", "numeric", fill=0.0))
    Preprocessing(columns, labels=("kind", "fins"), label_names=("species", "fins"), id="name").save(
        run / "preprocessing.json"
    )
    (run / "run.json").write_text("{}")
    return Trained.open(run)


def table(rows: int = 6) -> Table:
    random = np.random.default_rng(1)
    frame = pl.DataFrame({"name": [f"n{i}" for i in range(rows)], **{c: random.normal(size=rows) for c in "ab"}})
    return Table(Path("d.csv"), "CSV", frame, first=2)


def test_labels_have_the_names_of_the_training_file(trained: Trained, model: DSSLClassifier) -> None:
    given = table()
    x = given.frame.select("a", "b").to_numpy().astype(np.float32)
    found = trained.predict(given, "name", proba=True)
    records = model.predict(x)
    assert found["kind"].to_list() == [record["species"] for record in records]
    assert found["age"].to_list() == [record["age"] for record in records]
    assert found["fins"].to_list() == [int(record["fins"]) for record in records]
    assert found["name"].to_list() == [f"n{i}" for i in range(6)]
    proba = found.select(f"P({name})" for name in SPACE.columns).to_numpy()
    np.testing.assert_allclose(proba, model.predict_proba(x), atol=1e-6)
    assert trained.predict(given, None)["row"].to_list() == [2, 3, 4, 5, 6, 7]  # lines


def test_draws_stand_row_by_row(trained: Trained) -> None:
    drawn = trained.sample(table(), "name", 2, seed=0)
    assert drawn["name"].to_list() == [f"n{i // 2}" for i in range(12)]
    assert drawn["sample"].to_list() == [1, 2] * 6
    labels = drawn.select("kind", "fins", "age").rename({"kind": "species"}).to_dicts()
    assert not SPACE.check(labels)
    assert drawn.equals(trained.sample(table(), "name", 2, seed=0))
    assert not drawn.equals(trained.sample(table(), "name", 2, seed=1))


def test_measuring_reads_labels_by_their_names(trained: Trained, tmp_path: Path) -> None:
    data = tmp_path / "d.csv"
    data.write_text("a,b,kind,fins\n0.1,0.2,cat,0\n1,2,,1\n0,0,,\n")
    part = trained.measure(data)
    np.testing.assert_array_equal(
        part.known[:, :4], [[1, 0, 0, 0], [np.nan] * 3 + [1], [np.nan] * 4]
    )  # fmt: skip
    x = read(data).frame.select("a", "b").cast(pl.Float64).to_numpy().astype(np.float32)
    np.testing.assert_array_equal(part.logits.numpy(), trained.model._logits(x).numpy())
    data.write_text("a,b,kind\n0.1,0.2,\n")
    with pytest.raises(DataError, match="no labelled row"):
        trained.measure(data)


def test_models_from_python_read_columns_called_as_their_features(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas", reason="feature names come with a frame")
    x = pandas.DataFrame({"width": [0.0, 1.0, 0.1, 0.9], "height": [1.0, 0.0, 0.9, 0.1]})
    own = DSSLClassifier(steps=5, random_state=0).fit(x, ["up", "down", None, "down"])
    save(own, tmp_path / "own")
    opened = Trained.open(tmp_path / "own")
    data = Table(Path("d"), "Parquet", pl.DataFrame({"height": [0.5], "width": [0.4], "more": ["q"]}))
    assert opened.predict(data, None)["class"].to_list() == own.predict(x[:1].assign(width=0.4, height=0.5)).tolist()


def test_names_of_one_column_are_written_as_they_were_read(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(40, 1))
    space = LabelSpace("corn, wheat")
    y = np.column_stack([x[:, 0] > 0, x[:, 0] > 1]).astype(float)
    run = tmp_path / "run"
    save(DSSLClassifier(space, steps=150, random_state=0).fit(x, y), run / "model")
    Preprocessing(
        (Column("a", "numeric", fill=0.0),), labels=("topics",), label_names=("corn", "wheat"), separator=";"
    ).save(run / "preprocessing.json")
    (run / "run.json").write_text("{}")
    opened = Trained.open(run)
    new = Table(Path("d.csv"), "CSV", pl.DataFrame({"a": [-3.0, 0.5, 4.0]}), first=2)
    assert opened.predict(new, None)["topics"].to_list() == ["[]", "corn", "corn;wheat"]
    data = tmp_path / "d.csv"
    data.write_text("a,topics\n-3,[]\n.5,corn\n4,corn; wheat\n1,\n")
    part = opened.measure(data)
    np.testing.assert_array_equal(part.known[:3], [[0, 0], [1, 0], [1, 1]])


def test_known_labels_of_a_file_narrow_the_others(trained: Trained, model: DSSLClassifier) -> None:
    given = table()
    kind = ["trout", None, "cat|dog", "!trout", "", "dog"]
    more = replace(given, frame=given.frame.with_columns(pl.Series("kind", kind)))
    x = given.frame.select("a", "b").to_numpy().astype(np.float32)
    known = np.full((6, SPACE.width), np.nan)
    known[0, :3], known[[2, 3], 2], known[5, :3] = [0, 0, 1], 0, [0, 1, 0]
    evidence = trained.evidence(more, ["kind"])
    np.testing.assert_array_equal(evidence, SPACE.encode(known))
    found = trained.predict(more, None, proba=True, evidence=evidence)
    assert found["kind"].to_list() == [record["species"] for record in model.predict(x, evidence=known)]
    assert (found["kind"][0], found["fins"][0]) == ("trout", 1)
    proba = found.select(f"P({name})" for name in SPACE.columns).to_numpy()
    np.testing.assert_allclose(proba, model.predict_proba(x, evidence=known), atol=1e-6)
    drawn = trained.sample(more, None, 4, 0, evidence)
    assert drawn["kind"][:4].to_list() == ["trout"] * 4


@pytest.mark.parametrize(("asked", "held"), [("Kind ", "kind"), ("KIND", " Kind"), ("species", "kind")])
def test_evidence_columns_are_found_as_label_columns_are(trained: Trained, asked: str, held: str) -> None:
    given = table(2)
    more = replace(given, frame=given.frame.with_columns(pl.Series(held, ["trout", None])))
    told = trained.evidence(more, [asked])
    np.testing.assert_array_equal(told, SPACE.encode([{"species": "trout"}, {"species": None}]))


def test_labels_of_a_file_are_measured_under_careless_names(trained: Trained, tmp_path: Path) -> None:
    """They were passed over, and the other labels alone were measured."""
    random = np.random.default_rng(3)
    frame = pl.DataFrame({"a": random.normal(size=4), "b": random.normal(size=4), "fins": [1, 0, 1, 0]})
    for name in ("kind", "Kind "):
        kinds = pl.Series(name, ["trout", "dog", None, "cat"])
        frame.with_columns(kinds).write_csv(tmp_path / f"{name.strip()}.csv")
    first, second = (trained.measure(tmp_path / f"{name}.csv").known for name in ("kind", "Kind"))
    np.testing.assert_array_equal(first, second)
    assert not np.isnan(first[0, :3]).any()


def test_evidence_of_a_file_is_refused_by_its_line(trained: Trained) -> None:
    given = table(2)
    wrong = replace(given, frame=given.frame.with_columns(kind=pl.Series([None, "cat"]), fins=pl.Series([1, 1])))
    with pytest.raises(DataError, match=r"d\.csv', line 3: the evidence contradicts the rules: .*trout <-> fins"):
        trained.evidence(wrong, ["kind", "fins"])
    with pytest.raises(DataError, match="'kinds' is not a label of the model\nDid you mean"):
        trained.evidence(wrong, ["kinds"])
    with pytest.raises(DataError, match="--evidence-columns"):
        trained.evidence(given, ["kind"])
