"""The application: addresses, answers, refusals; and that it binds this machine's own address only."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from dssl import LabelSpace
from dssl.app.explorer import server
from dssl.app.explorer.pool import Busy
from dssl.app.explorer.server import AnswerCache, application, bound, opened
from dssl.app.explorer.worker import HANDLERS, answered
from dssl.errors import DataError


class Inline:
    """Answers in this process, and counts how often it was asked."""

    ready, failure = 1, ""

    def __init__(self) -> None:
        self.asked = 0

    async def ask(self, name: str, request: Any) -> tuple[int, dict[str, Any]]:
        self.asked += 1
        await asyncio.sleep(0)
        if name == "diagnosis":
            raise Busy("too many requests are waiting.")
        if name == "gaussians":
            raise ZeroDivisionError
        return answered(HANDLERS, name, request)


class Client:
    """Requests to an application at 127.0.0.1:8000, without a network."""

    def __init__(self, **given: Any) -> None:
        self.transport = httpx.ASGITransport(application(Inline(), 8000, "t0ken", **given), raise_app_exceptions=False)

    def request(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def send() -> httpx.Response:
            async with httpx.AsyncClient(transport=self.transport, base_url="http://127.0.0.1:8000") as client:
                return await client.request(method, f"/t0ken{path}", **given)

        return asyncio.run(send())

    def get(self, path: str, **given: Any) -> httpx.Response:
        return self.request("GET", path, **given)

    def post(self, path: str, **given: Any) -> httpx.Response:
        return self.request("POST", path, **given)


@pytest.fixture
def client() -> Client:
    return Client(text="a, b")


def test_the_page_and_its_files_are_served(client: Client) -> None:
    page = client.get("/")
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    for name, kind in (("app.js", "text/javascript"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
        assert client.get(f"/{name}").headers["content-type"].startswith(kind)


def test_files_name_nothing_outside_this_machine() -> None:
    folder = Path(server.__file__).parent / "static"
    for file in folder.iterdir():
        text = file.read_text(encoding="utf-8")
        found = [
            line for line in text.splitlines() if "//" in line and "http" in line and "www.w3.org/2000/svg" not in line
        ]
        assert not found, file.name
        assert "innerHTML" not in text
        assert "eval(" not in text
    page = (folder / "index.html").read_text(encoding="utf-8")
    assert "style=" not in page
    assert "onclick" not in page


def test_calls_are_answered_as_python_would(client: Client) -> None:
    said = client.post("/api/rules", json={"text": "legs, fins\nlegs -> !fins"})
    assert said.status_code == 200
    assert said.json()["count"] == str(LabelSpace("legs, fins\nlegs -> !fins").count())


def test_state_tells_what_the_page_begins_with(client: Client) -> None:
    assert client.get("/api/state").json() == {"ready": True, "failure": "", "run": False, "text": "a, b", "tab": "run"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/%2e%2e/pyproject.toml", 404),
        ("GET", "/../pyproject.toml", 403),
        ("GET", "/static/app.js", 404),
        ("GET", "/run/report", 404),
        ("GET", "/favicon.ico", 404),
        ("GET", "/api/rules", 405),
        ("DELETE", "/", 405),
        ("POST", "/", 405),
        ("PUT", "/api/rules", 405),
        ("POST", "/api/state", 404),
    ],
)
def test_what_is_not_there_is_refused_in_json(client: Client, method: str, path: str, status: int) -> None:
    said = client.request(method, path)
    assert said.status_code == status
    assert said.json()["message"][0].islower()


@pytest.mark.parametrize(
    ("content", "kind", "status", "message"),
    [
        (b"{", "application/json", 400, "not JSON"),
        (b"", "application/json", 400, "not JSON"),
        (b"\xff\xfe{}", "application/json", 400, "not JSON"),
        (b"[" * 60_000, "application/json", 400, "not JSON"),
        (b"[]", "application/json", 400, "must be a JSON object"),
        (b'{"text": 3}', "application/json", 400, "needs rule text"),
        (b'{"text": "a"}', "text/plain", 415, "application/json"),
        (b'{"text": "a"}', "application/x-www-form-urlencoded", 415, "application/json"),
        (b'{"text": "' + b"a" * 70_000 + b'"}', "application/json", 413, "64 KB"),
    ],
)
def test_bad_bodies_get_a_sentence(client: Client, content: bytes, kind: str, status: int, message: str) -> None:
    said = client.post("/api/rules", content=content, headers={"content-type": kind})
    assert said.status_code == status
    assert message in said.json()["message"]


def test_unknown_calls_and_calls_of_a_run_are_not_there(client: Client) -> None:
    for name in ("nothing", "run", "prediction", "next", "answer", "undo", "suppose", "__class__"):
        assert client.post(f"/api/{name}", json={}).status_code == 404


def test_foreign_hosts_and_origins_are_refused(client: Client) -> None:
    assert client.get("/", headers={"host": "evil.example"}).status_code == 403
    assert client.post("/api/rules", json={"text": "a"}, headers={"origin": "http://evil.example"}).status_code == 403
    assert client.get("/api/state", headers={"sec-fetch-site": "cross-site"}).status_code == 403


def test_a_full_queue_says_when_to_come_again(client: Client) -> None:
    said = client.post("/api/diagnosis", json={"text": "a"})
    assert said.status_code == 503
    assert said.headers["retry-after"] == "2"


def test_a_failure_tells_nothing_of_the_inside(client: Client) -> None:
    said = client.post("/api/gaussians", json={})
    assert said.status_code == 500
    assert said.json() == {"message": "the server failed on this request; its terminal says why."}
    assert "default-src 'none'" in said.headers["content-security-policy"]


# ---- answers that were given before ----


def test_equal_requests_are_worked_on_once() -> None:
    inline = Inline()
    answers = AnswerCache(inline)

    async def many() -> list[Any]:
        first = await asyncio.gather(*(answers("rules", {"text": "a, b", "x": 1}) for _ in range(50)))
        return [*first, await answers("rules", {"x": 1, "text": "a, b"})]

    found = asyncio.run(many())
    assert inline.asked == 1
    assert len({body for _, body in found}) == 1


def test_refusals_and_wrong_requests_are_not_kept() -> None:
    inline = Inline()
    answers = AnswerCache(inline)

    async def twice(request: Any) -> None:
        await answers("rules", request)
        await answers("rules", request)

    asyncio.run(twice({"text": "a: 0..90000"}))
    asyncio.run(twice({"text": 3}))
    assert inline.asked == 4


def test_a_failed_call_can_be_made_again() -> None:
    answers = AnswerCache(Inline())

    async def twice() -> None:
        for _ in range(2):
            with pytest.raises(Busy):
                await answers("diagnosis", {"text": "a"})

    asyncio.run(twice())


def test_memory_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_KEPT", 20_000)
    answers = AnswerCache(Inline())

    async def many() -> None:
        for i in range(40):
            await answers("rules", {"text": f"a{i}, b"})

    asyncio.run(many())
    assert answers._size <= 20_000
    assert answers._size == sum(len(key[1]) + len(body) for key, body in answers._kept.items())
    assert 0 < len(answers._kept) < 40


# ---- runs ----


def test_a_report_is_served_without_an_origin(run_folder: Path) -> None:
    client = Client(run=run_folder)
    said = client.get("/run/report")
    assert said.text == (run_folder / "report.html").read_text()
    policy = said.headers["content-security-policy"]
    assert "sandbox allow-scripts allow-downloads;" in policy
    assert "allow-same-origin" not in policy
    assert "connect-src" not in policy  # default-src 'none' holds for it
    assert said.headers["x-content-type-options"] == "nosniff"
    assert client.get("/api/state").json()["run"] is True


# ---- starting ----


def test_only_this_machine_can_connect() -> None:
    with bound(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        assert port > 0


def test_a_taken_port_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DataError, match=f"port {port} of 127.0.0.1 cannot be used"):
            bound(port)


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_cannot_be_is_said_so(port: int) -> None:
    with pytest.raises(DataError, match="cannot be used"):
        bound(port)


def test_a_path_is_a_file_of_rules_or_a_run(tmp_path: Path, run_folder: Path) -> None:
    rules = tmp_path / "a.rules"
    rules.write_text("a, b\n")
    assert opened(None) == (None, None)
    assert opened(rules) == ("a, b\n", None)
    assert opened(run_folder) == ("legs, fins, wings\nlegs -> !fins\nlegs | fins | wings\n", run_folder.resolve())
    (tmp_path / "a.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match=r"a\.csv' is data"):
        opened(tmp_path / "a.csv")
    with pytest.raises(DataError, match="there is no"):
        opened(tmp_path / "gone")
    with pytest.raises(DataError, match="neither a run nor a saved model"):
        opened(tmp_path)
    rules.write_text("a, " * 10_000)
    with pytest.raises(DataError, match="30,000 characters"):
        opened(rules)


def test_serving_ends_with_an_interrupt_and_leaves_nothing_behind() -> None:
    code = "from dssl.app.explorer import serve; serve(port=0, open_browser=False)"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as it:
        assert it.stdout is not None
        address = it.stdout.readline().split()[2]
        assert address.startswith("http://127.0.0.1:")
        assert "dssl explorer" in httpx.get(address, trust_env=False).text
        assert len(httpx.URL(address).path.strip("/")) >= 24
        assert httpx.get(httpx.URL(address).copy_with(path="/"), trust_env=False).status_code == 403
        tasks = Path(f"/proc/{it.pid}/task")
        workers = [int(pid) for task in tasks.glob("*/children") for pid in task.read_text().split()]
        it.send_signal(signal.SIGINT)
        _, said = it.communicate(timeout=60)
    assert (it.returncode, said) == (0, "")
    for pid in workers:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_every_call_of_the_page_has_an_answer() -> None:
    assert set(server.CALLS) == set(HANDLERS)
    script = "".join(file.read_text() for file in (Path(server.__file__).parent / "static").glob("*.js"))
    for name in (*server.CALLS, *server.RUN_CALLS, *server.FRESH_CALLS):
        assert f'caller("{name}"' in script or f'post("{name}"' in script


def test_answers_are_plain_json(client: Client) -> None:
    body = client.post("/api/beliefs", json={"text": "a, b\na -> b", "values": [0.5, 0.5]}).content
    json.loads(body, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))


def test_the_server_itself_stays_light() -> None:
    """Its workers load torch and numba; it does not."""
    code = "import sys, dssl.app.explorer.server; print(*{m.split('.')[0] for m in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.split()) & {"torch", "numba", "sklearn", "polars"}
    assert "starlette" in done.stdout.split()
