"""Server: addresses, a cache of answers, and starting it all on a port of this machine."""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import webbrowser
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from dssl.app.explorer.background import Background, worker_command
from dssl.app.explorer.guard import Guard
from dssl.app.explorer.pool import Busy, Pool
from dssl.app.explorer.screens import Screens
from dssl.app.runs import REPORT, SUMMARY, model_folder
from dssl.errors import DataError

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_KEPT = 16 << 20  # bytes of answers
_CONNECTIONS = 1000
_TOKEN = 18  # random bytes
_DATA = (".csv", ".tsv", ".parquet", ".npz", ".arff", ".gz", ".jsonl", ".xlsx")
_LONGEST_RULES = 20_000  # characters of a file of rules that the page opens with
CALLS = ("rules", "diagnosis", "beliefs", "triangle", "gaussians")
RUN_CALLS = ("run", "prediction", "suppose")
# Calls of a run that change what is there, or tell what is there now
FRESH_CALLS = ("next", "answer", "undo", "effects", "proposals", "keep", "refit", "progress")

# A report has its own, stricter policy within it. In its frame it has no origin, so it cannot call this server.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; sandbox allow-scripts allow-downloads; frame-ancestors 'self'"
)


class Asked(Protocol):
    """What answers calls: a `Pool`, or anything that returns status and body."""

    ready: int
    failure: str

    async def ask(self, name: str, request: Any) -> tuple[int, dict[str, Any]]: ...


class AnswerCache:
    """Answers by call and body: equal requests are worked on once, and answered from memory afterwards."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._kept: OrderedDict[tuple[str, bytes], bytes] = OrderedDict()
        self._size = 0
        self._under_way: dict[tuple[str, bytes], asyncio.Task[tuple[int, bytes]]] = {}

    async def __call__(self, name: str, request: Any) -> tuple[int, bytes]:
        key = name, json.dumps(request, sort_keys=True).encode()
        if key in self._kept:
            self._kept.move_to_end(key)
            return 200, self._kept[key]
        if key not in self._under_way:
            self._under_way[key] = asyncio.create_task(self._ask(key, request))
        return await asyncio.shield(self._under_way[key])

    def forget(self) -> None:
        """Drop all answers: those who give them know something else now."""
        self._kept.clear()
        self._size = 0

    async def fresh(self, name: str, request: Any) -> tuple[int, bytes]:
        """An answer that is never taken from memory, nor kept there."""
        status, answer = await self.asked.ask(name, request)
        return status, json.dumps(answer).encode()

    async def _ask(self, key: tuple[str, bytes], request: Any) -> tuple[int, bytes]:
        try:
            status, answer = await self.asked.ask(key[0], request)
        finally:
            del self._under_way[key]
        body = json.dumps(answer).encode()
        if status == 200 and "refused" not in answer:  # a refusal may be temporary
            self._kept[key] = body
            self._size += len(key[1]) + len(body)
            while self._size > _KEPT:
                (_, old), gone = self._kept.popitem(last=False)
                self._size -= len(old) + len(gone)
        return status, body


# ---- the application ----


def application(
    pool: Pool | Asked,
    port: int,
    token: str,
    *,
    text: str | None = None,
    run: Path | None = None,
    tab: str = "run",
) -> ASGIApp:
    """The page as an ASGI application that answers at 127.0.0.1 and this port, below the path `/token`."""
    page = _Page(pool, text, run, tab)
    routes = [
        *(Route(address, _file(content, kind)) for address, content, kind in _static()),
        Route("/api/state", page.state),
        Route("/api/{name}", page.call, methods=["POST"]),
        Route("/run/report", page.report),
    ]
    handlers: Any = {HTTPException: _refusal, Exception: _failure}
    return Guard(Starlette(routes=routes, lifespan=page.lifespan, exception_handlers=handlers), port, token)


class _Page:
    """What the page asks, and what it is told."""

    def __init__(self, pool: Pool | Asked, text: str | None, run: Path | None, tab: str) -> None:
        self.pool, self.text, self.run, self.tab = pool, text, run, tab
        self.answers, self.screens, self.choosing = AnswerCache(pool), Screens(), asyncio.Lock()
        self.kept: list[Any] = []  # files of rules that this page wrote
        self.opened = Background(run, pool.renew if isinstance(pool, Pool) else None)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        if isinstance(self.pool, Pool):
            async with self.pool, self.opened:
                yield
        else:
            yield

    async def state(self, _: Request) -> Response:
        ready, failure = self.pool.ready > 0, self.pool.failure
        said = {"ready": ready, "failure": failure, "run": self.run is not None, "text": self.text, "tab": self.tab}
        return JSONResponse(said)

    async def call(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in CALLS and (self.run is None or name not in (*RUN_CALLS, *FRESH_CALLS)):
            raise HTTPException(404, f"there is no call '{name[:40]}'.")
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise HTTPException(415, "calls are JSON: send content-type application/json.")
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is not JSON that this server can read.") from None
        try:
            status, body = await self._answer(name, asked)
        except Busy as busy:
            raise HTTPException(503, str(busy), headers={"retry-after": "2"}) from None
        return Response(body, status, media_type="application/json")

    async def _answer(self, name: str, asked: Any) -> tuple[int, bytes]:
        if name in ("refit", "progress"):
            told = await (self.opened.begin(self._rules_of(asked)) if name == "refit" else self.opened.progress())
            if told.pop("renewed", False):
                self.answers.forget()
            return 200, json.dumps(told).encode()
        if name == "next":
            return await self._next_row(asked)
        if name not in FRESH_CALLS:
            return await self.answers(name, asked)
        status, body = await self.answers.fresh(name, asked)
        if name == "keep":
            self.kept.append(json.loads(body).get("kept"))
        return status, body

    def _rules_of(self, asked: Any) -> Path | None:
        """The file of rules that a refit is asked to use: one that this page wrote beside the data."""
        given = asked.get("rules") if isinstance(asked, dict) else None
        if given is not None and given not in self.kept:
            raise HTTPException(400, "a refit takes rules that this page has kept in a file.")
        return None if given is None else Path(given)

    async def _next_row(self, asked: Any) -> tuple[int, bytes]:
        """The next row to label, which is then on one page only."""
        page = str(asked.get("page", ""))[:80] if isinstance(asked, dict) else ""
        async with self.choosing:
            told = {**asked, "taken": self.screens.taken(page)} if isinstance(asked, dict) else asked
            status, body = await self.answers.fresh("next", told)
            row = json.loads(body).get("row")
            if isinstance(row, int):
                self.screens.show(page, row)
        return status, body

    async def report(self, _: Request) -> Response:
        page = self.opened.run / REPORT if self.opened.run is not None else None
        if page is None or not page.is_file():
            raise HTTPException(404, "this run has no report.html.")
        html = await asyncio.to_thread(page.read_text, encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": REPORT_POLICY})


def _static() -> list[tuple[str, bytes, str]]:
    """Address, content and type of each file of the page."""
    out = []
    for file in sorted(resources.files("dssl.app.explorer").joinpath("static").iterdir(), key=lambda f: f.name):
        kind = _TYPES.get(Path(file.name).suffix)
        if kind is not None:
            out.append(("/" if file.name == "index.html" else f"/{file.name}", file.read_bytes(), kind))
    return out


def _file(content: bytes, kind: str) -> Any:
    async def give(_: Request) -> Response:
        return Response(content, media_type=kind)

    return give


async def _refusal(_: Request, error: HTTPException) -> Response:
    message = {404: "there is nothing at this address.", 405: "this address does not take that method."}
    said = error.detail if error.detail and error.detail[0].islower() else message.get(error.status_code, error.detail)
    return JSONResponse({"message": said}, error.status_code, headers=error.headers)


async def _failure(_: Request, error: Exception) -> Response:
    return JSONResponse({"message": "the server failed on this request; its terminal says why."}, 500)


# ---- running ----


def run(path: Path | None, port: int, open_browser: bool, tab: str = "run") -> None:
    """Serve until interrupted."""
    text, folder = opened(path)
    command = worker_command(folder)
    listener = bound(port)
    port = listener.getsockname()[1]
    token = secrets.token_urlsafe(_TOKEN)
    address = f"http://127.0.0.1:{port}/{token}/"

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"dssl explorer: {address}   (Ctrl-C ends it)", flush=True)
            if open_browser:
                webbrowser.open(address)

    async def main() -> None:
        app = application(Pool(command), port, token, text=text, run=folder, tab=tab)
        settings = uvicorn.Config(app, log_level="warning", limit_concurrency=_CONNECTIONS, server_header=False)
        await Announced(settings).serve([listener])

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()


def bound(port: int) -> socket.socket:
    """A socket on 127.0.0.1 only."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise DataError(
            f"port {port} of 127.0.0.1 cannot be used: {error}\nChoose another with --port; 0 picks a free one."
        ) from None
    return listener


