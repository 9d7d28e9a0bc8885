"""The page docs/results.md and its figures, out of the results that are kept; and how others compare to them.

    python experiments/results.py            # compare the runs of experiments/again with those that are kept
    python experiments/results.py --write    # write the page and draw the figures, from experiments/results
    python experiments/results.py --check    # exit with 1 if the page is not what the results say

Each experiment has a function `page` from its stored record to its part of the page, and `figures` if it draws.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from ledger import KEPT, RESULTS, Case, load, markdown

PAGE = Path(__file__).parents[1] / "docs" / "results.md"
PARTS = (
    "table2",
    "paper_figures",
    "combination",
    "hierarchies",
    "grid_paths",
    "zoo",
    "digit_sums",
    "sudoku",
    "peers",
)


def heading() -> str:
    """What the page is, what each part takes, and with which versions it was made."""
    records = {name: load(name, KEPT) for name in PARTS}
    rows = [
        [f"`dssl reproduce {name}`", len(record["runs"]), f"{record['seconds'] / 60:.0f}"]
        for name, record in records.items()
    ]
    total = sum(record["seconds"] for record in records.values()) / 60
    versions: dict[str, list[str]] = {}
    for record in records.values():
        for package, version in record["versions"].items():
            if version not in versions.setdefault(package, []):
                versions[package].append(version)
    made_with = [f"{package} {' and '.join(found)}" for package, found in versions.items()]
    return f"""# Results

This page has what the methods do, measured: the paper's tables and figures, rules where the paper has no experiment,
and other systems beside ours. Every number on this page is computed from a file in `experiments/results`, which has the
settings, every single run with its seed, the versions and the seconds; `python experiments/results.py --write` writes
the page, and a test fails if they differ. `make reproduce` does everything again in `experiments/again`, and says
how far the new runs are from these; if it is stopped, the same command goes on from there. It needs the data sets
(`DSSL_DATA`). After ± is the standard error of the mean over seeds.

{markdown(["command", "runs", "minutes of one core"], [*rows, ["`make reproduce`", "", f"{total:.0f}"]])}

Two runs were made at a time, on two cores without a GPU; all but those of sudoku and of digit sums come from one `make
reproduce`, in 1 h 56 min.
{", ".join(made_with)}.
"""


def page() -> str:
    """The whole page."""
    return "\n".join(
        [heading(), *(importlib.import_module(name).page(load(name, KEPT)).strip() + "\n" for name in PARTS)]
    )


def compare(name: str, other: Path) -> str:
    """How the runs of another folder differ from those that are kept, in a line."""
    if not (other / f"{name}.json").exists():
        return "not run"
    kept = {_case(run): run for run in load(name, KEPT)["runs"]}
    runs = [run for run in load(name, other)["runs"] if _case(run) in kept]
    apart = [
        abs(value - kept[_case(run)].get(measure, float("inf")))
        for run in runs
        for measure, value in run.items()
        if isinstance(value, float) and measure not in ("seconds", "seed") and not measure.endswith("seconds")
    ]
    alike = f"{len(runs)} of {len(kept)} runs"
    return f"{alike}, the largest difference of a measure is {max(apart):.3g}" if apart else alike


def _case(run: Case) -> tuple[tuple[str, str], ...]:
    """What was run: all that is not measured."""
    return tuple((name, str(value)) for name, value in run.items() if isinstance(value, str | int))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the page and draw its figures")
    parser.add_argument("--check", action="store_true", help="fail if the page has to change")
    chosen = parser.parse_args()
    missing = [name for name in PARTS if not (KEPT / f"{name}.json").exists()]
    if missing:
        sys.exit(f"there are no results of {', '.join(missing)}\nRun python experiments/{missing[0]}.py first.")
    if chosen.check:
        sys.exit(0 if PAGE.read_text() == page() else f"{PAGE.name} is not what the results say: use --write")
    if not chosen.write:
        for name in PARTS:
            print(f"{name:<16}{compare(name, RESULTS)}")
        return
    for name in PARTS:
        module = importlib.import_module(name)
        if hasattr(module, "figures"):
            module.figures(load(name, KEPT))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
