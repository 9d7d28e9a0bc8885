"""Server: addresses, answers that were given before, and starting it all on a port of this machine."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
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

from dssl.app.explorer.guard import Guard
from dssl.app.explorer.pool import Busy, Pool
from dssl.app.runs import REPORT, model_folder
from dssl.errors import DataError

_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_KEPT = 16 << 20  # bytes of answers
_CONNECTIONS = 1000
_LONGEST_RULES = 20_000  # characters of a file of rules that the page opens with
CALLS = ("rules", "diagnosis", "beliefs", "triangle", "gaussians")
RUN_CALLS = ("run", "prediction")

# A report has its own, stricter policy within it. In its frame it has no origin, so it cannot call this server.
REPORT_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "form-action 'none'; sandbox allow-scripts; frame-ancestors 'self'"
)


class Asked(Protocol):
    """What answers calls: a `Pool`, or anything that gives status and body."""

    ready: int
    failure: str

    async def ask(self, name: str, request: Any) -> tuple[int, dict[str, Any]]: ...


class Answers:
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

    async def _ask(self, key: tuple[str, bytes], request: Any) -> tuple[int, bytes]:
        try:
            status, answer = await self.asked.ask(key[0], request)
        finally:
            del self._under_way[key]
        body = json.dumps(answer).encode()
        if status == 200 and "refused" not in answer:  # a refusal may be due to the moment
            self._kept[key] = body
            self._size += len(key[1]) + len(body)
            while self._size > _KEPT:
                (_, old), gone = self._kept.popitem(last=False)
                self._size -= len(old) + len(gone)
        return status, body


# ---- the application ----


def application(pool: Pool | Asked, port: int, *, text: str | None = None, run: Path | None = None) -> ASGIApp:
    """The page as an ASGI application that answers at 127.0.0.1 and this port."""
    answers = Answers(pool)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        if isinstance(pool, Pool):
            async with pool:
                yield
        else:
            yield

    async def state(_: Request) -> Response:
        return JSONResponse({"ready": pool.ready > 0, "failure": pool.failure, "run": run is not None, "text": text})

    async def call(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in CALLS and (run is None or name not in RUN_CALLS):
            raise HTTPException(404, f"there is no call '{name[:40]}'.")
        if request.headers.get("content-type", "").split(";")[0].strip() != "application/json":
            raise HTTPException(415, "calls are JSON: send content-type application/json.")
        try:
            asked = json.loads(await request.body())
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is not JSON that this server can read.") from None
        try:
            status, body = await answers(name, asked)
        except Busy as busy:
            raise HTTPException(503, str(busy), headers={"retry-after": "2"}) from None
        return Response(body, status, media_type="application/json")

    async def report(_: Request) -> Response:
        page = run / REPORT if run is not None else None
        if page is None or not page.is_file():
            raise HTTPException(404, "this run has no report.html.")
        html = await asyncio.to_thread(page.read_text, encoding="utf-8")
        return HTMLResponse(html, headers={"content-security-policy": REPORT_POLICY})

    routes = [
        *(Route(address, _file(content, kind)) for address, content, kind in _static()),
        Route("/api/state", state),
        Route("/api/{name}", call, methods=["POST"]),
        Route("/run/report", report),
    ]
    handlers: Any = {HTTPException: _refusal, Exception: _failure}
    return Guard(Starlette(routes=routes, lifespan=lifespan, exception_handlers=handlers), port)


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


def run(path: Path | None, port: int, open_browser: bool) -> None:
    """Serve until interrupted."""
    text, folder = opened(path)
    command = [sys.executable, "-m", "dssl.app.explorer.worker", *([str(folder)] if folder is not None else [])]
    listener = bound(port)
    port = listener.getsockname()[1]
    address = f"http://127.0.0.1:{port}/"

    class Announced(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            print(f"dssl explorer: {address}   (Ctrl-C ends it)", flush=True)
            if open_browser:
                webbrowser.open(address)

    async def main() -> None:
        app = application(Pool(command), port, text=text, run=folder)
        settings = uvicorn.Config(app, log_level="warning", limit_concurrency=_CONNECTIONS, server_header=False)
        await Announced(settings).serve([listener])

    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        pass
    finally:
        listener.close()


def bound(port: int) -> socket.socket:
    """A socket on 127.0.0.1, and on nothing else."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        listener.close()
        raise DataError(
            f"port {port} of 127.0.0.1 cannot be had: {error}\nChoose another with --port; 0 is any that is free."
        ) from None
    return listener


def opened(path: Path | None) -> tuple[str | None, Path | None]:
    """The text of a file of rules, or the folder of a run."""
    if path is None:
        return None, None
    if not path.exists():
        raise DataError(f"there is no '{path}'\nGive a file of rules, or the folder of a run.")
    if path.is_dir():
        return None, checked(path)
    from dssl.logic.sources import read_text

    text = read_text(path)
    if len(text) > _LONGEST_RULES:
        raise DataError(
            f"'{path}' has {len(text):,} characters, and the explorer shows up to {_LONGEST_RULES:,}\n"
            "Use dssl rules check for it."
        )
    return text, None


def checked(folder: Path) -> Path:
    """The folder of a run or of a saved model, if it looks like one."""
    if not (model_folder(folder)[0] / "model.json").is_file():
        raise DataError(
            f"'{folder}' is neither a run nor a saved model: there is no model.json in it\n"
            "Give the folder that dssl fit --out wrote, or that dssl.save wrote."
        )
    return folder.resolve()