def opened(path: Path | None) -> tuple[str | None, Path | None]:
    """The text of a file of rules, or the folder of a run."""
    if path is None:
        return None, None
    if not path.exists():
        raise DataError(f"there is no '{path}'\nGive a file of rules, or the folder of a run.")
    if path.is_dir():
        folder = checked(path)
        return rules_text(folder), folder
    if path.suffix.lower() in _DATA:
        raise DataError(
            f"'{path}' is data, and the explorer opens rules or a run\n"
            f"Fit a model first: dssl fit {path} --label COLUMN --out run. Then: dssl explore run."
        )
    from dssl.logic.sources import read_text

    text = read_text(path)
    if len(text) > _LONGEST_RULES:
        raise DataError(
            f"'{path}' has {len(text):,} characters, and the explorer shows up to {_LONGEST_RULES:,}\n"
            "Use dssl rules check for it."
        )
    return text, None


def rules_text(run: Path) -> str | None:
    """The variables and rules of a run as text, if they are short enough for the page."""
    try:
        text = json.loads((run / SUMMARY).read_text(encoding="utf-8"))["space"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return text if isinstance(text, str) and len(text) <= _LONGEST_RULES else None


def checked(folder: Path) -> Path:
    """The folder of a run or of a saved model, if it looks like one."""
    if not (model_folder(folder)[0] / "model.json").is_file():
        raise DataError(
            f"'{folder}' is neither a run nor a saved model: there is no model.json in it\n"
            "Give the folder that dssl fit --out wrote, or that dssl.save wrote."
        )
    return folder.resolve()
