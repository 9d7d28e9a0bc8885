"""Digits read from sums."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from digit_sums import (
    ALL_DIGITS,
    DIGITS,
    NO_RULES,
    RISING,
    SUMS,
    Digit,
    Settings,
    decode,
    disjunctions,
    estimator,
    figures,
    gains,
    known_digits,
    known_sums,
    measures,
    methods,
    one,
    page,
    pairs,
    prior_of,
    sum_distribution,
    sum_rule,
)
from ledger import Case
from numpy.typing import NDArray
from torch import Tensor

SPREAD = [(0, 0), (3, 4), (9, 9), (5, 1), (0, 9)]


def logits(n: int, scale: float = 1.0) -> Tensor:
    """Random logits of digits, and none of sums, as the network gives them."""
    out = torch.randn(n, 2 * DIGITS + SUMS, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * scale
    out[:, 2 * DIGITS :] = 0
    return out


def theta(z: Tensor) -> Tensor:
    return z[:, : 2 * DIGITS].unflatten(1, (2, DIGITS)).softmax(-1)


# ---- data ----


def test_every_picture_is_in_one_pair() -> None:
    rows = pairs(np.zeros(101, dtype=np.int64), seed=1)
    assert rows.shape == (50, 2)
    assert sorted(rows.ravel()) == list(range(100))
    assert (pairs(np.zeros(101, dtype=np.int64), seed=2) != rows).any()


def test_of_a_pair_only_the_sum_is_told() -> None:
    y = known_sums(np.array(SPREAD))
    assert np.isnan(y[:, : 2 * DIGITS]).all()
    assert (y[:, 2 * DIGITS :].argmax(axis=1) == [0, 7, 18, 6, 9]).all()
    assert (y[:, 2 * DIGITS :].sum(axis=1) == 1).all()
    assert not len(sum_rule().check(y))


def test_told_digits_are_columns_of_the_space() -> None:
    y = known_digits(np.array([[3, 4]]))
    record = sum_rule().decode(sum_rule().complete(y))[0]
    assert record == {"digit[1]": 3, "digit[2]": 4, "total": 7}


# ---- what is maximised ----


def by_hand(method: str, p: Tensor, total: int) -> float:
    """What a method maximises of digits (2, 10), without the share 1/19 of the sum."""
    ways = [float(p[0, a] * p[1, total - a]) for a in range(DIGITS) if 0 <= total - a < DIGITS]
    if method == "semantic loss":
        return math.log(sum(ways))
    if method == "PL":
        return math.log(max(ways))
    if method == "t-norm":
        return math.log(1 - math.prod(1 - way for way in ways))
    power = float(method.split("=")[1])
    return math.log(sum(way**power for way in ways)) / power


@pytest.mark.parametrize("method", ["semantic loss", "DP, T = 2", "DP, T = 10", "PL", "t-norm"])
def test_priors_are_what_they_say(method: str) -> None:
    z = logits(len(SPREAD), 2.0)
    prior = prior_of(method, Settings())
    found = prior(z, torch.from_numpy(known_sums(np.array(SPREAD))).double())
    sure = 0.0 if method == "t-norm" else -math.log(SUMS)  # a t-norm takes what is known for certain
    wanted = [by_hand(method, p, a + b) + sure for p, (a, b) in zip(theta(z), SPREAD)]
    assert found.tolist() == pytest.approx(wanted, rel=1e-5)


def test_the_same_labels_are_valid_however_the_rule_is_written() -> None:
    assert sum_rule().count() == disjunctions().count() == 100


# ---- the network ----


def pictures(n: int, kind: type = np.uint8) -> NDArray[Any]:
    return np.random.default_rng(0).integers(0, 256, (n, 2, 28, 28)).astype(kind)


def test_both_pictures_are_read_alike_and_the_sum_of_none() -> None:
    settings = replace(Settings(), channels=(8, 8, 8), batch=4)
    x, digits = pictures(8), np.random.default_rng(1).integers(0, 10, (8, 2))
    model = estimator("semantic loss", 0, 2, settings).fit(x, known_sums(digits))
    assert model.elements_ is not None
    assert model.elements_.called == "digit"
    z, swapped = model._logits(x), model._logits(x[:, ::-1])
    assert z.shape == (8, 39)
    assert (z[:, 20:] == z[0, 20:]).all()
    torch.testing.assert_close(swapped[:, :10], z[:, 10:20])
    torch.testing.assert_close(swapped[:, 10:20], z[:, :10])


def test_pictures_are_moved_in_training_only() -> None:
    torch.manual_seed(0)
    network = Digit((8, 8, 8), shift=2)
    x = torch.randn(2, 1, 28, 28)
    assert any(not torch.equal(network(x), network(x)) for _ in range(3))
    network.eval()
    assert torch.equal(network(x), network(x))


@pytest.mark.parametrize("method", ["semantic loss", RISING])
def test_nothing_but_the_prior_is_maximised(method: str) -> None:
    """Of the parts of the loss only the prior depends on what is read, and only T rising has a ramp."""
    settings = replace(Settings(), channels=(8, 8, 8), batch=4)
    x, digits = pictures(8), np.random.default_rng(1).integers(0, 10, (8, 2))
    model = estimator(method, 0, 4, settings).fit(x, known_sums(digits))
    assert {name for name in model.history_[0] if name in ("prior", "balance", "consistency")} == {"prior"}
    assert model.prior_ is not None
    assert getattr(model.prior_, "power", 1.0) == (max(settings.powers) if method == RISING else 1.0)
    assert model.get_params()["objective"]["ramp"] == (settings.rising if method == RISING else 0.0)


# ---- measures ----


def test_sums_are_a_convolution() -> None:
    p = theta(logits(4))
    found = sum_distribution(p)
    for row in range(4):
        wanted = np.convolve(p[row, 0].numpy(), p[row, 1].numpy())
        np.testing.assert_allclose(found[row].numpy(), wanted, atol=1e-12)


def test_decoding_finds_the_best_pair_with_the_sum() -> None:
    z = logits(200, 3.0)
    total = np.random.default_rng(0).integers(0, SUMS, 200)
    found = decode(z.float(), total)
    for p, s, pair in zip(theta(z), total, found):
        ways = {(a, s - a): float(p[0, a] * p[1, s - a]) for a in range(DIGITS) if 0 <= s - a < DIGITS}
        assert tuple(pair) == max(ways, key=lambda way: ways[way])


def test_measures_by_hand() -> None:
    z = torch.zeros(2, 39)
    z[0, 3] = z[0, 10 + 4] = 20.0  # read 3 and 4: right
    z[1, 8] = z[1, 10 + 1] = 20.0  # read 8 and 1: 8 is right, 1 is 2
    z[1, 10 + 2] = 18.0
    found = measures(z, np.array([[3, 4], [8, 2]]))
    assert found["digits"] == 0.75
    assert found["sums"] == found["predicted_sums"] == 0.5
    assert found["decoded_digits"] == found["decoded_valid"] == 1.0
    sure = 1 / (1 + math.exp(-2))  # of the wrong 1, in the bin of .8; the others are all but certain, and right
    assert found["calibration"] == pytest.approx(sure / 4, abs=1e-6)


def test_two_wrong_digits_may_have_the_right_sum() -> None:
    z = torch.zeros(1, 39)
    z[0, 4] = z[0, 10 + 3] = 20.0
    found = measures(z, np.array([[3, 4]]))
    assert (found["digits"], found["sums"], found["decoded_digits"]) == (0.0, 1.0, 0.0)


# ---- the page ----


def record(exact: float, others: float) -> Case:
    runs = []
    for method in methods(Settings()):
        for seed in (0, 1):
            right = exact if method in ("semantic loss", NO_RULES, ALL_DIGITS) else others
            shares = {"digits": right, "sums": right - 0.01, "predicted_sums": right, "decoded_digits": right}
            rest = {"decoded_valid": 1.0, "calibration": 0.01, "cpu_seconds": 20.0, "seconds": 21.0}
            runs.append({"method": method, "seed": seed} | shares | rest)
    return {"settings": json.loads(json.dumps(asdict(Settings()))), "versions": {}, "seconds": 1.0, "runs": runs}


def test_the_page_says_whether_the_goal_is_met() -> None:
    good, bad = page(record(0.992, 0.5)), page(record(0.8, 0.999))
    assert "**met**: 99.20 % in 20 s on one" in good
    assert "No other method with rules does better." in good
    assert "t-norm (50.0 %)" in good
    assert "2 of 2" in good
    assert "ahead of 5 of 5" in good
    assert "**missed**: 80.00 %" in bad
    assert "t-norm is 19.90 ± 0.00 points above it." in bad
    assert "ahead of 0 of 5 of them." in page(record(0.9, 0.5))


def test_gains_are_paired_by_seed_and_noise_is_called_so() -> None:
    spread = record(0.98, 0.5)
    for run in spread["runs"]:
        run["digits"] += {"PL": (0.47, 0.52)}.get(run["method"], (0.0, 0.0))[run["seed"]]
    assert gains(spread["runs"], "PL").tolist() == pytest.approx([-0.01, 0.04])
    assert "PL is 1.50 ± 2.50 points above it, which is within noise." in page(spread)


def test_the_figure_is_drawn(tmp_path: Path) -> None:
    figures(record(0.99, 0.5), tmp_path)
    assert "svg" in (tmp_path / "digit_sums.svg").read_text()[:400]


# ---- running ----


@pytest.mark.parametrize("method", ["semantic loss", RISING, NO_RULES])
def test_a_short_run(method: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import digit_sums

    whole = digit_sums.load_mnist()
    fewer = [replace(part, x=part.x[:n], y=part.y[:n]) for part, n in ((whole.train, 2000), (whole.test, 400))]
    monkeypatch.setattr(digit_sums, "load_mnist", lambda: replace(whole, train=fewer[0], test=fewer[1]))
    settings = replace(Settings(), passes=2, batch=32, channels=(8, 16, 16), labelled_steps=40)
    found = one(method, 0, settings)
    assert found["decoded_valid"] == 1
    assert found["digits"] > {NO_RULES: 0.4, RISING: 0.15}.get(method, 0.2)  # chance is .1
