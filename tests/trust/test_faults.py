"""Faults: disks that fail at any call, kills, clocks that jump, caches shared, workers that die. Nothing is lost.

The full size is `python attacks/kills.py`; how single files and folders are written is in `tests/test_files.py`.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache as once
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attacks import kills, victims
from attacks.failing import Disk, failing
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import dssl
from dssl import files
from dssl.app.cli import main
from dssl.app.report import write_report
from dssl.app.runs import RunFolder, write_run
from dssl.app.summary import Summary
from dssl.circuits.circuit import Circuit
from dssl.circuits.compile import cache, compiler
from dssl.data.preprocessing import Preprocessing
from dssl.data.rows import Batch, Data
from dssl.data.stored.images import ImageFolderData
from dssl.errors import DataError, WriteError
from dssl.training import checkpoints
from dssl.training.logs import LogFile
from dssl.training.loop import Settings, train
from training.tiny_runs import TINY, TinyObjective, same_weights, tiny_data, tiny_network
from trust import right

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody pulls the plug here: what was written is seen, whether or not it has reached the disk."""
    monkeypatch.setattr(os, "fsync", lambda handle: None)


# ---- disks ----


@once
def model(version: int) -> dssl.DSSLClassifier:
    rules = "a, b\na -> b" if version else "longer, names\nlonger -> names"  # so that files differ in size, too
    classifier = dssl.DSSLClassifier(rules, network="linear", steps=2, random_state=version)
    return classifier.fit(np.eye(4, 3), np.array([[1, 1], [0, 1], [0, 0], [np.nan, np.nan]]))


@once
def prior(version: int) -> dssl.LearnedPrior:
    names = ("a", "b") if version else ("longer", "names")
    space = dssl.LabelSpace(f"{', '.join(names)}\n{names[0]} -> {names[1]}")
    return dssl.learn_prior(np.array([[1, 1], [0, 1], [0, 0]]), space)


@once
def learned(version: int) -> Any:
    rows = np.repeat([[0, 0], [0, 1], [1, 1]], 50 + version, axis=0)
    return dssl.learn_rules(rows, names=["a", "b"])


@once
def circuit(version: int) -> Circuit:
    return dssl.LabelSpace("a, b, c, d\na -> b" + " | c & d" * version).compile()


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    yield
    for made in (model, prior, learned, circuit):
        made.cache_clear()


def summary(version: int) -> Summary:
    return replace(Summary.load(right.run() / "summary.json"), seconds=float(version))


def log(folder: Path, version: int) -> None:
    rows: list[dict[str, Any]] = [{"step": 1, "loss": 0.5}]
    file = LogFile(folder / "log.csv", rows)
    for step in range(version + 1):
        rows.append({"step": step, "loss": 0.25})
        file.add(rows)


def finish(folder: Path, version: int) -> None:
    run = RunFolder.open(folder / "run", {"seed": version}, overwrite=True)
    checkpoints.save(run.checkpoint, checkpoints.Checkpoint(version, {}, {}))
    with run.finished() as fresh:
        write_run(fresh, {"seed": version})


WRITERS: dict[str, Callable[[Path, int], Any]] = {
    "model": lambda folder, version: dssl.save(model(version), folder / "model"),
    "checkpoint": lambda folder, v: checkpoints.save(folder, checkpoints.Checkpoint(v, {"a": torch.ones(9) * v}, {})),
    "circuit": lambda folder, version: circuit(version).save(folder / "circuit.npz"),
    "prior": lambda folder, version: prior(version).save(folder / "prior"),
    "rules": lambda folder, version: learned(version).save(folder / "a.rules"),
    "summary": lambda folder, version: summary(version).save(folder / "summary.json"),
    "report": lambda folder, version: write_report(summary(version), folder / "report.html"),
    "preprocessing": lambda folder, v: Preprocessing.of_names(["x"] * v, ["y"]).save(folder / "preprocessing.json"),
    "run": finish,
    "log": log,
}
FAULTS = {
    "broken once": (errno.EIO, False),
    "full": (errno.ENOSPC, True),
    "read-only": (errno.EROFS, True),
}


def content(place: Path) -> dict[str, bytes]:
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file()}


def seen(place: Path) -> dict[str, bytes | int]:
    """What a reader sees: files that are not called unfinished, by their bytes, or by their size if these vary.

    They do in archives, which are dated, and in safetensors, whose notes are in any order.
    """
    names = {
        n: data for n, data in content(place).items() if not any(map(files.is_partial, (p := Path(n), *p.parents)))
    }
    varying = (".npz", "model.json", "README.md", ".safetensors", "prior")
    return {n: len(data) if n.endswith(varying) else data for n, data in names.items()}


