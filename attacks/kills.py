"""kill −9 at random instants, and disks that fail: nothing lost, nothing corrupt, and a rerun succeeds.

    python attacks/kills.py                              50 of each, ten minutes or more
    python attacks/kills.py --times 3 --of fit predict   some only

`fit`      `dssl fit`, beginning anew and over an older run in turn
`compile`  a hundred rule sets compiled into one cache
`predict`  `dssl predict` over older predictions, to CSV, Parquet and JSON lines in turn
`report`   a report written again and again
`share`    eight processes that compile into one cache, one of which is killed
`disk`     `dssl fit` over an older run while the disk is full or read-only from some call on

A victim is forked from this process, which has everything imported, and killed at an instant that is uniform over the
time of a victim left in peace; every second time, from then on at the next write, within the milliseconds it takes.
Then what lies there is looked at, and the same is run again, to its end.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

for threads in ("OMP_NUM_THREADS", "POLARS_MAX_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(threads, "1")  # threads do not survive a fork

WRITE_S = 0.01  # about what a write takes
ROOT = Path(__file__).parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from attacks.failing import Disk, failing  # noqa: E402
from attacks.victims import (  # noqa: E402
    VICTIMS,
    Broken,
    Compile,
    Fit,
    Settings,
    Victim,
    compile_all,
    hold,
    unfinished,
    warm_up,
)  # fmt: skip

# ---- processes ----


def forked(work: Callable[[], Any], log: Path) -> int:
    """A process that does the work and says nothing here."""
    if pid := os.fork():
        return pid
    code = 99
    try:
        handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for standard in (1, 2):
            os.dup2(handle, standard)
        code = work() or 0
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(Exception):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def over(pid: int) -> bool:
    """Whether a process has ended, and waits to be asked how."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def ended(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def done(work: Callable[[], Any], log: Path, code: int = 0) -> float:
    """The seconds that the work takes in a process of its own; it must end with this code."""
    began = time.monotonic()
    got = ended(forked(work, log))
    hold(got == code, f"it ended with code {got} for {code}:\n{log.read_text()}")
    return time.monotonic() - began


def killed(work: Callable[[], Any], log: Path, after: float, aim: Path | None, rng: random.Random) -> bool:
    """Whether the work was still going on after so many seconds, when it was killed.

    `aim`: wait for the next write in this folder, and kill within the milliseconds that it takes.
    """
    pid = forked(work, log)
    time.sleep(after)
    until = time.monotonic() + 2 * after + 1
    while aim is not None and not unfinished(aim) and time.monotonic() < until and not over(pid):
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, WRITE_S) if aim is not None else 0)
    os.kill(pid, signal.SIGKILL)
    return ended(pid) == -signal.SIGKILL


# ---- kills ----


@dataclass
class Row:
    name: str
    kills: int = 0
    too_late: int = 0
    in_a_write: int = 0  # something unfinished was left behind
    found: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    broken: list[str] = field(default_factory=list)
    seconds_in_peace: float = 0.0
    seconds: float = 0.0


def attack(victim: Victim, top: Path, settings: Settings) -> Row:
    """Kill it so many times."""
    rng, row, began = random.Random(settings.seed), Row(victim.name), time.monotonic()
    base, log = top / victim.name / "base", top / "log"
    base.mkdir(parents=True)
    done(partial(victim.ready, base), log)
    spans = []
    for way in range(victim.ways):
        trial = fresh(base, f"peace-{way}")
        spans.append(done(partial(victim.work, trial, way), log))
        victim.same(trial, way)
    row.seconds_in_peace = round(max(spans), 2)
    number = 0
    while row.kills < settings.times and row.too_late < 3 * settings.times + 10:
        trial = fresh(base, f"trial-{number}")
        aim = trial if number // victim.ways % 2 else None
        if killed(partial(victim.work, trial, number), log, rng.uniform(0, spans[number % victim.ways]), aim, rng):
            row.kills += 1
            examine(victim, trial, number, log, row)
        else:
            row.too_late += 1
            shutil.rmtree(trial)
        number += 1
    row.seconds = round(time.monotonic() - began, 1)
    return row


def examine(victim: Victim, trial: Path, number: int, log: Path, row: Row) -> None:
    """After a kill: is all well, and does the same work then end well?"""
    try:
        row.in_a_write += bool(unfinished(trial))
        word = victim.look(trial, number)
        row.found[word] += 1
        if word not in victim.after:
            done(partial(victim.work, trial, number), log)
            hold(not unfinished(trial), f"left after a rerun: {unfinished(trial)}")
        victim.same(trial, number)
        shutil.rmtree(trial)
    except Broken as error:
        row.broken.append(f"{trial}: {error}")


def fresh(base: Path, name: str) -> Path:
    trial = base.parent / name
    shutil.copytree(base, trial)
    return trial


