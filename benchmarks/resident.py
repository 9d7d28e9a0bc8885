"""What `dssl predict` and `dssl fit --dry-run` cost: processor seconds and resident memory, and whose they are.

python benchmarks/resident.py [--rounds 3]

Each line is a process of its own, medians of rounds in turn. Memory is in MB: the most that was resident, and at the
end pages of files (libraries, shared with other processes that have loaded them) and the process's own. Linux only.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

STEPS = {
    "Python": "",
    "numpy": "import numpy",
    "polars": "import polars",
    "numba": "import numba",
    "torch": "import torch",
    "torch and numba": "import torch, numba",
    "torch, numba, polars, scikit-learn's base": "import torch, numba, polars, sklearn.base",
    "import dssl": "import dssl",
    "all modules of dssl predict": "import dssl.app.cli, dssl.app.trained, dssl.models.files.saved",
    "dssl predict, 600 rows": "call('predict', run, rows, '--out', out)",
    "dssl fit --dry-run, 600 rows": "call('fit', rows, '--label', 'kind', '--dry-run')",
}
AROUND = """
import sys, time
run, rows, out = sys.argv[1:]
def call(*words):
    from dssl.app.cli import main
    assert main([*map(str, words)]) == 0
{}
spent = time.process_time()
told = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(spent, *(int(told[name].split()[0]) / 1024 for name in ("VmHWM", "RssFile", "RssAnon")))
"""


def made(folder: Path) -> list[str]:
    """A trained model, a table of 600 rows, and a place for labels."""
    lines = ["length,width,kind", *(f"{i % 37 + i % 2 * 9},{i % 11},{'cat' if i % 2 else 'dog'}" for i in range(600))]
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    run, rows = str(folder / "run"), str(folder / "rows.csv")
    code = "from dssl.app.cli import main\nimport sys\nsys.exit(main(sys.argv[1:]))"
    words = ["fit", rows, "--label", "kind", "--steps", "20", "--out", run, "--quiet"]
    subprocess.run([sys.executable, "-c", code, *words], check=True, stdout=subprocess.DEVNULL)
    return [run, rows, str(folder / "labels.csv")]


def measured(code: str, places: list[str]) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", AROUND.format(code), *places], check=True, stdout=subprocess.PIPE, text=True
    )
    return [float(word) for word in done.stdout.splitlines()[-1].split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        places = made(Path(folder))
        for name in [*STEPS][-2:]:
            measured(STEPS[name], places)  # what is compiled or read for the first time
        runs = [{name: measured(code, places) for name, code in STEPS.items()} for _ in range(rounds)]
    print("| process | processor seconds | most resident, MB | of files | its own |\n|---|---|---|---|---|")
    for name in STEPS:
        seconds, *sizes = (statistics.median(column) for column in zip(*(run[name] for run in runs)))
        print(f"| {name} | {seconds:.2f} |", " | ".join(f"{size:.0f}" for size in sizes), "|")


if __name__ == "__main__":
    main()
