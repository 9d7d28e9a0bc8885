"""The measurements behind the defaults of DSSLClassifier: against constants, its own versions and scikit-learn's peers.

    DSSL_DATA=… python experiments/defaults.py                            # cases and seeds to choose settings by
    DSSL_DATA=… python experiments/defaults.py --side report              # other cases, other seeds
    DSSL_DATA=… python experiments/defaults.py --cases digits zoo --seeds 3 --systems supervised default
    DSSL_DATA=… python experiments/defaults.py --again supervised default  # do these anew after a change
    python experiments/defaults.py --show                                 # the tables of what is done

The cases are those of `cases.py`, the systems those of `systems.py`. All is paired by seed: the same rows, the same
labels shown. What is done is in a file of lines, and is not done again. Cases whose data are not here are named and
left out.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lines
import numpy as np
from cases import CASES, CHOOSE, REPORT, SEEDS, Case
from ledger import RESULTS, markdown
from systems import (
    CONSTANT,
    DEFAULT,
    FREE,
    LOGISTIC,
    PEERS,
    SUPERVISED,
    SYSTEMS,
    UNLABELLED_TOO,
    applies,
    measured,
)

KEY = ("case", "system", "seed")
POINT = 0.01
BY_CHANCE = 0.025  # of comparisons that are more than two standard errors below, though nothing is
MANY = 3  # unlabelled rows per labelled one
CALIBRATED = 0.05
FUNCAT = {"cellcycle, 100 %": 0.261, "derisi, 100 %": 0.197, "eisen, 100 %": 0.310}  # of experiments/hierarchies.py
Run = dict[str, Any]


def one(case: str, system: str, seed: int) -> Run:
    """What came of a system on a case."""
    return measured(system, CASES[case], seed)


# ---- comparing ----


@dataclass(frozen=True)
class Difference:
    """Of two systems' scores on a case, first minus second: the mean over seeds, and its standard error."""

    case: str
    first: str
    second: str
    mean: float
    error: float
    seeds: int

    @property
    def above(self) -> bool:
        """By more than two standard errors; one seed cannot tell."""
        return self.seeds > 1 and self.mean > 2 * self.error

    @property
    def below(self) -> bool:
        return self.seeds > 1 and self.mean < -2 * self.error

    def __str__(self) -> str:
        return f"{round(100 * self.mean, 1) + 0.0:+.1f} ± {100 * self.error:.1f}"  # + 0.0: no "−0.0"


class Runs:
    """Runs by case and system: {seed: run}."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.by: dict[tuple[str, str], dict[int, Run]] = {}
        for run in runs:
            self.by.setdefault((run["case"], run["system"]), {})[run["seed"]] = run

    @property
    def cases(self) -> list[str]:
        there = {case for case, _ in self.by}
        return [name for name in CASES if name in there]

    def of(self, case: str, system: str, measure: str) -> list[float]:
        found = self.by.get((case, system), {})
        return [run[measure] for _, run in sorted(found.items()) if run[measure] is not None]

    def difference(self, case: str, first: str, second: str) -> Difference | None:
        """Over the seeds that both have; None if there are none."""
        a, b = self.by.get((case, first), {}), self.by.get((case, second), {})
        seeds = sorted(set(a) & set(b))
        for seed in seeds:
            if a[seed]["data"] != b[seed]["data"]:
                raise ValueError(
                    f"{first} and {second} had other labels on '{case}' with seed {seed}\n"
                    f"The case was changed between the runs: do them again with --again {first!r} {second!r}."
                )
        if not seeds:
            return None
        apart = np.array([a[seed]["score"] - b[seed]["score"] for seed in seeds])
        error = float(apart.std(ddof=1) / len(apart) ** 0.5) if len(apart) > 1 else float("nan")
        return Difference(case, first, second, float(apart.mean()), error, len(apart))

    def differences(self, second: str, cases: Sequence[str] | None = None) -> list[Difference]:
        """Of the default against another, on every case that both have."""
        found = (self.difference(case, DEFAULT, second) for case in (self.cases if cases is None else cases))
        return [each for each in found if each is not None]


# ---- tables ----


def table(runs: Runs) -> str:
    """A line per case: scores of ours, and the default's differences from the others."""
    others = (CONSTANT, LOGISTIC, SUPERVISED, FREE)
    head = ["case", "seeds", "metric", DEFAULT, *(f"− {name}" for name in others), "− best peer", "calibration", "s"]
    rows = []
    for name in runs.cases:
        scores = runs.of(name, DEFAULT, "score")
        if scores:
            gaps = [runs.difference(name, DEFAULT, other) for other in others]
            best = best_peer(runs, name, PEERS)
            peer = "–" if best is None else f"{best} ({best.second})"
            means = (_mean(runs.of(name, DEFAULT, measure)) for measure in ("calibration", "took"))
            rows.append([name, len(scores), CASES[name].metric, f"{np.mean(scores):.3f}", *("–" if gap is None else gap
                         for gap in gaps), peer, *(f"{mean:.3g}" for mean in means)])  # fmt: skip
    return markdown(head, rows)


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else float("nan")


