"""The demonstration that `make demo` runs: from a page of rules to exact answers, and to a model that obeys them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits

from dssl import LabelSpace, RuleError
from dssl.models.estimators import DSSLClassifier

RULES = """\
species: {cat, dog, trout, eagle}
legs, fins, wings, gills
age: 0..9

species in {cat, dog} -> legs & !wings
species = trout -> fins & gills
species = eagle -> wings & legs
legs -> !fins
gills -> fins
age >= 2 -> !gills
0.9 :: wings -> age >= 1
"""
MISTAKE = "legs, fins, wings\nlegs -> !fisn\n"
CLASH = "legs, fins\nlegs -> fins\nlegs -> !fins\nlegs = true\n"
LABELS = [
    {"species": "cat", "legs": True, "fins": False},
    {"species": "trout", "legs": True},
    {"species": "eagle", "age": 3},
]


DIGITS = """\
digit: 0..9
even, prime, loop, straight, half

even <-> digit in {0, 2, 4, 6, 8}
prime <-> digit in {2, 3, 5, 7}
loop <-> digit in {0, 4, 6, 8, 9}      # has a closed loop
straight <-> digit in {1, 4, 7}        # straight lines only
half <-> digit < 5
"""
GIVEN, HELD_OUT, SEED = 50, 500, 0


def main() -> None:
    """Walk from rules to answers, then train on digits, with the time each step took."""
    console = Console()
    _rules(console)
    with threadpool_limits(1):  # matrices this small gain nothing from more, and threads that wait cost
        _training(console)


# ---- rules ----


def _rules(console: Console) -> None:
    console.print(Panel(RULES.rstrip(), title="animals.rules", expand=False))
    with _step(console, "reading the rules"):
        space = LabelSpace(RULES)
    console.print(f"  {len(space.variables)} variables, {len(space.rules)} rules, {space.width} network outputs\n")
    _mistakes(console)
    with _step(console, "asking what stands out"):
        diagnosis = space.diagnose()
    console.print(f"  {diagnosis}\n", highlight=False)
    with _step(console, "compiling the rules to a circuit"):
        circuit = space.compile(progress=True)
    console.print(f"  {circuit.count():,} valid labels, {circuit.nodes} nodes, {circuit.edges} edges\n")
    _labels(console, space)
    _answers(console, space)


@contextmanager
def _step(console: Console, what: str) -> Iterator[None]:
    console.print(f"[bold]{what}[/bold] …", end=" ")
    begin = time.perf_counter()
    yield
    console.print(f"[dim]{time.perf_counter() - begin:.2f} s[/dim]")


def _mistakes(console: Console) -> None:
    for title, text in (("a misspelled name", MISTAKE), ("rules that clash", CLASH)):
        try:
            LabelSpace(text)
        except RuleError as error:
            console.print(Panel(str(error), title=title, expand=False, border_style="red"), highlight=False)
    console.print()


def _labels(console: Console, space: LabelSpace) -> None:
    console.print("[bold]labels against the rules[/bold]")
    for label, full in zip(LABELS, _completed(space)):
        console.print(f"  {label}\n    → {full}", highlight=False)
    console.print()


def _completed(space: LabelSpace) -> Iterator[str]:
    for label in LABELS:
        found = space.check([label])
        if found:
            broken = [rule.text for _, rules in found for rule in rules]
            yield "breaks " + " and ".join(f"'{text}'" for text in broken)
        else:
            full = space.decode(space.complete([label]))[0]
            yield ", ".join(f"{name}={value}" for name, value in full.items() if value is not None)


def _answers(console: Console, space: LabelSpace) -> None:
    """What follows for a network that is unsure of everything but the fins."""
    import torch

    from dssl import Predictive

    logits = torch.zeros(1, space.width)
    logits[0, space.columns.index("fins")] = 2.0
    with _step(console, "asking the circuit: a network believes in fins (0.88) and nothing else"):
        p = Predictive(logits, space)
        chance, (best, _) = p.log_valid.exp().item(), p.best()
        rows = zip(space.columns, p.theta[0], p.marginals[0], best[0])
    table = Table("output", "θ, the network's", "given the rules", "most probable valid label")
    for column, theta, marginal, on in rows:
        if not column.startswith("age"):
            table.add_row(column, f"{theta:.3f}", f"{marginal:.3f}", "yes" if on else "")
    console.print(table)
    console.print(f"the rules hold with probability {chance:.3f} under θ; minus the log of that is the semantic loss")


# ---- training ----


def _training(console: Console) -> None:
    """Digits with 50 labels: alone and with unlabelled rows, then with rules that link attributes to the digit."""
    import torch

    torch.set_num_threads(1)  # kernels and torch's own
    x, digits, x_test, truth = _digits()
    console.print(
        f"\n[bold]training[/bold] on digits: {len(x):,} rows, {GIVEN} of them labelled, {HELD_OUT} held out\n"
    )
    table = Table("learning from", "right", "invalid, raw", "invalid")
    labelled = np.where(np.arange(len(x)) < GIVEN, digits, -1)
    scores: list[float] = []
    for what, alone in ((f"{GIVEN} labels", True), (f"{GIVEN} labels, unlabelled rows", False)):
        with _step(console, f"fitting: {what}"):
            model = DSSLClassifier(prior=None if alone else "auto", random_state=SEED).fit(x, labelled)
        scores.append(model.score(x_test, truth))
        table.add_row(what, f"{scores[-1]:.3f}", "", "")
    console.print(Panel(DIGITS.rstrip(), title="digits.rules", expand=False))
    space = LabelSpace(DIGITS)
    every = space.complete([{"digit": int(digit)} for digit in digits])  # the rules give each digit its attributes
    few, more = every.copy(), every.copy()
    few[GIVEN:] = np.nan
    more[GIVEN:, :10] = np.nan
    more[4 * GIVEN :] = np.nan
    for what, y in (
        (f"{GIVEN} labels, rules, unlabelled rows", few),
        (f"also attributes of {3 * GIVEN} other rows", more),
    ):
        with _step(console, f"fitting: {what}"):
            model = DSSLClassifier(rules=space, random_state=SEED).fit(x, y)
        found = model.predict(x_test)  # (rows, 15), the first ten for the digit
        right = float(np.mean(found[:, :10].argmax(axis=1) == truth))
        scores.append(right)
        raw, decoded = len(model.violations(x_test)), len(space.check(found))
        table.add_row(what, f"{right:.3f}", f"{raw / HELD_OUT:.1%}", f"{decoded / HELD_OUT:.1%}")
    console.print(table)
    console.print(f"\n[bold]how the last model was trained[/bold] (model.plan_)\n{model.plan_}\n", highlight=False)
    console.print(
        f"From the same {GIVEN} labels, unlabelled rows, rules and a few attributes took the share of digits that are "
        f"read right from {scores[0]:.1%} to {scores[-1]:.1%}, and no prediction breaks a rule."
        if decoded == 0
        else f"{decoded} predictions break a rule."
    )


def _digits() -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Training rows, the first with equally many of each digit, and test rows."""
    x, y = load_digits(return_X_y=True)
    rows, test = train_test_split(np.arange(len(y)), test_size=HELD_OUT, random_state=SEED, stratify=y)
    first, rest = train_test_split(rows, train_size=GIVEN, random_state=SEED, stratify=y[rows])
    rows = np.concatenate([first, rest])
    return x[rows], y[rows], x[test], y[test]


if __name__ == "__main__":
    main()
