"""The pages make a site: every link leads somewhere, every page is in the navigation, nothing is fetched to read it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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


def links(text: str) -> list[str]:
    """Relative links of a page outside docs/."""
    return [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]


def test_links_of_the_readme_lead_somewhere() -> None:
    found = links((ROOT / "README.md").read_text())
    assert len(found) > 10
    assert [link for link in found if not (ROOT / link).exists()] == []
