"""What can be measured about a model's predictions: rules broken, scores, calibration, doubt.

Everything returned is plain numbers in frozen dataclasses, as a report or a file can hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dssl.logic.labels import Columns, indices
from dssl.logic.language.formula import Assignments
from dssl.logic.language.parser import Rule
from dssl.logic.language.quoting import in_quotes
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace
from dssl.models.decoding import Decoder
from dssl.priors.mixture import Mixture
from dssl.priors.predictive import Predictive

Positions = NDArray[np.int64]
BINS = 40  # of a histogram
CLASSES = 50  # values of a variable, at most, for which whole confusion matrices are kept
_LEVELS = 10  # of confidence in a reliability diagram
_CELLS = 20_000_000  # numbers held at once while rules are checked
_SHOWN = 3  # variables, and values of each, that say what is in doubt about a row
_SURE = 0.99  # probability above which nothing is in doubt
_NAMED = 8  # values of a label, at most, that are written out


@dataclass(frozen=True)
class Part:
    """Rows that are looked at together, "labelled", "unlabelled" or "test", and what is predicted for them."""

    name: str
    total: int  # rows there are; those looked at may be fewer
    rows: Positions
    known: Columns  # (rows, width): 1, 0, NaN
    logits: Tensor  # (rows, width)
    decoder: Decoder
    missed: Positions | None = None  # (rows,): labels that the space does not have

    @property
    def space(self) -> LabelSpace:
        return self.decoder.space

    def __len__(self) -> int:
        return len(self.rows)

    def predictive(self) -> Predictive | Mixture:
        """p(y | x, V) of the rows, as the decoder has it."""
        return self.decoder.predictive(self.logits)

    @cached_property
    def theta(self) -> NDArray[np.float32]:
        return self.decoder.theta(self.logits)

    @cached_property
    def marginals(self) -> NDArray[np.float32]:
        return self.decoder.marginals(self.logits)

    @cached_property
    def raw(self) -> Columns:
        return self.decoder.raw(self.logits)

    @cached_property
    def final(self) -> Columns:
        return self.decoder.best(self.logits)

    @cached_property
    def truth(self) -> Positions:
        """The value index of each variable (rows, variables), −1 where it is not known."""
        return indices(self.space, self.known)

    @cached_property
    def raw_values(self) -> Positions:
        return indices(self.space, self.raw)

    @cached_property
    def final_values(self) -> Positions:
        return indices(self.space, self.final)


# ---- labels ----


@dataclass(frozen=True)
class Frequency:
    """How often a column is true: in the labels that are known, and in the predictions for unlabelled rows."""

    column: str
    variable: str  # the same, if it is binary
    labelled: float | None
    predicted: float | None


def frequencies(space: LabelSpace, labels: Columns, unlabelled: Part | None) -> tuple[Frequency, ...]:
    """One per column, over the rows where its variable is known; None where nothing is known or predicted."""
    known = indices(space, labels) >= 0
    predicted = unlabelled.final.mean(axis=0) if unlabelled is not None and len(unlabelled) else None
    out = []
    for v, (variable, span) in enumerate(zip(space.variables, space.spans)):
        for column, i in zip(variable.columns, range(*span)):
            share = _ratio(float(labels[known[:, v], i].sum()), int(known[:, v].sum()))
            out.append(Frequency(column, variable.name, share, None if predicted is None else float(predicted[i])))
    return tuple(out)


def complete(space: LabelSpace, columns: Columns) -> NDArray[np.bool_]:
    """Mask of the rows in which every variable is known."""
    return np.asarray((indices(space, columns) >= 0).all(axis=1))


# ---- rules ----


@dataclass(frozen=True)
class Broken:
    """Of `rows` rows, how many break a rule (or any rule): in the raw predictions, and in the final ones."""

    rows: int
    raw: int
    final: int


@dataclass(frozen=True)
class RuleBreaks:
    """A rule, and how often it is broken in each part. A soft rule has its probability, and may be broken."""

    text: str
    line: int | None
    probability: float | None
    broken: dict[str, Broken]


def broken_rules(space: LabelSpace, parts: Sequence[Part]) -> tuple[tuple[RuleBreaks, ...], dict[str, Broken]]:
    """Each rule with how often it is broken; and by part, how many rows break any hard rule."""
    if not space.rules:
        return (), {}
    counts = {part.name: [_breaks(space, columns) for columns in (part.raw, part.final)] for part in parts}
    rules = tuple(
        RuleBreaks(
            _rule_text(rule),
            rule.line,
            rule.probability,
            {part.name: Broken(len(part), *(int(each[i]) for each, _ in counts[part.name])) for part in parts},
        )
        for i, rule in enumerate(space.rules)
    )
    return rules, {part.name: Broken(len(part), *(rows for _, rows in counts[part.name])) for part in parts}


def _rule_text(rule: Rule) -> str:
    """A rule and what its author says of it; its probability has a place of its own."""
    if rule.probability is None:
        return rule.said
    return f"{in_quotes(rule.why)}: {rule.formula}" if rule.why else str(rule.formula)


def _breaks(space: LabelSpace, columns: Columns) -> tuple[Positions, int]:
    """How many rows of complete labels break each rule, soft ones too, and how many break any hard rule."""
    each, rows = np.zeros(len(space.rules), dtype=np.int64), 0
    hard = [rule.probability is None for rule in space.rules]
    step = max(1, _CELLS // max(1, len(space.rules)))
    for start in range(0, len(columns), step):
        found = rules_broken(space, indices(space, columns[start : start + step]))
        each += found.sum(axis=0)
        rows += int(found[:, hard].any(axis=1).sum())
    return each, rows


def rules_broken(space: LabelSpace, values: Positions) -> NDArray[np.bool_]:
    """Which rules, soft ones too, labels break (n, rules); a label is one value index per variable (n, variables)."""
    labels = Assignments(
        {variable.name: values[:, i] for i, variable in enumerate(space.variables)},
        {variable.name: variable.values for variable in space.variables},
        len(values),
    )
    return np.stack([rule.formula.kleene(labels)[1] for rule in space.rules], axis=1)


# ---- θ (the paper's Fig. 5) ----


@dataclass(frozen=True)
class Histogram:
    """Counts of θ in `BINS` equal bins from 0 to 1.

    `kind` "classes": θ of each variable's most probable value; "attributes": θ of every binary variable. `true` counts
    the θ that the true values get, where they are known, as the paper's Fig. 5 does.
    """

    part: str
    kind: str
    counts: tuple[int, ...]
    true: tuple[int, ...] | None


def histograms(part: Part) -> tuple[Histogram, ...]:
    """One for the categorical and integer variables, one for the binary ones."""
    space, out = part.space, []
    truth = value_probabilities(space, part.theta, part.truth)
    for kind, binary in (("classes", False), ("attributes", True)):
        chosen = [i for i, variable in enumerate(space.variables) if variable.binary == binary]
        if not chosen or not len(part):
            continue
        spans = [space.spans[i] for i in chosen]
        theta = np.concatenate([part.theta[:, start:stop].max(axis=1) for start, stop in spans])
        known = truth[:, chosen]
        known = known[~np.isnan(known)]
        out.append(Histogram(part.name, kind, _binned(theta), _binned(known) if len(known) else None))
    return tuple(out)


def _binned(theta: NDArray[Any]) -> tuple[int, ...]:
    return tuple(np.histogram(np.clip(theta, 0, 1), BINS, (0, 1))[0].tolist())


def value_probabilities(space: LabelSpace, columns: NDArray[Any], positions: Positions) -> NDArray[np.float64]:
    """What probabilities of columns (n, width) give to a value of each variable (n, variables); NaN for none (−1)."""
    out = np.full(positions.shape, np.nan)
    for i, (_, p) in enumerate(_by_value(space, columns)):
        at = np.flatnonzero(positions[:, i] >= 0)
        out[at, i] = p[at, positions[at, i]]
    return out


def _by_value(space: LabelSpace, columns: NDArray[Any]) -> Iterator[tuple[Variable, NDArray[np.float64]]]:
    """Each variable with the probabilities of its values (n, K), from those of columns (n, width)."""
    for variable, (start, stop) in zip(space.variables, space.spans):
        block = columns[:, start:stop].astype(np.float64)
        yield variable, np.hstack([1 - block, block]) if variable.binary else block


# ---- scores ----


@dataclass(frozen=True)
class Score:
    """How well a column is found, where its variable is known; None where there is nothing to divide by."""

    column: str
    variable: str
    support: int
    precision: float | None
    recall: float | None
    f1: float | None


@dataclass(frozen=True)
class VariableScore:
    """How often a variable's value is right, among the rows where it is known."""

    variable: str
    known: int
    accuracy: float | None