def sharing(top: Path, settings: Settings, rounds: int) -> Row:
    """Several processes with one cache, each in its own order; one of them is killed."""
    rng, row, began = random.Random(settings.seed), Row("share"), time.monotonic()
    it, log = Compile(settings), top / "log"
    alone = top / "share-alone"
    alone.mkdir(parents=True)
    row.seconds_in_peace = round(done(partial(compile_all, alone, settings), log), 2)
    it.look(alone, 0)
    it.same(alone, 0)
    for number in range(rounds):
        trial = top / f"share-{number}"
        trial.mkdir()
        pids = [
            forked(partial(compile_all, trial, settings, order), top / f"log-{order}")
            for order in range(settings.processes)
        ]
        time.sleep(rng.uniform(0, row.seconds_in_peace))
        victim = rng.choice(pids)
        os.kill(victim, signal.SIGKILL)
        codes = {pid: ended(pid) for pid in pids}
        row.kills += codes[victim] == -signal.SIGKILL
        row.too_late += codes[victim] == 0
        try:
            hold({codes[pid] for pid in pids if pid != victim} <= {0}, f"codes {sorted(codes.values())}")
            row.in_a_write += bool(unfinished(trial))
            row.found[it.look(trial, number)] += 1
            done(partial(compile_all, trial, settings), log)
            it.same(trial, number)
            shutil.rmtree(trial)
        except Broken as error:
            row.broken.append(f"{trial}: {error}")
    row.seconds = round(time.monotonic() - began, 1)
    return row


# ---- disks ----


def disks(top: Path, settings: Settings) -> Row:
    """`dssl fit` over an older run; from one of its calls on the disk is full, or can only be read."""
    rng, row, began = random.Random(settings.seed), Row("disk"), time.monotonic()
    it, base, log = Fit(settings), top / "disk" / "base", top / "log"
    base.mkdir(parents=True)
    done(partial(it.ready, base), log)

    def work(trial: Path, disk: Disk) -> int:
        with failing(disk):
            code = it.work(trial, 1)
        (top / "calls").write_text(str(len(disk.calls)))
        return code

    trial = fresh(base, "peace")
    row.seconds_in_peace = round(done(partial(work, trial, Disk(trial)), log), 2)
    it.same(trial, 1)
    calls = range(int((top / "calls").read_text()))
    for number, call in enumerate(rng.sample(calls, min(settings.times, len(calls)))):
        code = (errno.ENOSPC, errno.EROFS)[number % 2]
        trial = fresh(base, f"trial-{number}")
        (trial / "old").rename(trial / "run")  # while it can be written
        got = ended(forked(partial(work, trial, Disk(trial, call, code, lasting=True)), log))
        row.kills += 1
        try:
            said = log.read_text()
            hold(got in (0, 1) and "Traceback" not in said, f"call {call}: code {got}\n{said}")
            word = it.look(trial, 1)
            row.found[f"{word}, {'error' if got else 'no matter'}"] += 1
            ours = f"cannot be written: {os.strerror(code)}\nWhat was there before is untouched. "
            hold(not got or (ours in said and word == "old run"), f"call {call}, {word}:\n{said}")
            row.in_a_write += bool(unfinished(trial))
            done(partial(it.work, trial, 1), log)
            hold(not unfinished(trial), f"left after a rerun: {unfinished(trial)}")
            it.same(trial, 1)
            shutil.rmtree(trial)
        except Broken as error:
            row.broken.append(f"{trial}: {error}")
    row.seconds = round(time.monotonic() - began, 1)
    return row


# ---- the command ----


def run(name: str, top: Path, settings: Settings) -> Row:
    if name == "share":
        return sharing(top, settings, max(1, settings.times // 10))
    if name == "disk":
        return disks(top, settings)
    return attack(VICTIMS[name](settings), top, settings)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--times", type=int, default=Settings.times, help="kills of each; a tenth as many shared caches"
    )
    parser.add_argument("--of", nargs="*", choices=[*VICTIMS, "share", "disk"], help="some of them only")
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--json", type=Path, default=ROOT / "attacks" / "results" / "kills.json")
    options = parser.parse_args()
    settings = Settings(times=options.times, seed=options.seed)
    top = Path(tempfile.mkdtemp(prefix="dssl-kills-"))
    warm_up()
    rows = []
    for name in options.of or [*VICTIMS, "share", "disk"]:
        row = run(name, top, settings)
        rows.append(row)
        found = ", ".join(f"{count} {word}" for word, count in sorted(row.found.items()))
        print(
            f"{row.name:8} {row.kills:3} faults ({row.too_late} came too late), {row.in_a_write:3} within a write; "
            f"{found}; {len(row.broken)} BROKEN; {row.seconds:.0f} s",
            flush=True,
        )
        print("".join(f"    {text}\n" for text in row.broken), end="", flush=True)
    broken = sum(len(row.broken) for row in rows)
    if not broken:
        shutil.rmtree(top)
    write(options.json, settings, rows)
    return 1 if broken else 0


def write(path: Path, settings: Settings, rows: list[Row]) -> None:
    """The figures; those of victims that were spared this time stay, if they were had with the same settings."""
    victims = {row.name: {**vars(row), "found": dict(row.found)} for row in rows}
    old = json.loads(path.read_text()) if path.exists() else {}
    if old.get("settings") == asdict(settings):
        victims = {**{row["name"]: row for row in old["victims"]}, **victims}
    result = {
        "settings": asdict(settings),
        "versions": {"python": platform.python_version(), "system": platform.platform()},
        "seconds": round(sum(row["seconds"] for row in victims.values()), 1),
        "victims": list(victims.values()),
    }
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
