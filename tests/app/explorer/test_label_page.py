"""Labelling in a real browser: by mouse, by keyboard alone, in two tabs; light and dark, wide and narrow."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from browser import console, overflow, requested, scheme, screen
from test_page import Page

from dssl.app.explorer.desk import Desk
from dssl.app.explorer.predictions import Run

SCRIPT = "<script>window.boom = 1</script><img src=x onerror='window.boom = 1'>"


@pytest.fixture(scope="module")
def copied(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the run whose data have a further column, of markup, that the model does not use."""
    folder = tmp_path_factory.mktemp("labelled") / "copy"
    shutil.copytree(run_folder.parent, folder)
    data = pl.read_csv(folder / "animals.csv", infer_schema=False)
    data.with_columns(pl.lit(SCRIPT).alias("left out")).write_csv(folder / "animals.csv")
    record = folder / "run" / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "data": str(folder / "animals.csv")}))
    return folder / "run"


@pytest.fixture
def page(browser: Any, explorer: Callable[[Path], str], copied: Path) -> Any:
    screen(browser, 1280)
    scheme(browser, "light")
    desk(copied).file.path.unlink(missing_ok=True)
    page = Page(browser, explorer(copied))
    page.open(tab="label")
    page.shows("#label-row", "Line")
    yield page
    assert console(browser) == []
    assert all(url.startswith(page.address) or url == "about:blank" for url in requested(browser))


def desk(run: Path) -> Desk:
    return Desk(Run.open(run))


def row(page: Page) -> int:
    return int(page.text("#label-row").removeprefix("Line "))


def test_a_row_is_shown_whole_and_its_markup_stays_text(page: Page, copied: Path) -> None:
    assert row(page) == desk(copied).next({})["row"]
    assert SCRIPT in page.texts("#label-cells td")
    assert page.driver.execute_script("return window.boom") is None
    assert "bits" in page.text("#label-worth")


def test_answers_by_mouse_fill_in_what_follows_and_undo(page: Page, copied: Path) -> None:
    first = row(page)
    legs, fins = (f'[data-variable="{v}"]' for v in (0, 1))
    page.driver.find_element("css selector", f".value{legs}").click()
    page.shows("#label-values", "legs -> !fins")
    assert "out" in page.driver.find_element("css selector", f".answer-row:has({fins})").get_attribute("class")
    page.driver.find_element("id", "label-save").click()
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {first}'")
    (answer,) = desk(copied).file.given()
    assert (answer.row, answer.cells) == (first, ("1", "0", ""))
    page.driver.find_element("css selector", "#label-recent button").click()
    page.shows("#label-row", f"Line {first}")
    assert desk(copied).file.current() == {}


def test_a_contradiction_is_shown_with_its_rule_and_cannot_be_saved(page: Page, copied: Path) -> None:
    for v in (0, 1):
        page.driver.find_element("css selector", f'.value[data-variable="{v}"]').click()
        page.until(f"return document.querySelector('.value[data-variable=\"{v}\"]').ariaPressed !== 'false'")
    page.shows("#label-follows", "contradicts")
    assert "legs -> !fins" in page.text("#label-follows")
    assert not page.driver.find_element("id", "label-save").is_enabled()
    page.press("body", "x")
    page.until("return !document.getElementById('label-save').disabled")
    assert not desk(copied).file.path.exists()


def test_the_keyboard_alone_goes_once_through_the_loop(page: Page, copied: Path) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def keys(*pressed: str) -> None:
        ActionChains(page.driver).send_keys(*pressed).perform()

    first = row(page)
    keys(Keys.ARROW_DOWN, Keys.ARROW_UP, "y")
    page.until("return document.querySelector('.value').ariaPressed === 'true'")
    keys("s")
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {first}'")
    second = row(page)
    keys("n")
    page.until("return document.querySelector('.answer-row').classList.contains('out')")
    keys("s")
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {second}'")
    third = row(page)
    keys("c")
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {third}'")
    fourth = row(page)
    keys("l")
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {fourth}'")
    fifth = row(page)
    keys("a")
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {fifth}'")
    given = desk(copied).file.given()
    assert [answer.row for answer in given] == [first, second, third, fifth]
    assert (given[0].cells[:2], given[1].cells[0], given[2].kind) == (("1", "0"), "0", "cannot tell")
    assert all(given[3].cells)
    keys("z")
    page.shows("#label-row", f"Line {fifth}")
    assert len(desk(copied).file.given()) == 3


