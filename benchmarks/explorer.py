"""The explorer under load: many clients at once for a minute, some of whom ask for what cannot be compiled.

    python benchmarks/explorer.py                    # 200 clients, 60 s; results/explorer.json

Every client sends its next request as soon as it has an answer. No two requests are equal, so none is answered from
memory. A monster is a rule set whose circuit no budget of a page can hold, or one on which a SAT solver is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import re
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import numpy as np

RESULTS = Path(__file__).parent / "results" / "explorer.json"
ANIMALS = "species: {cat, dog, trout}\nlegs, fins\nspecies = trout -> fins & !legs\nlegs -> !fins"


@dataclass(frozen=True)
class Plan:
    clients: int = 200
    seconds: float = 60.0
    monsters: float = 0.002  # share of requests
    seed: int = 0


def ordinary(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """What a reader who types and moves sliders sends."""
    kind = chance.choice(["rules", "beliefs", "beliefs", "beliefs", "triangle", "gaussians"])
    tag = f"# {chance.random()}\n"
    values = [chance.uniform(-4, 4) for _ in range(3)] + [chance.uniform(0.01, 0.99) for _ in range(2)]
    return kind, {
        "rules": {"text": tag + ANIMALS},
        "beliefs": {"text": ANIMALS, "values": values, "power": chance.uniform(1, 20)},
        "triangle": {"power": chance.uniform(1, 20)},
        "gaussians": {"separation": chance.uniform(0.5, 5), "pi": chance.uniform(0.1, 0.9)},
    }[kind]


def monster(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """Random clauses over 150 variables, or eleven pigeons for ten holes."""
    if chance.random() < 0.5:
        names = [f"x{i}" for i in range(150)]
        lines = [" | ".join(chance.choice(["", "!"]) + n for n in chance.sample(names, 3)) for _ in range(300)]
        return "rules", {"text": ", ".join(names) + "\n" + "\n".join(lines)}
    pigeons = [f"p{i}: 0..9" for i in range(11)]
    apart = [f"p{i} != p{j}" for i in range(11) for j in range(i)]
    return "rules", {"text": f"# {chance.random()}\n" + "\n".join(pigeons + apart)}


async def client(
    at: SplitResult, until: float, chance: random.Random, plan: Plan, seen: list[tuple[str, int, float]]
) -> None:
    reader, writer = await asyncio.open_connection(at.hostname, at.port)
    while time.monotonic() < until:
        large = chance.random() < plan.monsters
        name, request = (monster if large else ordinary)(chance)
        began = time.monotonic()
        status, answer = await call(reader, writer, at, name, request)
        kind = "monster refused" if large and b'"refused"' in answer else "monster" if large else "ordinary"
        seen.append((kind, status, time.monotonic() - began))
    writer.close()


async def call(reader: Any, writer: Any, at: SplitResult, name: str, request: Any) -> tuple[int, bytes]:
    """One request on a connection that stays open."""
    body = json.dumps(request).encode()
    head = f"POST {at.path}api/{name} HTTP/1.1\r\nhost: {at.netloc}\r\ncontent-type: application/json\r\n"
    writer.write(head.encode() + f"content-length: {len(body)}\r\n\r\n".encode() + body)
    answer = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", answer)
    assert length is not None
    return int(answer[9:12]), await reader.readexactly(int(length[1]))


async def ready(at: SplitResult) -> None:
    while True:
        reader, writer = await asyncio.open_connection(at.hostname, at.port)
        writer.write(f"GET {at.path}api/state HTTP/1.1\r\nhost: {at.netloc}\r\nconnection: close\r\n\r\n".encode())
        said = await reader.read()
        writer.close()
        if b'"ready":true' in said:
            return
        await asyncio.sleep(0.5)


async def storm(at: SplitResult, plan: Plan) -> list[tuple[str, int, float]]:
    await ready(at)
    seen: list[tuple[str, int, float]] = []
    until = time.monotonic() + plan.seconds
    clients = [client(at, until, random.Random(f"{plan.seed} {i}"), plan, seen) for i in range(plan.clients)]
    await asyncio.gather(*clients)
    await asyncio.wait_for(ready(at), 60)  # it still answers
    return seen


def memory(pid: int) -> int:
    """Megabytes that a process and its children hold, on Linux; 0 elsewhere."""
    family = [pid]
    for each in family:
        family += [int(c) for f in Path(f"/proc/{each}/task").glob("*/children") for c in f.read_text().split()]
    pages = [int(Path(f"/proc/{p}/statm").read_text().split()[1]) for p in family if Path(f"/proc/{p}/statm").exists()]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") >> 20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in asdict(Plan()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value)
    plan = Plan(**vars(parser.parse_args()))
    code = "from dssl.app.explorer import serve; serve(open_browser=False)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        seen = asyncio.run(storm(urlsplit(server.stdout.readline().split()[2]), plan))
        megabytes = memory(server.pid)
        server.terminate()
    found: dict[str, Any] = {
        "statuses": Counter(f"{kind}, {status}" for kind, status, _ in seen),
        "megabytes": megabytes,
    }
    for kind in ("ordinary", "monster refused"):
        took = np.array([t for k, status, t in seen if k == kind and status == 200])
        if len(took):
            found[kind] = {"answers a second": len(took) / plan.seconds, "median s": float(np.median(took)),
                           "99 % s": float(np.quantile(took, 0.99)), "longest s": float(took.max())}  # fmt: skip
    machine = {"processor": platform.machine(), "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    RESULTS.write_text(json.dumps({"plan": asdict(plan), "machine": machine, "results": found}, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
