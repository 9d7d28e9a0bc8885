"""Priors and consistency together: what is compared, and how it is told."""

from __future__ import annotations

from dataclasses import asdict, replace

import combination
import numpy as np
import pytest
from combination import Settings, Task


def test_every_prior_every_term_and_every_sum_is_compared() -> None:
    settings = Settings()
    names = list(combination.variants(settings.tasks["digits"], settings))
    assert names[:5] == ["supervised", *settings.priors]
    terms = names[5 : 5 + (len(names) - 5) // 2]
    assert set(terms) == set(combination.TERMS)
    assert names[5 + len(terms) :] == [f"deterministic + {term}" for term in terms]
    few = Task(1, 1, 1, ("vat",), None, only=("supervised", "deterministic + vat"))
    assert list(combination.variants(few, settings)) == ["supervised", "deterministic + vat"]


def test_a_split_shows_as_many_labels_as_it_says() -> None:
    x, y, x_test, truth = combination.split("wine", Task(15, 60, 1, (), None), 3)
    assert (len(x), len(x_test), (y >= 0).sum()) == (118, 60, 15)
    assert set(y) == {-1, 0, 1, 2}
    assert len(np.unique(np.concatenate([x, x_test]), axis=0)) == 178  # no row is in both
    assert (truth >= 0).all()


def test_a_run_gives_a_score() -> None:
    settings = replace(Settings(), tasks={"wine": Task(15, 60, 60, ("vat",), "table")})
    found = combination.one("wine", "deterministic + vat", 0, settings)
    assert set(found) == {"score"}
    assert 0.6 < found["score"] <= 1


def test_gains_are_paired_by_seed() -> None:
    scores = {("a", 0): 0.5, ("a", 1): 0.9, ("b", 0): 0.4, ("b", 1): 0.7}
    runs = [{"set": "s", "variant": v, "seed": seed, "score": score} for (v, seed), score in scores.items()]
    found = combination.difference(runs, "s", "a", "b")
    assert found["gain"] == pytest.approx(0.15)
    assert found["gain_error"] == pytest.approx(0.05)


def test_the_page_says_what_is_met() -> None:
    settings = Settings()
    made = {"supervised": 0.8, "deterministic": 0.9, "vat": 0.93, "deterministic + vat": 0.96}
    runs = [
        {
            "set": name,
            "variant": variant,
            "seed": seed,
            "score": score + 0.001 * seed - 0.05 * (name == "wine" and "+" in variant),
        }
        for name in ("digits", "wine", "mnist, long")
        for variant, score in made.items()
        for seed in (0, 1)
    ]
    page = combination.page({"settings": asdict(settings), "runs": runs})
    assert "| deterministic + vat | 96.0 ± 0.1 | 91.0 ± 0.1 | 96.0 ± 0.1 |" in page
    assert "on every set: on 2 of 3, on 2 within a standard error" in page
    assert "digits with 20 labels at 95 % or above: met, 96.05 ± 0.05 % by deterministic + vat" in page
    assert "98.5 % or above: missed" in page
    assert "Of 3 sums, 2 are better than both of their parts by more than a standard error; 1 are worse" in page
