"""Simpler ways are what they say they are, and differences are counted row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.base import clone

from dssl import DSSLClassifier, LabelSpace
from dssl.app.findings.comparison import CONSTANT, LABELS, MODEL, RULES, Way, _constant, compare, sign_test
from dssl.app.measures import Part


@given(one=st.integers(0, 60), other=st.integers(0, 60))
def test_the_sign_test_is_scipys(one: int, other: int) -> None:
    expected = binomtest(one, one + other).pvalue if one + other else 1.0
    assert sign_test(one, other) == pytest.approx(expected)
    assert Way("x", 5, 9, one, other, 0.0).differs == (expected < 0.05)


def case(rules: str) -> tuple[DSSLClassifier, np.ndarray, np.ndarray, np.ndarray, Part]:
    random = np.random.default_rng(0)
    x = random.normal(size=(240, 3))
    space = LabelSpace(f"a, b, c\n{rules}")
    labels = np.stack([x[:, 0] > 0.8, x[:, 0] > 0, x[:, 1] > 0], axis=1).astype(np.float32)
    few = labels[:140].copy()
    few[24:] = np.nan
    few[20:24, 2] = np.nan  # known in part
    model = DSSLClassifier(space, steps=40, random_state=0).fit(x[:140], few)
    part = Part("test", 100, np.arange(100), labels[140:], model._logits(x[140:]), model.decoder_)
    return model, x, few, labels, part


def test_each_way_is_counted_row_by_row() -> None:
    model, x, few, labels, part = case("a -> b")
    found = {way.name: way for way in compare(model, clone(model), x[:140], few, x[140:], part)}
    assert list(found) == [CONSTANT, LABELS, RULES, MODEL]
    free = DSSLClassifier(LabelSpace("a, b, c"), prior=None, consistency=None, steps=40, random_state=0)
    ruled = DSSLClassifier(model.space_, prior=None, consistency=None, steps=40, random_state=0)
    frequent = max(few[:20].tolist(), key=few[:20].tolist().count)
    predicted = {
        CONSTANT: np.array([frequent] * 100),
        LABELS: np.asarray(free.fit(x[:24], few[:24]).predict(x[140:])),
        RULES: np.asarray(ruled.fit(x[:24], few[:24]).predict(x[140:])),
        MODEL: np.asarray(model.predict(x[140:])),
    }
    hits = {name: (columns == labels[140:]).all(axis=1) for name, columns in predicted.items()}
    for name, way in found.items():
        assert (way.right, way.of) == (hits[name].sum(), 100)
        assert way.gained == (hits[MODEL] & ~hits[name]).sum()
        assert way.lost == (~hits[MODEL] & hits[name]).sum()
    assert found[LABELS].seconds > 0


def test_without_rules_or_test_labels_there_is_less_to_compare() -> None:
    model, x, few, _, part = case("")
    assert [way.name for way in compare(model, clone(model), x[:140], few, x[140:], part)] == [CONSTANT, LABELS, MODEL]
    unknown = Part("test", 100, part.rows, np.full_like(part.known, np.nan), part.logits, part.decoder)
    assert compare(model, clone(model), x[:140], few, x[140:], unknown) == ()


def test_a_constant_is_found_where_no_label_is_known_in_full() -> None:
    model, *_ = case("a -> b")
    nan = np.nan
    assert _constant(np.array([[1, nan, nan], [1, nan, nan], [nan, 0, nan], [nan, nan, 0]]), model)[0, 2] == 0
    valid = _constant(np.array([[1, nan, nan], [1, nan, nan], [nan, 0, nan]]), model)[0]
    assert not (valid[0] == 1 and valid[1] == 0)  # it obeys the rules