@dataclass(frozen=True)
class Confusion:
    """How often values of a variable are confused: (true, predicted, count), by place in `values`."""

    variable: str
    values: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]


def scores(part: Part) -> tuple[Score, ...]:
    """One per column: precision, recall and F1 of the final predictions."""
    space, out = part.space, []
    for i, (variable, span) in enumerate(zip(space.variables, space.spans)):
        known = part.truth[:, i] >= 0
        for column, at in zip(variable.columns, range(*span)):
            truth, found = part.known[known, at] == 1, part.final[known, at] == 1
            hits, support, given = int((truth & found).sum()), int(truth.sum()), int(found.sum())
            precision, recall = _ratio(hits, given), _ratio(hits, support)
            f1 = _ratio(2 * hits, support + given)
            out.append(Score(column, variable.name, support, precision, recall, f1))
    return tuple(out)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def variable_scores(part: Part) -> tuple[VariableScore, ...]:
    """One per variable: the accuracy of the final predictions."""
    known = part.truth >= 0
    right = known & (part.final_values == part.truth)
    counts, hits = known.sum(axis=0).tolist(), right.sum(axis=0).tolist()
    return tuple(
        VariableScore(variable.name, n, _ratio(k, n)) for variable, n, k in zip(part.space.variables, counts, hits)
    )


