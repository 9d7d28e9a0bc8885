"""The guard: whose requests get through, how long they may be, and what every answer carries."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from typing import Any

import pytest

from dssl.app.explorer import guard
from dssl.app.explorer.guard import HEADERS, MOST_BODY, Guard

TOKEN = "a-token"


async def echo(scope: Any, receive: Any, send: Any) -> None:
    """An application that says how long the body was."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"private")]})
    await send({"type": "http.response.body", "body": str(len(message["body"])).encode()})


def answer(
    headers: dict[str, str] | None = None,
    path: str = "/api/rules",
    parts: Iterable[dict[str, Any]] = ({"type": "http.request", "body": b"{}"},),
    port: int = 8000,
    root: str = f"/{TOKEN}",
) -> tuple[int, dict[str, str], str]:
    """Status, headers and body of one request."""
    given = {"host": "127.0.0.1:8000", **(headers or {})}
    raw = [(name.encode(), value.encode()) for name, value in given.items()]
    scope = {"type": "http", "path": root + path, "method": "POST", "headers": raw}
    left, sent = list(parts), []

    async def receive() -> dict[str, Any]:
        if not left:
            await asyncio.sleep(60)
        return left.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Guard(echo, port, TOKEN)(scope, receive, send))
    found = {name.decode(): value.decode() for name, value in sent[0]["headers"]}
    return sent[0]["status"], found, sent[1]["body"].decode()


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost:8000", "LOCALHOST:8000"])
def test_its_own_address_gets_through(host: str) -> None:
    assert answer({"host": host})[0] == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "127.0.0.1", "127.0.0.1:8001", "localhost:80", "127.0.0.1:8000.evil.example", "0.0.0.0:8000", ""],
)
@pytest.mark.parametrize("path", ["/", "/api/rules", "/run/report"])
def test_other_hosts_are_refused_everywhere(host: str, path: str) -> None:
    status, _, body = answer({"host": host}, path)
    assert status == 403
    assert "its own address only" in json.loads(body)["message"]


def test_two_hosts_are_refused() -> None:
    scope = {"type": "http", "path": "/", "headers": [(b"host", b"127.0.0.1:8000"), (b"host", b"evil")]}
    fault = Guard(echo, 8000, TOKEN)._fault(scope)
    assert fault is not None
    assert fault[0] == 403


def test_port_80_needs_no_number() -> None:
    assert answer({"host": "localhost"}, port=80)[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://127.0.0.1:8000"}, 200),
        ({"origin": "http://localhost:8000"}, 200),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://127.0.0.1:8000"}, 403),
        ({"origin": "http://127.0.0.1:8001"}, 403),
        ({"origin": "null"}, 403),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
    ],
)
def test_calls_come_from_its_own_page(headers: dict[str, str], status: int) -> None:
    assert answer(headers)[0] == status


def test_links_from_other_sites_may_lead_to_the_page() -> None:
    assert answer({"sec-fetch-site": "cross-site"}, "/")[0] == 200


@pytest.mark.parametrize("path", ["/", "/app.js", "/api/state", "/api/rules", "/run/report", "/icon.svg"])
@pytest.mark.parametrize(
    "root", ["", "/a-toke", "/a-tokem", "/a-token2", "/A-TOKEN", "/b-token", "//a-token", "/a-tokené"]
)
def test_nothing_is_served_without_the_token(root: str, path: str) -> None:
    status, _, body = answer(path=path, root=root)
    assert status == 403
    assert "open the one that the terminal printed" in json.loads(body)["message"]


def test_a_missing_slash_is_added() -> None:
    status, headers, _ = answer(path="")
    assert (status, headers["location"]) == (307, f"/{TOKEN}/")


def test_the_application_does_not_see_the_token() -> None:
    seen = []

    async def look(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["raw_path"]))

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b""}

    async def send(_: Any) -> None: ...

    scope = {"type": "http", "path": f"/{TOKEN}/run/report", "headers": [(b"host", b"127.0.0.1:8000")]}
    asyncio.run(Guard(look, 8000, TOKEN)(scope, receive, send))
    assert seen == [("/run/report", b"/run/report")]


def test_headers_are_added_and_do_not_replace_those_of_the_application() -> None:
    for status, found, _ in (answer(), answer({"host": "evil"})):
        for name, value in HEADERS.items():
            if name != "cache-control":
                assert found[name] == value, status
    assert answer()[1]["cache-control"] == "private"
    assert answer({"host": "evil"})[1]["cache-control"] == "no-store"
    policy = HEADERS["content-security-policy"]
    for part in ("default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self' data:",
                 "connect-src 'self'", "frame-src 'self'", "base-uri 'none'", "form-action 'none'"):  # fmt: skip
        assert part in policy
    assert "unsafe" not in policy


# ---- bodies ----


def test_a_body_in_parts_arrives_whole() -> None:
    parts = [{"type": "http.request", "body": b"a" * 10, "more_body": i < 2} for i in range(3)]
    assert answer(parts=parts)[2] == "30"


@pytest.mark.parametrize("length", [str(MOST_BODY + 1), "9" * 30, "-1", "many"])
def test_a_large_or_strange_length_is_refused_unread(length: str) -> None:
    status, _, body = answer({"content-length": length}, parts=[])
    assert status == 413
    assert "larger than 64 KB" in json.loads(body)["message"]


def test_a_large_body_without_a_length_is_cut_off() -> None:
    parts = [{"type": "http.request", "body": b"a" * 40_000, "more_body": True} for _ in range(3)]
    assert answer(parts=parts)[0] == 413


def test_a_slow_or_broken_body_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "PATIENCE_S", 0.05)
    assert answer(parts=[{"type": "http.request", "body": b"a", "more_body": True}])[0] == 408
    assert answer(parts=[{"type": "http.disconnect"}])[0] == 400
