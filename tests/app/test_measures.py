"""Every measure against a slow twin: a loop over rows, an enumeration of labels, or scikit-learn and scipy."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn.metrics import confusion_matrix, f1_score, precision_recall_fscore_support

import oracle
from dssl import LabelSpace
from dssl.app import measures
from dssl.app.measures import Part
from dssl.logic.labels import indices
from dssl.models.decoding import Decoder
from dssl.priors.mixture import Mixture

RULES = """\
species: {cat, trout, eagle}
legs, fins, wings
species = trout -> fins
legs -> !fins
species = eagle -> wings & legs
0.8 :: wings -> legs
"""
SPACE = LabelSpace(RULES)
FREE = LabelSpace("kind: {a, b, c, d}\ntall, wide")


def part(space: LabelSpace, seed: int, rows: int = 40, scale: float = 2.0, known: float = 0.7) -> Part:
    """Random logits, and for some rows random labels, parts of them unknown."""
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(0, scale, (rows, space.width)).astype(np.float32))
    decoder = Decoder(space)
    truth = decoder.best(random.normal(0, 2, (rows, space.width)))
    for start, stop in space.spans:
        truth[random.random(rows) > known, start:stop] = np.nan
    return Part("test", rows, np.arange(rows), truth, logits, decoder)


def records(p: Part, columns: Any) -> list[dict[str, Any]]:
    return p.space.decode(columns)


# ---- rules ----


@given(seed=st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_broken_rules_are_those_that_a_record_breaks(seed: int) -> None:
    p = part(SPACE, seed)
    rules, total = measures.broken_rules(SPACE, [p])
    for i, rule in enumerate(SPACE.rules):
        for stage in ("raw", "final"):
            broken = sum(not oracle.holds(rule.formula, record) for record in records(p, getattr(p, stage)))
            assert getattr(rules[i].broken["test"], stage) == broken
            assert rule.probability is not None or stage == "raw" or broken == 0
    hard = [rule.formula for rule in SPACE.rules if rule.probability is None]
    some = sum(any(not oracle.holds(f, record) for f in hard) for record in records(p, p.raw))
    assert total == {"test": measures.Broken(len(p), some, 0)}


def test_broken_rules_agree_with_the_check_of_a_space_and_come_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    p = part(SPACE, 1, rows=100)
    whole = measures.broken_rules(SPACE, [p])
    monkeypatch.setattr(measures, "_CELLS", 30)
    assert measures.broken_rules(SPACE, [p]) == whole
    assert whole[1]["test"].raw == len(p.decoder.violations(p.logits)) > 0
    assert [rule.probability for rule in whole[0]] == [None, None, None, 0.8]
    assert whole[0][3].text == "wings -> legs"


def test_soft_rules_keep_their_remark_and_have_their_probability_apart() -> None:
    space = LabelSpace('a, b\n"seen so": 0.9 :: a -> b\n0.8 :: b\n"always": a | b')
    rules, _ = measures.broken_rules(space, [part(space, 1, rows=3)])
    assert [rule.text for rule in rules] == ['"seen so": a -> b', "b", '"always": a | b']
    assert [rule.probability for rule in rules] == [0.9, 0.8, None]


def test_no_rules_no_breaks() -> None:
    assert measures.broken_rules(FREE, [part(FREE, 0)]) == ((), {})


# ---- labels ----


def test_frequencies_are_means_of_what_is_known() -> None:
    p, q = part(SPACE, 3), part(SPACE, 4)
    found = measures.frequencies(SPACE, p.known, q)
    for i, (column, f) in enumerate(zip(SPACE.columns, found)):
        known = [v for v in p.known[:, i].tolist() if v == v]
        assert f.column == column
        assert f.variable == column.split("=")[0]
        assert f.labelled == pytest.approx(sum(known) / len(known))
        assert f.predicted == pytest.approx(sum(q.final[:, i].tolist()) / len(q))
    nothing = measures.frequencies(SPACE, np.full((2, SPACE.width), np.nan, dtype=np.float32), None)
    assert all(f.labelled is None and f.predicted is None for f in nothing)


def test_values_that_are_only_excluded_do_not_count() -> None:
    y = np.full((3, FREE.width), np.nan, dtype=np.float32)
    y[0, :4] = [1, 0, 0, 0]
    y[1, 0] = 0  # not a: b, c or d
    found = measures.frequencies(FREE, y, None)
    assert [f.labelled for f in found] == [1, 0, 0, 0, None, None]


def test_complete_rows_know_every_variable() -> None:
    y = SPACE.encode([{"species": "cat", "legs": 1, "fins": 0, "wings": 0}, {"species": "cat"}, {"legs": None}])
    assert measures.complete(SPACE, y).tolist() == [True, False, False]


# ---- θ ----


@pytest.mark.parametrize("space", [SPACE, FREE])
def test_histograms_count_theta(space: LabelSpace) -> None:
    p = part(space, 5)
    classes, attributes = measures.histograms(p)
    theta, truth = p.theta, records(p, p.known)
    values: dict[str, list[float]] = {"classes": [], "attributes": []}
    true: dict[str, list[float]] = {"classes": [], "attributes": []}
    for row in range(len(p)):
        for variable, (start, stop) in zip(space.variables, space.spans):
            kind, value = "attributes" if variable.binary else "classes", truth[row][variable.name]
            values[kind].append(max(theta[row, start:stop]))
            if value is not None and variable.binary:
                true[kind].append(theta[row, start] if value else 1 - theta[row, start])
            elif value is not None:
                true[kind].append(theta[row, start + variable.values.index(value)])
    for h in (classes, attributes):
        assert h.counts == _bins(values[h.kind])
        assert h.true == _bins(true[h.kind])
        assert sum(h.counts) == len(values[h.kind])


def _bins(theta: list[float]) -> tuple[int, ...]:
    found = Counter(min(int(float(t) * measures.BINS), measures.BINS - 1) for t in theta)
    return tuple(found[i] for i in range(measures.BINS))


def test_histograms_without_labels_have_no_outline() -> None:
    p = part(FREE, 0, known=0.0)
    assert [h.true for h in measures.histograms(p)] == [None, None]


# ---- scores ----


@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_scores_are_scikit_learns(seed: int) -> None:
    p = part(SPACE, seed)
    for score, i in zip(measures.scores(p), range(SPACE.width)):
        known = ~np.isnan(p.known[:, i])
        precision, recall, f1, _ = precision_recall_fscore_support(
            p.known[known, i] == 1, p.final[known, i] == 1, average="binary", zero_division=np.nan
        )
        for ours, theirs in zip((score.precision, score.recall, score.f1), (precision, recall, f1)):
            assert ours == pytest.approx(theirs) if ours is not None else math.isnan(theirs)
        assert score.support == (p.known[known, i] == 1).sum()
        assert score.column == SPACE.columns[i]


def test_variable_scores_and_right_rows_are_counted_row_by_row() -> None:
    p = part(SPACE, 8)
    truth, found = records(p, p.known), records(p, p.final)
    for v in measures.variable_scores(p):
        pairs = [(t[v.variable], f[v.variable]) for t, f in zip(truth, found) if t[v.variable] is not None]
        assert (v.known, v.accuracy) == (len(pairs), sum(t == f for t, f in pairs) / len(pairs))
    some = [(t, f) for t, f in zip(truth, found) if any(v is not None for v in t.values())]
    hits = sum(all(v is None or f[name] == v for name, v in t.items()) for t, f in some)
    assert measures.right(p) == (hits, len(some))


def test_confusions_are_scikit_learns_and_of_many_values_the_mistakes() -> None:
    p = part(FREE, 9)
    (c,) = measures.confusions(p)
    known = p.truth[:, 0] >= 0
    theirs = confusion_matrix(p.truth[known, 0], indices(FREE, p.final)[known, 0], labels=range(4))
    ours = np.zeros((4, 4), dtype=int)
    for t, f, n in c.cells:
        ours[t, f] = n
    np.testing.assert_array_equal(ours, theirs)
    assert (c.variable, c.values) == ("kind", ("a", "b", "c", "d"))
    wide = LabelSpace.classes([f"c{i}" for i in range(measures.CLASSES + 1)])
    (many,) = measures.confusions(part(wide, 0, rows=300))
    assert 0 < len(many.cells) <= 100
    assert all(t != f for t, f, _ in many.cells)
    assert measures.confusions(part(FREE, 0, known=0.0)) == ()


@given(of=st.integers(1, 3000), share=st.floats(0, 1))
@settings(max_examples=50, deadline=None)
def test_the_interval_is_wilsons(of: int, share: float) -> None:
    hits = round(share * of)
    low, high = binomtest(hits, of).proportion_ci(method="wilson")
    assert measures.interval(hits, of) == pytest.approx((low, high), abs=1e-6)


# ---- calibration ----


@pytest.mark.parametrize("space", [SPACE, FREE])
def test_calibration_is_the_mean_gap_of_ten_levels(space: LabelSpace) -> None:
    p = part(space, 11, rows=200)
    found = measures.calibrations(p)
    assert [c.stage for c in found] == (["raw", "final"] if space.rules else ["raw"])
    for c in found:
        columns, chance = (p.raw, p.theta) if c.stage == "raw" else (p.final, p.marginals)
        bins: dict[int, list[tuple[float, bool]]] = {}
        for row, (truth, given_) in enumerate(zip(records(p, p.known), records(p, columns))):
            for variable, (start, _) in zip(space.variables, space.spans):
                name, value = variable.name, given_[variable.name]
                if truth[name] is not None:
                    place = 0 if variable.binary else variable.values.index(value)
                    q = float(chance[row, start + place])
                    q = 1 - q if variable.binary and not value else q
                    bins.setdefault(min(int(q * 10), 9), []).append((q, value == truth[name]))
        n = sum(map(len, bins.values()))
        error = sum(abs(sum(q for q, _ in b) - sum(hit for _, hit in b)) for b in bins.values()) / n
        assert c.error == pytest.approx(error)
        assert [level.count for level in c.levels] == [len(bins[k]) for k in sorted(bins)]


def test_sure_and_right_is_calibrated() -> None:
    y = FREE.encode([{"kind": "b", "tall": True, "wide": False}] * 5)
    p = Part("test", 5, np.arange(5), y, torch.from_numpy((y - 0.5) * 2e4), Decoder(FREE))
    (c,) = measures.calibrations(p)
    assert c.error == pytest.approx(0, abs=1e-6)
    assert c.levels == (measures.Level(15, 1.0, 1.0),)


# ---- doubt ----


@pytest.mark.parametrize("space", [LabelSpace(RULES.rsplit("0.8", 1)[0]), FREE])
def test_doubt_is_the_entropy_over_all_valid_labels(space: LabelSpace) -> None:
    p = part(space, 13, rows=30)
    rows = oracle.valid_columns(space.constraints)
    entropies, chances = [], []
    for logits in p.logits.tolist():
        pos, neg = oracle.log_literals(space.variables, logits)
        entropies.append(oracle.entropy(rows, pos, neg))
        chances.append(max(oracle.probabilities(rows, pos, neg)))
    found = measures.uncertain(p, 10, names=[f"r{i}" for i in range(30)])
    order = sorted(range(30), key=lambda i: -entropies[i])[:10]
    assert [u.row for u in found] == list(order)
    for u, i in zip(found, order):
        assert u.name == f"r{i}"
        assert u.entropy == pytest.approx(entropies[i], abs=1e-4)
        assert u.perplexity == pytest.approx(math.exp(entropies[i]), rel=1e-3)
        assert u.probability == pytest.approx(chances[i], abs=1e-4)


def test_doubts_name_the_least_sure_variables_and_their_values() -> None:
    logits = torch.tensor([[9.0, 0.0, 0.0, 0.0, 0.1, 9.0]])
    p = Part("unlabelled", 1, np.arange(1), np.full((1, 6), np.nan, dtype=np.float32), logits, Decoder(FREE))
    (u,) = measures.uncertain(p, 5)
    assert u.label == "kind=a, tall, wide"
    assert [d.variable for d in u.doubts] == ["tall"]
    assert [value for value, _ in u.doubts[0].values] == ["yes", "no"]
    assert u.doubts[0].values[0][1] == pytest.approx(1 / (1 + math.exp(-0.1)), abs=1e-5)


def test_equal_rows_are_listed_once() -> None:
    logits = torch.zeros(6, FREE.width)
    logits[3:] = 1.0
    p = Part("unlabelled", 6, np.arange(6), np.full((6, 6), np.nan, dtype=np.float32), logits, Decoder(FREE))
    assert [u.row for u in measures.uncertain(p, 5)] == [0, 3]


def test_labels_are_written_in_a_line() -> None:
    space = LabelSpace.attributes([f"a{i}" for i in range(12)])
    assert measures.label_text(space, np.ones(12, dtype=np.float32)) == "a0, a1, a2, a3, a4, a5, a6, a7, and 4 more"
    assert measures.label_text(space, np.zeros(12, dtype=np.float32)) == "none"
    assert measures.label_text(LabelSpace.classes(["x", "y"]), np.array([0, 1], dtype=np.float32)) == "y"


@pytest.mark.parametrize("space", [SPACE, FREE])
def test_all_is_finite_at_huge_logits(space: LabelSpace) -> None:
    p = part(space, 17, scale=1e4)
    numbers = [u.entropy for u in measures.uncertain(p, 40)] + [u.probability for u in measures.uncertain(p, 40)]
    numbers += [c.error for c in measures.calibrations(p)]
    assert all(math.isfinite(v) and v >= 0 for v in numbers)
    assert all(sum(h.counts) for h in measures.histograms(p))


def test_the_doubt_of_a_mixture_is_between_its_bounds_and_its_rows_are_measured() -> None:
    space = SPACE
    alone = part(space, 0)
    z = torch.cat([alone.logits, -alone.logits, torch.zeros(len(alone), 2)], 1)
    both = replace(alone, logits=z, decoder=Decoder(space, components=2))
    low, high = Mixture(z, space).entropy_bounds()
    assert measures.label_entropy(both).tolist() == pytest.approx(high.tolist(), abs=1e-5)
    assert bool((low <= high).all())
    assert len(measures.uncertain(both, 5)) == 5
    assert both.theta.shape == both.final.shape == alone.final.shape


@pytest.mark.parametrize("seed", range(3))
def test_the_f1_of_all_labels_is_scikit_learns_and_missed_labels_count(seed: int) -> None:
    p = part(LabelSpace("a, b, c\na -> b"), seed, known=1.0)
    assert measures.overall_f1(p) == pytest.approx(f1_score(p.known, p.final, average="micro"))
    missed = np.zeros(len(p), np.int64)
    missed[:3] = 2
    beyond = np.zeros((len(p), 2))
    beyond[:3] = 1
    truth, said = np.hstack([p.known, beyond]), np.hstack([p.final, 0 * beyond])
    more = replace(p, missed=missed)
    assert measures.overall_f1(more) == pytest.approx(f1_score(truth, said, average="micro"))
    assert measures.right(more) == (int((truth == said).all(axis=1).sum()), len(p))
    assert measures.overall_f1(part(SPACE, seed)) is None
