"""The explorer under many clients, and under requests that would take for ever.

The server is started as users start it. Clients speak plain HTTP over sockets of their own and ask again as soon as
they are answered: files of the page, its calls with texts that were asked before and new ones, requests that are wrong
(to be refused with the right status), and requests whose client leaves before the answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attacks.load_cycles import MEGABYTE, binary, clauses, mixed
from dssl.app.explorer.guard import MOST_BODY

PAGES = ("/", "/app.js", "/calls.js", "/rules.js", "/beliefs.js", "/style.css", "/icon.svg", "/api/state")
TRIES, PAUSE_S = 5, 2.0  # of the page, when the server is busy
SETTLED_MB = 5.0  # by which the memory of workers may still change when they count as ready
HANG_S = 60.0  # no answer may take longer: budget and patience of the server are far below
SHARES = {"page": 50, "known": 35, "new": 8, "wrong": 5, "gone": 2}  # of 100 requests


@dataclass(frozen=True)
class Clients:
    clients: int = 200
    seconds: float = 60.0
    settle_s: float = 8.0  # after the last request: connections close when they idle for five
    seed: int = 0


@dataclass(frozen=True)
class Monsters:
    together: int = 40
    longest_s: float = 10.0  # for a monster that comes alone: six of work, and starting a worker beside it
    settle_s: float = 8.0
    seed: int = 0


# ---- the server ----


@dataclass(frozen=True)
class Held:
    """What the processes of a server hold."""

    server_mb: float
    workers_mb: float
    handles: int
    workers: int


class Server:
    """`dssl explore` as a process of its own."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        self.process = process
        place, _, self.token = address.rstrip("/").rpartition("/")
        self.port = int(place.rpartition(":")[2])

    def workers(self) -> list[int]:
        """Numbers of its worker processes."""
        try:
            tasks = list(Path(f"/proc/{self.process.pid}/task").iterdir())
            return [int(pid) for task in tasks for pid in (task / "children").read_text().split()]
        except FileNotFoundError:  # it has ended
            return []

    def held(self) -> Held:
        workers = self.workers()
        handles = len(os.listdir(f"/proc/{self.process.pid}/fd"))
        return Held(_resident(self.process.pid), sum(map(_resident, workers)), handles, len(workers))


