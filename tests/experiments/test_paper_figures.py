"""Figures 3 to 6: the numbers behind them against closed forms, and what the page makes of them."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import paper_figures
import pytest
import table2
from ledger import KEPT, load
from paper_figures import Settings, cases, corners, gaussian, histograms, page, slopes
from protocol import ALL, PRIORS, SUPERVISED, Task

SMALL = Settings(seeds=1, data="digits", task=Task(50, 30, "mlp", ""), draws=20_000)


@pytest.mark.parametrize(
    ("method", "q", "slope"),
    [
        ("E", lambda t: t**t * (1 - t) ** (1 - t), lambda t: t**t * (1 - t) ** (1 - t) * math.log(t / (1 - t))),
        ("X", lambda t: t**2 + (1 - t) ** 2, lambda t: 4 * t - 2),
        ("PL", lambda t: t, lambda t: 1.0),
        ("DP", lambda t: t**10 + (1 - t) ** 10, lambda t: 10 * t**9 - 10 * (1 - t) ** 9),
    ],
)
def test_slopes_of_table_1(method: str, q: Any, slope: Any) -> None:
    got = slopes(method, 0, Settings())
    at = Settings().slopes_at
    np.testing.assert_allclose(got["slope_q"], [slope(t) for t in at], rtol=1e-6)
    np.testing.assert_allclose(got["slope_log_q"], [slope(t) / q(t) for t in at], rtol=1e-6)


def test_two_gaussians_are_those_of_math() -> None:
    got = gaussian("close", 0, Settings())
    assert got["formula"][0] * 20 == pytest.approx(6.85, abs=0.005)  # MATH §6
    assert sum(got["formula"]) == pytest.approx(1)
    np.testing.assert_allclose(got["drawn"], got["formula"], atol=4 * 0.5 / 200_000**0.5)


def test_the_rule_leaves_three_of_four_labels() -> None:
    got = corners("DP", 0, Settings())
    assert dict(zip(map(tuple, got["labels"]), got["q"])) == {(0, 0): 1, (0, 1): 1, (1, 0): 1, (1, 1): 0}
    assert got["middle"] == pytest.approx(3 * 0.25**10)


def test_histograms_count_every_row() -> None:
    got = histograms("DP", 0, SMALL)
    assert {name: sum(counts) for name, counts in got["counts"].items()} == {
        "labelled": 50,
        "unlabelled": 1797 - 500 - 50,
        "test": 500,
    }
    for name, counts in got["counts"].items():  # twenty bins: the first and the last are below .05 and above .95
        assert got[f"between_{name}"] == pytest.approx(sum(counts[1:-1]) / sum(counts), abs=1e-4)
    assert got["accuracy_test"] > 0.5


def record(between: dict[str, float], accuracy: dict[str, float]) -> dict[str, Any]:
    runs = []
    for case in cases(SMALL):
        method = case["method"]
        if case["figure"] != "5":
            shown = paper_figures.one(**case, settings=SMALL)
        else:
            counts = {name: [1] * 20 for name in paper_figures.SPLITS}
            shown = {"counts": counts}
            for name in paper_figures.SPLITS:
                shown |= {f"between_{name}": between[method], f"accuracy_{name}": accuracy[method]}
        runs.append(case | shown | {"seconds": 0.0})
    return {"settings": json.loads(json.dumps(asdict(SMALL))), "runs": runs, "seconds": 0.0, "versions": {}}


BETWEEN = {SUPERVISED: 0.3, "DP": 0.1, "E": 0.15, "X": 0.2, "PL": 0.12}
ACCURACY = {SUPERVISED: 0.8, "DP": 0.9, "E": 0.88, "X": 0.85, "PL": 0.89}


def test_the_page_says_what_the_record_says() -> None:
    text = page(record(BETWEEN, ACCURACY))
    assert "every prior makes fewer of them than supervised" in text
    assert "(DP, PL, E, X, supervised) follows the order" in text
    assert "falls with θ for DP and PL, and rises for E and X." in text
    assert "the 3 valid labels it leaves (none; fins; legs)" in text
    assert "as close as draws can be" in text
    assert "| minimum entropy, E | 15.0 ± 0.0 | 88.0 ± 0.0 |" in text
    other = record(BETWEEN | {"X": 0.35}, ACCURACY)
    other["runs"][4]["drawn"][3] += 0.1
    text = page(other)
    assert "of the priors DP, E, PL make fewer" in text
    assert "does not follow" in text
    assert "further apart than draws explain" in text


def test_figures_are_drawn_without_a_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paper_figures, "PICTURES", tmp_path)
    paper_figures.figures(record(BETWEEN, ACCURACY))
    drawn = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert sorted(drawn) == [f"figure{number}.svg" for number in (3, 4, 5, 6)]
    assert not any("<dc:date>" in text for text in drawn.values())


def test_what_is_stored_is_what_the_script_runs() -> None:
    stored, settings = load("paper_figures", KEPT), Settings()
    assert stored["settings"] == json.loads(json.dumps(asdict(settings)))
    assert [{name: run[name] for name in cases(settings)[0]} for run in stored["runs"]] == cases(settings)


def test_figure_5_is_of_the_networks_of_table_2() -> None:
    table, settings = table2.Settings(), Settings()
    assert (settings.task, settings.protocol, settings.power) == (table.tasks["mnist"], table.protocol, table.power)
    assert settings.prior_weight == table2.chosen_weight(load("table2", KEPT)["runs"], table.weights)
    same = {
        (run["method"], run["seed"]): run["accuracy_test"]
        for run in load("paper_figures", KEPT)["runs"]
        if run["figure"] == "5"
    }
    record = load("table2", KEPT)
    for run in record["runs"]:
        if run["data"] == "mnist" and table2.in_table(run, record["settings"]) and run["method"] != ALL:
            assert same[run["method"], run["seed"]] == run["accuracy"]
    assert {case["method"] for case in cases(replace(settings, seeds=1)) if case["figure"] == "5"} == {
        SUPERVISED,
        *PRIORS,
    }
