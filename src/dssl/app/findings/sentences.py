"""What a run amounts to, in sentences: how good it is, against what, what to do next, and what stands out."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

from dssl.app.charts import percent, shortened
from dssl.app.findings.comparison import MODEL, Way
from dssl.app.measures import Frequency, interval

if TYPE_CHECKING:
    from dssl.app.summary import Summary

THIN = 50  # test rows below which they are few
_COLLAPSED, _UNCALIBRATED = 0.5, 0.1  # from which a notice is given
_OFTEN = 0.1  # difference of frequencies that a notice is given for, if chance would not make it
_CHANCE = 2.0  # standard errors that chance makes
_ALARM = 0.05  # probability that chance alone makes any column stand out
_BY_HEART = 0.1  # how far test rows may lie below labelled ones
_GOOD = 0.95  # accuracy from which a model can be used as it is
_SHARE = 0.25  # of all mistakes, from which one kind of them is worth a sentence


# ---- three sentences ----


def three_sentences(summary: Summary) -> tuple[str, str, str]:
    """How good the model is, against what, and what to do next."""
    return how_good(summary), against_what(summary), what_next(summary)


def how_good(summary: Summary) -> str:
    """Accuracy on rows that the model has not seen, with what the number of rows leaves open."""
    hits, of = summary.right.get("test", (0, 0))
    if not of:
        return "How good the model is on new rows is not known: no labelled rows were kept for a test."
    low, high = (round(100 * share) for share in interval(hits, of))
    whole = " in every label" if len(summary.variable_scores) > 1 else ""
    return (
        f"The model is right{whole} on {hits:,} of {of:,} rows that it had not seen, {percent(hits / of)}; on others "
        f"like these, expect between {low} and {high} %."
    )


def against_what(summary: Summary) -> str:
    """The same rows by simpler means: which are worse, which are as good, which are better."""
    others = [way for way in summary.comparison if way.name != MODEL]
    if not others:
        tested = summary.right.get("test", (0, 0))[1]
        why = "simpler ways were not tried beside it" if tested else "there is nothing to compare it on"
        return f"Whether it is better than simpler ways is not known: {why}."
    hits = next(way.right for way in summary.comparison if way.name == MODEL)
    kinds = {
        "better than": [w for w in others if w.differs and w.right < hits],
        "worse than": [w for w in others if w.differs and w.right > hits],
        "not clearly different from": [w for w in others if not w.differs],
    }
    said = [f"{kind} {_listed(ways)}" for kind, ways in kinds.items() if ways]
    doubt = (
        f" (on {others[0].of:,} rows such a difference may be chance)" if kinds["not clearly different from"] else ""
    )
    return f"It is {', and '.join(said)}{doubt}."


def _listed(ways: Sequence[Way]) -> str:
    said = [f"{way.name} ({percent(way.share)})" for way in ways]
    return said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"


def what_next(summary: Summary) -> str:
    """The one thing that is most likely to help."""
    (hits, of), (known, labelled) = (summary.right.get(part, (0, 0)) for part in ("test", "labelled"))
    if not of:
        return "Next, keep some labelled rows for a test: fit again with --test-share .2, or with --test and a file."
    worse = [w for w in summary.comparison if w.name != MODEL and w.differs and w.right > hits]
    if worse:
        return f"Next, find out why {worse[0].name} does better: look at the rows below that only the model gets wrong."
    if of < THIN:
        return (
            f"Next, label more rows and keep them for a test: {of:,} are too few to tell a good model from a lucky one."
        )
    more = (
        "Next, label more rows, and begin with those under Label next" if summary.uncertain else "Next, label more rows"
    )
    if labelled and known / labelled - hits / of > _BY_HEART:
        return f"{more}: it knows its {labelled:,} labelled rows by heart, and gets too few of the others right."
    frequent = _frequent_mistake(summary)
    if frequent is not None:
        return frequent
    return "Next, use it; a few more labels will change little." if hits / of >= _GOOD else f"{more}."


def _frequent_mistake(summary: Summary) -> str | None:
    """A kind of mistake that makes up much of all of them, and what helps against it."""
    kinds = [(n, c, t, p) for c in summary.confusions for t, p, n in c.cells if t != p]
    if not kinds:
        return None
    n, c, t, p = max(kinds, key=lambda kind: kind[0])
    wrong = sum(kind[0] for kind in kinds if kind[1] is c)
    if n < max(5, _SHARE * wrong) or len(c.values) < 3:
        return None
    return (
        f"Next, look at what is taken for “{shortened(c.values[p], 60)}” and is “{shortened(c.values[t], 60)}” "
        f"({n:,} of {wrong:,} mistakes): label more rows of both, or write down a rule that tells them apart."
    )


# ---- what stands out ----


def notices(summary: Summary) -> list[str]:
    """What stands out, in sentences, each with what to do about it."""
    return [
        *_broken_notices(summary),
        *_test_notices(summary),
        *_rules_notices(summary),
        *_confidence_notices(summary),
        *_frequency_notices(summary),
    ]


def _broken_notices(summary: Summary) -> Iterator[str]:
    for part, found in summary.broken.items():
        if found.final:
            yield (
                f"{found.final:,} final predictions on {part} rows break a rule. "
                "This should never happen: please report it."
            )
    if summary.collapse is not None and summary.collapse < _COLLAPSED:
        yield (
            f"Predictions on unlabelled rows are only {100 * summary.collapse:.0f} % as varied as the labels. Lower "
            "the prior's weight, raise balance or ramp, or label more rows."
        )


def _test_notices(summary: Summary) -> Iterator[str]:
    """What the number of test rows, and their distance from the labelled ones, says about accuracy."""
    (hits, of), (known, labelled) = (summary.right.get(part, (0, 0)) for part in ("test", "labelled"))
    if summary.scored == "labelled":
        yield "There are no test rows: scores and calibration were measured on the rows that the model was trained on."
    if not of:
        return
    low, high = interval(hits, of)
    if labelled and known / labelled - high > _BY_HEART:
        yield (
            f"{percent(known / labelled)} of labelled rows are right, and {percent(hits / of)} of "
            f"{of:,} test rows: the model knows its labels by heart. Trust the test rows; more labels will help most."
        )
    if of < THIN:
        yield (
            f"There are only {of:,} test rows: on others accuracy may well lie anywhere from {100 * low:.0f} to "
            f"{100 * high:.0f} %. Hold more rows out before you compare models."
        )


def _rules_notices(summary: Summary) -> Iterator[str]:
    """What the rules changed, with and without labels to say whether it was for the better."""
    found = summary.changed.get("test")
    if found is None or not found.changed:
        return
    fate = f"{found.better:,} of them became right and {found.worse:,} wrong"
    yield f"The rules changed the predictions of {found.changed:,} of {found.rows:,} test rows; {fate}." + (
        " Rules that make more rows wrong than right are worth a second look." if found.worse > found.better else ""
    )


def _confidence_notices(summary: Summary) -> Iterator[str]:
    last = summary.calibrations[-1] if summary.calibrations else None
    if last is None or last.part != "test" or last.error <= max(_UNCALIBRATED, _by_levels(last.levels)):
        return
    sure = "more" if excess(last.levels) > 0 else "less"
    yield (
        f"Probabilities are {sure} confident than they should be (calibration error {percent(last.error)}): "
        "trust the order of predictions rather than their probabilities."
    )


def _by_levels(levels: Sequence[Any]) -> float:
    """A calibration error that so few predictions make by themselves."""
    n = sum(level.count for level in levels)
    spread = (math.sqrt(level.count * level.confidence * (1 - level.confidence)) for level in levels)
    return _CHANCE * math.sqrt(2 / math.pi) * sum(spread) / max(1, n)


def excess(levels: Sequence[Any]) -> float:
    """Predictions by which confidence exceeds what is right; negative if it falls short."""
    return float(sum(level.count * (level.confidence - level.right) for level in levels))


def _frequency_notices(summary: Summary) -> Iterator[str]:
    ordered = by_difference(summary.frequencies)
    apart = [f for f in ordered if difference(f) > max(_OFTEN, _by_chance(f, summary))]
    if not apart:
        return
    f = apart[0]
    others = len(apart) - 1
    more = f" ({others} other gap{'s' * (others > 1)} above 10 points)" if others else ""
    yield (
        f"“{shortened(f.column, 80)}” is true in {percent(f.labelled or 0)} of the labels and "
        f"predicted for {percent(f.predicted or 0)} of the unlabelled rows{more}. Either the labels are not "
        "typical, or the model is biased."
    )


def _by_chance(f: Frequency, summary: Summary) -> float:
    """A difference that the draw of so many labelled rows makes by itself."""
    spread = max(p * (1 - p) for p in (f.labelled or 0.0, f.predicted or 0.0))
    errors = NormalDist().inv_cdf(1 - _ALARM / 2 / len(summary.frequencies))  # one of many columns stands out sooner
    return errors * math.sqrt(spread / max(1, summary.counts.labelled + summary.counts.partly))


def difference(f: Frequency) -> float:
    """How far labels and predictions are apart; −1 where one of them is not known."""
    return -1.0 if f.labelled is None or f.predicted is None else abs(f.labelled - f.predicted)


def by_difference(frequencies: Sequence[Frequency]) -> list[Frequency]:
    """Those furthest apart first."""
    return sorted(frequencies, key=difference, reverse=True)
