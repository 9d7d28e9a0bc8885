"""Load on a small scale: the functions of `attacks/load.py`, with fewer cycles, rows and clients."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from attacks import load, load_cycles, load_explorer, load_rows
from attacks.load_cycles import Cycles, Look, cycle, look
from attacks.load_explorer import SHARES, Clients, Server, Tally

from dssl import LabelSpace
from dssl.app.cli import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is read from /proc")

# ---- cycles ----

WARM = (*range(10), 25, 31, 50, 81)  # one of each kind: what is loaded once, and threads that stay, are there after it
AGAIN = (*range(100, 112), 125, 131, 150, 181)
COUNTED = ("handles", "children", "objects", "threads")


def left_by(work: Callable[[], object]) -> dict[str, int]:
    """What is there after some work that was not there before; of threads those of Python: libraries' come and go."""
    before, threads = look(), threading.active_count()
    work()
    after = look()
    grown = {name: getattr(after, name) - getattr(before, name) for name in COUNTED}
    return grown | {"threads": threading.active_count() - threads}


def test_cycles_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path / "cache"))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)

    def run(numbers: tuple[int, ...]) -> None:
        for number in numbers:
            cycle(number, Cycles(), tmp_path)

    try:
        run(WARM)
        alive = load_cycles.ours()
        assert left_by(lambda: run(AGAIN)) == dict.fromkeys(COUNTED, 0), load_cycles.ours() - alive
    finally:
        torch.set_num_threads(threads)


def test_what_is_left_behind_is_seen(tmp_path: Path) -> None:
    """The twin: an object of ours in a cycle that is held, a file that is not closed, a thread that waits."""
    held: list[Any] = []
    stop = threading.Event()

    def leave() -> None:
        held.extend([LabelSpace("legs, fins"), open(tmp_path / "f", "w"), threading.Thread(target=stop.wait)])  # noqa: SIM115
        held[-1].start()

    def take_away() -> None:
        stop.set()
        held.pop().join()
        held.pop().close()
        held.clear()

    found = left_by(leave)
    assert found["objects"] > 0
    assert (found["handles"], found["threads"]) == (1, 1)
    assert left_by(take_away) == {name: -count for name, count in found.items()}


def looks(memory: Callable[[int], float], handles: Callable[[int], int] = lambda t: 5) -> list[Look]:
    return [Look(t, 0.0, memory(t), handles(t), 1, 0, 60) for t in range(100, 10_001, 100)]


def verdict(found: list[Look]) -> bool:
    names = ("resident_mb", *COUNTED)
    slopes = {name: load_cycles.growth(found, name) for name in names}
    return load.holds({"growth_per_1000": slopes, "middle": vars(found[50]), "last": vars(found[-1])})


