"""Numbers of circuits and priors, in float32 and float64, against 60 digits of mpmath.

    python attacks/precision.py                   # all families and sizes, some minutes
    python attacks/precision.py --most 2000       # circuits of up to 2,000 edges only
    python attacks/precision.py --families sums --powers 0.5 100

`attacks.exact` walks a circuit's nodes one by one, and shares no code with the kernels.
What it is given are the logits as float32 has them, which float64 has too, so that every difference is ours.

How large may an error be? Let u be half the distance from 1 to the next float, w(y) the weight of a label. Weights come
as logarithms that are rounded, so log w(y) is off by a few u·L(y), L(y) = Σ_v |log w_v(y)|, whatever is done with it;
to first order that moves log q by the mean of u·L(y) over p(y) ∝ w(y), and a probability by no more than that either.
Where weights come from logits, log θ is off by a few u·(1 + |log θ|), and L(y) = T·Σ_v (1 + |log θ_v(y)|).
On top a product or a sum of the circuit is off by a few u: P counts those that lead to one label, at most. The
logarithms of what n blocks sum to, a_v, are added one after the other, each addition off by u times the sum. So

    |error of log q| ≤ 4u · (E[L] + P + n + n·Σ_v |a_v|),        |error of a probability| ≤ 4u · (E[L] + P + n)

"share" is the largest part of that bound which was seen; above 1 is a finding. A value's error is also shown as it is,
divided by max(1, |value|); that of a gradient is of μ − θ, the gradient of log q / T.
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "attacks" / "results" / "precision.json"


def show(tally: Any) -> str:
    """A line a quantity and type: the worst error by size for logits up to scale 30, at ±1e4, and the worst share."""
    from attacks.precision_checks import CLASSES

    sizes = ["none", *(f"≤ {c:,}" for c in CLASSES), "more"]
    head = f"{'quantity':26} {'type':8}" + "".join(f"{size:>10}" for size in sizes)
    lines = [f"{head}{'±1e4':>10}{'share':>8}  not finite"]
    for quantity, dtype in dict.fromkeys((key[3], key[1]) for key in tally.rows):
        own = {key: row for key, row in tally.rows.items() if (key[3], key[1]) == (quantity, dtype)}
        tame = {key: row for key, row in own.items() if key[4] in ("1", "30")}
        cells = [[row["error"] for key, row in tame.items() if key[0] == size] for size in sizes]
        cells.append([row["error"] for key, row in own.items() if key not in tame])
        shown = "".join(f"{max(errors):10.1e}" if errors else f"{'':10}" for errors in cells)
        share, bad = max(r["share"] for r in own.values()), sum(r["not finite"] for r in own.values())
        lines.append(f"{quantity:26} {dtype:8}{shown}{share:8.3f}  {bad}")
    return "\n".join(lines)


def main() -> int:
    """All of it; the exit code is 1 if a bound was broken or a number was not finite."""
    sys.path.insert(0, str(ROOT))
    import mpmath
    import numpy as np
    import torch

    import dssl
    from attacks.precision_checks import FAMILIES, Settings, run

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--most", type=int, default=Settings.most, help="edges of the largest circuit")
    parser.add_argument("--families", nargs="*", choices=FAMILIES, default=list(Settings.families))
    parser.add_argument("--powers", nargs="*", type=float, default=list(Settings.powers))
    parser.add_argument("--seed", type=int, default=Settings.seed)
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    settings = Settings(given.seed, most=given.most, families=tuple(given.families), powers=tuple(given.powers))
    torch.set_num_threads(1)
    began = time.monotonic()
    tally = run(settings, lambda text: print(text, flush=True))
    print(show(tally))
    versions = {"python": platform.python_version(), "dssl": dssl.__version__, "torch": torch.__version__}
    given.out.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "settings": asdict(settings),
        "versions": versions | {"mpmath": mpmath.__version__, "numpy": np.__version__},
        "seconds": round(time.monotonic() - began, 1),
        "processor seconds": round(time.process_time(), 1),
        "numbers": sum(row["numbers"] for row in tally.rows.values()),
        "not finite": sum(row["not finite"] for row in tally.rows.values()),
        "worst share of the bound": tally.worst("share"),
        "circuits": tally.circuits,
        "rows": tally.table(),
    }
    given.out.write_text(json.dumps(facts, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{facts['numbers']:,} numbers, {facts['not finite']} not finite, {facts['processor seconds']} s")
    return int(bool(facts["not finite"]) or tally.worst("share") > 1)


if __name__ == "__main__":
    sys.exit(main())
