"""The report in a real browser: no errors, no requests, no overflow on a phone, light and dark, sorting."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
import pytest
from browser import console, overflow, requested, scheme, screen
from sklearn.base import clone

from dssl import DSSLClassifier, LabelSpace
from dssl.app.report import write_report
from dssl.app.summary import Origin, summarise

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

LONG = "a_name_without_a_space_that_is_longer_than_a_phone_is_wide_and_goes_on"
HOSTILE = "<script>document.title='taken'</script>"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of a small run with rules, long names and hostile ones."""
    random = np.random.default_rng(0)
    x = random.normal(size=(120, 3))
    space = LabelSpace.class_attributes([[1, 0], [0, 1], [0, 0]], ["a", HOSTILE, LONG], ["fins", LONG], name="kind")
    labels = space.complete([{"kind": ["a", HOSTILE, LONG][int(v > 0) + int(v > 1)]} for v in x[:, 0]])
    few = labels.copy()
    few[30:] = np.nan
    model = DSSLClassifier(space, steps=40, random_state=0).fit(x, few)
    summary = summarise(
        model,
        x,
        few,
        X_test=x,
        y_test=labels,
        rows=Origin(names=[LONG] * 120),
        test_rows=Origin(names=[HOSTILE] * 120, cells=pl.DataFrame({"text": [HOSTILE] * 120, LONG: [LONG] * 120})),
        feature_names=["weight", LONG, HOSTILE],
        fresh=clone(model),
        settings=model.get_params(),
        command=f"dssl fit {LONG}",
        data={"file": f"{LONG}.csv", "rules": HOSTILE},
        seconds=3.0,
    )
    path: Path = write_report(summary, tmp_path_factory.mktemp("run") / "report.html")
    return path.as_uri()


def show(browser: Chrome, address: str, width: int, colours: str = "light") -> None:
    screen(browser, width)
    scheme(browser, colours)
    console(browser), requested(browser)
    browser.get(address)


def colour(browser: Chrome, selector: str, what: str) -> str:
    script = "return getComputedStyle(document.querySelector(arguments[0]))[arguments[1]]"
    return str(browser.execute_script(script, selector, what))


