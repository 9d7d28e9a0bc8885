"""Load: 10,000 cycles of fit and predict, 10⁷ rows, 200 clients, and requests that would take for ever.

    python attacks/load.py                        # all of it: about half an hour of one core
    python attacks/load.py --of rows clients      # some parts
    python attacks/load.py --of cycles --cycles 500

cycles     does memory, or the number of file handles, threads or processes, grow with fits and predictions? The growth
           is the slope of a line through the second half, with its standard error.
rows       does the memory of a prediction grow with the number of rows? Peaks are those of a process of its own.
clients    does the explorer go on answering many clients at once, and an honest user among them?
monsters   does it refuse within its budget what would never end, also many at once, and go on answering?

Figures go to attacks/results/load.json, a part at a time; the exit code is 1 if a part does not hold. Needs Linux.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "attacks" / "results" / "load.json"


def cycles(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from attacks.load_cycles import Cycles, run

    given = (
        Cycles() if options.cycles is None else Cycles(cycles=options.cycles, look_every=max(1, options.cycles // 100))
    )
    found = run(given, folder)
    print(f"{'':12}{'first':>10}{'middle':>10}{'last':>10}{'a 1,000 cycles':>22}")
    for name, (slope, error) in found["growth_per_1000"].items():
        places = "".join(f"{found[at][name]:10,.5g}" for at in ("first", "middle", "last"))
        print(f"{name:12}{places}{slope:+14.4f} ± {error:.4f}")
    return {"settings": asdict(given), "holds": holds(found), **found}


def holds(found: dict[str, Any]) -> bool:
    """Whether nothing grows: counts not at all, memory by less than a thousandth in a thousand cycles."""
    slopes = {name: slope for name, (slope, _) in found["growth_per_1000"].items()}
    memory = slopes.pop("resident_mb") / found["last"]["resident_mb"]
    return memory < 1e-3 and all(found["last"][name] <= found["middle"][name] for name in slopes)


def rows(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from attacks.load_rows import Rows, run

    given = Rows() if options.rows is None else Rows(rows=tuple(options.rows))
    found = run(given, folder)
    return {"settings": asdict(given), **found}


def clients(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from attacks.load_explorer import Clients, run_clients

    given = replace(Clients(), **({} if options.seconds is None else {"seconds": options.seconds}))
    found = run_clients(given)
    print(f"{found['requests']:,} requests in {found['seconds']} s, {found['requests_per_s']} a second")
    for kind, ms in found["ms"].items():
        print(f"{kind:10} median {ms['median']:8.1f} ms   99 % {ms['p99']:8.1f} ms   longest {ms['max']:8.1f} ms")
    for said, count in found["answers"].items():
        print(f"{count:8,} {said}")
    print("honest user:", found["honest_user"], "\nbefore", found["before"], "\nafter ", found["after"])
    return {"settings": asdict(given), "holds": not found["faults"], **found}


def monsters(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    from attacks.load_explorer import Monsters, killed_at_work, run_monsters

    given = Monsters()
    found = run_monsters(given)
    for name, one in found["alone"].items():
        print(f"{name:40}{one['seconds']:6.2f} s  {one['answer']:8} then {one['next_s']:.2f} s  {one['said']}")
    print("together:", found["together"], "\nbefore", found["before"], "\nafter ", found["after"])
    ended = killed_at_work()
    print(f"server killed at work: its workers {'end' if ended else 'DO NOT END'}")
    fine = not found["faults"] and not found["together"]["improper"] and ended
    return {"settings": asdict(given), "holds": fine, "workers_end_with_their_server": ended, **found}


PARTS: dict[str, Callable[[argparse.Namespace, Path], dict[str, Any]]] = {
    "cycles": cycles, "rows": rows, "clients": clients, "monsters": monsters,
}  # fmt: skip


def main() -> int:
    sys.path.insert(0, str(ROOT))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of", nargs="+", choices=list(PARTS), default=list(PARTS), help="parts to run")
    parser.add_argument("--cycles", type=int, help="of fit and predict")
    parser.add_argument("--rows", type=int, nargs="+", help="numbers of rows to predict")
    parser.add_argument("--seconds", type=float, help="that clients keep asking")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where the figures go")
    options = parser.parse_args()
    fine = True
    for name in options.of:
        print(f"---- {name}", flush=True)
        began = time.perf_counter()
        with tempfile.TemporaryDirectory(prefix="dssl-load-") as folder:
            found = PARTS[name](options, Path(folder))
        keep(options.json, name, {**found, "part_seconds": round(time.perf_counter() - began, 1)})
        print(f"{name}: {'holds' if found['holds'] else 'DOES NOT HOLD'}\n", flush=True)
        fine = fine and found["holds"]
    return 0 if fine else 1


def keep(path: Path, name: str, found: dict[str, Any]) -> None:
    """Put the figures of a part among those of the others."""
    import numpy as np
    import polars as pl
    import torch

    all_of_them = json.loads(path.read_text()) if path.exists() else {}
    versions = {
        "python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__,
        "polars": pl.__version__,
    }  # fmt: skip
    all_of_them[name] = {**found, "versions": versions}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(all_of_them, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    sys.exit(main())
