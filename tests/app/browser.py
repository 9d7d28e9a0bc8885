"""A real browser for the tests of pages: Chromium without a window, its console and its requests."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

_FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """Chromium through selenium. Skipped where it is not installed, unless DSSL_BROWSER=1 says that it must be."""
    binary, chauffeur = shutil.which("chromium"), shutil.which("chromedriver")
    if not binary or not chauffeur:
        absent = "install chromium and chromium-driver to run the browser tests"
        pytest.fail(absent) if os.environ.get("DSSL_BROWSER") == "1" else pytest.skip(absent)
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = binary
    for flag in (*_FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=ChromeService(chauffeur))
    driver.set_page_load_timeout(60)
    driver.get("about:blank")
    yield driver
    driver.quit()


def console(driver: Chrome) -> list[str]:
    """Warnings and errors of the console since last asked."""
    return [f"{e['level']}: {e['message']}" for e in driver.get_log("browser") if e["level"] in ("WARNING", "SEVERE")]


def requested(driver: Chrome) -> list[str]:
    """Addresses that pages asked for since last asked; neither the browser's own pages nor pictures inside a page."""
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    sent = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    return [url for url in sent if not url.startswith(("data:", "chrome:", "chrome-untrusted:"))]


def screen(driver: Chrome, width: int, height: int = 900) -> None:
    """A viewport of exactly this size, in CSS pixels; up to 500 wide it is a phone's."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width <= 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def scheme(driver: Chrome, colours: str) -> None:
    """What the page is told that its reader prefers: "light" or "dark"."""
    features = [{"name": "prefers-color-scheme", "value": colours}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def overflow(driver: Chrome) -> int:
    """By how many pixels the page is wider than the viewport."""
    return int(
        driver.execute_script(
            "const e = document.documentElement;"
            "return Math.max(e.scrollWidth, document.body.scrollWidth) - e.clientWidth"
        )
    )