def test_growth_is_the_slope_of_the_second_half() -> None:
    slope, error = load_cycles.growth(looks(lambda t: 500 + max(0, t - 5000) / 1000 * 2), "resident_mb")
    assert slope == pytest.approx(2, rel=0.01)
    assert error < 0.02
    slope, error = load_cycles.growth(looks(lambda t: 500 + min(t, 4000) + (t // 100) % 2), "resident_mb")
    assert abs(slope) < 2 * error


def test_the_verdict_is_about_what_grows() -> None:
    assert verdict(looks(lambda t: 500 + min(t, 4000) / 100))
    assert not verdict(looks(lambda t: 500 + t / 1000))
    assert not verdict(looks(lambda t: 500, lambda t: 5 + t // 9000))


# ---- rows ----

FEW, MANY = 100_000, 500_000
SLACK_MB = 30.0


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    load_rows.fit(folder, lambda words: main(words))
    return folder / "run"


def alone(script: str, *words: str | Path, **environment: str) -> float:
    """The number of MB a script prints last, run in a process of its own.

    One that has held and freed much before does not show what is held anew, or shows what is not.
    """
    command = [sys.executable, "-c", script, *words]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


AHEAD = """
import os, sys, time
from pathlib import Path
from dssl.data.tables import stream

def held():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

short, long = map(Path, sys.argv[1:])
for _ in stream(short):  # what is loaded once is there
    pass
begun = held()
parts = stream(long)
next(parts)
time.sleep(1.0)  # a busy user of the first part
print((held() - begun) / 2**20)
"""


def test_files_are_not_read_far_ahead(tmp_path: Path) -> None:
    short, long = tmp_path / "short.csv", tmp_path / "long.csv"
    for file, rows in ((short, 10_000), (long, 4_000_000)):
        file.write_bytes(b"weight,speed,home\n" + b"0.123,-1.234,land\n" * rows)  # 72 MB the long one
    assert alone(AHEAD, short, long) < SLACK_MB
    by_itself = alone(AHEAD, short, long, POLARS_CSV_CHUNK_SIZE=str(1 << 24))  # the twin: as polars does it
    assert by_itself > 2 * SLACK_MB


PREDICT = """
import sys
from pathlib import Path
from dssl.app import trained
from dssl.app.cli import main

if sys.argv[1] == "whole":
    trained.CHUNK = None
assert main(["predict", sys.argv[2], sys.argv[3], "--out", sys.argv[4]]) == 0
print(int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024)
"""


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_memory_does_not_grow_with_rows(model: Path, tmp_path: Path, suffix: str) -> None:
    few = load_rows.write(tmp_path / "few.csv", FEW, 0)
    many = load_rows.write(tmp_path / "many.csv", MANY, 0)
    out = [tmp_path / f"labels-{name}{suffix}" for name in ("few", "many", "whole")]
    small = alone(PREDICT, "in parts", model, few, out[0])
    assert alone(PREDICT, "in parts", model, many, out[1]) - small < SLACK_MB
    if suffix == ".csv":  # the twin: were the file read as a whole, it would be seen, and give the same
        assert load_rows.begins(out[1], out[0])
        assert alone(PREDICT, "whole", model, many, out[2]) - small > 2 * SLACK_MB
        assert out[2].read_bytes() == out[1].read_bytes()


def test_a_fault_in_the_last_line_leaves_nothing(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(words: list[str]) -> tuple[int, str]:
        return main(words), capsys.readouterr().err

    assert load_rows.refused_halfway(model, load_rows.write(tmp_path / "rows.csv", 20_000, 0), command)


# ---- the explorer ----


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with load_explorer.server() as here:
        yield here


def test_twenty_clients_are_answered_and_nothing_stays(server: Server) -> None:
    before, tally = server.held(), Tally({kind: [] for kind in SHARES}, Counter())
    served = asyncio.run(load_explorer.attend(server, Clients(clients=20, seconds=2.0), tally))
    assert tally.faults() == {}
    assert served
    assert {kind for kind, _ in tally.answers} == set(SHARES)
    end = time.monotonic() + 60
    while server.held().handles > before.handles and time.monotonic() < end:
        time.sleep(0.1)
    after = server.held()
    assert after.handles <= before.handles
    assert after.workers == before.workers


def test_an_improper_answer_is_a_fault() -> None:
    counted = Counter({("page", "200"): 5, ("new", "busy"): 2, ("new", "500"): 1, ("wrong", "200, not 403"): 1})
    assert Tally({}, counted).faults() == {"new: 500": 1, "wrong: 200, not 403": 1}
    answer = load_explorer.Answer
    assert answer(503, {"retry-after": "2"}, b"", 0.0).kind == "busy"
    assert answer(503, {}, b"", 0.0).kind == "503 without Retry-After"
    assert not load_explorer.proper(answer(200, {}, b'{"count": "6"}', 0.0))
    assert not load_explorer.proper(answer(500, {}, b"{}", 0.0))


def test_monsters_are_refused_and_the_next_request_is_answered(server: Server) -> None:
    chosen = load_explorer.monsters()

    async def meet(name: str) -> dict[str, Any]:
        answer = await load_explorer.call(server, *chosen[name])
        assert load_explorer.proper(answer), answer
        await load_explorer.honest(server, len(name))
        return dict(json.loads(answer.body))

    assert "compiling took more than" in asyncio.run(meet("3-CNF, 200 variables"))["refused"]
    assert "larger than 64 KB" in asyncio.run(meet("a text of 10⁶ characters"))["message"]
    assert "compiling took more than" in asyncio.run(meet("weighted sums"))["refused"]
    assert len(server.workers()) == 2