def refusal(write: Callable[[Path, int], Any], place: Path, disk: Disk) -> str:
    """Our error when something is written to a disk that fails, or nothing if that was no matter."""
    try:
        with failing(disk):
            write(place, 1)
    except WriteError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", WRITERS)
def test_whatever_call_fails_it_is_our_error_and_the_old_is_there(tmp_path: Path, name: str, fault: str) -> None:
    write, (code, lasting) = WRITERS[name], FAULTS[fault]
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    write(old, 0)
    shutil.copytree(old, new)
    with failing(Disk(new)) as disk:
        write(new, 1)
    assert seen(old) != seen(new)
    refused = 0
    for call in range(len(disk.calls)):
        place = tmp_path / f"{call}"
        shutil.copytree(old, place)
        said = refusal(write, place, Disk(place, call, code, lasting))
        if said:
            refused += 1
            assert said.startswith(f"'{place}/")
            assert f"' cannot be written: {os.strerror(code)}\nWhat was there before is untouched. " in said
            assert "dssl-partial" not in said
        if name not in ("run", "log"):  # which write several things, one after the other
            assert seen(place) == (seen(old) if said else seen(new))
        if code == errno.ENOSPC:
            assert set(content(place)) == set(seen(place))  # nothing unfinished stays
        write(place, 1)
        assert seen(place) == seen(new)
        assert set(content(place)) == set(seen(place))
    assert refused >= 3


def test_a_disk_that_never_fails_refuses_nothing(tmp_path: Path) -> None:
    """The twin: it is the fault that makes the error."""
    assert refusal(WRITERS["model"], tmp_path, Disk(tmp_path)) == ""
    assert refusal(WRITERS["model"], tmp_path, Disk(tmp_path, 0, lasting=True)) != ""


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_predictions_on_a_disk_that_fails(
    tmp_path: Path, suffix: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "rows.csv").write_text(right.DATA)
    out = tmp_path / f"out.{suffix}"
    words = ["predict", str(right.run()), str(tmp_path / "rows.csv"), "--out", str(out)]
    with failing(Disk(tmp_path)) as disk:
        assert main(words) == 0
    expected = out.read_bytes()
    for call in range(len(disk.calls)):
        out.write_bytes(b"old")
        with failing(Disk(tmp_path, call, code, lasting=True)):
            ended = main(words)
        said = capsys.readouterr().err
        assert (ended, out.read_bytes()) in ((0, expected), (1, b"old")), call
        assert not ended or said.startswith(f"error: '{out}' cannot be written: {os.strerror(code)}\nWhat was there")
        assert main(words) == 0
        assert out.read_bytes() == expected
        assert sorted(p.name for p in tmp_path.iterdir()) == sorted(["rows.csv", out.name])


def test_standard_output_that_is_full(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "a.rules").write_text(right.RULES)
    code = (
        f"import sys\nfrom dssl.app.cli import main\nsys.exit(main(['rules', 'check', {str(tmp_path / 'a.rules')!r}]))"
    )
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "error: the output cannot be written: No space left on device\nFree some space, and try again.\n"
    )


# ---- the cache ----


@pytest.fixture
def all_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(compiler, "WORTH_KEEPING_S", -1.0)
    return tmp_path / "cache"


def compiled(rule: str = "a -> b | c") -> Circuit:
    """By way of the cache: a space remembers its circuit, a new one asks for it."""
    return dssl.LabelSpace(f"a, b, c\n{rule}").compile()


@pytest.mark.parametrize("fault", FAULTS)
def test_a_cache_that_cannot_be_written_is_no_cache(all_kept: Path, fault: str) -> None:
    code, lasting = FAULTS[fault]
    with failing(Disk(all_kept)) as disk:
        assert compiled().count() == 7
    assert len(disk.calls) >= 5
    for call in range(len(disk.calls)):
        shutil.rmtree(all_kept)
        with failing(Disk(all_kept, call, code, lasting)):
            assert compiled().count() == 7
        assert all(files.is_partial(path) or cache.load(path.stem) for path in all_kept.glob("*"))
        assert compiled().count() == 7
        assert [path.suffix for path in all_kept.iterdir()] == [".npz"]


