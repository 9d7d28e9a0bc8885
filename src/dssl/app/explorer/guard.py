"""Guard: what reaches the application, and what every answer carries. An ASGI middleware.

A page in a browser can send requests to any port of its reader's machine. So requests must name this server as their
host (a foreign name that resolves to 127.0.0.1 does not), calls must come from its own page, and bodies are short.
Other users of the machine can connect too. So every address begins with a random token that only the terminal shows; it
is in the path because a cookie would be sent to every other port of the machine as well.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BODY = 64 * 1024  # bytes
PATIENCE_S = 10.0  # for the body of a request

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses addresses without the token, foreign hosts and origins and large bodies.

    It takes the token out of the path, and adds the headers that keep the page to itself.
    """

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self.app, self.root = app, f"/{token}"
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}
        if port == 80:
            self.hosts |= {"127.0.0.1", "localhost"}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets here
        send = _with_headers(send)
        fault = self._fault(scope)
        if fault is None and scope["path"] == self.root:  # addresses in the page are relative to the slash
            await _refuse(send, 307, "this page's address ends with a slash.", (b"location", f"{self.root}/".encode()))
            return
        if fault is None:
            body = await _body(scope, receive)
            if isinstance(body, bytes):
                await self.app(self._inside(scope), _whole(body, receive), send)
                return
            fault = body
        await _refuse(send, *fault)

    def _fault(self, scope: Scope) -> tuple[int, str] | None:
        given = [value.decode("latin-1").lower() for name, value in scope["headers"] if name == b"host"]
        if len(given) != 1 or given[0] not in self.hosts:
            return 403, "this server answers on its own address only: 127.0.0.1 or localhost, with its port."
        if not self._has_token(scope["path"]):
            return 403, "this page has an address of its own, with a token: open the one that the terminal printed."
        if not self._inside(scope)["path"].startswith("/api/"):
            return None
        headers = {name: value.decode("latin-1").lower() for name, value in scope["headers"]}
        if headers.get(b"origin", "") not in {"", *self.origins}:
            return 403, "calls from other origins are refused."
        if headers.get(b"sec-fetch-site", "none") not in ("same-origin", "none"):
            return 403, "calls from other sites are refused."
        return None

    def _has_token(self, path: str) -> bool:
        """Compared in the same time whatever the path is, so that the token cannot be guessed letter by letter."""
        first = f"{path}/"[: len(self.root) + 1].encode("utf-8", "surrogateescape")
        return secrets.compare_digest(first, f"{self.root}/".encode())

    def _inside(self, scope: Scope) -> Scope:
        """The request as the application sees it: without the token."""
        path = scope["path"][len(self.root) :] or "/"
        return {**scope, "path": path, "raw_path": path.encode("utf-8", "surrogateescape")}


async def _body(scope: Scope, receive: Receive) -> bytes | tuple[int, str]:
    """The whole body, or why it is refused."""
    declared = next((value for name, value in scope["headers"] if name == b"content-length"), b"0")
    large = 413, f"the request is larger than {MOST_BODY // 1024} KB."
    if not declared.isdigit() or int(declared[:12]) > MOST_BODY:
        return large
    body = bytearray()
    try:
        async with asyncio.timeout(PATIENCE_S):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    return 400, "the request broke off."
                body += message.get("body", b"")
                if len(body) > MOST_BODY:
                    return large
                if not message.get("more_body", False):
                    return bytes(body)
    except TimeoutError:
        return 408, "the request took too long to arrive."


def _whole(body: bytes, receive: Receive) -> Receive:
    """`receive` for the application: the body at once, then whatever comes."""
    left: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return left.pop() if left else await receive()

    return next_message


def _with_headers(send: Send) -> Send:
    """`send` that adds every header of `HEADERS` that the application has not set."""

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            given: Iterable[tuple[bytes, bytes]] = message.get("headers", ())
            names = {name.lower() for name, _ in given}
            extra = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in names]
            message = {**message, "headers": [*given, *extra]}
        await send(message)

    return guarded


async def _refuse(send: Send, status: int, message: str, *more: tuple[bytes, bytes]) -> None:
    body = json.dumps({"message": message}).encode()
    headers: list[Any] = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send(
        {"type": "http.response.start", "status": status, "headers": [*headers, *more, (b"connection", b"close")]}
    )
    await send({"type": "http.response.body", "body": body})
