"""Topics of Reuters' news from their texts: `dssl fit` as it is, beside a linear support vector machine per topic.

    DSSL_DATA=… python experiments/news.py            # the first 70 % of the news to learn from, the rest to test on
    DSSL_DATA=… python experiments/news.py --choose   # the same within these 70 %: what settings were chosen on

News have a date, a title and a body, and one or several of 120 topics. Some rows to learn from keep their topics; the
others are given to `dssl fit` too, and not to the machines, which have no use for them. Both see TF-IDF: `dssl fit` as
it makes it of all rows, the machines of title and body of the labelled rows, better for them than that of all rows.
Topics that only test rows have count as missed, for both.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import tempfile
import time
import warnings
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
from ledger import Ledger
from published_cases import folder
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import MultiLabelBinarizer
from sklearn.svm import LinearSVC

from dssl.app.cli import main as dssl

Rows = list[dict[str, str]]


@dataclass(frozen=True)
class Settings:
    labels: tuple[int, ...] = (200, 1000, 7913)
    draws: int = 3  # of the rows that keep their labels
    learned: float = 0.7  # share of the rows to learn from: the first ones
    tests: bool = True  # on the rest; otherwise on the last of the rows to learn from


def rows() -> Rows:
    """News in the order of their numbers."""
    with gzip.open(folder() / "reuters" / "reuters.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: int(row["id"]))


def cut(news: Rows, share: float) -> tuple[Rows, Rows]:
    """The first rows, to learn from, and the rest."""
    at = int(share * len(news))
    return news[:at], news[at:]


def kept(news: Rows, labels: int, draw: int) -> Rows:
    """The rows to learn from, of which only some keep their topics."""
    some = set(np.random.RandomState(draw).permutation(len(news))[:labels].tolist())
    return [row if i in some else {**row, "topics": ""} for i, row in enumerate(news)]


# ---- the two ----


def by_dssl(train: Rows, test: Rows) -> dict[str, float]:
    """F1 of all topics together, and the share of rows whose topics are all right, by the command line."""
    with tempfile.TemporaryDirectory() as place:
        learn, ask, run = (Path(place) / name for name in ("train.csv", "test.csv", "run"))
        for path, some in ((learn, train), (ask, test)):
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.DictWriter(file, [*some[0]])
                writer.writeheader()
                writer.writerows(some)
        began = time.perf_counter()
        _run("fit", learn, "--label", "topics", "--out", run)
        seconds = time.perf_counter() - began
        found = json.loads(_run("evaluate", run, ask))
    return {"f1": found["f1"], "exact": found["accuracy"], "seconds": seconds}


def _run(*words: Any) -> str:
    with redirect_stdout(StringIO()) as said:
        status = dssl([*map(str, words), "--json"])
    if status:
        raise SystemExit(status)
    return said.getvalue()


def by_machines(train: Rows, test: Rows) -> dict[str, float]:
    """The same by one linear support vector machine per topic, with scikit-learn's settings."""
    began = time.perf_counter()
    known = [row for row in train if row["topics"]]
    every = MultiLabelBinarizer().fit([row["topics"].split() for row in (*known, *test)])
    y, truth = (every.transform([row["topics"].split() for row in some]) for some in (known, test))
    words = TfidfVectorizer(sublinear_tf=True, min_df=2)
    x = words.fit_transform([f"{row['title']} {row['body']}" for row in known])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # topics that no labelled row has
        machines = OneVsRestClassifier(LinearSVC()).fit(x, y)
    said = machines.predict(words.transform([f"{row['title']} {row['body']}" for row in test]))
    exact = float((said == truth).all(axis=1).mean())
    return {
        "f1": float(f1_score(truth, said, average="micro")), "exact": exact, "seconds": time.perf_counter() - began,
    }  # fmt: skip


# ---- the table ----

WAYS = {"dssl fit": by_dssl, "machines": by_machines}


def one(labels: int, draw: int, way: str, settings: Settings) -> dict[str, float]:
    """What one way makes of one draw."""
    news = rows() if settings.tests else cut(rows(), settings.learned)[0]
    learned, test = cut(news, settings.learned)
    return WAYS[way](kept(learned, labels, draw), test)


def cases(settings: Settings) -> list[dict[str, Any]]:
    """One for each number of labels, draw and way; with all labels there is one draw."""
    draws = [(n, draw) for n in settings.labels for draw in range(settings.draws if n < max(settings.labels) else 1)]
    return [{"labels": labels, "draw": draw, "way": way} for labels, draw in draws for way in WAYS]


def table(runs: list[dict[str, Any]]) -> str:
    """Means over draws."""
    lines = [f"{'labels':>6}  {'way':8}  {'F1':>5}  {'exact':>5}  {'seconds':>7}"]
    for labels in sorted({run["labels"] for run in runs}):
        for way in WAYS:
            some = [run for run in runs if (run["labels"], run["way"]) == (labels, way)]
            f1, exact, seconds = (float(np.mean([run[name] for run in some])) for name in ("f1", "exact", "seconds"))
            lines.append(f"{labels:6,}  {way:8}  {f1:.3f}  {exact:.3f}  {seconds:7.0f}")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--choose", action="store_true", help="look at no test row, and keep nothing")
    parser.add_argument("--draws", type=int, default=Settings.draws)
    told = parser.parse_args()
    if told.choose:
        settings = Settings((200, 1000, 5539), told.draws, tests=False)
        runs = [case | one(**case, settings=settings) for case in cases(settings)]
    else:
        ledger = Ledger("news", settings := Settings(draws=told.draws))
        ledger.complete(partial(one, settings=settings), cases(settings))
        ledger.keep(cases(settings))
        runs = ledger.runs
    print(table(runs))


if __name__ == "__main__":
    main()
