"""What can be measured of a model's predictions on some rows: rules broken, scores, calibration, doubt.

Everything returned is plain numbers in frozen dataclasses, as a report or a file can hold them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dssl.logic.formula import Table
from dssl.logic.labels import Columns, indices
from dssl.logic.space import LabelSpace
from dssl.priors import EntropyPrior, ExclusivityPrior, PseudoLabelPrior
from dssl.training.decoding import Decoder

Positions = NDArray[np.int64]
BINS = 40  # of a histogram
CLASSES = 50  # values of a variable, at most, for which whole confusion matrices are kept
_LEVELS = 10  # of confidence in a reliability diagram
_CELLS = 20_000_000  # numbers held at once while rules are checked
_SHOWN = 3  # variables, and values of each, that say what a row is unsure of
_SURE = 0.99  # probability from which there is no doubt worth a word
_NAMED = 8  # values of a label that are written out


@dataclass(frozen=True)
class Part:
    """Rows that are looked at together, "labelled", "unlabelled" or "test", and what is predicted for them."""

    name: str
    total: int  # rows there are; those looked at may be fewer
    rows: Positions
    known: Columns  # (rows, width): 1, 0, NaN
    logits: Tensor  # (rows, width)
    decoder: Decoder

    @property
    def space(self) -> LabelSpace:
        return self.decoder.space

    def __len__(self) -> int:
        return len(self.rows)

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
    """One a column, over the rows that know its variable; None where nothing is known or predicted."""
    known = indices(space, labels) >= 0
    predicted = unlabelled.final.mean(axis=0) if unlabelled is not None and len(unlabelled) else None
    out = []
    for v, (variable, span) in enumerate(zip(space.variables, space.spans)):
        for column, i in zip(variable.columns, range(*span)):
            share = _ratio(float(labels[known[:, v], i].sum()), int(known[:, v].sum()))
            out.append(Frequency(column, variable.name, share, None if predicted is None else float(predicted[i])))
    return tuple(out)


def complete(space: LabelSpace, columns: Columns) -> NDArray[np.bool_]:
    """Mask of the rows that know every variable."""
    return np.asarray((indices(space, columns) >= 0).all(axis=1))


# ---- rules ----


@dataclass(frozen=True)
class Broken:
    """Of `rows` rows, in how many the network's raw predictions and the final ones break a rule, or any of several."""

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
            str(rule.formula) if rule.probability is not None else rule.text,
            rule.line,
            rule.probability,
            {part.name: Broken(len(part), *(int(each[i]) for each, _ in counts[part.name])) for part in parts},
        )
        for i, rule in enumerate(space.rules)
    )
    return rules, {part.name: Broken(len(part), *(rows for _, rows in counts[part.name])) for part in parts}


