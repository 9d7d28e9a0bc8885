"""A summary holds what the model itself says, survives its file, and refuses files that are not one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
import torch

from dssl import DataError, DSSLClassifier, LabelSpace
from dssl.app import summary as module
from dssl.app.summary import Counts, Origin, Summary, summarise

RULES = "kind: {low, high}\nwarm, cold\nwarm -> !cold\nkind = high -> warm\n0.9 :: cold -> kind = low"
GIVEN: dict[str, Any] = {"settings": {}, "command": "", "data": {}, "seconds": 1.5}


def rows(n: int, seed: int = 0) -> tuple[np.ndarray, list[dict[str, Any]]]:
    x = np.random.default_rng(seed).normal(size=(n, 3))
    return x, [{"kind": "high" if a > 0.5 else "low", "warm": a > 0, "cold": a < -0.5} for a in x[:, 0]]


def partly(labels: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A third whole, a third without its kind, the rest unlabelled."""
    none = {"kind": None, "warm": None, "cold": None}
    return [dict(y) if i % 3 == 0 else y | {"kind": None} if i % 3 == 1 else dict(none) for i, y in enumerate(labels)]


@pytest.fixture(scope="module")
def model() -> DSSLClassifier:
    x, labels = rows(90)
    return DSSLClassifier(RULES, steps=30, random_state=0).fit(x, partly(labels))


@pytest.fixture(scope="module")
def found(model: DSSLClassifier) -> Summary:
    x, labels = rows(90)
    x_test, truth = rows(60, seed=1)
    return summarise(
        model,
        x,
        partly(labels),
        X_test=x_test,
        y_test=truth,
        rows=Origin(
            range(2, 92), [f"r{i}" for i in range(90)], pl.DataFrame({"a": x[:, 0], "note": ["<b>", None] * 45})
        ),
        feature_names=["a", "b", "c"],
        settings={"steps": np.int64(30), "path": Path("x"), "odd": float("nan"), "deep": {"list": (1, 2)}},
        command="dssl fit x.csv",
        data={"file": "x.csv"},
        seconds=2.5,
    )


# ---- what it says ----


def test_counts_and_facts(found: Summary) -> None:
    assert found.counts == Counts(rows=90, labelled=30, partly=30, unlabelled=30, test=60)
    assert found.looked_at == {"labelled": (60, 60), "unlabelled": (30, 30), "test": (60, 60)}
    assert (found.title, found.command, found.seconds) == ("x.csv", "dssl fit x.csv", 2.5)
    assert found.feature_names == ("a", "b", "c")
    assert found.settings == {"steps": 30, "path": "x", "odd": "nan", "deep": {"list": [1, 2]}}
    assert LabelSpace(found.space) == LabelSpace(RULES)


def test_scores_are_the_models_own(model: DSSLClassifier, found: Summary) -> None:
    x_test, truth = rows(60, seed=1)
    assert found.scored == "test"
    assert found.score == pytest.approx(model.score(x_test, truth))
    hits, of = found.right["test"]
    assert (hits, of) == (round(model.score(x_test, truth) * 60), 60)


def test_rules_are_counted_as_the_model_counts(model: DSSLClassifier, found: Summary) -> None:
    x_test, _ = rows(60, seed=1)
    assert list(found.broken) == ["unlabelled", "test"]
    assert found.broken["test"].raw == len(model.violations(x_test))
    assert found.broken["test"].final == 0 == found.broken["unlabelled"].final
    assert found.rules[0].broken["test"].raw == model.violations(x_test).broken[:, 0].sum()
    assert [rule.line for rule in found.rules] == [3, 4, 5]


def test_curves_are_the_history(model: DSSLClassifier, found: Summary) -> None:
    assert found.curves[-1]["step"] == 30
    assert [row["total"] for row in found.curves] == [row["total"] for row in model.history_]


