"""Table 2: what is run, how λ is chosen, and what the page makes of numbers."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import table2
from ledger import KEPT, load
from protocol import METHODS, Task
from table2 import FULL, Settings, case, choice_cases, chosen_weight, in_table, lines, measured_cases, page, paired

SETTINGS = Settings(
    seeds=2,
    tasks={"mnist": Task(100, 500), "digits": Task(50, 500, "mlp", "")},
    powers={"digits": (1.0, 2.0, 50.0)},
    forms=("log q / T", "q"),
)
STORED: dict[str, Any] = json.loads(json.dumps(asdict(SETTINGS)))


def record(accuracy: dict[str, float], *, swept: float = 0.0) -> dict[str, Any]:
    """A record in which λ = .3 is best; `swept` is lost at T = 50."""
    found = [each | {"accuracy": 0.9 if each["weight"] == "0.3" else 0.8} for each in choice_cases(SETTINGS)]
    for each in measured_cases(SETTINGS, list(SETTINGS.tasks), 0.3):
        lost = swept * (1 + each["seed"] / 10) if each["power"] == "50" else 0.0
        found.append(each | {"accuracy": accuracy[each["method"]] + each["seed"] / 100 - lost})
    runs = [run | {"varied": 1.0, "seconds": 2.0} for run in found]
    return {"settings": STORED, "runs": runs, "seconds": 2.0 * len(runs), "versions": {}}


GOOD = {"fully supervised": 0.98, "DP": 0.95, "E": 0.94, "X": 0.93, "PL": 0.92, "supervised": 0.9}


def test_every_case_is_run_once_and_λ_is_chosen_on_other_seeds() -> None:
    settings = Settings()
    measured = measured_cases(settings, list(settings.tasks), 0.3)
    assert len({json.dumps(each) for each in measured}) == len(measured)
    assert not {each["seed"] for each in measured} & {each["seed"] for each in choice_cases(settings)}
    assert {each["method"] for each in measured} == set(METHODS)
    powers = {each["power"] for each in measured if each["data"] == "digits" and each["maximised"] == "q"}
    assert powers == {"0.5", "1", "1.5", "2", "5", "10", "50"}
    assert {each["weight"] for each in measured if each["method"] == "supervised"} == {"0"}


def test_the_full_version_is_the_papers() -> None:
    assert FULL.seeds == 10
    assert {name: task.labels for name, task in FULL.tasks.items()} == {"mnist": 100, "svhn": 1000, "cifar10": 4000}
    assert {(task.steps, task.network) for task in FULL.tasks.values()} == {(500_000, "wrn-28-2")}
    assert choice_cases(FULL) == []
    assert chosen_weight([], FULL.weights) == 1.0


def test_λ_has_the_best_mean_and_of_equals_is_the_smallest() -> None:
    runs = record(GOOD)["runs"]
    assert chosen_weight(runs, SETTINGS.weights) == 0.3
    even = [run | {"accuracy": 0.5} for run in runs]
    assert chosen_weight(even, SETTINGS.weights) == 0.1


def test_only_the_usual_form_is_in_the_table() -> None:
    def usual(**other: Any) -> bool:
        return in_table(case("test", "mnist", "DP", 10.0, "log q / T", 0.3, 0) | other, STORED)

    assert usual()
    assert not usual(power="2")
    assert not usual(maximised="q")
    assert not usual(part="choice")
    assert in_table(case("test", "mnist", "E", 10.0, "log q / T", 0.3, 0), STORED)


def test_differences_are_paired_by_seed() -> None:
    ones = [{"seed": 0, "accuracy": 0.9}, {"seed": 1, "accuracy": 0.6}, {"seed": 2, "accuracy": 0.1}]
    others = [{"seed": 1, "accuracy": 0.5}, {"seed": 0, "accuracy": 0.7}]
    assert paired(ones, others) == pytest.approx((0.15, 0.05))  # .2 and .1: deviation .1/√2, by √2
    assert table2.within_noise((-0.1, 0.05))
    assert not table2.within_noise((-0.11, 0.05))


def test_the_sweep_compares_powers_above_one() -> None:
    first, second = lines(record(GOOD, swept=0.2)["runs"], STORED)
    assert (first.maximised, second.maximised) == ("log q / T", "q")
    assert list(first.rows) == [1.0, 2.0, 10.0, 50.0]
    assert (first.worst, first.gap) == (50.0, pytest.approx((-0.21, 0.01)))
    assert not first.flat
    assert all(line.flat for line in lines(record(GOOD)["runs"], STORED))


def test_the_page_says_which_goals_are_met() -> None:
    met = page(record(GOOD))
    assert "| deterministic prior, DP | 95.5 ± 0.5 | 95.5 ± 0.5 | 97.1 ± 0.2 |" in met
    assert "| deterministic prior, DP | +5.0 ± 0.0 | +5.0 ± 0.0 |" in met
    assert "**Goals on MNIST:** every semi-supervised row above supervised: met; " in met
    assert "of the best: met (it is the best)." in met
    assert "DP lies between" not in met
    assert "λ = 0.3 for every prior and set" in met
    assert "the claim holds within noise in 2 of 2 cases." in met
    missed = page(record(GOOD | {"PL": 0.89, "DP": 0.93}, swept=0.2))
    assert "missed (PL not above it); DP within two standard errors of the best: missed (DP less E" in missed
    assert "paired by seed: -1.0 ± 0.0 points); DP lies between PL, its limit for large T, and E" in missed
    assert "digits, q: T matters (-21.0 ± 1.0 points from T = 2 to T = 50)" in missed
    assert "the claim holds within noise in 0 of 2 cases." in missed
    assert "on digits maximises log q / T with T = 2: -1.0 ± 0.0 points against E, the table's best prior" in missed


def test_the_figure_is_the_same_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table2, "PICTURES", tmp_path)
    drawn = []
    for _ in range(2):
        table2.figures(record(GOOD))
        drawn.append((tmp_path / "table2_power.svg").read_bytes())
    assert drawn[0] == drawn[1]


def test_a_short_run_learns_and_is_repeatable() -> None:
    settings = replace(Settings(), tasks={"digits": Task(50, 60, "mlp", "", held=300)})
    each = case("test", "digits", "DP", 10.0, "log q / T", 0.3, 0)
    runs = [table2.one(**each, settings=settings) for _ in range(2)]
    assert runs[0]["accuracy"] == runs[1]["accuracy"] > 0.5
    chosen = table2.one(**(each | {"part": "choice"}), settings=settings)
    assert chosen["accuracy"] * 300 == pytest.approx(round(chosen["accuracy"] * 300), abs=2e-3)  # of 300 held-out rows


def test_what_is_stored_is_what_the_script_runs() -> None:
    stored, settings = load("table2", KEPT), Settings()
    assert stored["settings"] == json.loads(json.dumps(asdict(settings)))
    weight = chosen_weight(stored["runs"], settings.weights)
    wanted = choice_cases(settings) + measured_cases(settings, list(settings.tasks), weight)
    assert [{name: run[name] for name in wanted[0]} for run in stored["runs"]] == wanted