@contextlib.contextmanager
def server() -> Iterator[Server]:
    """A server that is ready, and that leaves no process behind."""
    command = [sys.executable, "-m", "dssl", "explore", "--no-browser"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
    assert process.stdout is not None
    workers: list[int] = []
    try:
        here = Server(process, process.stdout.readline().split()[2])
        asyncio.run(_until_ready(here, workers=2))
        yield here
        workers = here.workers()
        process.send_signal(signal.SIGINT)
        process.wait(30)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    left = [pid for pid in workers if Path(f"/proc/{pid}").exists()]
    assert not left, f"workers {left} outlive their server"


async def _until_ready(server: Server, workers: int) -> None:
    """Wait until so many workers run and have in memory what answers need."""
    rng, held = random.Random(0), 0.0
    async with asyncio.timeout(600):
        while not json.loads((await ask(server, "GET", "/api/state")).body)["ready"] or len(server.workers()) < workers:
            await asyncio.sleep(0.2)
        while True:
            each = [_resident(pid) for pid in server.workers()]
            if abs(sum(each) - held) < SETTLED_MB and min(each) > 0.8 * max(each):
                return
            held = sum(each)
            await asyncio.sleep(1.0)
            await asyncio.gather(*(call(server, *new_call(rng)) for _ in range(8 * workers)))


def _resident(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


# ---- HTTP ----


@dataclass(frozen=True)
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float

    @property
    def kind(self) -> str:
        """What it is, for counting; 503 is proper only if it says when to ask again."""
        if self.status == 503:
            return "busy" if self.headers.get("retry-after", "").isdigit() else "503 without Retry-After"
        if self.status == 200 and self.body.startswith(b'{"refused"'):
            return "refused"
        return str(self.status)


class Connection:
    """A connection that is kept as long as the server keeps it."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(
        self, method: str, path: str, body: bytes = b"", host: str = "", kind: str = "application/json"
    ) -> None:
        """Send a request, on a new connection if there is none."""
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.server.port)
        host = host or f"127.0.0.1:{self.server.port}"
        told = f"host: {host}\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}"
        head = f"{method} /{self.server.token}{path} HTTP/1.1\r\n{told}\r\n\r\n"
        self.streams[1].write(head.encode() + body)
        with contextlib.suppress(ConnectionError):  # a refused body is not read to its end
            await self.streams[1].drain()

    async def receive(self) -> Answer:
        assert self.streams is not None
        began, reader = time.perf_counter(), self.streams[0]
        async with asyncio.timeout(HANG_S):
            first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines if line)}
            body = await reader.readexactly(int(headers.get("content-length", 0)))
        if headers.get("connection") == "close":
            self.close()
        return Answer(int(first.split()[1]), headers, body, time.perf_counter() - began)

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


async def ask(server: Server, *request: Any, **more: Any) -> Answer:
    """One request on a connection of its own."""
    connection = Connection(server)
    try:
        await connection.send(*request, **more)
        return await connection.receive()
    finally:
        connection.close()


async def call(server: Server, name: str, request: Any) -> Answer:
    return await ask(server, "POST", f"/api/{name}", json.dumps(request).encode())


# ---- clients ----


def new_call(rng: random.Random) -> tuple[str, dict[str, Any]]:
    """A call of the page about rules that nobody has asked of before."""
    text = rng.choice((binary, mixed))(rng) + f"\n# {rng.random()}"
    name = rng.choice(("rules", "rules", "diagnosis", "beliefs"))
    if name == "beliefs":
        return name, {"text": "a, b, c\na -> !b", "values": [round(rng.uniform(0.01, 0.99), 6) for _ in range(3)]}
    return name, {"text": text}


KNOWN: list[tuple[str, dict[str, Any]]] = [
    *((name, {"text": mixed(random.Random(i))}) for i in range(6) for name in ("rules", "diagnosis")),
    ("beliefs", {"text": "a, b, c\na -> !b", "values": [0.3, 0.6, 0.5]}),
    ("triangle", {"steps": 24}),
    ("gaussians", {}),
]
WRONG: list[tuple[int, tuple[Any, ...], dict[str, str]]] = [
    (403, ("GET", "/"), {"host": "evil.example:80"}),
    (404, ("GET", "/none"), {}),
    (405, ("GET", "/api/rules"), {}),
    (415, ("POST", "/api/rules", b"{}"), {"kind": "text/plain"}),
    (400, ("POST", "/api/rules", b"{"), {}),
    (400, ("POST", "/api/rules", b"[" * 60_000), {}),
    (413, ("POST", "/api/rules", b" " * (MOST_BODY + 1)), {}),
]


@dataclass
class Tally:
    """What clients met: seconds by kind of request, answers by kind of request and answer."""

    seconds: dict[str, list[float]]
    answers: Counter[tuple[str, str]]

    def proper(self, kind: str, answer: str) -> bool:
        """Whether an answer is as it should be."""
        return answer in {"wrong": ("as it should",), "gone": ("left",)}.get(kind, ("200", "refused", "busy"))

    def faults(self) -> dict[str, int]:
        return {f"{kind}: {answer}": n for (kind, answer), n in self.answers.items() if not self.proper(kind, answer)}


async def client(server: Server, rng: random.Random, until: float, tally: Tally) -> None:
    """Ask again and again."""
    connection = Connection(server)
    while time.perf_counter() < until:
        kind = rng.choices(list(SHARES), list(SHARES.values()))[0]
        began = time.perf_counter()
        try:
            said = await one(connection, kind, rng)
        except (OSError, asyncio.IncompleteReadError, TimeoutError) as error:
            said = type(error).__name__
            connection.close()
        tally.seconds[kind].append(time.perf_counter() - began)
        tally.answers[kind, said] += 1
    connection.close()


async def one(connection: Connection, kind: str, rng: random.Random) -> str:
    """One request of a kind, and what came of it."""
    if kind == "page":
        await connection.send("GET", rng.choice(PAGES))
    elif kind == "wrong":
        status, request, more = rng.choice(WRONG)
        connection.close()  # refusals end connections
        await connection.send(*request, **more)
        said = (await connection.receive()).status
        connection.close()
        return "as it should" if said == status else f"{said}, not {status}"
    else:
        name, body = rng.choice(KNOWN) if kind == "known" else new_call(rng)
        await connection.send("POST", f"/api/{name}", json.dumps(body).encode())
    if kind == "gone":
        connection.close()
        return "left"
    return (await connection.receive()).kind


async def honest(server: Server, number: int) -> tuple[float, int]:
    """What one who uses the page sees: seconds until a new text is answered, asking again as the page does."""
    began = time.perf_counter()
    for turn in range(TRIES):
        answer = await call(server, "rules", {"text": f"legs, fins, n{number}\nlegs -> !fins"})
        if answer.status != 503:
            assert json.loads(answer.body)["count"] == "6", answer.body[:200]
            return time.perf_counter() - began, turn
        await asyncio.sleep(PAUSE_S)
    raise AssertionError(f"an honest user was turned away {TRIES} times")


async def attend(server: Server, given: Clients, tally: Tally) -> list[tuple[float, int]]:
    """All clients at once, and an honest user among them who asks once a second or so."""
    until = time.perf_counter() + given.seconds
    crowd = [
        asyncio.create_task(client(server, random.Random(f"{given.seed} {i}"), until, tally))
        for i in range(given.clients)
    ]
    served = []
    while time.perf_counter() < until:
        await asyncio.sleep(min(1.0, given.seconds / 4))
        served.append(await honest(server, len(served)))
    await asyncio.gather(*crowd)
    return served


def run_clients(given: Clients) -> dict[str, Any]:
    with server() as here:
        tally = Tally({kind: [] for kind in SHARES}, Counter())
        before, began = here.held(), time.perf_counter()
        served = asyncio.run(attend(here, given, tally))
        seconds = time.perf_counter() - began
        time.sleep(given.settle_s)
        after = here.held()
    total = sum(tally.answers.values())
    return {
        "seconds": round(seconds, 1), "requests": total, "requests_per_s": round(total / seconds),
        "answers": {f"{kind}: {said}": n for (kind, said), n in sorted(tally.answers.items())},
        "faults": tally.faults(),
        "ms": {kind: _quantiles(found) for kind, found in tally.seconds.items() if kind != "gone"},
        "honest_user": {"asked": len(served), "again": sum(turn for _, turn in served),
                        "ms": _quantiles([each for each, _ in served])},
        "before": vars(before), "after": vars(after),
    }  # fmt: skip


def _quantiles(seconds: list[float]) -> dict[str, float]:
    ms = 1000 * np.array(seconds or [float("nan")])
    return {name: round(float(np.quantile(ms, q)), 1) for name, q in (("median", 0.5), ("p99", 0.99), ("max", 1.0))}


# ---- monsters ----


def monsters(seed: int = 0) -> dict[str, tuple[str, dict[str, Any]]]:
    """Requests that would take for ever, or fill the memory, were they worked on to the end."""
    rng = random.Random(seed)
    v = [f"v{i}" for i in range(600)]

    def cnf(variables: int, ratio: float) -> str:
        return "\n".join([", ".join(v[:variables]), *clauses(rng, v[:variables], int(ratio * variables))])

    parity = [" ^ ".join(rng.sample(v[:120], 6)) for _ in range(80)]
    sums = [
        " + ".join(f"{rng.randint(1, 9999)} * {name}" for name in rng.sample(v[:60], 30)) + " <= 75000"
        for _ in range(6)
    ]
    digits = [f"d{i}: 0..59" for i in range(9)]
    total = [f"d{i} + 2 * d{i + 1} != d{i + 2} + d{(i + 5) % 9}" for i in range(7)]
    nested = "v0"
    for i in range(1, 400):
        nested = f"({nested} <-> v{i})" if i % 2 else f"({nested} ^ v{i})"
    deep = "(" * 9_000 + "v0" + ")" * 9_000
    holes = [f"p{i}_{j}" for i in range(13) for j in range(12)]
    pigeons = [
        ", ".join(holes),
        *(f"any({', '.join(f'p{i}_{j}' for j in range(12))})" for i in range(13)),
        *(f"at_most(1, {', '.join(f'p{i}_{j}' for i in range(13))})" for j in range(12)),
    ]
    texts = {
        "3-CNF, 200 variables": cnf(200, 3.0),
        "3-CNF, 200 variables, hard": cnf(200, 4.2),
        "at_most of 600": "\n".join(
            [", ".join(v), *(f"at_most({k}, {', '.join(rng.sample(v, 300))})" for k in (90, 120))]
        ),
        "at_most of 5,000": ", ".join(f"u{i}" for i in range(5000)),
        "weighted sums": "\n".join([", ".join(v[:60]), *sums]),
        "sums of numbers": "\n".join([*digits, *total]),
        "parity chains": "\n".join([", ".join(v[:120]), *parity]),
        "nested parity": "\n".join([", ".join(v[:400]), nested]),
        "9,000 brackets": f"v0\n{deep}",
        "13 pigeons in 12 holes": "\n".join(pigeons),
        "a range of 10¹²": "n: 0..999999999999",
        "a text of 10⁶ characters": "legs\n" + "# long\n" * 150_000,
    }
    out = {name: ("rules", {"text": text}) for name, text in texts.items()}
    out |= {
        f"{name}, diagnosed": ("diagnosis", {"text": texts[name]})
        for name in ("3-CNF, 200 variables, hard", "13 pigeons in 12 holes", "parity chains")
    }
    return out | {"beliefs of 200 columns": ("beliefs", {"text": cnf(200, 3.0), "values": [0.5] * 200})}


def proper(answer: Answer) -> bool:
    """Whether a monster was turned away as it should be: refused, told what is wrong, too long, or come back later."""
    if answer.kind in ("refused", "busy", "413"):
        return True
    return answer.status == 200 and set(json.loads(answer.body)) & {"error", "findings"} != set()


async def alone(server: Server, seed: int) -> dict[str, dict[str, Any]]:
    """Each monster by itself, and an honest user's request after it."""
    out = {}
    for number, (name, (to, request)) in enumerate(monsters(seed).items()):
        answer = await call(server, to, request)
        seconds, _ = await honest(server, 1000 + number)
        said = answer.body[:90].decode(errors="replace")
        out[name] = {
            "seconds": round(answer.seconds, 2), "answer": answer.kind, "proper": proper(answer), "said": said,
            "next_s": round(seconds, 2),
        }  # fmt: skip
    return out


async def together(server: Server, given: Monsters) -> dict[str, Any]:
    """Many monsters at once, each a little different, and an honest user who comes while they are there."""
    chosen = [
        (to, {**request, "text": request["text"] + f"\n# {i}"})
        for i in range(-(-given.together // len(monsters())))
        for to, request in monsters(given.seed + 1 + i).values()
    ][: given.together]
    began = time.perf_counter()
    crowd = [asyncio.create_task(call(server, to, request)) for to, request in chosen]
    await asyncio.sleep(0.5)
    workers = server.held().workers
    seconds, turns = await honest(server, 2000)
    answers = await asyncio.gather(*crowd)
    return {
        "monsters": len(answers), "answers": dict(Counter(answer.kind for answer in answers)),
        "improper": sum(not proper(answer) for answer in answers), "workers_meanwhile": workers,
        "seconds": round(time.perf_counter() - began, 1), "longest_s": round(max(a.seconds for a in answers), 1),
        "honest_user_s": round(seconds, 2), "honest_user_asked": turns + 1,
    }  # fmt: skip


def run_monsters(given: Monsters) -> dict[str, Any]:
    with server() as here:
        before = here.held()
        each = asyncio.run(alone(here, given.seed))
        many = asyncio.run(together(here, given))
        asyncio.run(_until_ready(here, workers=2))
        time.sleep(given.settle_s)
        after = here.held()
    faults = [f"{name}: {found['answer']}" for name, found in each.items() if not found["proper"]]
    faults += [f"{name}: {found['seconds']} s" for name, found in each.items() if found["seconds"] > given.longest_s]
    return {"alone": each, "together": many, "faults": faults, "before": vars(before), "after": vars(after)}


def killed_at_work() -> bool:
    """Whether workers end when their server is killed in the middle of a monster, though none is left to end them."""
    with server() as here:
        workers = here.workers()

        async def go() -> None:
            asked = [asyncio.create_task(call(here, *monsters()["13 pigeons in 12 holes, diagnosed"]))]
            await asyncio.sleep(1.0)
            here.process.kill()
            await asyncio.gather(*asked, return_exceptions=True)

        asyncio.run(go())
        end = time.monotonic() + HANG_S
        while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in workers):
            time.sleep(0.2)
        return not any(Path(f"/proc/{pid}").exists() for pid in workers)
