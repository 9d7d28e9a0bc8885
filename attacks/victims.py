"""What `attacks/kills.py` kills: work that writes files, and what must hold of them afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dssl import LabelSpace, files
from dssl.circuits.compile import cache, compiler


@dataclass(frozen=True)
class Settings:
    times: int = 50
    seed: int = 0
    rows: int = 400  # to learn from
    steps: int = 60
    checkpoint_every: int = 4
    predicted: int = 20_000
    spaces: int = 100
    variables: int = 24
    pages: int = 10
    processes: int = 8


class Broken(Exception):
    """What should hold does not."""


def hold(fact: bool, otherwise: str) -> None:
    if not fact:
        raise Broken(otherwise)


@dataclass
class Victim:
    """Work in a folder, what lies there before, and what may lie there after a kill.

    `look(folder, number)` gives a word for what it finds; `same(folder, number)` compares the end with a run in peace.
    `number` is that of the trial: some work in several ways.
    """

    name: str
    ready: Callable[[Path], None]
    work: Callable[[Path, int], Any]
    look: Callable[[Path, int], str]
    same: Callable[[Path, int], None]
    ways: int = 1
    after: tuple[str, ...] = ()  # words after which the work is not done again


def unfinished(folder: Path) -> list[str]:
    return [str(path.relative_to(folder)) for path in folder.rglob("*") if files.is_partial(path)]


def visible(folder: Path) -> dict[str, bytes]:
    """What a reader sees: every file, without what is called unfinished."""
    found = (path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder): path for path in found}
    return {str(n): p.read_bytes() for n, p in names.items() if not any(map(files.is_partial, (n, *n.parents)))}


# ---- dssl fit ----

RULES = "kind: {a, b, c}\nround, red\nkind = a -> round\nkind = b -> !round & red\nkind = c -> !red\n"
LABELS = {"a": (1, 1), "b": (0, 1), "c": (1, 0)}


def table(path: Path, rows: int, seed: int, labelled: float = 1.0) -> None:
    """Three clusters with their labels, as a CSV file."""
    rng = np.random.default_rng(seed)
    lines = ["x,y,z,kind,round,red"]
    for _ in range(rows):
        kind = "abc"[rng.integers(3)]
        point = rng.normal(size=3) + 2 * np.eye(3)["abc".index(kind)]
        label = (kind, *LABELS[kind]) if rng.random() < labelled else ("", "", "")
        lines.append(",".join([*(f"{value:.4f}" for value in point), *map(str, label)]))
    path.write_text("\n".join(lines) + "\n")


def dssl(*words: object) -> int:
    from dssl.app.cli import main

    sys.argv = ["dssl", *map(str, words)]
    return main()


def fit(folder: Path, out: str, settings: Settings, *more: object) -> int:
    """The words without the folder's name, so that what is written is the same in every folder."""
    os.chdir(folder)
    return dssl(
        "fit", "data.csv", "--rules", "labels.rules", "--out", out, "--steps", settings.steps,
        "--checkpoint-every", settings.checkpoint_every, "--test-share", 0.2, "--quiet", *more,
    )  # fmt: skip


def lasting(run: Path) -> dict[str, Any]:
    """What of a finished run is the same every time: times and dates are left out."""
    held = visible(run)
    out: dict[str, Any] = {"files": sorted(held), "weights": held["model/model.safetensors"]}
    out["preprocessing"] = held["preprocessing.json"]
    out["log"] = [line.rpartition(",")[0] for line in held["log.csv"].decode().splitlines()]
    for name in ("run.json", "summary.json", "model/model.json"):
        facts = json.loads(held[name])
        out[name] = {k: v for k, v in facts.items() if k not in ("created", "seconds", "checksum", "command")}
        for timed in ("curves", "history", "comparison"):
            for row in out[name].get(timed, []):
                row.pop("seconds", None)
    hold(held["report.html"].rstrip().endswith(b"</html>"), "the report is cut short")
    return out