def best_peer(runs: Runs, case: str, peers: Sequence[str]) -> Difference | None:
    """The default against whichever peer is best on the case, in hindsight."""
    found = [each for peer in peers if (each := runs.difference(case, DEFAULT, peer)) is not None]
    return min(found, key=lambda each: each.mean, default=None)


@dataclass(frozen=True)
class Goal:
    """One thing that is to be shown, what was found, and whether that is enough."""

    name: str
    found: str
    met: bool
    but: tuple[str, ...] = ()  # those that speak against it

    def __str__(self) -> str:
        return "\n".join([f"{'met   ' if self.met else 'missed'}  {self.name}: {self.found}",
                          *(f"          {line}" for line in self.but)])  # fmt: skip


def goals(runs: Runs) -> list[Goal]:
    """What the defaults have to show. Without the runs that it takes, a goal is left out."""
    made = (_never_hurts, _few_points, _unlabelled_rows, _rules, _ahead, _ahead_of_all, _calibrated)
    return [goal for make in made if (goal := make(runs)) is not None] + _funcat(runs)


def _against(runs: Runs) -> list[Difference]:
    return [each for other in (CONSTANT, SUPERVISED, FREE) for each in runs.differences(other) if each.seeds > 1]


def _said(found: Iterable[Difference]) -> tuple[str, ...]:
    return tuple(f"{each.case}: {each} of {each.second}" for each in sorted(found, key=lambda each: each.mean))


def _never_hurts(runs: Runs) -> Goal | None:
    every = _against(runs)
    if not every:
        return None
    below, allowed = [each for each in every if each.below], int(BY_CHANCE * len(every))
    return Goal(
        "below constant, supervised or without rules by more than two standard errors",
        f"{len(below)} of {len(every)} comparisons; chance explains {allowed}",
        len(below) <= allowed,
        _said(below),
    )


def _few_points(runs: Runs) -> Goal | None:
    every = _against(runs)
    if not every:
        return None
    below = [each for each in every if each.mean < -POINT]
    sure = sum(each.below for each in below)
    found = f"{len(below)} of {len(every)} comparisons, {sure} of them by more than two standard errors"
    return Goal("below one of these by more than a point", found, not sure, _said(below))


def _unlabelled_rows(runs: Runs) -> Goal | None:
    def many(case: str) -> bool:
        run = next(iter(runs.by[case, DEFAULT].values()))
        return run["unlabelled"] >= MANY * run["labelled"]

    every = [each for each in runs.differences(SUPERVISED) if each.seeds > 1 and many(each.case)]
    return _share("above supervised, where unlabelled rows are many", every, 0.6)


def _rules(runs: Runs) -> Goal | None:
    return _share("above without rules", [each for each in runs.differences(FREE) if each.seeds > 1], 0.5)


def _share(name: str, every: list[Difference], wanted: float) -> Goal | None:
    """How many differences are above 0 by more than two standard errors."""
    if not every:
        return None
    above = [each for each in every if each.above]
    found = f"{len(above)} of {len(every)} cases; {wanted:.0%} are wanted".replace("%", " %")
    return Goal(name, found, len(above) >= wanted * len(every), _said(each for each in every if not each.above))


def _ahead(runs: Runs) -> Goal | None:
    return _ahead_of(runs, UNLABELLED_TOO, "ahead of every semi-supervised peer")


def _ahead_of_all(runs: Runs) -> Goal | None:
    return _ahead_of(runs, (LOGISTIC, *PEERS), "ahead of every peer, supervised ones too")


def _ahead_of(runs: Runs, peers: Sequence[str], name: str) -> Goal | None:
    cases = [case for case in runs.cases if any((case, peer) in runs.by for peer in PEERS)]
    every = [each for case in cases if (each := best_peer(runs, case, peers)) is not None]
    if not every:
        return None
    ahead = [each for each in every if each.mean > 0]
    found = f"{len(ahead)} of {len(every)} cases; 80 % are wanted"
    return Goal(name, found, len(ahead) >= 0.8 * len(every), _said(each for each in every if each.mean <= 0))