@pytest.mark.parametrize("years", [-30, 30])
def test_a_cache_under_any_clock(all_kept: Path, monkeypatch: pytest.MonkeyPatch, years: int) -> None:
    """Files of the future and of the past are found, left-overs of either removed, a living writer's are not."""
    then = time.time() + years * 365.25 * 86400
    compiled()
    (kept,) = all_kept.iterdir()
    left = all_kept / ".x.0123abcd.dssl-partial"
    left.touch()
    for path in (kept, left):
        os.utime(path, (then, then))
    before = kept.stat().st_ino
    monkeypatch.setattr(time, "time", lambda: then)
    with files.whole_file(all_kept / "living") as file:
        os.utime(file.name, (0, 0))
        assert compiled().count() == 7
        assert kept.stat().st_ino == before  # found, not made again
        assert compiled("a -> b & c").count() == 5
        assert not left.exists()
    assert (all_kept / "living").exists()


# ---- clocks ----


def test_a_run_under_a_clock_that_jumps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Durations never go back, the last checkpoint is that of the last step, whatever the dates of files say."""
    rng = random.Random(0)
    monkeypatch.setattr(time, "time", lambda: rng.uniform(0, 4e9))
    monkeypatch.setattr(time, "time_ns", lambda: int(rng.uniform(0, 4e18)))

    def stop(network: torch.nn.Module) -> float:
        if len(list(tmp_path.glob("run/step-*"))) == 2:
            signal.raise_signal(signal.SIGINT)
        return 0.0

    settings = replace(TINY, checkpoint=tmp_path / "run", log=tmp_path / "log.csv", steps=20)
    first = train(tiny_network(), TinyObjective(), tiny_data(), settings, validate=stop)
    assert first.stopped == "interrupted"
    for age, file in enumerate(sorted((tmp_path / "run").iterdir())):
        os.utime(file, (4e9 * (1 - age), 4e9 * (1 - age)))  # the last is the oldest
    rest = train(tiny_network(), TinyObjective(), tiny_data(), settings, validate=lambda network: 0.0)
    whole = train(tiny_network(), TinyObjective(), tiny_data(), replace(TINY, steps=20), validate=lambda n: 0.0)
    assert same_weights(rest.network, whole.network)
    seconds = [row["seconds"] for row in rest.rows]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0
    assert seconds[-1] < 600


# ---- workers ----


def test_a_worker_that_is_killed_while_it_decodes_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="images need pillow")
    for number in range(8):
        folder = tmp_path / "images" / ("dark" if number % 2 else "light")
        folder.mkdir(parents=True, exist_ok=True)
        image.fromarray(np.full((4, 4, 3), 30 * number, np.uint8)).save(folder / f"{number}.png")
    space = dssl.LabelSpace.classes(["dark", "light"])
    settings = Settings(
        steps=12, labelled_batch=4, unlabelled_batch=0, checkpoint_every=2, eval_every=3, accelerator="cpu"
    )

    def trained(data: Data, checkpoints: Path | None, kill: ImageFolderData | None = None) -> torch.nn.Module:
        def validate(network: torch.nn.Module) -> float:
            if kill is not None and kill._pool is not None:
                for pid in list(kill._pool._processes):
                    with contextlib.suppress(ProcessLookupError):  # killed at the validation before
                        os.kill(pid, signal.SIGKILL)
            return 0.0

        torch.manual_seed(0)
        network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2))
        objective = dssl.Objective(space, None)
        return train(network, objective, data, replace(settings, checkpoint=checkpoints), validate=validate).network

    data = ImageFolderData(tmp_path / "images", space, size=(4, 4), workers=1)
    with pytest.raises(DataError, match=r"decodes images of '.*images' was ended.*\nWith a checkpoint .*fewer workers"):
        trained(data, tmp_path / "run", kill=data)
    assert list((tmp_path / "run").glob("step-*"))
    again = trained(data, tmp_path / "run")  # the same data, with a new worker
    data.close()
    plain = ImageFolderData(tmp_path / "images", space, size=(4, 4))
    assert same_weights(again, trained(plain, None))


class Mortal(Dataset[tuple[Tensor, Tensor]]):
    """Rows whose reader is killed while a file is there, as for want of memory."""

    def __init__(self, data: Data, file: Path) -> None:
        self.rows, self.file = data.batch(np.arange(len(data))), file

    def __len__(self) -> int:
        return len(self.rows.x)

    def __getitem__(self, number: int) -> tuple[Tensor, Tensor]:
        if self.file.exists():
            os.kill(os.getpid(), signal.SIGKILL)
        return self.rows.x[number], self.rows.y[number]


class Loaded(Data):
    """A user's own rows, fetched by torch's DataLoader with worker processes."""

    def __init__(self, data: Data, file: Path, workers: int) -> None:
        self.labelled, self.unlabelled = data.labelled, data.unlabelled
        self.rows, self.workers = Mortal(data, file), workers

    def __len__(self) -> int:
        return len(self.rows)

    def batch(self, indices: Any) -> Batch:
        loader = DataLoader(self.rows, len(indices), sampler=list(map(int, indices)), num_workers=self.workers)
        ((x, y),) = loader
        return Batch(x, y, torch.ones(len(x)))


def test_a_dataloaders_worker_that_is_killed(tmp_path: Path) -> None:
    """Torch says so, the last checkpoint stays, and the run goes on to what it would have been."""

    def trained(workers: int, checkpoints: Path | None, deadly: bool = False) -> torch.nn.Module:
        def validate(network: torch.nn.Module) -> float:
            if deadly:
                (tmp_path / "kill").touch()
            return 0.0

        data = Loaded(tiny_data(), tmp_path / "kill", workers)
        settings = replace(TINY, steps=9, eval_every=5, checkpoint=checkpoints)
        return train(tiny_network(), TinyObjective(), data, settings, validate=validate).network

    with pytest.raises(RuntimeError, match=r"DataLoader worker .*(killed by signal|exited unexpectedly)"):
        trained(1, tmp_path / "run", deadly=True)
    (tmp_path / "kill").unlink()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["step-000000003.safetensors"]
    assert same_weights(trained(1, tmp_path / "run"), trained(0, None))


# ---- processes ----

SMALL = kills.Settings(times=1, rows=60, steps=12, checkpoint_every=2, predicted=300, spaces=8, pages=2, processes=2)
PROCESSES = """
import json, os, shutil, signal, sys
from pathlib import Path
from attacks import kills, victims
from dssl.training.loop import _Run

