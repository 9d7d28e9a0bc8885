"""How well rules come back out of labels, how they hold on new labels, and what a classifier gains by them.

    python experiments/learned_rules.py --part planted            # known rule sets: precision and recall
    DSSL_DATA=… python experiments/learned_rules.py --part halves      # zoo, birds, emotions: half against half
    DSSL_DATA=… python experiments/learned_rules.py --part classifier  # with learned rules, and without
    python experiments/learned_rules.py --part scale              # seconds for 500 labels and 100,000 rows

*planted*: rule sets of all kinds over 20 to 60 attributes, labels drawn from the valid ones with random biases. A
planted rule is recovered if the learned space implies it, a learned rule is right if the true space does; a soft rule
counts as the formula it speaks of. *halves*: a bound is kept by a rule if the share of its chances in which it fails on
the other half is at most the bound. *classifier*: rules are learned from the labels kept, or from the labels of all
training rows without their features ("unpaired"). Figures are means over seeds with standard errors.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import RESULTS
from sklearn.metrics import f1_score

import dssl
from dssl.data.published import load_mulan, load_zoo
from dssl.errors import RuleError
from dssl.logic.induction.learning import learn_rules
from dssl.logic.language.formula import Not
from dssl.logic.language.parser import Rule
from dssl.logic.space import LabelSpace
from dssl.models.estimators import DSSLClassifier
from dssl.priors.predictive import Predictive


@dataclass(frozen=True)
class Settings:
    seeds: int = 10
    threads: int = 1
    attributes: tuple[int, ...] = (20, 40, 60)
    rows: tuple[int, ...] = (100, 300, 1000, 3000, 10_000)
    spread: float = 0.5  # standard deviation of the attributes' logits
    # share of entries flipped, and failures tolerated: about twice the noise, and more where a premise is rare
    noise: tuple[tuple[float, float], ...] = ((0.01, 0.1), (0.02, 0.2), (0.05, 0.3))
    noise_rows: int = 3000
    sets: tuple[str, ...] = ("zoo", "birds", "emotions")
    kept: dict[str, tuple[float, ...]] = field(  # share of the training rows whose labels are kept
        default_factory=lambda: {"zoo": (0.3,), "birds": (0.3,), "emotions": (0.1, 0.3)}
    )
    test: float = 0.3
    # of zoo, what is to be predicted; the other attributes are the features
    zoo_labels: tuple[str, ...] = ("feathers", "milk", "backbone", "breathes", "fins", "legs", "type")


# ---- planted rules ----


def rule_set(rng: np.random.Generator, attributes: int) -> LabelSpace:
    """A satisfiable set of rules of every kind."""
    names = [f"a{i}" for i in range(attributes)]
    while True:
        left = rng.permutation(names).tolist()

        def take(count: int, left: list[str] = left) -> list[str]:
            return [left.pop() for _ in range(count)]

        rules = [f"exactly_one({', '.join(take(4))})", f"at_most(1, {', '.join(take(4))})"]
        rules.append(f"at_most(2, {', '.join(take(4))})")
        rules.append(" <-> ".join(take(2)))
        a, b, c = take(3)
        rules += [f"{a} -> {b}", f"{b} -> {c}"]
        rules.append(str(rng.choice([f"!{left[-1]}", f"{left[-1]} = true"])))
        free = [name for name in names if name != left[-1]]
        for _ in range(attributes // 8):
            a, b = rng.choice(free, 2, replace=False)
            rules.append(str(rng.choice([f"{a} -> {b}", f"{a} -> !{b}", f"{a} | {b}"])))
            a, b, c = rng.choice(free, 3, replace=False)
            rules.append(str(rng.choice([f"{a} & {b} -> {c}", f"{a} -> {b} | {c}", f"{a} | {b} | {c}"])))
        try:
            return LabelSpace.attributes(names, "\n".join(rules))
        except RuleError:
            continue


def sample(space: LabelSpace, rows: int, seed: int, spread: float) -> np.ndarray:
    """Valid labels, each weighed by random biases of its attributes."""
    logits = torch.tensor(np.random.default_rng(seed).normal(0, spread, (1, space.width)), dtype=torch.float32)
    drawn = Predictive(logits, space.compile()).sample(rows, torch.Generator().manual_seed(seed))
    return drawn.reshape(rows, -1).numpy().astype(np.int8)


def implied(space: LabelSpace, rule: Rule) -> bool:
    try:
        LabelSpace.of(space.variables, (*space.rules, Rule(Not(rule.formula))))
    except RuleError:
        return True
    return False


def hard(space: LabelSpace) -> LabelSpace:
    """The space with its soft rules taken as hard."""
    return LabelSpace.of(space.variables, [Rule(rule.formula) for rule in space.rules])


def recovery(attributes: int, rows: int, noise: float, tolerance: float, settings: Settings) -> dict[str, Any]:
    measured: dict[str, list[float]] = {"precision": [], "recall": [], "contains the true space": [], "rules": []}
    begin = time.perf_counter()
    for seed in range(settings.seeds):
        truth = rule_set(np.random.default_rng(seed), attributes)
        y = sample(truth, rows, seed, settings.spread)
        flipped = np.random.default_rng(seed + 1000).random(y.shape) < noise
        y = np.where(flipped, 1 - y, y)
        learned = learn_rules(y, truth.columns, tolerance=tolerance)
        right = [implied(truth, rule.rule) for rule in learned]
        space = hard(learned.space)
        if right:
            measured["precision"].append(float(np.mean(right)))
        measured["recall"].append(float(np.mean([implied(space, rule) for rule in truth.rules])))
        measured["contains the true space"].append(float(all(right)))
        measured["rules"].append(float(len(learned)))
    row = {"attributes": attributes, "rows": rows, "noise": noise, "tolerance": tolerance}
    return row | {k: summary(v) for k, v in measured.items()} | {"seconds": since(begin)}


def planted(settings: Settings) -> Iterator[dict[str, Any]]:
    for attributes in settings.attributes:
        for rows in settings.rows:
            yield recovery(attributes, rows, 0.0, 0.0, settings)
        for noise, tolerance in settings.noise:
            yield recovery(attributes, settings.noise_rows, noise, tolerance, settings)


# ---- published sets: labels ----


def labels_of(name: str, wanted: tuple[str, ...] | None = None) -> tuple[np.ndarray, LabelSpace, np.ndarray]:
    """Features, what labels may be, and labels as columns. Of zoo, the `wanted` attributes are the labels, or all."""
    if name != "zoo":
        held = load_mulan(name)
        return held.train.x, held.space, held.train.y.astype(np.float32)
    zoo = load_zoo()
    columns: dict[str, list[Any]] = {k: v.tolist() for k, v in zip(zoo.features, zoo.train.x.astype(int).T)}
    columns["type"] = np.array(zoo.space.variables[0].values)[zoo.train.y].tolist()
    labels = {k: v for k, v in columns.items() if wanted is None or k in wanted}
    legs = f"legs: {{{', '.join(map(str, sorted(set(columns['legs']))))}}}"
    space = LabelSpace("\n".join([*(k for k in labels if k not in ("legs", "type")), legs, str(zoo.space)]))
    x = np.array([v for k, v in columns.items() if k not in labels], dtype=np.float32).T
    return x, space, space.encode(labels)


def halves(settings: Settings) -> Iterator[dict[str, Any]]:
    for name in settings.sets:
        _, space, y = labels_of(name)
        measured: dict[str, list[float]] = {
            "rules": [], "share of rules that fail at all": [], "failure rate a chance": [], "bound": [],
            "share of bounds kept": [], "share of new rows that break a rule": [],
        }  # fmt: skip
        begin = time.perf_counter()
        for seed in range(settings.seeds):
            order = np.random.default_rng(seed).permutation(len(y))
            learned = learn_rules(y[order[: len(y) // 2]], space=space)
            new = y[order[len(y) // 2 :]]
            measured["rules"].append(float(len(learned)))
            tested = learned.tested(new)
            had = [(c, f, rule.bound) for (c, f), rule in zip(tested, learned) if c]
            if had:
                measured["share of rules that fail at all"].append(float(np.mean([f > 0 for _, f, _ in had])))
                measured["failure rate a chance"].append(float(np.mean([f / c for c, f, _ in had])))
                measured["bound"].append(float(np.mean([b for _, _, b in had])))
                measured["share of bounds kept"].append(float(np.mean([f / c <= b for c, f, b in had])))
                measured["share of new rows that break a rule"].append(len(learned.space.check(new)) / len(new))
        whole = learn_rules(y, space=space)
        yield {
            "set": name,
            "rows": len(y),
            **{k: summary(v) for k, v in measured.items()},
            "rules of all rows": [str(rule) for rule in whole],
            "seconds": since(begin),
        }


# ---- published sets: classifiers ----


def classifier(settings: Settings) -> Iterator[dict[str, Any]]:
    for name in settings.sets:
        x, space, y = labels_of(name, settings.zoo_labels)
        for share in settings.kept[name]:
            scores: dict[str, list[float]] = {
                "no rules": [],
                "rules of the labels kept": [],
                "rules of unpaired labels": [],
            }
            rules: dict[str, list[float]] = {variant: [] for variant in scores}
            begin = time.perf_counter()
            for seed in range(settings.seeds):
                order = np.random.default_rng(seed).permutation(len(x))
                test, train = np.split(order, [int(settings.test * len(x))])
                kept = train[: int(share * len(train))]
                shown = np.full(y.shape, np.nan, dtype=np.float32)
                shown[kept] = y[kept]
                spaces = {
                    "no rules": space,
                    "rules of the labels kept": learn_rules(y[kept], space=space).space,
                    "rules of unpaired labels": learn_rules(y[train], space=space).space,
                }
                for variant, used in spaces.items():
                    model = DSSLClassifier(rules=used, random_state=seed).fit(x[train], shown[train])
                    predicted = used.encode(model.predict(x[test]))
                    scores[variant].append(float(f1_score(y[test], predicted, average="micro")))
                    rules[variant].append(float(len(used.rules)))
            base = np.array(scores["no rules"])
            for variant, got in scores.items():
                yield {
                    "set": name,
                    "labels": int(share * len(train)),
                    "variant": variant,
                    "rules": summary(rules[variant]),
                    "micro F1": summary(got),
                    "gain": summary((np.array(got) - base).tolist()),
                    "seconds": since(begin),
                }


# ---- scale ----


def scale(settings: Settings) -> Iterator[dict[str, Any]]:
    """Twenty parents of 24 children each, which imply their parent; under every other one they exclude each other."""
    rng = np.random.default_rng(0)
    rows, size, parents = 100_000, 25, 20
    y = np.zeros((rows, size * parents), np.int8)
    for p in range(parents):
        on = np.flatnonzero(rng.random(rows) < 0.15)
        y[on, p * size] = 1
        y[on, p * size + rng.integers(1, size, len(on))] = 1
        if p % 2:
            more = on[rng.random(len(on)) < 0.3]
            y[more, p * size + rng.integers(1, size, len(more))] = 1
    begin = time.perf_counter()
    learned = learn_rules(y)
    kinds = [rule.kind for rule in learned]
    yield {
        "rows": rows,
        "labels": y.shape[1],
        "kinds": {kind: kinds.count(kind) for kind in sorted(set(kinds))},
        "tried": dict(learned.tried),
        "limits": list(learned.limits),
        "peak GB of the process": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "seconds": since(begin),
    }


# ---- reporting ----


def summary(values: list[float]) -> list[float] | None:
    """Mean and standard error."""
    if not values:
        return None
    error = float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0
    return [round(float(np.mean(values)), 4), round(error, 4)]


def since(begin: float) -> float:
    return round(time.perf_counter() - begin, 1)


PARTS = {"planted": planted, "halves": halves, "classifier": classifier, "scale": scale}


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--out", type=Path, default=RESULTS / "learned_rules.json")
    chosen = parser.parse_args()
    torch.set_num_threads(settings.threads)
    record: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.out.exists() else {"parts": {}}
    for part in chosen.part:
        if part in ("halves", "classifier") and "DSSL_DATA" not in os.environ:
            print(f"{part}: set DSSL_DATA to the data folder to include it")
            continue
        begin, rows = time.perf_counter(), []
        for row in PARTS[part](settings):
            print(json.dumps(row, ensure_ascii=False), flush=True)
            rows.append(row)
        record["parts"][part] = {
            "seconds": since(begin),
            "versions": {"dssl": dssl.__version__, "python": platform.python_version(), "numpy": np.__version__},
            "results": rows,
        }
        record["settings"] = asdict(settings)
        record["seeds"] = f"0 to {settings.seeds - 1}"
        chosen.out.parent.mkdir(exist_ok=True)
        chosen.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
