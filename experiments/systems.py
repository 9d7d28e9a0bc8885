"""What is compared on the cases of `cases.py`: constants, scikit-learn's classifiers, DSSLClassifier; and scores.

Every system answers with columns (n, width) of the case's label space: its labels, and its probabilities. One that
knows nothing of rules learns each variable by itself, from the rows in which that variable is known.
"""

from __future__ import annotations

import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import ACCURACY, AREA, EXACT, Case
from ledger import calibration_error
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC
from splits import Split

from dssl.logic.labels import indices
from dssl.logic.space import LabelSpace
from dssl.models.estimators import DSSLClassifier

CONSTANT, LOGISTIC, SUPERVISED, FREE, DEFAULT = "constant", "logistic", "supervised", "without rules", "default"
Columns = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class Task:
    """A case as columns: x, what is known of y (NaN where unknown), test rows, and the variables that count."""

    case: Case
    cut: Split
    space: LabelSpace  # with its rules
    known: Columns
    truth: Columns
    seed: int

    @classmethod
    def of(cls, case: Case, seed: int) -> Task:
        cut = case.make(seed)
        if cut.rules is not None:
            return cls(case, cut, cut.rules, cut.y_train, cut.y_test, seed)
        if cut.y_test.ndim == 2:
            space = LabelSpace.attributes([f"label{i}" for i in range(cut.y_test.shape[1])])
            return cls(case, cut, space, cut.y_train, cut.y_test, seed)
        space = LabelSpace.classes(range(int(max(cut.y_train.max(), cut.y_test.max())) + 1))
        one = np.eye(space.width)
        known = np.where(cut.y_train[:, None] < 0, np.nan, one[cut.y_train])
        return cls(case, cut, space, known, one[cut.y_test], seed)

    @property
    def counting(self) -> list[int]:
        """The places of the variables that count."""
        names = [variable.name for variable in self.space.variables]
        return [i for i, name in enumerate(names) if not self.case.targets or name in self.case.targets]

    @property
    def fingerprint(self) -> int:
        """Of labels shown and asked for: runs are paired only if they had the same."""
        return zlib.crc32(np.nan_to_num(np.vstack([self.known, self.truth]), nan=-1).astype(np.int8).tobytes())


@dataclass(frozen=True)
class Answer:
    """Labels and probabilities (n, width) of the test rows; probabilities are None where a system has none."""

    labels: Columns
    probabilities: Columns | None


# ---- scores ----


def scored(task: Task, answer: Answer) -> dict[str, Any]:
    """The case's measure, and how far the probabilities are from the shares that are right."""
    return {"score": round(score(task, answer), 5), "calibration": calibration(task, answer)}


def score(task: Task, answer: Answer) -> float:
    if task.case.metric == AREA:
        assert answer.probabilities is not None
        return float(average_precision_score(task.truth, answer.probabilities, average="micro"))
    right = indices(task.space, answer.labels) == indices(task.space, task.truth)  # (n, variables)
    if task.case.metric == EXACT:
        return float(right.all(axis=1).mean())
    return float(right[:, task.counting].mean())


def calibration(task: Task, answer: Answer) -> float | None:
    """Of the most probable value of each variable that counts, all together."""
    if answer.probabilities is None:
        return None
    confidence, right = [], []
    for i in task.counting:
        p, truth = (distribution(task.space, columns, i) for columns in (answer.probabilities, task.truth))
        confidence.append(p.max(axis=1))
        right.append(truth[np.arange(len(p)), p.argmax(axis=1)])
    return round(calibration_error(np.concatenate(confidence).clip(0, 1), np.concatenate(right)), 5)


def distribution(space: LabelSpace, columns: Columns, variable: int) -> Columns:
    """The probabilities (n, values) of a variable's values; those of a binary one are false and true."""
    start, stop = space.spans[variable]
    block = np.asarray(columns[:, start:stop], dtype=np.float64)
    return np.hstack([1 - block, block]) if space.variables[variable].binary else block


# ---- one variable after the other ----


def by_variable(task: Task, belief: Callable[[NDArray[np.int64], int], Columns]) -> Answer:
    """An answer from `belief(values, how many there are)`: the distribution (n, values) of one variable.

    `values` (rows,) are what is known of it, −1 where nothing is. Ties are broken by chance, row by row.
    """
    p = np.full(task.truth.shape, np.nan)
    labels = np.zeros(task.truth.shape)
    random = np.random.default_rng(task.seed)
    for i in task.counting if task.case.metric == ACCURACY else range(len(task.space.variables)):
        block = distribution(task.space, task.known, i)
        values = np.where(np.isnan(block).any(axis=1), -1, np.nan_to_num(block).argmax(axis=1))
        found = np.broadcast_to(belief(values, block.shape[1]), (len(p), block.shape[1]))
        start, stop = task.space.spans[i]
        binary = task.space.variables[i].binary
        p[:, start:stop] = found[:, 1:] if binary else found
        best = (found + 1e-9 * random.random(found.shape)).argmax(axis=1)
        labels[:, start:stop] = best[:, None] if binary else np.eye(stop - start)[best]
    return Answer(labels, p)


