"""The page in a real browser: what is typed and moved, what is seen, and what never happens."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import torch
from browser import console, overflow, requested, scheme, screen
from test_spaces import monster

from dssl import DeterministicPrior, EntropyPrior, ExclusivityPrior, LabelSpace, PseudoLabelPrior
from dssl.app.explorer.figures import gaussians, triangle
from dssl.app.explorer.predictions import Run

Explorer = Callable[[Path], str]
RULES = "legs, fins, wings\nlegs -> !fins\nlegs | fins | wings"  # of the run
MARKUP = '"<img src=x onerror=boom()>", "</script><script>boom()</script>"'


class Page:
    """A view of the explorer in the browser."""

    def __init__(self, driver: Any, address: str) -> None:
        self.driver, self.address = driver, address

    def open(self, **state: Any) -> Page:
        self.driver.get("about:blank")
        console(self.driver), requested(self.driver)
        self.driver.get(f"{self.address}/#{quote(json.dumps({'tab': 'rules', **state}))}")
        self.until("return document.getElementById('status').textContent === 'ready'", 120)
        return self

    def until(self, script: str, seconds: float = 20) -> None:
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds, 0.03).until(lambda d: d.execute_script(script), f"never true: {script}")

    def text(self, selector: str) -> str:
        return str(self.driver.execute_script("return document.querySelector(arguments[0]).textContent", selector))

    def texts(self, selector: str) -> list[str]:
        found = "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return list(self.driver.execute_script(found, selector))

    def shows(self, selector: str, text: str) -> None:
        """Wait until an element shows this text."""
        self.until(f"return (document.querySelector({selector!r})?.textContent ?? '').includes({text!r})")

    def press(self, selector: str, *keys: str) -> None:
        self.driver.find_element("css selector", selector).send_keys(*keys)

    def write(self, text: str) -> None:
        """Replace the rules by typing."""
        from selenium.webdriver.common.keys import Keys

        self.press("#text", Keys.CONTROL, "a", Keys.NULL, Keys.DELETE)
        self.press("#text", text)

    def slide(self, selector: str, value: float) -> None:
        self.choose(selector, value, "input")

    def choose(self, selector: str, value: Any, event: str) -> None:
        """Set a control as its reader would."""
        script = (
            "const [s, v, e] = arguments, c = document.querySelector(s); c.value = v; c.dispatchEvent(new Event(e))"
        )
        self.driver.execute_script(script, selector, value, event)


@pytest.fixture
def page(browser: Any, explorer: Explorer, run_folder: Path) -> Any:
    """The page, opened on a run. Whatever a test does, nothing is complained of and nothing leaves this machine."""
    screen(browser, 1280)
    scheme(browser, "light")
    page = Page(browser, explorer(run_folder))
    yield page
    assert console(browser) == []
    assert all(url.startswith(page.address) or url == "about:blank" for url in requested(browser))


# ---- rules ----


def test_a_wrong_rule_shows_its_caret_while_typing(page: Page) -> None:
    page.open()
    page.write("legs, fins\nlegs -> !fisn")
    page.shows("#problem", "'fisn' is not declared")
    line, caret = page.text("#problem .caret").split("\n")
    assert line[caret.index("^") :] == "fisn"
    assert "Line 2, column 10" in page.text("#problem")
    assert "Did you mean 'fins'?" in page.text("#problem")
    assert page.text("#marks mark") == "fisn"
    assert page.text("#count") == "–"
    from selenium.webdriver.common.keys import Keys

    page.press("#text", *[Keys.BACKSPACE] * 4, "fins")
    page.shows("#count", "3")
    assert page.text("#problem") == ""


def test_numbers_and_circuit_are_those_of_python(page: Page) -> None:
    text = "species: {cat, dog, trout}\nlegs, fins\nspecies = trout -> fins & !legs\nlegs -> !fins"
    space = LabelSpace(text)
    circuit = space.compile()
    page.open(text=text)
    page.shows("#count", str(space.count()))
    assert page.text("#share") == "of 12 labels that the variables allow"
    assert page.text("#size").startswith(f"{circuit.nodes} nodes, {circuit.edges} edges, depth {circuit.depth}")
    drawn = page.driver.execute_script("return document.querySelectorAll('#drawing g').length")
    assert drawn == circuit.nodes
    assert len(page.texts("#labels tbody tr")) == space.count()


def test_a_conflict_marks_its_minimal_set(page: Page) -> None:
    page.open(text="legs, fins, wings\nlegs -> fins\nwings -> fins\nlegs -> !fins\nlegs = true")
    page.shows("#problem", "contradict each other")
    assert page.texts("#gutter .clash") == ["2", "4", "5"]
    assert len(page.texts("#problem .rules li")) == 3


def test_warnings_are_shown_and_their_lines_marked(page: Page) -> None:
    page.open(text="legs, fins\nlegs -> !fins\nfins -> !legs")
    page.shows("#findings", "redundant")
    assert page.texts("#gutter .warn") == ["2", "3"]


def test_every_example_is_right_but_the_one_that_clashes(page: Page) -> None:
    page.open()
    names = page.driver.execute_script("return [...document.getElementById('example').options].map((o) => o.value)")[1:]
    assert len(names) == 7
    for name in names:
        page.choose("#example", name, "change")
        text = page.driver.execute_script("return document.getElementById('text').value")
        if name == "rules that clash":
            page.shows("#problem", "contradict")
        else:
            page.shows("#count", f"{LabelSpace(text).count():,}")
    assert page.text("#size") == ""


def test_what_is_too_large_is_refused_and_the_page_lives_on(page: Page) -> None:
    page.open(text=monster())
    page.shows("#problem", "too large for this page")
    page.write("a, b")
    page.shows("#count", "4")


def test_an_answer_that_comes_too_late_is_dropped(page: Page) -> None:
    page.open(text="a, b")
    page.shows("#count", "4")
    page.driver.execute_script("""
        const real = window.fetch; window.shown = [];
        window.fetch = async (...args) => {
          if (!args[1]?.body?.includes("slow, b, c")) return real(...args);
          window.asked = true;
          await new Promise((done) => { window.go = done; });
          return real(...args);
        };
        new MutationObserver(() => window.shown.push(document.getElementById("count").textContent))
          .observe(document.getElementById("count"), { childList: true, characterData: true, subtree: true });
    """)
    from selenium.webdriver.common.keys import Keys

    page.write("slow, b, c")
    page.until("return window.asked")
    page.press("#text", Keys.HOME, *[Keys.DELETE] * 4, "fast", Keys.END, ", d")
    page.driver.execute_script("window.go()")
    page.shows("#count", "16")
    assert "8" not in page.driver.execute_script("return window.shown")


# ---- beliefs ----


def test_sliders_show_what_the_python_api_says(page: Page) -> None:
    text = "species: {cat, dog, trout}\nlegs, fins\nspecies = trout -> fins\nlegs -> !fins"
    space = LabelSpace(text)
    page.open(tab="beliefs", text=text)
    page.shows("#priors", "deterministic")
    values = [1.5, -0.5, 2.0, 0.9, 0.35]
    for i, value in enumerate(values):
        page.slide(f"#column-{i}", value)
    page.slide("#power", 4)
    z = torch.tensor([[1.5, -0.5, 2.0, math.log(9), math.log(0.35 / 0.65)]], dtype=torch.float64)
    deterministic = DeterministicPrior(space, 4.0)
    expected = {
        "entropy": EntropyPrior(space)(z),
        "entropy, semantic": EntropyPrior(space, semantic=True)(z),
        "exclusivity": ExclusivityPrior(space)(z),
        "pseudo-label": PseudoLabelPrior(space)(z),
        "deterministic": deterministic.log_prob(z),
    }
    page.shows("[data-prior=deterministic]", f"{float(expected['deterministic']):.4f}".replace("-", "−"))
    for name, log_q in expected.items():
        assert float(page.text(f"[data-prior='{name}']").replace("−", "-")) == pytest.approx(float(log_q), abs=6e-5)
    shown = float(page.text("[data-maximised=deterministic]").replace("−", "-"))
    assert shown == pytest.approx(float(deterministic(z)), abs=6e-5)
    from dssl.models.decoding import Decoder

    decoder = Decoder(space)
    marginals = decoder.marginals(z)[0]
    assert [float(t) for t in page.texts(".given .mono")] == pytest.approx(marginals.tolist(), abs=6e-4)
    assert [float(t) for t in page.texts(".belief output")] == pytest.approx(decoder.theta(z)[0].tolist(), abs=6e-4)
    (label,) = decoder.decode(z)
    assert label == {"species": "cat", "legs": True, "fins": False}
    assert page.texts("#best li") == ["species = trout species = cat", "legs", "not fins"]
    assert page.texts("#best .changed") == ["species = trout species = cat"]


def test_sliders_move_by_arrow_keys_and_are_named(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open(tab="beliefs", text="legs, fins\nlegs -> !fins")
    page.shows(".belief output", "0.500")
    page.press("#column-0", *[Keys.ARROW_RIGHT] * 25)
    page.shows(".belief output", "0.525")
    unnamed = page.driver.execute_script("""
        return [...document.querySelectorAll("input, select, textarea")]
          .filter((e) => !e.labels?.length && !e.getAttribute("aria-label")).map((e) => e.outerHTML)
    """)
    assert unnamed == []


def test_samples_change_with_their_seed_and_come_back(page: Page) -> None:
    page.open(tab="beliefs", text="a, b, c, d, e, f\na -> b")
    page.shows("#tops", "sample 5")
    first = page.texts("#tops tr")
    page.slide("#seed", 7)
    page.until(
        f"return [...document.querySelectorAll('#tops tr')].map((e) => e.textContent).join() !== {','.join(first)!r}"
    )
    page.slide("#seed", 0)
    page.until(
        f"return [...document.querySelectorAll('#tops tr')].map((e) => e.textContent).join() === {','.join(first)!r}"
    )


def test_a_view_can_be_reloaded(page: Page) -> None:
    page.open(tab="beliefs", text="legs, fins\nlegs -> !fins")
    page.shows(".belief output", "0.500")
    page.slide("#column-1", 0.75)
    page.slide("#power", 3)
    page.until("return decodeURIComponent(location.hash).includes('0.75') && location.hash.includes('power')")
    page.driver.refresh()
    page.shows("[data-prior=deterministic]", "−")
    page.until("return document.querySelector('#column-1')?.value === '0.75'")
    assert page.text("#power-value") == "3"
    assert page.driver.find_element("id", "tab-beliefs").get_attribute("aria-selected") == "true"


@pytest.mark.parametrize(
    "address", ["#%7B", "#null", "#[1]", "#%22text%22", "#" + quote('{"text": 3, "values": [], "power": "x"}')]
)
def test_a_broken_address_begins_anew(page: Page, address: str) -> None:
    page.driver.get("about:blank")
    page.driver.get(f"{page.address}/{address}")
    page.shows("#count", str(LabelSpace(RULES).count()))  # the rules of the run


# ---- figures ----


def test_the_triangle_is_drawn_and_read_by_keys(page: Page) -> None:
    from selenium.webdriver.common.keys import Keys

    page.open(tab="triangle")
    page.shows("#picked", "log q")
    colours = """
        const c = document.getElementById("map"), d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data;
        const seen = new Set();
        for (let i = 0; i < d.length; i += 4) if (d[i + 3]) seen.add(`${d[i] >> 4},${d[i + 1] >> 4},${d[i + 2] >> 4}`);
        return seen.size
    """
    assert page.driver.execute_script(colours) > 30
    page.slide("#tri-power", 3)
    said = triangle({"prior": "deterministic", "power": 3.0, "steps": 48})
    at = 16 * 49 - 16 * 15 // 2 + 16
    page.shows("#picked", f"log q = {said['log_q'][at]:.4f}".replace("-", "−"))
    page.press("#map", *[Keys.ARROW_UP] * 4)
    at = 12 * 49 - 12 * 11 // 2 + 16
    page.shows("#picked", f"log q = {said['log_q'][at]:.4f}".replace("-", "−"))
    page.choose("#prior", "entropy", "input")
    entropy = triangle({"prior": "entropy", "steps": 48})["log_q"][at]
    page.shows("#picked", f"log q = {entropy:.4f}".replace("-", "−"))
    assert not page.driver.find_element("id", "tri-power").is_enabled()
    assert float(page.texts("#legend span")[2]) == pytest.approx(
        math.exp(max(triangle({"prior": "entropy"})["log_q"])), abs=1e-3
    )


def test_two_gaussians_are_drawn_to_scale(page: Page) -> None:
    page.open(tab="gaussians")
    page.shows("#spread", "= 4.000")
    page.slide("#separation", 3)
    page.slide("#pi", 0.6)
    page.slide("#variance", 0.5)  # last, since s tells when its answer is drawn, and π does not change s
    page.shows("#spread", "= 18.000")
    said = gaussians({"separation": 3.0, "variance": 0.5, "pi": 0.6})
    page.until("return document.querySelectorAll('.chart').length === 3")
    assert page.driver.execute_script("return document.querySelectorAll('.chart .bar').length") == 100
    middle = page.driver.execute_script(
        "return document.querySelectorAll('.chart')[1].querySelector('path').getAttribute('d')"
    )
    points = [tuple(map(float, point.split(","))) for point in middle[1:].split("L")]
    assert len(points) == len(said["x"])
    for i in (0, 70, 80, 90, 160):
        assert points[i][1] == pytest.approx(230 - 34 - said["posterior"][i] * (230 - 34 - 12), abs=0.06)


# ---- a run ----


def test_a_run_is_opened_with_its_report(page: Page) -> None:
    page.driver.get("about:blank")
    page.driver.get(page.address)
    page.shows("#run-title", "animals.csv")
    assert page.driver.find_element("id", "tab-run").get_attribute("aria-selected") == "true"
    frame = page.driver.find_element("css selector", "#report iframe")
    assert frame.get_attribute("sandbox") == "allow-scripts allow-downloads"
    page.driver.execute_script("arguments[0].scrollIntoView()", frame)
    page.driver.switch_to.frame(frame)
    page.shows("body", "animals.csv")
    reached = page.driver.execute_script("try { return parent.document.title } catch { return 'apart' }")
    assert reached == "apart"
    page.driver.switch_to.default_content()


def changed_row(run: Run) -> tuple[int, dict[str, Any]]:
    """A row whose label the rules change."""
    return next((row, said) for row in range(2, 82) if (said := run.prediction({"row": row}))["reasons"])


def test_a_changed_label_says_by_which_rule(page: Page, run_folder: Path) -> None:
    run = Run.open(run_folder)
    row, said = changed_row(run)
    space = run.trained.model.space_
    page.open(tab="run")
    page.shows("#run-title", "animals.csv")
    page.press("#row", str(row))
    page.driver.find_element("id", "show-row").click()
    page.until("return document.querySelector('#verdict .changed') !== null")
    assert len(page.texts("#verdict .changed")) == len(said["reasons"]) > 0
    assert page.texts("#verdict .reasons code") == [
        space.rules[i].text for reason in said["reasons"] for i in reason["rules"]
    ]
    thetas = [float(t) for t in page.texts("#verdict table td.num")[::2]]
    assert thetas == pytest.approx(said["theta"], abs=6e-5)
    weight = page.driver.execute_script("return document.getElementById('input-0').value")
    assert weight == said["cells"]["weight"]


def test_typed_values_are_predicted_and_mistakes_explained(page: Page, run_folder: Path) -> None:
    from app.explorer.conftest import EVIL

    page.open(tab="run")
    page.shows("#run-title", "animals.csv")
    page.press("#input-0", "1.25")
    page.press("#input-1", "-0.5")
    page.driver.find_element("id", "predict").click()
    said = Run.open(run_folder).prediction({"values": {"weight": "1.25", EVIL: "-0.5", "home": ""}})
    page.shows("#verdict td.num", f"{said['theta'][0]:.4f}")
    page.press("#input-0", "kg")
    page.driver.find_element("id", "predict").click()
    page.shows("#verdict", "held numbers in training, but here '1.25kg'")


# ---- safety ----


def test_markup_in_rules_stays_text(page: Page) -> None:
    page.open(text=f'{MARKUP}\n"<img src=x onerror=boom()>" -> "</script><script>boom()</script>"')
    page.driver.execute_script("window.boom = () => { window.exploded = true }")
    page.shows("#count", "3")
    assert "<img src=x onerror=boom()>" in page.text("#labels")
    assert "¬<img src=x onerror=boom()>" in page.text("#drawing")
    page.driver.find_element("id", "tab-beliefs").click()
    page.shows("#sliders", "onerror")
    page.driver.find_element("id", "tab-rules").click()
    page.write('"<svg onload=boom()>", b\nb -> "<b onclick=boom()>x"')
    page.shows("#problem", "is not declared")
    for script in (
        "return window.exploded === true",
        "return document.querySelectorAll('main img, main script').length > 0",
    ):
        assert not page.driver.execute_script(script)


def test_markup_in_the_data_stays_text(page: Page) -> None:
    from app.explorer.conftest import EVIL

    page.open(tab="run")
    page.driver.execute_script("window.boom = () => { window.exploded = true }")
    page.shows("#run-inputs", EVIL)
    page.press("#row", "5\n")
    page.until("return document.querySelector('#verdict .chips') !== null")
    assert not page.driver.execute_script("return window.exploded === true")
    assert not page.driver.execute_script("return document.querySelectorAll('main img').length > 0")


def test_injected_script_is_blocked_by_the_policy(page: Page) -> None:
    """The twin of the tests above: were markup parsed, the policy would still stop it, and we would see it."""
    page.open()
    page.driver.execute_script(
        "window.boom = () => { window.exploded = true };"
        "document.body.insertAdjacentHTML('beforeend', '<img src=\"data:,\" onerror=\"boom()\">')"
    )
    page.until("return [...document.images].every((image) => image.complete)")
    assert not page.driver.execute_script("return window.exploded === true")
    assert any("Content Security Policy" in entry for entry in console(page.driver))


# ---- shape ----


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1280])
def test_nothing_is_wider_than_the_screen(page: Page, width: int, colours: str) -> None:
    long = "a_name_that_goes_on_" * 4
    text = f"{long}, b\nchoice_{long}: {{x_{long}, y}}\n{long} -> {' & '.join('b' * 30)}\n{long} -> nothing"
    screen(page.driver, width)
    scheme(page.driver, colours)
    for tab in ("rules", "beliefs", "triangle", "gaussians"):
        page.open(tab=tab)
        assert overflow(page.driver) <= 0, tab
    page.open(text=text)
    page.shows("#problem", "is not declared")
    assert overflow(page.driver) <= 0
    page.open(text=text.rpartition("\n")[0])
    page.shows("#count", "6")
    page.driver.find_element("id", "tab-beliefs").click()
    page.shows("#tops", "sample 5")
    assert overflow(page.driver) <= 0
    paper = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, paper[4:-1].split(","))) < 200) == (colours == "dark")


@pytest.mark.parametrize("width", [375, 1280])
def test_a_run_is_no_wider_than_the_screen(page: Page, width: int) -> None:
    screen(page.driver, width)
    page.open(tab="run", row=5)
    page.until("return document.querySelector('#verdict .chips') !== null")
    assert overflow(page.driver) <= 0


def test_the_keyboard_reaches_everything(page: Page) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    page.open(text="legs, fins\nlegs -> !fins")
    page.shows("#count", "3")
    focused = "return document.activeElement.id"
    ActionChains(page.driver).send_keys(Keys.TAB).perform()
    assert page.driver.execute_script(focused) == "skip"
    ActionChains(page.driver).send_keys(Keys.ENTER).perform()
    assert page.driver.execute_script(focused) == "main"
    page.driver.execute_script("document.getElementById('tab-rules').focus()")
    for key, chosen in (
        (Keys.ARROW_RIGHT, "beliefs"),
        (Keys.END, "run"),
        (Keys.ARROW_RIGHT, "rules"),
        (Keys.ARROW_LEFT, "run"),
        (Keys.HOME, "rules"),
    ):
        ActionChains(page.driver).send_keys(key).perform()
        assert page.driver.execute_script(focused) == f"tab-{chosen}"
        assert not page.driver.execute_script(f"return document.getElementById('{chosen}').hidden")
    visited = []
    for _ in range(4):
        ActionChains(page.driver).send_keys(Keys.TAB).perform()
        visited.append(page.driver.execute_script(focused))
    assert visited == ["example", "text", "run-text", "propose"]
    outline = page.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


def test_a_run_that_cannot_be_opened_is_said_so(browser: Any, explorer: Explorer, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text('{"format": "other"}')
    page = Page(browser, explorer(tmp_path))
    browser.get(page.address)
    page.until("return document.getElementById('status').textContent.includes('is not a model saved by dssl')", 60)
    assert console(browser) == []
