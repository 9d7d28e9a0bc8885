"""DSSLClassifier against scikit-learn's semi-supervised classifiers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from ledger import Case
from peers import (
    OURS,
    PEERS,
    Settings,
    cases_of,
    counted,
    dealt,
    figures,
    held_right,
    lead,
    measures,
    on_fresh_seeds,
    one,
    page,
    read,
    slower,
    speed,
    variance,
    verdict,
    with_best,
)
from sklearn.datasets import load_iris

# ---- data ----


def test_eight_cases_are_counted_three_of_them_digits() -> None:
    settings = Settings()
    eight = [
        (name, labels) for name, sizes, _, _ in settings.sets for labels in sizes if counted(name, labels, settings)
    ]
    assert len(eight) == 8
    assert [labels for name, labels in eight if name == "digits"] == [20, 50, 100]
    assert ("iris", 6) in eight
    assert ("iris", 15) not in eight


def test_of_several_labels_the_most_even_one_is_the_class(data_folder: Path) -> None:
    from published_cases import read as read_plain

    x, y = read("emotions")
    whole = read_plain("emotions")[1]
    assert y.shape == (len(x),)
    assert abs(y.mean() - 0.5) == np.abs(whole.mean(axis=0) - 0.5).min()


def test_a_set_that_is_not_here_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSSL_DATA", raising=False)
    names = {case["set"] for case in cases_of(Settings(), ["iris", "zoo"])}
    assert names == {"iris"}


# ---- peers ----


def test_folds_hold_every_row_once_and_spread_classes() -> None:
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1, 2, 2])
    fold = dealt(y, 5, seed=3)
    assert np.bincount(fold).tolist() == [2] * 5
    for each in range(5):
        assert len(set(y[fold == each])) == 2  # rows of one class are four folds apart
    assert (dealt(y, 5, seed=3) == fold).all()
    assert (dealt(y, 5, seed=4) != fold).any()


class Nearest:
    """Predicts the label of the nearest labelled row, and remembers how many labels it saw."""

    seen: list[int]

    def __init__(self) -> None:
        self.seen = []

    def fit(self, x: np.ndarray, y: np.ndarray) -> Nearest:
        self.x, self.y = x[y != -1], y[y != -1]
        self.seen.append(len(self.y))
        return self

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.y[np.abs(x - self.x.T).argmin(axis=1)]


def test_a_fold_is_predicted_without_its_labels() -> None:
    x = np.array([[0.0], [0.1], [5.0], [5.1], [9.0], [9.9]])
    y = np.array([0, 0, 1, 1, 0, -1])  # the 0 at 9 is nearest to a 1
    model = Nearest()
    assert held_right(model, x, y, 5, seed=0) == pytest.approx(4 / 5)
    assert model.seen == [4] * 5


def test_every_peer_scales_and_has_a_grid() -> None:
    x = load_iris().data
    settings = Settings()
    sizes = {name: len(grid(x, settings, False)) for name, grid in PEERS.items()}
    assert sizes == {"LabelSpreading": 12, "LabelPropagation": 12, "SelfTraining": 4}
    assert variance(x, "standardised") == pytest.approx(4)
    model = PEERS["LabelSpreading"](x, settings, False)["standardised, rbf 50"]
    assert model[-1].gamma == pytest.approx(50 / 4)
    assert PEERS["LabelPropagation"](x, settings, True)["0…1, rbf 2"][-1].max_iter == settings.choosing_iterations


# ---- measures ----


class Fixed:
    classes_ = np.array([0, 1])

    def __init__(self, p: list[list[float]]) -> None:
        self.p = np.array(p)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return np.nan_to_num(self.p).argmax(axis=1)

    def predict_proba(self, x: np.ndarray) -> np.ndarray:
        return self.p


def test_measures_by_hand() -> None:
    found = measures(Fixed([[0.8, 0.2], [0.3, 0.7]]), np.zeros((2, 1)), np.array([0, 0]), 1e-6)
    assert found["accuracy"] == 0.5
    assert found["log_loss"] == pytest.approx(-(np.log(0.8) + np.log(0.3)) / 2)
    assert found["calibration"] == pytest.approx((0.2 + 0.7) / 2)


def test_a_class_never_seen_and_a_row_without_an_answer_count_as_wrong_not_as_nan() -> None:
    found = measures(Fixed([[1.0, 0.0], [np.nan, np.nan]]), np.zeros((2, 1)), np.array([2, 1]), 1e-6)
    assert found["accuracy"] == 0
    assert found["log_loss"] == pytest.approx(-(np.log(1e-6) + np.log(0.5)) / 2, rel=1e-4)


# ---- the page ----


def runs(gain: float) -> list[Case]:
    """Two seeds of every case; ours is `gain` above the peers, which have two settings."""
    out = []
    for name, sizes, _, _ in Settings().sets:
        for labels in sizes:
            for seed in (0, 1):
                rest = {"log_loss": 0.5, "calibration": 0.1, "fit_seconds": 1.0, "seconds": 1.0}
                case = {"set": name, "labels": labels, "seed": seed}
                out.append(case | {"method": OURS, "accuracy": 0.8 + 0.02 * seed + gain} | rest)
                for peer in PEERS:
                    tried = {"first": 0.8 + 0.01 * seed, "second": 0.85}
                    out.append(case | {"method": peer, "accuracy": tried["first"], "tried": tried} | rest)
    return out


def record(gain: float) -> Case:
    settings = json.loads(json.dumps(asdict(Settings())))
    return {"settings": settings, "versions": {"dssl": "0"}, "seconds": 1.0, "runs": runs(gain)}


def test_leads_are_paired_by_seed() -> None:
    assert lead(runs(0.1), "iris", 6, "LabelSpreading") == pytest.approx((0.105, 0.005))


def test_the_best_setting_in_hindsight_is_one_for_all_seeds() -> None:
    found = [run for run in with_best(runs(0.0)) if run["method"] == "SelfTraining in hindsight"]
    assert {run["chosen"] for run in found} == {"second"}
    assert {run["accuracy"] for run in found} == {0.85}


@pytest.mark.parametrize(
    ("gap", "error", "word"),
    [
        (0.03, 0.01, "ahead"),
        (0.01, 0.01, "ahead, within noise"),
        (-0.03, 0.01, "**behind**"),
        (-0.01, 0.01, "**behind**, within noise"),
        (0.0, 0.01, "tie"),
    ],
)
def test_verdicts(gap: float, error: float, word: str) -> None:
    assert verdict(gap, error) == word


def test_the_page_counts_wins_and_shows_losses() -> None:
    good, bad = page(record(0.1)), page(record(-0.1))
    assert "ahead of every peer in 8 of 8 cases; the goal of 6 of 8 is **met**" in good
    assert "It is behind in no case." in good
    assert "ahead of every peer in 0 of 8 cases; the goal of 6 of 8 is **missed**" in bad
    assert "not ahead on digits with 20, digits with 50" in bad
    assert "in hindsight it is ahead in 8." in good
    assert "in hindsight it is ahead in 0." in page(record(0.02))


def test_the_defaults_on_fresh_seeds(tmp_path: Path) -> None:
    settings = replace(
        Settings(), sets=(("digits", (20, 50), 500, 6), ("iris", (6, 15), 50, 16), ("emotions", (50,), 9, 9))
    )
    for name, scores in (("defaults", (0.9, 0.8, 0.7, 0.2)), ("defaults_fresh_seeds", (0.8, 0.8, 0.6, 0.9))):
        cases = (("digits", 20), ("digits", 50), ("iris", 6), ("iris", 15))
        rows = [{"set": s, "labels": n, "variant": "default", "score": score} for (s, n), score in zip(cases, scores)]
        rows.append({"set": "digits", "labels": 20, "variant": "supervised", "score": 0.0})
        (tmp_path / f"{name}.json").write_text(json.dumps({"results": rows}))
    assert on_fresh_seeds(settings, tmp_path) == pytest.approx((-0.1 + 0.0 - 0.1) / 3)


def test_how_many_times_slower() -> None:
    seconds = {"ours 1": 2.0, "ours 2": 1.0, "klay 1": 8.0, "klay 2": 10.0, "pysdd": None}
    assert slower(seconds, "klay") == 8
    assert slower(seconds, "pysdd") is None


def test_speed_is_read_from_the_benchmarks(tmp_path: Path) -> None:
    rows = [
        {"circuit": "grid", "edges": 1000, "backward": False, "seconds": {"ours 1": 1.0, "klay 1": 5.0, "pysdd": 3.0}},
        {"circuit": "grid", "edges": 1000, "backward": False, "seconds": {"ours 1": 1.0, "klay 1": 9.0}},
    ]
    compiled = [{"dssl": 1.0, "pysdd": 4.0}, {"dssl": 1.0, "pysdd": 0.5}, {"dssl": 1.0, "pysdd": None}, {"dssl": 1.0}]
    (tmp_path / "evaluate.json").write_text(json.dumps({"rows": rows}))
    (tmp_path / "compile.json").write_text(
        json.dumps(
            {
                "settings": {"timeout_s": 6},
                "versions": {"pysdd": "1"},
                "rows": [{"seconds": each} for each in compiled],
            }
        )
    )
    text = speed(tmp_path)
    assert "| grid | 1,000 | 5–9× | – | 3× |" in text
    assert "of the 2 instances that PySDD finishes ours is faster on\n1, by" in text
    assert "1 more it does not finish" in text


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    figures(record(0.1), tmp_path)
    assert "svg" in (tmp_path / "peers.svg").read_text()[:400]


# ---- running ----


def test_a_small_run_of_every_method() -> None:
    settings = replace(Settings(), neighbours=(7,), widths=(10.0,), folds=2)
    for method in (OURS, *PEERS):
        found = one("iris", 15, method, 0, settings)
        assert 0.7 < found["accuracy"] <= 1, method  # chance is .33
        if method != OURS:
            assert found["accuracy"] == pytest.approx(found["tried"][found["chosen"]], abs=1e-4)
