"""Labels say whether features share one scale."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dssl import DSSLClassifier
from dssl.data.features import Standardiser
from dssl.models.auto.judging import left_out_errors
from dssl.models.auto.scales import judge_scales


def clouds(n: int = 60, noise: float = 1.0) -> tuple[NDArray[Any], NDArray[Any]]:
    """Two classes apart along three features; `noise` is the spread of forty others."""
    random = np.random.default_rng(0)
    kind = np.arange(n) % 2
    x = random.normal(size=(n, 43)) * np.r_[np.ones(3), np.full(40, noise)]
    x[:, :3] += 8.0 * kind[:, None]
    return x, np.eye(2)[kind]


def judged(x: Any, y: Any, **options: Any) -> tuple[Standardiser, tuple[str, str] | None]:
    return judge_scales(x, y, np.ones(len(y)), Standardiser.fit(x, **options))


def test_spreads_that_tell_are_kept() -> None:
    scaled, said = judged(*clouds())
    assert len(np.unique(scaled.scale)) == 1
    assert said is not None
    assert said[0] == "one for all"
    assert "% of the variance of left-out labels" in said[1]


def test_a_feature_in_other_units_does_not_drown_the_rest() -> None:
    scaled, said = judged(*clouds(noise=1000.0))
    assert len(np.unique(scaled.scale)) > 1
    assert said is not None
    assert said[0] == "one each"


def test_a_feature_far_wider_than_most_has_a_unit_of_its_own_whatever_labels_say() -> None:
    x, y = clouds()
    x[:, 0] *= 1000.0  # which tells the classes apart, alone
    scaled, said = judged(x, y)
    assert said is None
    np.testing.assert_allclose(scaled.scale, x.std(0))


def test_where_spreads_are_alike_or_labels_few_nothing_is_asked() -> None:
    x, y = clouds()
    alike = (x[:, 3:] - x[:, 3:].mean(0)) / x[:, 3:].std(0)
    assert judged(alike, y)[1] is None
    assert judged(x, np.where(np.arange(60)[:, None] < 7, y, np.nan))[1] is None
    assert judged(x, np.tile([1.0, 0.0], (60, 1)))[1] is None
    assert judge_scales(x.reshape(60, 1, 43), y, np.ones(60), Standardiser.fit(x, shared=False))[1] is None


def test_a_row_of_weight_two_counts_twice() -> None:
    x, y = clouds(30)
    twice = left_out_errors(x, y, np.full(30, 2.0))
    assert twice.weight.sum() == 60
    assert twice.share < 1


def test_the_figures_are_those_of_leaving_each_row_out() -> None:
    """Its slow twin: ridge regression without the row, for the best of its own similarities."""
    random = np.random.default_rng(1)
    x = random.normal(size=(12, 2))
    y = np.eye(2)[(x[:, 0] > 0).astype(int)]
    found = left_out_errors(x, y, np.ones(12))
    apart = ((x[:, None] - x) ** 2).sum(-1)
    scale = np.median(apart[np.triu_indices(12, 1)])
    similar = {"linear": x @ x.T / (x**2).sum(1).mean(), "wide": np.exp(-apart / scale),
               "narrow": np.exp(-4 * apart / scale), "laplace": np.exp(-np.sqrt(apart / scale))}  # fmt: skip
    truth = np.array([y[i] - np.delete(y, i, 0).mean(0) for i in range(12)])
    tried = []
    for between in similar.values():
        for ridge in (1e-3, 1e-2, 0.1, 1.0, 10.0):
            left = np.empty((12, 2))
            for i in range(12):
                others = np.delete(np.arange(12), i)
                inside = between[np.ix_(others, others)] + ridge * np.eye(11)
                left[i] = between[i, others] @ np.linalg.solve(inside, y[others] - y.mean(0))
            best = np.clip((left * truth).sum() / (left**2).sum(), 0, 8)
            tried.append(((truth - best * left) ** 2).sum(1))
    least = min(tried, key=np.sum) / (truth**2).sum(1).mean()
    np.testing.assert_allclose(found.errors, least, rtol=1e-4)


def test_a_plan_says_which_and_the_model_has_it() -> None:
    x, y = clouds()
    model = DSSLClassifier(steps=10, random_state=0).fit(x, y.argmax(1))
    assert len(np.unique(model.standardiser_.scale)) == 1
    assert next(d.value for d in model.plan_.decisions if d.what == "scales") == "one for all"
    told = DSSLClassifier(steps=10, settings={"standardise": False}, random_state=0).fit(x, y.argmax(1))
    assert "scales" not in {d.what for d in told.plan_.decisions}
    again = model.set_params(settings={"standardise": False}).fit(x, y.argmax(1))
    assert "scales" not in {d.what for d in again.plan_.decisions}
