"""The page docs/evidence.md and its figures, out of the results that are stored.

    python experiments/evidence.py            # write the page, draw the figures
    python experiments/evidence.py --check    # exit with 1 if the page is not what the results say

Each experiment has a function `page` from its stored record to its part of the page, and `figures` if it draws.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from pathlib import Path

from ledger import RESULTS, load, markdown

PAGE = Path(__file__).parents[1] / "docs" / "evidence.md"
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
    records = {name: load(name) for name in PARTS}
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
    return f"""# Evidence

What the methods do, measured: the paper's tables and figures, rules where the paper has no experiment, and other
systems beside ours. Every number on this page is computed from a file in `experiments/results`, which has the
settings, each single run with its seed, the versions and the seconds; `dssl reproduce evidence` writes the page, and a
test fails if page and files differ. `make reproduce` does everything again; stopped, it goes on
where it was. After ± is the standard error of the mean over seeds.

{markdown(["command", "runs", "minutes of one core"], [*rows, ["`make reproduce`", "", f"{total:.0f}"]])}

Runs go two at a time on two cores, without a GPU. {", ".join(made_with)}.
"""


def page() -> str:
    """The whole page."""
    return "\n".join([heading(), *(importlib.import_module(name).page(load(name)).strip() + "\n" for name in PARTS)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, and fail if the page has to change")
    missing = [name for name in PARTS if not (RESULTS / f"{name}.json").exists()]
    if missing:
        sys.exit(f"there are no results of {', '.join(missing)}\nRun dssl reproduce {missing[0]} first.")
    if parser.parse_args().check:
        sys.exit(
            0 if PAGE.read_text() == page() else f"{PAGE.name} is not what the results say: run this without --check"
        )
    for name in PARTS:
        module = importlib.import_module(name)
        if hasattr(module, "figures"):
            module.figures(load(name))
    PAGE.write_text(page())


if __name__ == "__main__":
    main()
