"""The pages make a site: every link leads somewhere, every page is in the navigation, nothing is fetched to read it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from app.browser import browser  # noqa: F401  (a fixture)

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

ROOT = Path(__file__).parent.parent


def build(folder: Path) -> subprocess.CompletedProcess[str]:
    """Builds the site of a folder with mkdocs.yml and docs."""
    words = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True)


def fetched(page: str) -> list[str]:
    """What a browser would fetch from elsewhere to show a page."""
    return re.findall(r'<(?:script|img|iframe|link (?!rel="canonical"))[^>]*(?:src|href)="((?:https?:)?//[^"]+)"', page)


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    for file in ("mkdocs.yml", "mkdocs_hooks.py"):
        shutil.copy(ROOT / file, tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def test_the_site_builds_and_needs_no_network(pages: Path) -> None:
    done = build(pages)
    assert done.returncode == 0, done.stdout + done.stderr
    made = list((pages / "site").rglob("*.html"))
    assert len(made) > len(list((pages / "docs").rglob("*.md")))  # and 404.html
    for page in made:
        assert not fetched(page.read_text()), page.name
    assert r"\|" not in (pages / "site" / "rules.html").read_text()  # as tables on GitHub need it
    assert fetched('<script async src="https://cdn.example.org/x.js">')


def test_a_broken_link_is_found(pages: Path) -> None:
    (pages / "docs" / "index.md").write_text("# Start\n\n[gone](gone.md), [no such part](tour.md#gone)\n")
    done = build(pages)
    assert done.returncode
    assert "gone.md" in done.stdout + done.stderr
    assert "tour.md#gone" in done.stdout + done.stderr


class Quiet(SimpleHTTPRequestHandler):
    """Serves files, and says nothing of it."""

    def log_message(self, *_: object) -> None:
        pass


def found(chrome: Chrome, words: str) -> list[str]:
    """What the search box of an open page offers for some words, once it has settled."""
    box = chrome.find_element("css selector", "input.md-search__input")
    chrome.execute_script("document.querySelector('#__search').checked = true; arguments[0].focus()", box)
    box.send_keys(words)
    until, script = (
        time.monotonic() + 30,
        "return [...document.querySelectorAll('.md-search-result__link')].map(a => a.href)",
    )
    while time.monotonic() < until:
        links: list[str] = chrome.execute_script(script)
        said = chrome.find_element("css selector", ".md-search-result__meta").get_attribute("textContent") or ""
        if links or "No matching" in said:
            return links
        time.sleep(0.2)
    raise AssertionError("the search gave no answer in 30 s")


def test_the_site_can_be_searched(pages: Path, browser: Chrome) -> None:  # noqa: F811
    assert build(pages).returncode == 0
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(pages / "site"))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_port}/index.html"
        browser.get(address)
        assert any("architecture.html" in link for link in found(browser, "seven rooms"))
        browser.get(address)
        assert found(browser, "xylophonequartz") == []
        server.shutdown()


def links(text: str) -> list[str]:
    """Relative links of a page outside docs/."""
    return [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]


def test_links_of_the_readme_lead_somewhere() -> None:
    found = links((ROOT / "README.md").read_text())
    assert len(found) > 10
    assert [link for link in found if not (ROOT / link).exists()] == []