def _breaks(space: LabelSpace, columns: Columns) -> tuple[Positions, int]:
    """How many rows of complete labels break each rule, soft ones too, and how many any hard rule."""
    each, rows = np.zeros(len(space.rules), dtype=np.int64), 0
    step = max(1, _CELLS // max(1, len(space.rules)))
    for start in range(0, len(columns), step):
        piece = columns[start : start + step]
        found = space.check(piece)
        each += found.broken.sum(axis=0)
        rows += len(found)
        if any(rule.probability is not None for rule in space.rules):
            each += _soft_breaks(space, piece)
    return each, rows


def _soft_breaks(space: LabelSpace, columns: Columns) -> Positions:
    """As `LabelSpace.check` counts, of the soft rules that it passes over."""
    positions = indices(space, columns)
    table = Table(
        {variable.name: positions[:, i] for i, variable in enumerate(space.variables)},
        {variable.name: variable.values for variable in space.variables},
        len(positions),
    )
    soft = [0 if rule.probability is None else int(rule.formula.kleene(table)[1].sum()) for rule in space.rules]
    return np.array(soft, dtype=np.int64)


# ---- θ (the paper's Fig. 5) ----


@dataclass(frozen=True)
class Histogram:
    """Counts of θ in `BINS` equal bins from 0 to 1.

    `kind` "choices": θ of each variable's most probable value; "attributes": θ of every binary variable. `true` counts
    the θ that the true values get, where they are known, as the paper's Fig. 5 does.
    """

    part: str
    kind: str
    counts: tuple[int, ...]
    true: tuple[int, ...] | None


def histograms(part: Part) -> tuple[Histogram, ...]:
    """One of the categorical and integer variables, one of the binary ones."""
    space, out = part.space, []
    truth = value_probabilities(space, part.theta, part.truth)
    for kind, binary in (("choices", False), ("attributes", True)):
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
    for i, (variable, (start, stop)) in enumerate(zip(space.variables, space.spans)):
        block = columns[:, start:stop].astype(np.float64)
        block = np.hstack([1 - block, block]) if variable.binary else block
        at = np.flatnonzero(positions[:, i] >= 0)
        out[at, i] = block[at, positions[at, i]]
    return out


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
    """How often a variable's value is right, of the rows that know it."""

    variable: str
    known: int
    accuracy: float | None


@dataclass(frozen=True)
class Confusion:
    """How often values of a variable are taken for each other: (true, predicted, count), by place in `values`."""

    variable: str
    values: tuple[str, ...]
    cells: tuple[tuple[int, int, int], ...]


def scores(part: Part) -> tuple[Score, ...]:
    """One a column: precision, recall and F1 of the final predictions."""
    space, out = part.space, []
    for i, (variable, span) in enumerate(zip(space.variables, space.spans)):
        known = part.truth[:, i] >= 0
        for column, at in zip(variable.columns, range(*span)):
            truth, found = part.known[known, at] == 1, part.final[known, at] == 1
            hits, support, given = int((truth & found).sum()), int(truth.sum()), int(found.sum())
            out.append(
                Score(
                    column,
                    variable.name,
                    support,
                    _ratio(hits, given),
                    _ratio(hits, support),
                    _ratio(2 * hits, support + given),
                )
            )
    return tuple(out)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def variable_scores(part: Part) -> tuple[VariableScore, ...]:
    """One a variable: the accuracy of the final predictions."""
    known = part.truth >= 0
    right = known & (part.final_values == part.truth)
    counts, hits = known.sum(axis=0).tolist(), right.sum(axis=0).tolist()
    return tuple(
        VariableScore(variable.name, n, _ratio(k, n)) for variable, n, k in zip(part.space.variables, counts, hits)
    )


def confusions(part: Part) -> tuple[Confusion, ...]:
    """One a variable that is not binary and is known in some row; of many values, only the mistakes."""
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


def right(part: Part) -> tuple[int, int]:
    """How many rows are right in all that is known of them, and of how many something is known."""
    known = ~np.isnan(part.known)
    rows = known.any(axis=1)
    hits = ((part.final == part.known) | ~known).all(axis=1)
    return int(hits[rows].sum()), int(rows.sum())


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
    stage: str  # "raw" or "final"
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
    """A variable that a row is unsure of, and its most probable values with their probabilities given the rules."""

    variable: str
    values: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Uncertain:
    """A row whose label is in doubt.

    `entropy` of p(y | V) in nats; `perplexity` its exponential: as unsure as among so many equally likely labels.
    `label` is the most probable valid one, `probability` its share.
    """

    row: int
    name: str | None
    entropy: float
    perplexity: float
    label: str
    probability: float
    doubts: tuple[Doubt, ...]


def uncertain(part: Part, most: int, first_row: int = 0, names: Sequence[str] | None = None) -> tuple[Uncertain, ...]:
    """The rows of highest entropy, alike ones once; rows are numbered from `first_row`."""
    entropy = label_entropy(part)
    chosen = _distinct(part.logits.numpy(), np.argsort(-entropy, kind="stable"), most)
    chance = label_probability(part, chosen)
    out = []
    for at, p in zip(chosen, chance.tolist()):
        row = int(part.rows[at])
        out.append(
            Uncertain(
                row + first_row,
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
    """H(y | V) of each row in nats, (rows,)."""
    prior = EntropyPrior(part.space, circuit=part.decoder.circuit)
    return np.maximum(0.0, -prior.log_prob(part.logits).double().numpy())


def label_probability(part: Part, rows: Sequence[int]) -> NDArray[np.float64]:
    """p(y | V) of the most probable valid label y, (rows,)."""
    logits = part.logits[list(rows)].double()
    circuit = part.decoder.circuit
    log_p = PseudoLabelPrior(part.space, circuit=circuit).log_prob(logits)
    if circuit is not None:
        log_p = log_p - ExclusivityPrior(part.space, circuit=circuit).log_prob(logits)
    return log_p.exp().clamp(0, 1).numpy()


def _distinct(logits: NDArray[Any], order: Positions, most: int) -> list[int]:
    """The first of `order` whose predictions differ: to label equal rows twice is to label in vain."""
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
    """A label in a line: the values of variables that have some, and the attributes that hold."""
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
    for variable, (start, stop) in zip(space.variables, space.spans):
        p = marginals[start:stop].astype(np.float64)
        p = np.array([1 - p[0], p[0]]) if variable.binary else p
        positive = p[p > 0]
        found.append((float(-(positive * np.log(positive)).sum()), variable, p))
    for _, variable, p in sorted(found, key=lambda item: -item[0])[:_SHOWN]:
        if p.max() < _SURE:
            names = ("no", "yes") if variable.binary else variable.values
            likely = [k for k in np.argsort(-p)[:_SHOWN] if p[k] > 1 - _SURE]
            yield Doubt(variable.name, tuple((str(names[k]), float(p[k])) for k in likely))