def _calibrated(runs: Runs) -> Goal | None:
    errors = {case: _mean(found) for case in runs.cases if (found := runs.of(case, DEFAULT, "calibration"))}
    if not errors:
        return None
    mean = _mean(list(errors.values()))
    worst = sorted(errors, key=lambda case: -errors[case])[:5]
    but = tuple(f"{case}: {errors[case]:.3f}" for case in worst if errors[case] > CALIBRATED)
    found = f"{mean:.3f} in the mean over cases; at most {CALIBRATED} is wanted"
    return Goal("calibration error", found, mean <= CALIBRATED, but)


def _funcat(runs: Runs) -> list[Goal]:
    """With all labels, against the network that was made for these sets."""
    found = {case: _mean(scores) for case in FUNCAT if (scores := runs.of(case, DEFAULT, "score"))}
    return [
        Goal(case, f"{area:.4f}; {FUNCAT[case]:.3f} is wanted", area >= FUNCAT[case]) for case, area in found.items()
    ]


def means(runs: Runs) -> str:
    """Of every system: its score, calibration error and seconds, in the mean over the cases it has."""
    rows = []
    for name in SYSTEMS:
        there = [case for case in runs.cases if (case, name) in runs.by]
        means = [[_mean(found) for case in there if (found := runs.of(case, name, measure))]
                 for measure in ("score", "calibration", "took")]  # fmt: skip
        if there:
            rows.append([name, len(there), *(f"{_mean(mean):.3f}" for mean in means)])
    return markdown(["system", "cases", "mean score", "calibration error", "seconds"], rows)


# ---- the command ----


def wanted(asked: Sequence[str], side: str, kind: str | None) -> list[Case]:
    """The cases that a command is about: of a side, of a kind, and with names that begin as asked."""
    for word in asked:
        if not any(name.startswith(word) for name in CASES):
            sys.exit(f"no case begins with '{word}'\nThere are: {'; '.join(CASES)}.")
    return [
        case
        for case in CASES.values()
        if side in (case.side, "all")
        and (kind is None or kind in case.kind)
        and (not asked or any(case.name.startswith(word) for word in asked))
    ]


def keys(cases: Sequence[Case], systems: Sequence[str], seeds: Iterable[int]) -> list[Run]:
    """Runs to do, seed after seed, so that a command that is stopped has something of every case."""
    return [
        {"case": case.name, "system": system, "seed": seed}
        for seed in seeds
        for case in cases
        for system in systems
        if applies(system, case)
    ]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--side", choices=[CHOOSE, REPORT, "all"], default=CHOOSE)
    parser.add_argument(
        "--cases", nargs="+", default=[], metavar="NAME", help="those whose names begin so, of any side"
    )
    parser.add_argument(
        "--kind", help="cases of this kind, such as rules, table, hierarchy, image, imbalanced, partial"
    )
    parser.add_argument("--systems", nargs="+", choices=SYSTEMS, default=list(SYSTEMS))
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first-seed", type=int, help="by default 0 to choose by, else 1000")
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for one per processor")
    parser.add_argument("--again", nargs="+", choices=SYSTEMS, default=[], help="systems whose runs are done anew")
    parser.add_argument("--out", type=Path, default=RESULTS / "defaults.jsonl")
    parser.add_argument("--show", action="store_true", help="the tables of what is done, and no runs")
    return parser


def main() -> None:
    chosen = _parser().parse_args()
    side = "all" if chosen.cases else chosen.side
    cases = wanted(chosen.cases, side, chosen.kind)
    for case in cases:
        if not case.here and not chosen.show:
            print(f"{case.name}: set DSSL_DATA to the data folder to include it")
    first = (
        chosen.first_seed if chosen.first_seed is not None else SEEDS[CHOOSE if chosen.side == CHOOSE else REPORT][0]
    )
    asked = keys(
        [case for case in cases if case.here or chosen.show], chosen.systems, range(first, first + chosen.seeds)
    )
    failed = [] if chosen.show else _complete(asked, chosen)
    all_asked = {tuple(key.values()) for key in asked}
    runs = Runs(run for run in lines.read(chosen.out, KEY) if tuple(run[name] for name in KEY) in all_asked)
    print("", table(runs), means(runs), "\n".join(map(str, goals(runs))), sep="\n\n")
    if failed:
        sys.exit("\n".join([f"\n{len(failed)} runs failed:", *failed]))


def _complete(asked: list[Run], chosen: argparse.Namespace) -> list[str]:
    again = {tuple(key.values()) for key in asked if key["system"] in chosen.again}
    if again:
        lines.forget(chosen.out, KEY, lambda run: tuple(run[name] for name in KEY) in again)
    return lines.complete(chosen.out, one, asked, jobs=chosen.jobs)


if __name__ == "__main__":
    main()
