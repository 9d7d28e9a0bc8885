"""Ctrl-C: how long it takes until it is heard, in everything that can take long on large rules.

    python attacks/interrupts.py                              all parts, half an hour or more
    python attacks/interrupts.py --part chain_compile wide    parts whose names begin so
    python attacks/interrupts.py --list

A part is one call on a large instance, in a process of its own. First it runs in peace under a clock that ticks every
20 ms. Python hears signals between two of its own steps only, so the longest silence between two ticks is the longest
that any Ctrl-C can wait, whenever it comes. Then real ones are sent: half at random times, half in the midst of the
longest silence. The call must raise `KeyboardInterrupt`, and after the last of them the same call on the same object
must come to the same result as in peace. Silences and waits are seconds of the processor, so that a busy machine does
not make them longer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(Path(__file__).parent.parent))

from attacks.large import PARTS

RESULTS = Path(__file__).parent / "results" / "interrupts.json"
TICK_S = 0.02
LIMIT_S = 1.0  # what a Ctrl-C may wait
LONG_S = 900.0  # what a part may take in all
MARK = "interrupts: "

# ---- in the process of a part ----


class Clock:
    """Ticks while a call runs, and knows when and where the longest silence was."""

    def __init__(self) -> None:
        self.silence, self.at, self.where = 0.0, 0.0, ""

    def __enter__(self) -> Clock:
        self.began, self.last = time.monotonic(), time.process_time()
        signal.signal(signal.SIGALRM, self._tick)
        signal.setitimer(signal.ITIMER_REAL, TICK_S, TICK_S)
        return self

    def _tick(self, _number: int, frame: Any) -> None:
        silence = time.process_time() - self.last
        if silence > self.silence:
            self.silence, self.at = silence, max(time.monotonic() - self.began - silence, 0.0)
            self.where = " < ".join(
                f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(traceback.extract_stack(frame)[-3:])
            )
        self.last = time.process_time()

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        self.seconds = time.monotonic() - self.began


class Ears:
    """Hear Ctrl-C as Python does by default, but only while a call runs: one may come just after it."""

    def __init__(self) -> None:
        self.open = False
        signal.signal(signal.SIGINT, self._hear)

    def _hear(self, number: int, frame: Any) -> None:
        if self.open:
            signal.default_int_handler(number, frame)

    def heard(self, act: Callable[[Any], Any], thing: Any) -> float | None:
        """Seconds of the processor used when the call was interrupted; None if it came to its end."""
        try:
            try:
                self.open = True
                tell(ready=time.monotonic())
                act(thing)
            finally:
                self.open = False
        except KeyboardInterrupt:
            return time.process_time()
        return None


def tell(**what: Any) -> None:
    print(MARK + json.dumps(what), flush=True)


def gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def child(name: str) -> None:
    """Run a part in peace, then once for every line of input, each of which is followed by a Ctrl-C."""
    prepare, act = PARTS[name]
    thing = prepare()
    before = gigabytes()
    with Clock() as clock:
        result = act(thing)
    tell(
        seconds=clock.seconds, silence=clock.silence, at=clock.at, where=clock.where,
        gigabytes=gigabytes(), before=before, result=result,
    )  # fmt: skip
    ears = Ears()
    for line in sys.stdin:
        if line.strip() == "end":
            tell(same=act(thing) == result)
            return
        tell(heard=ears.heard(act, thing))


# ---- in the process that looks on ----


def used(pid: int) -> float:
    """Seconds of the processor that another process has used, to a hundredth."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Part:
    """The process of a part, and what it says."""

    def __init__(self, name: str) -> None:
        command = [sys.executable, __file__, "--child", name]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.until = time.monotonic() + LONG_S

    def said(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(MARK):
                out: dict[str, Any] = json.loads(line.removeprefix(MARK))
                return out
        raise EOFError

    def ask(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.said()

    def wait(self, after: float) -> float | None:
        """Send a Ctrl-C so many seconds into the call; how long it took to be heard, None if the call was over."""
        ready = self.ask("go")["ready"]
        time.sleep(max(ready + after - time.monotonic(), 0.0))
        sent = used(self.process.pid)
        self.process.send_signal(signal.SIGINT)
        heard = self.said()["heard"]
        return None if heard is None else heard - sent


def measured(name: str, times: int) -> dict[str, Any]:
    part = Part(name)
    try:
        out = part.said()
        chance = random.Random(name)
        instants = [chance.uniform(0, out["seconds"]) for _ in range(times - times // 2)]
        instants += [out["at"] + chance.uniform(0, 0.5) * out["silence"] for _ in range(times // 2)]
        waits = [part.wait(after) for after in instants if time.monotonic() < part.until]
        heard = [wait for wait in waits if wait is not None]
        out |= {"sent": len(waits), "heard": len(heard), "longest": max(heard, default=0.0)}
        return out | part.ask("end")
    except (EOFError, BrokenPipeError):
        return {"died": part.process.wait()}
    finally:
        part.process.kill()
        part.process.wait()


def shown(name: str, found: dict[str, Any]) -> str:
    if "died" in found:
        return f"{name:28} died with code {found['died']}"
    return (
        f"{name:28}{found['seconds']:8.1f} s{found['gigabytes'] - found['before']:7.2f} GB"
        f"{found['silence']:8.2f} s silent{found['longest']:8.2f} s waited at most, "
        f"{found['heard']} of {found['sent']} heard, {'same' if found['same'] else 'OTHER'} result after"
        + (f"\n{'':28}at {found['at']:.1f} s in {found['where']}" if found["silence"] > LIMIT_S / 2 else "")
    )


def bad(found: dict[str, Any]) -> bool:
    return "died" in found or max(found["silence"], found["longest"]) > LIMIT_S or not found["same"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", nargs="+", default=[""], metavar="NAME", help="beginnings of names")
    parser.add_argument("--times", type=int, default=4, help="how often each part gets a Ctrl-C")
    parser.add_argument("--list", action="store_true", help="print the parts")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child)
        return 0
    names = [name for name in PARTS if name.startswith(tuple(options.part))]
    if options.list:
        print("\n".join(names))
        return 0
    everything = {}
    for name in names:
        everything[name] = measured(name, options.times)
        print(shown(name, everything[name]), flush=True)
    if len(names) == len(PARTS):
        RESULTS.write_text(json.dumps({"machine": platform.platform(), "parts": everything}, indent=1) + "\n")
    slow = [name for name, found in everything.items() if bad(found)]
    print(
        f"{len(names) - len(slow)} of {len(names)} parts answer Ctrl-C within {LIMIT_S:g} s"
        + f", not {slow}" * bool(slow)
    )
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