def constant(task: Task) -> Answer:
    """Values as frequent as in the labels; where the whole label counts, the most frequent one."""
    answer = by_variable(task, _frequencies)
    whole = task.known[~np.isnan(task.known).any(axis=1)]
    if task.case.metric != EXACT or not len(whole):
        return answer
    rows, counts = np.unique(whole, axis=0, return_counts=True)
    tied = np.flatnonzero(counts == counts.max())
    drawn = np.random.default_rng(task.seed).choice(tied, len(task.truth))
    return Answer(rows[drawn], answer.probabilities)


def _frequencies(values: NDArray[np.int64], count: int) -> Columns:
    seen = values[values >= 0]
    return np.full((1, count), 1 / count) if not len(seen) else np.bincount(seen, minlength=count)[None] / len(seen)


# ---- scikit-learn's ----


# for standardised rows x; those that learn from rows without labels are given them
SKLEARN: dict[str, Callable[[Columns, int], Any]] = {
    LOGISTIC: lambda x, seed: LogisticRegression(max_iter=1000),
    "self-training": lambda x, seed: SelfTrainingClassifier(LogisticRegression(max_iter=1000), threshold=0.75),
    "spreading, rbf": lambda x, seed: LabelSpreading(kernel="rbf", gamma=10 / float(x.var(axis=0).sum()), max_iter=100),
    "spreading, knn": lambda x, seed: LabelSpreading(kernel="knn", n_neighbors=7, max_iter=100),
    "forest": lambda x, seed: RandomForestClassifier(random_state=seed),
    "SVC": lambda x, seed: SVC(),
}
UNLABELLED_TOO = ("self-training", "spreading, rbf", "spreading, knn")
PEERS = tuple(name for name in SKLEARN if name != LOGISTIC)


def sklearn_answer(name: str, task: Task) -> Answer:
    train, test = (part.reshape(len(part), -1) for part in (task.cut.X_train, task.cut.X_test))
    scaler = StandardScaler().fit(train)
    x, x_test = scaler.transform(train), scaler.transform(test)

    def belief(values: NDArray[np.int64], count: int) -> Columns:
        classes = np.unique(values[values >= 0])
        if len(classes) < 2:
            return _frequencies(values, count)
        model = SKLEARN[name](x, task.seed)
        rows = np.arange(len(x)) if name in UNLABELLED_TOO else np.flatnonzero(values >= 0)
        model.fit(x[rows], values[rows])
        if not hasattr(model, "predict_proba"):
            return np.eye(count)[model.predict(x_test)]
        out = np.zeros((len(x_test), count))
        out[:, model.classes_] = np.nan_to_num(model.predict_proba(x_test))  # NaN: no labelled row is near
        return out

    answer = by_variable(task, belief)
    return Answer(answer.labels, None) if name == "SVC" else answer


# ---- ours ----

OURS: dict[str, dict[str, Any]] = {SUPERVISED: {"prior": None, "consistency": None}, FREE: {}, DEFAULT: {}}


def our_answer(name: str, task: Task) -> Answer:
    rules = task.cut.rules
    if name == FREE and rules is not None:
        rules = LabelSpace.of(rules.variables)
    model = DSSLClassifier(rules, random_state=task.seed, **OURS[name]).fit(task.cut.X_train, task.cut.y_train)
    labels, p = model.predict(task.cut.X_test), model.predict_proba(task.cut.X_test)
    if task.cut.y_test.ndim == 2:
        return Answer(labels.astype(np.float64), p)
    whole = np.zeros((len(p), task.space.width))
    whole[:, model.classes_.astype(int)] = p
    return Answer(np.eye(task.space.width)[labels.astype(int)], whole)


# ---- all ----

SYSTEMS = (CONSTANT, LOGISTIC, SUPERVISED, FREE, DEFAULT, *PEERS)


def applies(name: str, case: Case) -> bool:
    """Peers learn one class; "without rules" differs from the default where there are rules."""
    if name in PEERS:
        return case.metric == ACCURACY and (case.space is None or len(case.targets) == 1)
    return name != FREE or case.space is not None


def answer_of(name: str, task: Task) -> Answer:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of steps that are not enough, of collapse, of rows without neighbours
        if name == CONSTANT:
            return constant(task)
        return sklearn_answer(name, task) if name in SKLEARN else our_answer(name, task)


def measured(name: str, case: Case, seed: int) -> dict[str, Any]:
    """One system on one case: its score, calibration error, and the seconds it took to learn and answer."""
    task = Task.of(case, seed)
    begin = time.process_time()
    answer = answer_of(name, task)
    seconds = round(time.process_time() - begin, 2)
    rows = {"labelled": task.cut.labelled + task.cut.partial, "unlabelled": task.cut.unlabelled}
    return scored(task, answer) | {"took": seconds, **rows, "data": task.fingerprint}