def test_unsure_rows_are_unlabelled_ones_by_number_and_name(found: Summary) -> None:
    assert len(found.uncertain) == 20
    assert all((u.row - 2) % 3 == 2 and u.name == f"r{u.row - 2}" for u in found.uncertain)
    x, _ = rows(90)
    for u, cells in zip(found.uncertain, found.uncertain_cells, strict=True):
        assert cells == {"a": str(x[u.row - 2, 0])} | ({"note": "<b>"} if u.row % 2 == 0 else {})
    assert all(a.entropy >= b.entropy for a, b in zip(found.uncertain, found.uncertain[1:]))


def test_collapse_is_that_of_the_objective(model: DSSLClassifier, found: Summary) -> None:
    x, labels = rows(90)
    theta = model.predict_theta(x[2::3]).mean(axis=0)  # of the unlabelled rows; the columns: low, high, warm, cold
    known = [label for i, label in enumerate(labels) if i % 3 == 0]

    def entropy(p: list[float]) -> float:
        return -sum(q * np.log(q) for q in p if q > 0)

    kind = [np.mean([y["kind"] == value for y in known]) for value in ("low", "high")]
    assert found.varieties[0].predicted == pytest.approx(entropy(theta[:2].tolist()), abs=1e-4)
    assert found.varieties[0].labelled == pytest.approx(entropy(kind), abs=1e-5)
    total = [sum(getattr(v, side) for v in found.varieties) for side in ("predicted", "labelled")]
    assert found.collapse == pytest.approx(total[0] / total[1], rel=1e-4)


# ---- runs that lack something ----


def test_without_test_rows_labelled_ones_are_scored(model: DSSLClassifier) -> None:
    x, labels = rows(90)
    found = summarise(model, x, partly(labels), **GIVEN)
    assert (found.scored, found.score, found.title) == ("labelled", None, "A run")
    assert list(found.broken) == ["unlabelled"]


def test_without_unlabelled_rows() -> None:
    x, labels = rows(30)
    y = [label["kind"] for label in labels]
    found = summarise(DSSLClassifier(steps=5, random_state=0).fit(x, y), x, y, **GIVEN)
    assert (found.collapse, found.uncertain, found.varieties, found.rules, found.broken) == (None, (), (), (), {})
    assert all(f.predicted is None for f in found.frequencies)


def test_test_rows_that_know_nothing_are_not_scored(model: DSSLClassifier) -> None:
    x, labels = rows(90)
    blank = [dict.fromkeys(("kind", "warm", "cold"))] * 5
    found = summarise(model, x, partly(labels), X_test=x[:5], y_test=blank, **GIVEN)
    assert (found.scored, found.score, found.counts.test) == ("labelled", None, 5)


