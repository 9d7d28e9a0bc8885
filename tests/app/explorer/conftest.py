"""A tiny run, and the explorer as a process of its own, for the tests of its page."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from dssl import DSSLClassifier, save
from dssl.app.report import write_report
from dssl.app.summary import Origin, summarise
from dssl.data.meaning import find_columns
from dssl.data.preprocessing import Preprocessing
from dssl.data.tables import read

EVIL = "<img src=x onerror=boom()>"  # a column of the data has this name
RULES = "legs, fins, wings\nlegs -> !fins\nlegs | fins | wings"


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run as `dssl fit` leaves it, on data with numbers, a category and a name that is markup."""
    folder = tmp_path_factory.mktemp("runs")
    random = np.random.default_rng(0)
    n = 80
    x = random.normal(size=(n, 2)).round(3)
    home = random.choice(["land", "sea"], n)
    legs = x[:, 0] > 0
    labels = {"legs": legs, "fins": ~legs & (x[:, 1] > 0), "wings": ~legs & (x[:, 1] <= 0)}
    data = pl.DataFrame(
        {"weight": x[:, 0], EVIL: x[:, 1], "home": home, **{k: v.astype(int) for k, v in labels.items()}}
    )
    data = data.with_columns(pl.when(pl.int_range(n) < 30).then(pl.col(k)).alias(k) for k in labels)
    data.write_csv(folder / "animals.csv")
    table = read(folder / "animals.csv")
    columns = tuple(find_columns(table, ["weight", EVIL, "home"]))
    preprocessing = Preprocessing(columns, labels=tuple(labels), label_names=tuple(labels))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    features, y = preprocessing(table), data.select(*labels)
    model = DSSLClassifier(RULES, steps=30, random_state=0).fit(features, y)
    run = folder / "run"
    save(model, run / "model")
    preprocessing.save(run / "preprocessing.json")
    (run / "run.json").write_text(json.dumps({"format": "dssl run", "version": 1, "data": str(folder / "animals.csv")}))
    rows = Origin(range(2, n + 2), [table.place(i) for i in range(n)], table.frame)
    summary = summarise(
        model, features, y, rows=rows, feature_names=preprocessing.inputs,
        settings={"steps": 30}, command="dssl fit animals.csv", data={"file": "animals.csv"}, seconds=1.0,
    )  # fmt: skip
    summary.save(run / "summary.json")
    write_report(summary, run / "report.html")
    torch.set_num_threads(threads)
    return run


@pytest.fixture(scope="session")
def explorer() -> Iterator[Callable[[Path], str]]:
    """Starts `serve` on a path, once each, and gives its address."""
    running: dict[Path, tuple[subprocess.Popen[str], str]] = {}
    code = "import sys; from dssl.app.explorer import serve; serve(sys.argv[1], open_browser=False)"

    def address(path: Path) -> str:
        if path not in running:
            process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            running[path] = process, process.stdout.readline().split()[2].rstrip("/")
        return running[path][1]

    yield address
    for process, _ in running.values():
        process.terminate()
        assert process.stdout is not None
        process.stdout.close()
        process.wait(20)