class Fit:
    """Even trials begin anew, odd ones replace an older run."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.expected: dict[int, dict[str, Any]] = {}  # by way
        self.old: dict[str, bytes] = {}

    def ready(self, base: Path) -> None:
        table(base / "data.csv", self.settings.rows, 0, labelled=0.3)
        (base / "labels.rules").write_text(RULES)
        hold(fit(base, "old", self.settings, "--seed", 1) == 0, "no old run")

    def work(self, trial: Path, number: int) -> int:
        if number % 2:
            with contextlib.suppress(OSError):
                (trial / "old").rename(trial / "run")
        return fit(trial, "run", self.settings, *(["--overwrite"] if number % 2 else []))

    def look(self, trial: Path, number: int) -> str:
        strays = {p.name for p in trial.iterdir() if not files.is_partial(p)} - {
            "data.csv",
            "labels.rules",
            "old",
            "run",
        }
        hold(not strays, f"strays: {strays}")
        run = trial / "run"
        if not run.exists():
            hold(not number % 2 or (trial / "old").exists(), "the old run is gone")
            return "nothing yet"
        self._checkpoints(run / "checkpoint")
        seen = {name: data for name, data in visible(run).items() if not name.startswith("checkpoint")}
        if number % 2 and seen == visible_old(trial, self):
            return "old run"
        if not number % 2 and not seen:
            return "checkpoint" if list(run.glob("checkpoint/step-*")) else "begun"
        hold("checkpoint" not in {p.name for p in run.iterdir()}, "a new run beside its checkpoint")
        self.same(trial, number)
        return "new run"

    def _checkpoints(self, held: Path) -> None:
        from dssl.training import checkpoints

        if held.exists():
            json.loads((held / "run.json").read_text())
            for file in held.glob("step-*"):
                checkpoints.load(file)

    def same(self, trial: Path, number: int) -> None:
        got = lasting(trial / "run")
        expected = self.expected.setdefault(number % 2, got)
        different = [name for name in got if got[name] != expected[name]]
        hold(not different, f"differs from a run in peace in {different}")


def visible_old(trial: Path, victim: Fit) -> dict[str, bytes]:
    """The older run, as it was made once for all trials."""
    if not victim.old:
        victim.old = visible(trial.parent / "base" / "old")
    return victim.old


def fitting(settings: Settings) -> Victim:
    it = Fit(settings)
    return Victim("fit", it.ready, it.work, it.look, it.same, ways=2, after=("new run",))


# ---- compiling ----


def rule_sets(settings: Settings) -> list[str]:
    """Random clauses that circuits of some hundred kilobytes come from."""
    rng = random.Random(7)
    names = [f"v{i}" for i in range(settings.variables)]
    out = []
    for _ in range(settings.spaces):
        clauses = (
            " | ".join(("" if rng.random() < 0.7 else "!") + name for name in rng.sample(names, 3)) for _ in range(24)
        )
        out.append(", ".join(names) + "\n" + "\n".join(clauses))
    return out


def compile_all(folder: Path, settings: Settings, order: int = 0) -> None:
    """Compile every set with a cache in the folder, in an order of one's own, and leave the counts."""
    os.environ["DSSL_CACHE"] = str(folder / "cache")
    compiler.WORTH_KEEPING_S = -1.0  # all of them
    texts = list(enumerate(rule_sets(settings)))
    random.Random(order).shuffle(texts)
    counts = {number: LabelSpace(text).compile().count() for number, text in texts}
    (folder / f"counts-{order}.json").write_text(json.dumps([counts[i] for i in range(len(counts))]))


class Compile:
    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.expected: dict[str, Any] = {}

    def look(self, trial: Path, number: int) -> str:
        """Every file of the cache is whole, and what it would have been in peace."""
        os.environ["DSSL_CACHE"] = str(trial / "cache")
        kept = sorted(trial.glob("cache/*"))
        strays = [path.name for path in kept if not files.is_partial(path) and path.suffix != ".npz"]
        hold(not strays, f"strays: {strays}")
        kept = [path for path in kept if not files.is_partial(path)]
        for path in kept:
            arrays = cache.load(path.stem)
            hold(arrays is not None, f"{path.name} is damaged")
            held = [array.tobytes() for array in arrays or ()]
            hold(self.expected.setdefault(path.stem, held) == held, f"{path.name} is another circuit")
        tenths = 10 * len(kept) // self.settings.spaces
        return f"{10 * tenths} % kept" if tenths else "few kept"

    def same(self, trial: Path, number: int) -> None:
        self.look(trial, number)
        kept = {path.stem for path in trial.glob("cache/*.npz")}
        hold(kept == set(self.expected), f"{len(kept)} circuits kept of {len(self.expected)}")
        for file in trial.glob("counts-*.json"):
            counts = json.loads(file.read_text())
            hold(self.expected_counts(counts) == counts, f"{file.name}: wrong counts")

    def expected_counts(self, counts: list[int]) -> list[int]:
        self._counts = getattr(self, "_counts", counts)
        return self._counts


