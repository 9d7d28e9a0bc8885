"""Labels that break rules are refused, kept, dropped or repaired, with rows and rules named."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from dssl import DataError, LabelSpace
from dssl.data.mending import LabelWarning, mend, nearest
from training.rule_sets import RULE_SETS

SPACE = LabelSpace("legs, fins, wings\nlegs -> !fins\nlegs -> !wings")
LABELS = np.array([[1, 0, 0], [1, 1, 0], [1, np.nan, 1], [np.nan] * 3], dtype=np.float32)
REPORT = r"2 of 4 rows break the rules\n  line 2: legs -> !fins\n    1 row: 1\n  line 3: legs -> !wings\n    1 row: 2"


def test_valid_labels_pass() -> None:
    assert mend(SPACE, LABELS[:1], "error") is not None
    assert mend(LabelSpace("a, b"), LABELS[:, :2], "error").shape == (4, 2)


def test_error_names_rows_and_rules() -> None:
    with pytest.raises(DataError, match=REPORT + r"\n.*on_violation"):
        mend(SPACE, LABELS, "error")


def test_warn_keeps_complete_labels() -> None:
    with pytest.warns(LabelWarning, match=REPORT):
        out = mend(SPACE, LABELS, "warn")
    assert out[1].tolist() == [1, 1, 0]
    assert np.isnan(out[2]).all()


def test_drop_makes_rows_unlabelled() -> None:
    with pytest.warns(LabelWarning, match="count as unlabelled"):
        out = mend(SPACE, LABELS, "drop")
    assert np.isnan(out).all(axis=1).tolist() == [False, True, True, True]
    assert not np.isnan(LABELS[1]).any()  # the caller's are untouched


def test_repair_gives_the_nearest_valid_label() -> None:
    with pytest.warns(LabelWarning, match="fewest known entries"):
        out = mend(SPACE, LABELS, "repair")
    assert out[0].tolist() == [1, 0, 0]
    assert not SPACE.check(out)
    assert np.isnan(out[2]).tolist() == [False, True, False]


@pytest.mark.parametrize("text", RULE_SETS.values(), ids=RULE_SETS)
def test_repair_changes_as_few_variables_as_can_be(text: str) -> None:
    space = LabelSpace(text)
    random = np.random.default_rng(0)
    picks = [[random.choice(v.values) for v in space.variables] for _ in range(12)]
    y = space.encode([dict(zip([v.name for v in space.variables], pick)) for pick in picks])
    valid = space.encode(list(space.valid()))
    out = nearest(space, y)

    def distance(a: np.ndarray, b: np.ndarray) -> int:
        return sum(bool((a[start:stop] != b[start:stop]).any()) for start, stop in space.spans)

    for given, mended in zip(y, out):
        assert distance(given, mended) == min(distance(given, label) for label in valid)
        assert any((mended == label).all() for label in valid)


def test_every_way_gives_labels_without_conflict_or_says_so() -> None:
    for row in itertools.product((0, 1), repeat=3):
        y = np.array([row], dtype=np.float32)
        if SPACE.check(y):
            with pytest.warns(LabelWarning):
                assert not SPACE.check(mend(SPACE, y, "repair"))