@pytest.mark.parametrize("kind", ["sparse", "pandas", "tensor", "images"])
def test_rows_of_every_form_are_looked_at(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ROWS", 7)
    x, labels = rows(40)
    y = [label["kind"] if i % 2 else None for i, label in enumerate(labels)]
    if kind == "sparse":
        given: Any = sp.csr_matrix(x)
    elif kind == "pandas":
        given = pytest.importorskip("pandas").DataFrame(x, columns=["a", "b", "c"])
    else:
        given = torch.from_numpy(x).float()
        given = given.reshape(40, 1, 1, 3) if kind == "images" else given
    options = {"network": "mlp"} if kind == "images" else {}
    model = DSSLClassifier(steps=3, random_state=0, **options).fit(given, y)
    found = summarise(model, given, y, X_test=given, y_test=y, **GIVEN)
    assert found.looked_at == {"labelled": (7, 20), "unlabelled": (7, 20), "test": (40, 40)}
    assert (found.features, found.counts.labelled) == (3, 20)
    assert (found.feature_names == ("a", "b", "c")) == (kind == "pandas")


def test_many_rows_are_drawn_with_a_seed(monkeypatch: pytest.MonkeyPatch, model: DSSLClassifier) -> None:
    monkeypatch.setattr(module, "_ROWS", 11)
    x, labels = rows(90)
    first, second = (summarise(model, x, partly(labels), **GIVEN) for _ in range(2))
    assert first.looked_at == {"labelled": (11, 60), "unlabelled": (11, 30)}
    assert first.histograms == second.histograms
    assert first.uncertain == second.uncertain


def test_long_logs_are_thinned_and_odd_numbers_left_out(model: DSSLClassifier) -> None:
    x, labels = rows(90)
    log = [{"step": i, "total": float("inf") if i == 0 else "1.5", "note": "x"} for i in range(5000)]
    found = summarise(model, x, partly(labels), log_rows=log, **GIVEN)
    assert len(found.curves) == 300
    assert found.curves[0] == {"step": 0.0, "total": None, "note": None}
    assert found.curves[-1] == {"step": 4999.0, "total": 1.5, "note": None}
    assert summarise(model, x, partly(labels), log_rows=[], **GIVEN).curves == ()


# ---- refusals ----


def test_what_does_not_fit_is_refused(model: DSSLClassifier) -> None:
    x, labels = rows(90)
    y = partly(labels)
    with pytest.raises(DataError, match="test rows need labels\nGive both"):
        summarise(model, x, y, X_test=x, **GIVEN)
    with pytest.raises(DataError, match="90 rows and 89 labels"):
        summarise(model, x, y[:-1], **GIVEN)
    with pytest.raises(DataError, match="2 row names and 90 rows"):
        summarise(model, x, y, rows=Origin(names=["a", "b"]), **GIVEN)
    with pytest.raises(DataError, match="5 test rows and 4 labels"):
        summarise(model, x, y, X_test=x[:5], y_test=y[:4], **GIVEN)


# ---- files ----


def test_a_summary_survives_its_file(found: Summary, tmp_path: Path) -> None:
    path = found.save(tmp_path / "deep" / "summary.json")
    assert Summary.load(path) == found
    assert [p.name for p in path.parent.iterdir()] == ["summary.json"]
    assert json.loads(path.read_text())["format"] == "dssl summary"


def _without(content: dict[str, Any]) -> Any:
    del content["counts"]["rows"]
    return content


DAMAGE: list[tuple[Any, str]] = [
    (lambda c: c | {"version": 4}, "has version 4 of the format, and this dssl reads up to 3\nUpdate dssl"),
    (lambda c: c | {"version": 1}, "was written by an earlier dssl: version 1 of the format, not 3\nFit again"),
    (lambda c: c | {"version": None}, "has version None"),
    (lambda c: c | {"format": "other"}, "is not the summary of a run"),
    (lambda c: [c], "is not the summary of a run"),
    (lambda c: {k: v for k, v in c.items() if k != "rules"}, "is damaged: the file has no 'rules'"),
    (_without, "is damaged: counts has no 'rows'"),
    (lambda c: c | {"counts": 3}, "is damaged: counts is 3"),
    (lambda c: c | {"seconds": "long"}, 'is damaged: seconds is "long"'),
    (lambda c: c | {"seconds": True}, "is damaged: seconds is true"),
    (lambda c: c | {"features": 2.5}, r"is damaged: features is 2\.5"),
    (lambda c: c | {"right": {"test": [1]}}, r"is damaged: right\.test is \[1\]"),
    (lambda c: c | {"rules": [{"text": 1}]}, r"is damaged: rules\[0\] has no 'line'"),
    (lambda c: c | {"title": None}, "is damaged: title is null"),
    (lambda c: c | {"curves": "x" * 100}, r'is damaged: curves is "x{59}…'),
]


@pytest.mark.parametrize(("change", "said"), DAMAGE)
def test_damaged_files_are_refused_with_the_place(found: Summary, tmp_path: Path, change: Any, said: str) -> None:
    path = found.save(tmp_path / "summary.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    with pytest.raises(DataError, match=said):
        Summary.load(path)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Summary.load(tmp_path / "none.json")
    (tmp_path / "bad.json").write_bytes(b"\xff{")
    with pytest.raises(DataError, match="is not JSON"):
        Summary.load(tmp_path / "bad.json")