def confusions(part: Part) -> tuple[Confusion, ...]:
    """One per variable that is not binary and is known in some row; of many values, only the mistakes."""
    out = []
    found = part.final_values
    for i, variable in enumerate(part.space.variables):
        known = part.truth[:, i] >= 0
        if variable.binary or not known.any():
            continue
        pairs, counts = np.unique(np.stack([part.truth[known, i], found[known, i]]), axis=1, return_counts=True)
        cells = [(t, p, n) for (t, p), n in zip(pairs.T.tolist(), counts.tolist())]
        if len(variable.values) > CLASSES:
            cells = sorted((cell for cell in cells if cell[0] != cell[1]), key=lambda cell: -cell[2])[:100]
        out.append(Confusion(variable.name, tuple(map(str, variable.values)), tuple(cells)))
    return tuple(out)


def row_hits(part: Part) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Masks of the rows that are predicted right in everything known about them, and of those with something known."""
    known = ~np.isnan(part.known)
    hits = ((part.final == part.known) | ~known).all(axis=1)
    if part.missed is not None:
        hits &= part.missed == 0
    return hits, np.asarray(known.any(axis=1))


def right(part: Part) -> tuple[int, int]:
    """How many rows are predicted right in everything known about them, and how many have something known."""
    hits, rows = row_hits(part)
    return int(hits[rows].sum()), int(rows.sum())


def overall_f1(part: Part) -> float | None:
    """F1 of all columns taken together, over what is known, if all variables are yes or no and there are several."""
    if len(part.space.variables) < 2 or not all(variable.binary for variable in part.space.variables):
        return None
    known = ~np.isnan(part.known)
    said, true = (part.final == 1) & known, (part.known == 1)
    missed = 0 if part.missed is None else int(part.missed.sum())
    return _ratio(2 * float((said & true).sum()), float(said.sum() + true.sum() + missed))


def interval(hits: int, of: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share (Wilson 1927)."""
    z = 1.959964
    share, spread = hits / of, z * z / of
    middle = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * ((share * (1 - share) + spread / 4) / of) ** 0.5
    return max(0.0, middle - half), min(1.0, middle + half)


# ---- calibration ----


@dataclass(frozen=True)
class Level:
    """Predictions of similar confidence: how many, how confident and how often right on average."""

    count: int
    confidence: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """Confidence against truth, of the network's raw predictions or of the final ones, on a part.

    `error` is the expected calibration error Σ (n_b / n) |right_b − confidence_b| (Guo et al. 2017).
    """

    part: str
    stage: str  # "raw" or "final"; "before" they were calibrated
    levels: tuple[Level, ...]
    error: float


def calibrations(part: Part) -> tuple[Calibration, ...]:
    """Of the raw predictions under θ, and of the final ones under the marginals given the rules, if there are any."""
    out = []
    known = part.truth >= 0
    for stage in ("raw", "final") if part.space.rules else ("raw",):
        found = part.raw_values if stage == "raw" else part.final_values
        probabilities = part.theta if stage == "raw" else part.marginals
        confidence = value_probabilities(part.space, probabilities, found)[known]
        if len(confidence):
            out.append(_calibration(part.name, stage, confidence, (found == part.truth)[known]))
    return tuple(out)


