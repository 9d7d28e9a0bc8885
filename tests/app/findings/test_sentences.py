"""Sentences say what the numbers say, and nothing that chance may have made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dssl import DSSLClassifier, LabelSpace
from dssl.app.findings.changed import Changed
from dssl.app.findings.comparison import CONSTANT, LABELS, MODEL, RULES, Way
from dssl.app.findings.sentences import against_what, how_good, notices, three_sentences, what_next
from dssl.app.measures import Calibration, Confusion, Frequency, Level
from dssl.app.summary import Summary, summarise


@pytest.fixture(scope="module")
def summary() -> Summary:
    """A small run, whose numbers the tests replace."""
    x = np.random.default_rng(0).normal(size=(60, 2))
    space = LabelSpace("a, b\na -> b")
    labels = np.stack([x[:, 0] > 0.5, x[:, 0] > 0], axis=1).astype(float)
    few = np.where(np.arange(60)[:, None] < 20, labels, np.nan)
    model = DSSLClassifier(space, steps=5, random_state=0).fit(x, few)
    return summarise(model, x, few, X_test=x, y_test=labels, settings={}, command="", data={}, seconds=1)


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


# ---- three sentences ----

WAYS = (
    Way(CONSTANT, 30, 100, 51, 1, 0.0),
    Way(LABELS, 76, 100, 10, 6, 1.0),
    Way(RULES, 78, 100, 5, 3, 1.0),
    Way(MODEL, 80, 100, 0, 0, 0.0),
)


def test_the_first_sentence_tells_how_good(summary: Summary) -> None:
    said = plain(how_good(replace(summary, right={"test": (80, 100)})))
    assert "right in every label on 80 of 100 rows that it had not seen, 80.0 %" in said
    assert "between 71 and 87 %" in said  # Wilson's interval
    assert "is not known" in how_good(replace(summary, right={"labelled": (9, 9)}))


def test_the_second_tells_what_is_clearly_worse_and_what_may_be_chance(summary: Summary) -> None:
    said = plain(against_what(replace(summary, right={"test": (80, 100)}, comparison=WAYS)))
    assert said.startswith("It is better than one label for all (30.0 %), and not clearly different from labels alone")
    assert "(76.0 %) and labels and rules (78.0 %)" in said
    assert "may be chance" in said
    better = (Way(RULES, 95, 100, 1, 16, 1.0), WAYS[-1])
    assert "worse than labels and rules (95.0 %)" in plain(against_what(replace(summary, comparison=better)))
    assert "were not tried" in against_what(replace(summary, right={"test": (80, 100)}, comparison=()))
    assert "nothing to compare" in against_what(replace(summary, right={}, comparison=()))


NEXT: list[tuple[dict[str, Any], str]] = [
    ({"right": {}}, "--test-share .2"),
    (
        {"right": {"test": (80, 100)}, "comparison": (Way(RULES, 95, 100, 1, 16, 1.0), WAYS[-1])},
        "labels and rules does",
    ),
    ({"right": {"test": (20, 29)}}, "29 are too few"),
    ({"right": {"test": (65, 100), "labelled": (40, 40)}}, "its 40 labelled rows by heart"),
    (
        {
            "right": {"test": (80, 100), "labelled": (40, 50)},
            "confusions": (Confusion("kind", ("x", "y", "z"), ((0, 0, 40), (1, 1, 40), (0, 2, 15), (1, 0, 5))),),
        },
        "taken for “z” and is “x” (15 of 20 mistakes)",
    ),
    ({"right": {"test": (99, 100), "labelled": (40, 40)}}, "use it"),
    ({"right": {"test": (80, 100), "labelled": (40, 50)}}, "begin with those under Label next."),
]


@pytest.mark.parametrize(("change", "said"), NEXT)
def test_the_third_tells_what_to_do_next(summary: Summary, change: dict[str, Any], said: str) -> None:
    calm = replace(summary, comparison=(), confusions=())
    assert said in what_next(replace(calm, **change))
    assert three_sentences(replace(calm, **change))[2] == what_next(replace(calm, **change))


# ---- what stands out ----


NOTICES: list[tuple[dict[str, Any], str]] = [
    ({"collapse": 0.3}, "only 30 % as varied as the labels"),
    ({"calibrations": (Calibration("test", "raw", (Level(10, 0.9, 0.5),), 0.4),)}, "more confident than they should"),
    ({"calibrations": (Calibration("test", "raw", (Level(10, 0.5, 0.9),), 0.4),)}, "less confident than they should"),
    ({"frequencies": (Frequency("x", "x", 0.5, 0.1),)}, "“x” is true in 50.0 % of the labels and predicted for 10.0 %"),
    ({"scored": "labelled"}, "There are no test rows"),
    (
        {"right": {"labelled": (196, 200), "test": (65, 100)}},
        "98.0 % of labelled rows are right, and 65.0 % of 100 test",
    ),
    (
        {"right": {"labelled": (20, 20), "test": (28, 29)}},
        "only 29 test rows: on others accuracy may well lie anywhere",
    ),
]


@pytest.mark.parametrize(("change", "said"), NOTICES)
def test_what_stands_out_is_said(summary: Summary, change: dict[str, Any], said: str) -> None:
    calm = replace(
        summary,
        collapse=1.0,
        calibrations=(),
        frequencies=(),
        scored="test",
        right={"test": (70, 80)},
        changed={},
        counts=replace(summary.counts, labelled=2000),
    )
    assert notices(calm) == []
    (found,) = notices(replace(calm, **change))
    assert said in found.replace("\xa0", " ")


def test_what_chance_makes_is_no_alarm(summary: Summary) -> None:
    """With 20 labels a difference of 15 points is none; with 2,000 it is."""
    calm = replace(
        summary,
        collapse=1.0,
        calibrations=(),
        scored="test",
        right={},
        changed={},
        frequencies=(Frequency("x", "x", 0.5, 0.35),),
    )
    few, many = (replace(calm, counts=replace(summary.counts, labelled=n, partly=0)) for n in (20, 2000))
    assert notices(few) == []
    assert len(notices(many)) == 1


def test_one_of_many_columns_stands_out_only_if_chance_would_hardly_do_it(summary: Summary) -> None:
    """Drawn from the same frequencies, 200 columns raise no alarm; one that really differs does."""
    random = np.random.default_rng(0)
    truth = random.uniform(0.1, 0.9, 200)
    drawn = random.binomial(40, truth) / 40
    same = tuple(Frequency(f"v{i}", f"v{i}", float(d), float(t)) for i, (d, t) in enumerate(zip(drawn, truth)))
    calm = replace(
        summary, collapse=1.0, calibrations=(), scored="test", right={}, changed={},
        counts=replace(summary.counts, labelled=40, partly=0), frequencies=same,
    )  # fmt: skip
    assert notices(calm) == []
    assert np.abs(drawn - truth).max() > 0.15
    assert len(notices(replace(calm, frequencies=(*same, Frequency("w", "w", 0.9, 0.1))))) == 1


def test_a_calibration_error_of_few_rows_is_no_alarm(summary: Summary) -> None:
    calm = replace(summary, collapse=1.0, frequencies=(), scored="test", right={}, changed={})
    few, many = (Calibration("test", "final", (Level(n, 0.7, 0.5),), 0.2) for n in (10, 1000))
    assert notices(replace(calm, calibrations=(few,))) == []
    assert len(notices(replace(calm, calibrations=(many,)))) == 1


def test_what_rules_changed_is_said_for_better_and_worse(summary: Summary) -> None:
    calm = replace(summary, collapse=1.0, calibrations=(), frequencies=(), scored="test", right={})
    (good,) = notices(replace(calm, changed={"test": Changed(100, 12, 100, 9, 2)}))
    (bad,) = notices(replace(calm, changed={"test": Changed(100, 12, 100, 2, 9)}))
    assert "changed the predictions of 12 of 100 test rows; 9 of them became right and 2 wrong." in good
    assert "second look" in bad
    assert "second look" not in good
