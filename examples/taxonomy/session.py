"""A session at the workbench, recorded: look, label, rules, what if, refit; it makes the pictures of the docs.

    python examples/taxonomy/session.py                         # prints what happened
    python examples/taxonomy/session.py --pictures docs/pictures

It needs Chromium, its driver and selenium. The expert is simulated: tags are those that `make.py` drew. Data, run and
answers are in a folder that vanishes at the end.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
from make import ROWS, SEED, TEST, _product
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.support.ui import WebDriverWait

HERE = Path(__file__).parent
ANSWERS = 20
PATIENCE = 300  # seconds
RULES = "lamps -> !lighting\nat_most(1, pans, coffee)\n"
FLAGS = "--headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run --hide-scrollbars".split()


def main() -> None:
    """One session, from the files to a second run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=Path, help="folder for the pictures; none are taken without it")
    parser.add_argument("--answers", type=int, default=ANSWERS, help="rows that the expert is asked about")
    parser.add_argument("--steps", type=int, help="of training; the default if not given")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name in ("products.csv", "products.rules", "test.csv"):
            shutil.copy(HERE / name, place)
        steps = ["--steps", str(chosen.steps)] if chosen.steps else []
        _dssl(place, "fit", "products.csv", "--rules", "products.rules", "--label", "tags", "--label-separator", " ",
              "--test", "test.csv", "--out", "run", "--quiet", *steps)  # fmt: skip
        with _served(place) as address, _browser() as driver:
            Session(driver, address, place, chosen.pictures).record(chosen.answers)


class Session:
    """What the expert does, in the page at an address."""

    def __init__(self, driver: Chrome, address: str, place: Path, pictures: Path | None) -> None:
        self.driver, self.address, self.place, self.pictures = driver, address, place, pictures

    def record(self, answers: int) -> None:
        """The whole loop, with a line printed for each part of it."""
        self.look()
        self.label(answers)
        self.rules()
        self.what_if()
        self.refit()

    def look(self) -> None:
        """The report of the run: its three sentences."""
        self.driver.get((self.place / "run" / "report.html").as_uri())
        self.picture("report", height=940)
        said = self.driver.find_elements("css selector", ".sentences p")
        print("look    ", "\n         ".join(p.text for p in said))

    def label(self, answers: int) -> None:
        """Rows that the queue chooses, answered with their true tags."""
        truth = _truth()
        self.open("label")
        self.until("return document.getElementById('label-row').textContent.startsWith('Line')")
        for i in range(answers):
            line = int(self.text("#label-row").split()[1])
            tags = truth[line - 2].split()
            for tag in tags:
                self.answer(tag)
                if tag == tags[0] and i == 0:
                    self.picture("workbench_label")
            self.click("#label-save")
            self.until(f"return document.getElementById('label-row').textContent !== 'Line {line}'")
        print("label   ", self.text("#label-state").strip())

    def answer(self, tag: str) -> None:
        """A click on a tag; what follows from it is filled in by the page."""
        found = f"[...document.querySelectorAll('.value')].find(e => e.firstChild.textContent === '{tag}')"
        self.until(f"return !!{found}")
        self.driver.execute_script(f"{found}.click()")
        self.until(f"return {found}.ariaPressed === 'true' && !document.getElementById('label-save').disabled")

    def rules(self) -> None:
        """Two more rules: what they would change."""
        self.open("rules")
        self.until("return document.getElementById('effects').textContent.includes('would change')")
        self.driver.find_element("id", "text").send_keys(RULES)
        self.until("return document.getElementById('effects').textContent.includes('break these rules')")
        self.picture("workbench_rules")
        print("rules   ", " ".join(self.text("#effects").split("Rows")[0].split()), "…")
        self.click("#run-text")
        self.until("return document.getElementById('effects').textContent.includes('No label breaks')")

    def what_if(self) -> None:
        """A product, were it in the office department."""
        self.open("run")
        self.until("return document.getElementById('run-title').textContent.length > 0")
        self.driver.execute_script("document.getElementById('row').value = 12")
        self.click("#show-row")
        self.until("return !document.getElementById('what-if').hidden")
        choose = "const e = document.getElementById('if-variable'); e.value = 3; e.dispatchEvent(new Event('change'))"
        self.driver.execute_script(choose)
        self.click("#if-add")
        self.until("return document.getElementById('if-follows').textContent.includes('Most probable in that case')")
        self.picture("workbench_what_if", of=".card:has(#if-add)")
        print("what if ", self.text("#if-said").strip(), "→", self.text("#if-follows").split(":")[0].strip())

    def refit(self) -> None:
        """The run learns the answers; the page tells what changed."""
        self.open("label")
        self.until("return document.getElementById('label-row').textContent.startsWith('Line')")
        self.click("#refit")
        self.until("return document.getElementById('refit-state').textContent.includes('This is run-2')")
        self.until("return document.querySelectorAll('#refit-curve tbody tr').length === 2")
        self.picture("workbench_refit", of=".card:has(#refit)")
        rows = self.driver.find_elements("css selector", "#refit-curve tbody tr")
        print("refit   ", "; ".join(row.text for row in rows))
        print("        ", self.text("#refit-changes").split(".")[0].strip())

    # ---- the browser ----

    def open(self, tab: str) -> None:
        self.driver.get("about:blank")
        self.driver.get(f"{self.address}/#{quote(json.dumps({'tab': tab}))}")
        self.until("return document.getElementById('status').textContent === 'ready'")

    def until(self, script: str, *more: Any) -> None:
        WebDriverWait(self.driver, PATIENCE, 0.05).until(lambda d: d.execute_script(script, *more), script)

    def text(self, selector: str) -> str:
        return str(self.driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))

    def click(self, selector: str) -> None:
        self.driver.execute_script("document.querySelector(arguments[0]).click()", selector)

    def picture(self, name: str, *, of: str | None = None, height: int = 900) -> None:
        """What is on the screen, or one part of it."""
        if self.pictures is None:
            return
        _size(self.driver, height)
        path = str(self.pictures / f"{name}.png")
        if of is None:
            self.driver.save_screenshot(path)
        else:
            self.driver.find_element("css selector", of).screenshot(path)
        _size(self.driver)


def _truth() -> list[str]:
    """The tags of all products, as `make.py` draws them."""
    random = np.random.default_rng(SEED)
    made = [_product(random) for _ in range(ROWS + TEST)]
    return [tags for _, tags in made[:ROWS]]


def _dssl(place: Path, *words: str) -> None:
    subprocess.run([sys.executable, "-m", "dssl", *words], cwd=place, check=True)


@contextmanager
def _served(place: Path) -> Iterator[str]:
    """The address of the page, while it is served."""
    words = [sys.executable, "-m", "dssl", "label", "run", "--no-browser"]
    with subprocess.Popen(words, cwd=place, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[2].rstrip("/")
        finally:
            process.terminate()


@contextmanager
def _browser() -> Iterator[Chrome]:
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = Chrome(options=options, service=ChromeService(shutil.which("chromedriver")))
        try:
            _size(driver)
            yield driver
        finally:
            driver.quit()


def _size(driver: Chrome, height: int = 900) -> None:
    size = {"width": 1280, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


if __name__ == "__main__":
    main()