@pytest.mark.parametrize("width", [375, 400, 768, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_the_page_loads_without_an_error_a_request_or_overflow(
    browser: Chrome, address: str, width: int, colours: str
) -> None:
    show(browser, address, width, colours)
    assert browser.execute_script("return innerWidth") == width
    assert overflow(browser) <= 0
    assert console(browser) == []
    assert requested(browser) == [address]
    assert browser.title.startswith(LONG)  # not what the hostile name asks for


def test_a_wider_page_an_error_and_a_request_would_be_seen(browser: Chrome, tmp_path: Path) -> None:
    page = tmp_path / "bad.html"
    page.write_text(
        '<meta name="viewport" content="width=device-width, initial-scale=1, minimum-scale=1">'
        '<div style="width:800px">x</div><script>console.error("boo")</script><img src="other.png">'
    )
    show(browser, page.as_uri(), 375)
    assert overflow(browser) > 300
    assert any("boo" in entry for entry in console(browser))
    assert requested(browser) == [page.as_uri(), (tmp_path / "other.png").as_uri()]


def test_light_and_dark_differ_and_the_switch_overrules_the_system(browser: Chrome, address: str) -> None:
    seen = {}
    for colours in ("light", "dark"):
        show(browser, address, 1280, colours)
        seen[colours] = [colour(browser, "body", "backgroundColor"), colour(browser, "rect.f.c1", "fill")]
        assert _contrast(colour(browser, "body", "backgroundColor"), colour(browser, "body", "color")) > 7
        assert _contrast(colour(browser, "#data", "backgroundColor"), colour(browser, ".how", "color")) > 4.5
    assert all(a != b for a, b in zip(seen["light"], seen["dark"]))
    show(browser, address, 1280, "light")
    browser.find_element("css selector", "#dark").click()
    assert colour(browser, "body", "backgroundColor") == seen["dark"][0]
    browser.find_element("css selector", "#light").click()
    scheme(browser, "dark")
    assert colour(browser, "body", "backgroundColor") == seen["light"][0]


def _contrast(one: str, other: str) -> float:
    """The contrast ratio of two rgb(…) colours, as WCAG defines it."""

    def luminance(text: str) -> float:
        parts = [int(v) / 255 for v in text[text.index("(") + 1 : -1].split(",")[:3]]
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_on_shaded_cells_can_be_read(browser: Chrome, address: str) -> None:
    """The darkest shade of a confusion matrix, mixed with what lies below it, against the number upon it."""
    for colours in ("light", "dark"):
        show(browser, address, 1280, colours)
        shade, below = colour(browser, "rect.q8", "fill"), colour(browser, "#scores", "backgroundColor")
        share = float(colour(browser, "rect.q8", "fillOpacity"))
        mixed = [share * a + (1 - share) * b for a, b in zip(_rgb(shade), _rgb(below))]
        assert _contrast(f"rgb({', '.join(str(round(v)) for v in mixed)})", colour(browser, "text.count", "fill")) > 4.5


def _rgb(text: str) -> list[int]:
    return [int(v) for v in text[text.index("(") + 1 : -1].split(",")[:3]]


def test_a_click_sorts_a_table_by_its_column(browser: Chrome, address: str) -> None:
    show(browser, address, 1280)
    column = "return [...document.querySelectorAll('#scores table.sortable tbody tr')].map(r => r.cells[1].dataset.v)"
    button = browser.find_elements("css selector", "#scores table.sortable th button")[1]
    for order, kind in ((-1, "descending"), (1, "ascending")):
        button.click()
        found = [float(v) for v in browser.execute_script(column)]
        assert found == sorted(found, reverse=order < 0)
        assert len(set(found)) > 1
        head: Any = browser.find_elements("css selector", "#scores table.sortable th")[1]
        assert head.get_attribute("aria-sort") == kind


def test_it_can_be_walked_through_by_keyboard(browser: Chrome, address: str) -> None:
    show(browser, address, 1280)
    focus = "return document.activeElement.id || document.activeElement.className || document.activeElement.tagName"
    body = browser.find_element("css selector", "body")
    body.send_keys("\ue004")
    assert browser.execute_script(focus) == "skip"
    browser.switch_to.active_element.send_keys("\ue004")
    assert browser.execute_script(focus) == "auto"
    browser.switch_to.active_element.send_keys("\ue014")  # arrow right: the next choice
    assert browser.execute_script("return document.querySelector('#light').checked")


def test_printed_it_is_light_and_nothing_is_cut_off(browser: Chrome, address: str) -> None:
    show(browser, address, 720, "dark")
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": features})
    assert colour(browser, "h1", "color") == "rgb(28, 33, 38)"
    assert overflow(browser) <= 0
    assert colour(browser, "nav", "display") == "none"
    wide = """return [...document.querySelectorAll('svg.chart')].filter(
        e => e.getBoundingClientRect().right > innerWidth + 1).length"""
    assert browser.execute_script(wide) == 0
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


def test_headers_of_printed_tables_are_free_to_repeat(browser: Chrome, address: str) -> None:
    """Chromium repeats a header on the next page only if no button in it has a box of its own."""
    show(browser, address, 720)
    assert colour(browser, "#scores th button", "display") != "contents"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert colour(browser, "#scores th button", "display") == "contents"
    assert colour(browser, "#scores thead", "display") == "table-header-group"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_what_the_page_begins_with_can_be_read(browser: Chrome, address: str, width: int, colours: str) -> None:
    """Three sentences, the comparison, wrong rows and columns: on the screen, whole, and nothing over anything else."""
    show(browser, address, width, colours)
    first = browser.find_elements("css selector", "#overview > *")[0]
    assert first.get_attribute("class") == "sentences"
    assert len(first.find_elements("css selector", "p")) == 3
    assert _contrast(colour(browser, "body", "backgroundColor"), colour(browser, ".sentences p", "color")) > 7
    for section, said in (("against", "labels alone"), ("wrong", HOSTILE), ("columns", "weight")):
        assert said in browser.find_element("id", section).text
    outside = """return [...document.querySelectorAll("#overview p, #against td, #wrong td, #wrong th, #columns td")]
        .filter(e => e.offsetWidth && !e.closest("thead"))
        .filter(e => e.getBoundingClientRect().right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1).length"""
    assert browser.execute_script(outside) == 0


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The report of images with many classes."""
    random = np.random.default_rng(0)
    names = np.array([f"kind of thing {i}" for i in range(30)])
    y = np.tile(np.arange(30), 10)
    x = random.normal(size=(300, 1, 6, 6))
    x[np.arange(300), 0, y // 6, y % 6] += 2
    model = DSSLClassifier(steps=10, random_state=0, network="mlp", calibrate=False).fit(x, names[y])
    summary = summarise(
        model, x, names[y], X_test=x, y_test=names[np.roll(y, 1)], settings={}, command="", data={}, seconds=1.0
    )
    return write_report(summary, tmp_path_factory.mktemp("many") / "report.html").as_uri()


@pytest.mark.parametrize("width", [400, 1280])
@pytest.mark.parametrize("colours", ["light", "dark"])
def test_matrices_of_many_classes_and_pictures_are_legible(
    browser: Chrome, many: str, width: int, colours: str
) -> None:
    show(browser, many, width, colours)
    assert overflow(browser) <= 0
    assert console(browser) == []
    drawn = "const e = document.querySelector('#scores svg.chart'); return e.getBoundingClientRect().width / "
    assert browser.execute_script(drawn + "e.viewBox.baseVal.width") == pytest.approx(1, abs=0.01)  # never made smaller
    names = [e.text for e in browser.find_elements("css selector", "#scores svg.chart text.name.end")]
    assert len(set(names)) == 30
    sizes = "return [...document.querySelectorAll('#wrong img')].map(e => [e.naturalWidth, e.offsetWidth, e.alt])"
    found = browser.execute_script(sizes)
    assert len(found) == 20
    assert all(natural == 6 and shown >= 48 and alt.startswith("Row ") for natural, shown, alt in found)
