"""The cases that the defaults are measured on: tables, images, texts and trees, with few labels or many, and rules.

    DSSL_DATA=… python experiments/cases.py             # lists them, with their sizes
    DSSL_DATA=… python experiments/cases.py --kind rules

A case makes rows to learn from and rows to test on, by a seed. Settings are chosen on the cases of one side, with the
seeds 0 to 9; what is reported is of the other side too, with the seeds from 1000 on.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import made_cases as made
import published_cases as published
from splits import Split

from dssl.logic.space import LabelSpace

CHOOSE, REPORT = "choose", "report"
SEEDS = {CHOOSE: range(10), REPORT: range(1000, 1010)}
_IN_FOLDER = "mnist cifar10 emotions birds cellcycle derisi eisen news zoo animals grid".split()
ACCURACY, EXACT, AREA = "accuracy", "exact match", "AU(PRC)"


@dataclass(frozen=True)
class Case:
    """A task: `make(seed)` cuts it.

    Metrics: the share of test rows whose class is right, in the mean over `targets`, the variables that count
    ("accuracy"); whose whole label is right ("exact match"); the area under the precision-recall curve of all pairs of
    a row and a column ("AU(PRC)").
    """

    name: str
    side: str
    kind: tuple[str, ...]
    make: Callable[[int], Split]
    metric: str = ACCURACY
    targets: tuple[str, ...] = ()
    space: Callable[[], LabelSpace] | None = None

    @property
    def rules(self) -> LabelSpace | None:
        """What labels can look like; None for classes and labels without rules."""
        return None if self.space is None else self.space()

    @property
    def here(self) -> bool:
        """Whether its data are here: those of some sets are in the folder that DSSL_DATA names."""
        return "DSSL_DATA" in os.environ or self.name.replace(",", "").split()[0] not in _IN_FOLDER


def _tables() -> list[Case]:
    """Sets that scikit-learn brings, with few labels and with many."""
    rows = (
        ("digits", 20, CHOOSE, 500),
        ("digits", 50, REPORT, 500),
        ("digits", 100, CHOOSE, 500),
        ("digits", 500, REPORT, 500),
        ("iris", 6, REPORT, 50),
        ("iris", 15, CHOOSE, 50),
        ("wine", 15, CHOOSE, 60),
        ("wine", 30, REPORT, 60),
        ("wine", 50, CHOOSE, 60),
        ("breast cancer", 15, REPORT, 190),
        ("breast cancer", 30, CHOOSE, 190),
        ("breast cancer", 50, REPORT, 190),
        ("breast cancer", 200, CHOOSE, 190),
    )
    return [
        Case(f"{name}, {labels}", side, ("table", *(["many labels"] if labels >= 200 else [])),
             partial(published.table, name=name, labels=labels, test=test))
        for name, labels, side, test in rows
    ]  # fmt: skip


def _shapes() -> list[Case]:
    """Classes of made tables."""
    return [
        Case("moons", CHOOSE, ("table", "made"), partial(made.moons, labels=10)),
        Case("circles", REPORT, ("table", "made"), partial(made.circles, labels=20)),
        Case("blobs", REPORT, ("table", "made"), partial(made.blobs, labels=25)),
        Case("linear, much noise", CHOOSE, ("table", "made"), partial(made.linear, labels=60)),
        Case("nothing to learn, 30", CHOOSE, ("table", "made"), partial(made.nothing, labels=30)),
        Case("nothing to learn, 100", REPORT, ("table", "made"), partial(made.nothing, labels=100)),
    ]


def _uneven() -> list[Case]:
    """Classes that are rare, and labels as frequent as they are or spread evenly by hand."""
    table, digits = ("table", "imbalanced"), published.uneven_digits
    return [
        Case("rare digit, 10 + 10", CHOOSE, table, partial(published.rare_digit, digit=3, labels=20)),
        Case("rare digit, 25 + 25", REPORT, table, partial(published.rare_digit, digit=8, labels=50)),
        Case("rare cloud, 10 + 10", REPORT, (*table, "made"), partial(made.rare, labels=20)),
        Case("uneven digits, labels at random", CHOOSE, table, partial(digits, labels=60, by_hand=False)),
        Case("uneven digits, labels by hand", REPORT, table, partial(digits, labels=60, by_hand=True)),
    ]


def _images() -> list[Case]:
    pictures = published.pictures
    return [
        Case("mnist, 100", CHOOSE, ("image",), partial(pictures, name="mnist", labels=100)),
        Case("mnist, 500", REPORT, ("image",), partial(pictures, name="mnist", labels=500)),
        Case("cifar10, 500", CHOOSE, ("image",), partial(pictures, name="cifar10", labels=500)),
        Case("cifar10 with superclasses, 500", REPORT, ("image", "rules"),
             partial(published.kinds_of_things, labels=500), targets=("thing",), space=published.superclasses),
    ]  # fmt: skip


def _several_labels() -> list[Case]:
    """Several labels without rules."""
    kind = ("table", "several labels")
    return [
        Case("emotions, 50", CHOOSE, kind, partial(published.table, name="emotions", labels=50, test=200), EXACT),
        Case("emotions, 150", REPORT, kind, partial(published.table, name="emotions", labels=150, test=200), EXACT),
        Case("birds, 50", REPORT, kind, partial(published.table, name="birds", labels=50, test=215), AREA),
        Case("birds, 150", CHOOSE, kind, partial(published.table, name="birds", labels=150, test=215), AREA),
        Case("ten labels", REPORT, (*kind, "made"), partial(made.independent, labels=100), AREA),
    ]


def _hierarchies() -> list[Case]:
    """FunCat by shares of labels, and made trees."""
    sides = {"cellcycle": (CHOOSE, CHOOSE, CHOOSE), "derisi": (CHOOSE, REPORT, REPORT), "eisen": (REPORT,) * 3}
    funcat = [
        Case(f"{name}, {share} %", side, ("hierarchy", "rules", *(["many labels"] if share == 100 else [])),
             partial(published.functions, name=name, share=share), AREA, space=partial(_genes, name))
        for name, by_share in sides.items()
        for share, side in zip((10, 30, 100), by_share)
    ]  # fmt: skip
    kind = ("hierarchy", "rules", "made")
    return [
        *funcat,
        Case("tree, 100", CHOOSE, kind, partial(made.branches, labels=100), EXACT, space=made.tree),
        Case("tree, 400", REPORT, kind, partial(made.branches, labels=400), AREA, space=made.tree),
    ]


def _genes(name: str) -> LabelSpace:
    return published.genes(name).space


def _taxonomies() -> list[Case]:
    kind = ("text", "rules", "hierarchy")
    rows = ((0, 150, CHOOSE), (1, 150, REPORT), (2, 60, CHOOSE), (3, 60, REPORT))
    return [
        *(Case(f"taxonomy {data}, {labels}", side, kind, partial(made.titles, data=data, labels=labels), EXACT,
               space=made.products) for data, labels, side in rows),
        Case("words", REPORT, (*kind, "made"), partial(made.words, labels=100), EXACT, space=made.shelves),
        Case("mixed table", CHOOSE, ("table", "rules", "hierarchy", "made"), partial(made.mixed, labels=90), EXACT,
             space=made.wards),
        Case("news, 100", CHOOSE, ("text", "rules"), partial(published.news_topics, labels=100), EXACT,
             space=published.topics),
        Case("news, 300", REPORT, ("text", "rules"), partial(published.news_topics, labels=300), EXACT,
             space=published.topics),
    ]  # fmt: skip


def _knowledge() -> list[Case]:
    """Classes with attributes that rules fix, and rows known in part."""
    rules, digits, animals = ("table", "rules"), published.attributes_of_digits, made.animals
    some = (*rules, "partial")
    return [
        Case("digits with attributes, 50", CHOOSE, rules, partial(digits, labels=50), ACCURACY, ("digit",),
             published.digit_attributes),
        Case("digits with attributes, 50 and 150 in part", REPORT, some, partial(digits, labels=50, partial=150),
             ACCURACY, ("digit",), published.digit_attributes),
        Case("digits with attributes, 20 and 80 in part", CHOOSE, some, partial(digits, labels=20, partial=80),
             ACCURACY, ("digit",), published.digit_attributes),
        Case("zoo, 14", CHOOSE, rules, partial(published.zoo, labels=14), EXACT, space=published.parts_of_animals),
        Case("zoo, 34", REPORT, rules, partial(published.zoo, labels=34), EXACT, space=published.parts_of_animals),
        Case("animals, 100", CHOOSE, (*rules, "made"), partial(animals, labels=100), ACCURACY, ("animal",),
             made.knowledge),
        Case("animals, 100 and 200 in part", REPORT, (*some, "made"), partial(animals, labels=100, partial=200),
             ACCURACY, ("animal",), made.knowledge),
        Case("animals, ten unseen", REPORT, (*rules, "made"), partial(animals, labels=160, unseen=10), ACCURACY,
             ("animal",), made.knowledge),
        Case("copies of the class", CHOOSE, (*rules, "made"), partial(made.copies, labels=25), ACCURACY, ("kind",),
             made.repeated),
        Case("two of eight", REPORT, (*rules, "made"), partial(made.two_of_eight, labels=100), EXACT,
             space=made.chosen),
    ]  # fmt: skip


def _structures() -> list[Case]:
    """Labels that rules tie together as a whole."""
    sums = partial(Case, kind=("table", "rules", "partial"), targets=("a", "b"), space=published.sums)
    return [
        sums("digit sums", CHOOSE, make=partial(published.digit_sums, told=0)),
        sums("digit sums, 40 pairs told", REPORT, make=partial(published.digit_sums, told=40)),
        Case("sudoku", REPORT, ("table", "rules"), partial(published.boards, labels=100), EXACT,
             space=published.sudoku.space),
        Case("grid paths", CHOOSE, ("table", "rules", "partial"), partial(published.paths, labels=200), EXACT,
             space=published.grid.by_degree),
    ]  # fmt: skip


def _all() -> dict[str, Case]:
    groups = (_tables, _shapes, _uneven, _images, _several_labels, _hierarchies, _taxonomies, _knowledge, _structures)
    return {case.name: case for group in groups for case in group()}


CASES = _all()


def row(case: Case, seed: int) -> list[Any]:
    """What the list says of a case."""
    cut = case.make(seed)
    width = cut.rules.width if cut.rules is not None else cut.y_test.shape[1] if cut.y_test.ndim == 2 else 1
    sizes = (cut.labelled, cut.partial, cut.unlabelled, len(cut.X_test), "×".join(map(str, cut.X_train.shape[1:])))
    rules = len(cut.rules.rules) if cut.rules is not None else 0
    return [case.name, case.side, case.metric, *sizes, width, rules, " ".join(case.kind)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", help="those of a kind only")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    head = ("", "side", "metric", "labelled", "in part", "unlabelled", "test", "features", "columns", "rules", "kind")
    form = "{:44}{:8}{:13}{:>9}{:>9}{:>11}{:>6}{:>10}{:>9}{:>7}  {}"
    print(form.format(*head))
    for case in CASES.values():
        if not case.here:
            print(f"{case.name:44}set DSSL_DATA to the data folder to have it")
        elif chosen.kind is None or chosen.kind in case.kind:
            print(form.format(*map(str, row(case, chosen.seed))), flush=True)


if __name__ == "__main__":
    main()