def _calibration(part: str, stage: str, confidence: NDArray[Any], hits: NDArray[np.bool_]) -> Calibration:
    place = np.minimum((confidence * _LEVELS).astype(int), _LEVELS - 1)
    levels = []
    for level in range(_LEVELS):
        here = place == level
        if here.any():
            levels.append(Level(int(here.sum()), float(confidence[here].mean()), float(hits[here].mean())))
    error = sum(level.count * abs(level.right - level.confidence) for level in levels) / len(confidence)
    return Calibration(part, stage, tuple(levels), float(error))


# ---- doubt ----


@dataclass(frozen=True)
class Doubt:
    """A variable in doubt, and its most probable values with their probabilities given the rules."""

    variable: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Uncertain:
    """A row whose label is in doubt.

    `entropy` of p(y | V) in nats; `perplexity` its exponential, the effective number of labels: that many equally
    likely ones leave the same doubt. `label` is the most probable valid one, `probability` its probability.
    """

    row: int
    name: str | None
    entropy: float
    perplexity: float
    label: str
    probability: float
    doubts: tuple[Doubt, ...]


def uncertain(part: Part, most: int, names: Sequence[str] | None = None) -> tuple[Uncertain, ...]:
    """The rows of highest entropy, those with equal predictions once; rows are counted from 0."""
    entropy = label_entropy(part)
    chosen = _distinct(part.logits.numpy(), np.argsort(-entropy, kind="stable"), most)
    chance = label_probability(part, chosen)
    out = []
    for at, p in zip(chosen, chance.tolist()):
        row = int(part.rows[at])
        out.append(
            Uncertain(
                row,
                None if names is None else str(names[row]),
                float(entropy[at]),
                float(np.exp(min(entropy[at], 700.0))),
                label_text(part.space, part.final[at]),
                p,
                tuple(_doubts(part.space, part.marginals[at])),
            )
        )
    return tuple(out)


def label_entropy(part: Part) -> NDArray[np.float64]:
    """H(y | V) of each row in nats, (rows,); of a mixture, the most it can be."""
    p = part.predictive()
    entropy = p.entropy_bounds()[1] if isinstance(p, Mixture) else p.entropy()
    return entropy.double().clamp_min(0).numpy()


def label_probability(part: Part, rows: Sequence[int]) -> NDArray[np.float64]:
    """p(y | V) of the most probable valid label y, (rows,)."""
    some = replace(part, logits=part.logits[list(rows)].double())
    return some.predictive().best()[1].exp().clamp(0, 1).numpy()


def _distinct(logits: NDArray[Any], order: Positions, most: int) -> list[int]:
    """The first of `order` whose predictions differ: a second label for an equal row would add nothing."""
    seen: set[bytes] = set()
    out: list[int] = []
    for at in order.tolist():
        if len(out) == most:
            break
        key = logits[at].tobytes()
        if key not in seen:
            seen.add(key)
            out.append(at)
    return out


def label_text(space: LabelSpace, columns: Columns) -> str:
    """A label on one line: the values of its variables, and the attributes that hold."""
    said = []
    for variable, value in zip(space.variables, space.decode(columns[None], "values")[0]):
        if not variable.binary:
            said.append(str(value) if len(space.variables) == 1 else f"{variable.name}={value}")
        elif value:
            said.append(variable.name)
    more = len(said) - _NAMED
    return ", ".join(said[:_NAMED]) + (f", and {more} more" if more > 0 else "") if said else "none"


def _doubts(space: LabelSpace, marginals: NDArray[Any]) -> Iterator[Doubt]:
    """The variables of highest marginal entropy, with their likeliest values."""
    found = []
    for variable, (p,) in _by_value(space, marginals[None]):
        positive = p[p > 0]
        found.append((float(-(positive * np.log(positive)).sum()), variable, p))
    for _, variable, p in sorted(found, key=lambda item: -item[0])[:_SHOWN]:
        if p.max() < _SURE:
            names = ("no", "yes") if variable.binary else variable.values
            likely = [k for k in np.argsort(-p)[:_SHOWN] if p[k] > 1 - _SURE]
            yield Doubt(variable.name, tuple((str(names[k]), float(p[k])) for k in likely))