def test_two_tabs_show_different_rows_and_lose_nothing(page: Page, copied: Path) -> None:
    driver = page.driver
    first, one = row(page), driver.current_window_handle
    driver.switch_to.new_window("tab")
    other = Page(driver, page.address)
    other.driver.get(f"{page.address}/#" + json.dumps({"tab": "label"}))
    other.shows("#label-row", "Line")
    second = row(other)
    assert second != first
    driver.find_element("id", "label-cannot").click()
    other.until(f"return document.getElementById('label-row').textContent !== 'Line {second}'")
    driver.close()
    driver.switch_to.window(one)
    driver.find_element("id", "label-cannot").click()
    page.until(f"return document.getElementById('label-row').textContent !== 'Line {first}'")
    assert {answer.row for answer in desk(copied).file.given()} == {first, second}


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, colours: str) -> None:
    screen(page.driver, width)
    scheme(page.driver, colours)
    assert overflow(page.driver) <= 0
    ink, paper = page.driver.execute_script(
        "const s = getComputedStyle(document.querySelector('.value')); return [s.color, s.backgroundColor]"
    )
    assert ink != paper


def test_a_refit_learns_the_answers_and_tells_what_changed(browser: Any, tmp_path: Path) -> None:
    """Label by keyboard, refit, and see the new run, its accuracy and what it predicts differently."""
    import subprocess
    import sys

    from dssl.app.cli import main

    random = pl.DataFrame({"weight": [i % 7 + (4 if i % 2 else 0) for i in range(60)]})
    labels = [pl.when(pl.int_range(60) < 30).then(pl.int_range(60) % 2).alias("legs")]
    random.with_columns(*labels).write_csv(tmp_path / "pets.csv")
    words = f"fit {tmp_path}/pets.csv --label legs --out {tmp_path}/run --steps 20 --test-share .2 --quiet"
    assert main(words.split()) == 0
    code = "import sys; from dssl.app.explorer import serve; serve(sys.argv[1], open_browser=False, tab='label')"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "run")], stdout=subprocess.PIPE, text=True) as it:
        assert it.stdout is not None
        page = Page(browser, it.stdout.readline().split()[2].rstrip("/"))
        console(browser), requested(browser)
        browser.get(page.address + "/")
        page.until("return document.getElementById('label-row').textContent.startsWith('Line')", 120)
        first = row(page)
        page.press("body", "a")
        page.until(f"return document.getElementById('label-row').textContent !== 'Line {first}'")
        browser.find_element("id", "refit").click()
        page.until("return document.getElementById('refit-state').textContent.includes('This is run-2')", 120)
        assert "rows are predicted differently" in page.text("#refit-changes")
        assert [text[:5] for text in page.texts("#refit-curve tbody th")] == ["run", "run-2"]
        page.until("return document.getElementById('label-row').textContent.startsWith('Line')", 120)
        assert console(browser) == []
        it.terminate()
    assert (tmp_path / "run-2" / "report.html").is_file()


def test_the_rules_of_the_run_are_edited_and_their_effects_shown(page: Page) -> None:
    page.open(tab="rules")
    page.shows("#effects", "0 predictions of 80 rows would change")
    assert "legs -> !fins" in page.driver.execute_script("return document.getElementById('text').value")
    page.driver.find_element("id", "text").send_keys("!legs\n")
    page.shows("#effects", "labels break these rules")
    assert not page.driver.find_element("id", "keep").is_enabled()
    page.driver.find_element("id", "run-text").click()
    page.shows("#effects", "No label breaks these rules")
    page.driver.find_element("id", "propose").click()
    page.until("return document.querySelector('#proposals').textContent.length > 0")
    add = page.driver.find_elements("css selector", "#proposals button")
    if add:
        rule = page.text("#proposals code").strip()
        add[0].click()
        page.until(f"return document.getElementById('text').value.includes({rule!r})")
    screen(page.driver, 400)
    assert overflow(page.driver) <= 0


def test_what_if_shows_what_follows_and_why(page: Page) -> None:
    page.open(tab="run")
    page.shows("#run-title", "animals.csv")
    page.choose("#row", 40, "input")
    page.driver.find_element("id", "show-row").click()
    page.until("return !document.getElementById('what-if').hidden")
    page.driver.find_element("id", "if-add").click()  # legs
    page.shows("#if-follows", "Most probable in that case")
    assert page.texts("#if-said li") == ["legs"]
    assert any(text.endswith("not fins") for text in page.texts("#if-follows .chips li"))
    assert "legs -> !fins" in page.text("#if-follows details")
    page.choose("#if-variable", 1, "change")
    page.driver.find_element("id", "if-add").click()  # and fins
    page.shows("#if-follows", "contradicts")
    page.driver.find_element("id", "if-clear").click()
    page.until("return document.getElementById('if-follows').textContent === ''")
    for colours in ("light", "dark"):
        scheme(page.driver, colours)
        screen(page.driver, 400)
        assert overflow(page.driver) <= 0