top, settings = Path(sys.argv[1]), kills.Settings(**json.loads(sys.argv[2]))
kills.warm_up()
rows = [kills.run(name, top, settings) for name in ("fit", "compile", "predict", "share", "disk")]

fit = victims.Fit(settings)
shutil.copytree(top / "fit" / "base", top / "asked")
update = _Run.update

def asked(self, loss):
    if self.step == 5:
        os.kill(os.getpid(), signal.SIGTERM)
    update(self, loss)

def work():
    _Run.update = asked
    return fit.work(top / "asked", 0)

code = kills.ended(kills.forked(work, top / "log"))
said = (top / "log").read_text()
found = fit.look(top / "asked", 0)
kills.done(lambda: fit.work(top / "asked", 0), top / "log")
same = [(top / name / "run" / "model" / "model.safetensors").read_bytes() for name in ("asked", "fit/peace-0")]
print(json.dumps({"rows": [vars(row) for row in rows], "asked": [code, said, found, same[0] == same[1]]}))
"""


def test_kills_shared_caches_failing_disks_and_a_request_to_end(tmp_path: Path) -> None:
    """`attacks/kills.py` in small, in a process without threads; and SIGTERM in the sixth step of a run."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESSES, str(tmp_path), json.dumps(vars(SMALL))],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    for row in told["rows"]:
        assert row["broken"] == []
        assert row["kills"] + row["too_late"] >= 1
    code, said, found, same = told["asked"]
    assert code == -signal.SIGTERM
    assert re.search("interrupted at step [67] of 12; saved in 'run/checkpoint': run the same again to resume", said)
    assert (found, same) == ("checkpoint", True)


@pytest.mark.parametrize("damage", [lambda data: data[:-9], lambda data: b"", lambda data: data + b"x"])
def test_the_attack_would_notice(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """The twin: predictions that are neither the old nor the new ones, and a file that nobody asked for."""
    victim = victims.Predict(SMALL)
    for name in ("base", "trial"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "out.csv").write_bytes(b"old")
    victim.new["out.csv"] = b"all of the new rows"
    (tmp_path / "trial" / "out.csv").write_bytes(damage(b"all of the new rows"))
    with pytest.raises(victims.Broken, match="half of the predictions"):
        victim.look(tmp_path / "trial", 0)
    (tmp_path / "trial" / "out.csv").write_bytes(b"all of the new rows")
    assert victim.look(tmp_path / "trial", 0) == "new"
    (tmp_path / "trial" / ".out.csv.partial").touch()
    with pytest.raises(victims.Broken, match="strays"):
        victim.look(tmp_path / "trial", 0)