def compiling(settings: Settings) -> Victim:
    it = Compile(settings)
    return Victim("compile", lambda base: None, lambda t, n: compile_all(t, settings), it.look, it.same)


# ---- predictions and reports ----


class Predict:
    SUFFIXES = ("csv", "parquet", "jsonl")

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.new: dict[str, bytes] = {}

    def ready(self, base: Path) -> None:
        table(base / "data.csv", self.settings.rows, 0, labelled=0.3)
        (base / "labels.rules").write_text(RULES)
        hold(fit(base, "run", self.settings) == 0, "no run")
        table(base / "rows.csv", self.settings.predicted, 3)
        table(base / "old.csv", 100, 4)
        for suffix in self.SUFFIXES:
            hold(dssl("predict", "run", "old.csv", "--out", f"out.{suffix}") == 0, "no old predictions")

    def out(self, number: int) -> str:
        return f"out.{self.SUFFIXES[number % 3]}"

    def work(self, trial: Path, number: int) -> int:
        os.chdir(trial)
        return dssl("predict", "run", "rows.csv", "--out", self.out(number))

    def look(self, trial: Path, number: int) -> str:
        then, now = visible(trial.parent / "base"), visible(trial)
        name = self.out(number)
        hold(set(then) == set(now), f"strays: {set(now) - set(then)}")
        hold(all(then[n] == now[n] for n in then if n != name), "other files changed")
        if now[name] == then[name]:
            return "old"
        hold(now[name] == self.new.get(name, now[name]), "half of the predictions")
        return "new"

    def same(self, trial: Path, number: int) -> None:
        name = self.out(number)
        got = (trial / name).read_bytes()
        hold(self.new.setdefault(name, got) == got, "other predictions than in peace")


class Report:
    """Two pages take turns, so that the file changes all the time."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.pages: set[bytes] = set()

    def ready(self, base: Path) -> None:
        table(base / "data.csv", self.settings.rows, 0, labelled=0.3)
        (base / "labels.rules").write_text(RULES)
        hold(fit(base, "run", self.settings) == 0, "no run")
        shutil.copy(base / "run" / "report.html", base / "report.html")

    def work(self, trial: Path, number: int) -> None:
        from dssl.app.report import write_report
        from dssl.app.summary import Summary

        summary = Summary.load(trial / "run" / "summary.json")
        for page in range(self.settings.pages):
            write_report(replace(summary, command=f"dssl fit {page % 2}"), trial / "report.html")

    def look(self, trial: Path, number: int) -> str:
        then, now = visible(trial.parent / "base"), visible(trial)
        hold(set(then) == set(now), f"strays: {set(now) - set(then)}")
        page = now["report.html"]
        if page == then["report.html"]:
            return "old"
        self.pages.add(page)
        hold(len(self.pages) <= 2 and page.rstrip().endswith(b"</html>"), "half a page")
        return "new"

    def same(self, trial: Path, number: int) -> None:
        page = (trial / "report.html").read_bytes()
        self.pages.add(page)
        hold(len(self.pages) <= 2 and b"dssl fit 1" in page, "another page than in peace")


def predicting(settings: Settings) -> Victim:
    it = Predict(settings)
    return Victim("predict", it.ready, it.work, it.look, it.same, ways=3)


def reporting(settings: Settings) -> Victim:
    it = Report(settings)
    return Victim("report", it.ready, it.work, it.look, it.same)


VICTIMS = {"fit": fitting, "compile": compiling, "predict": predicting, "report": reporting}


def warm_up() -> None:
    """Import and compile what victims need, without starting a thread: polars' and torch's would be lost in a fork."""
    import torch

    torch.set_num_threads(1)
    import dssl.app.cli
    import dssl.app.preparation
    import dssl.app.report
    import dssl.app.trained  # noqa: F401
    from dssl import DSSLClassifier

    x, y = np.eye(6, 3), [{"kind": k, "round": LABELS[k][0], "red": LABELS[k][1]} for k in "abcabc"]
    space = LabelSpace(RULES)
    DSSLClassifier(space, steps=2, random_state=0).fit(x, space.encode(y)).predict_proba(x)
