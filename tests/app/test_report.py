"""The page: whole, escaped, without a word to the network, and honest about what a run lacks."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dssl import DataError, DSSLClassifier, LabelSpace
from dssl.app import measures, report
from dssl.app.measures import Confusion, Frequency, RuleBreaks, Score
from dssl.app.report import csp, render, write_report
from dssl.app.summary import Origin, Summary, Variety, summarise

EVIL = "<script>alert(1)</script>"
EVIL2 = "'>\"><img src=x onerror=alert(2)></style>{{ 7*7 }}&"
VOID = {"meta", "link", "input", "img", "br", "hr"}


class Page(HTMLParser):
    """The elements of a page, and whether each that is opened is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes nothing"

    def handle_data(self, data: str) -> None:
        if not {"style", "script"} & set(self.open):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def evil() -> Summary:
    """A run in which every name that a user may give is an attack."""
    x = np.random.default_rng(0).normal(size=(80, 2))
    space = LabelSpace.class_attributes([[1, 0], [0, 1], [0, 0]], [EVIL, EVIL2, "c"], ["a<b>&", "</code>"], name=EVIL)
    kinds = np.array([EVIL, EVIL2, "c"])[(x[:, 0] > 0).astype(int) + (x[:, 0] > 1)]
    labels = space.complete([{EVIL: str(kind)} for kind in kinds])
    few = labels.copy()
    few[20:] = np.nan
    model = DSSLClassifier(space, steps=20, random_state=0).fit(x, few)
    return summarise(
        model,
        x,
        few,
        X_test=x,
        y_test=labels,
        rows=Origin(names=[EVIL] * 80, cells=pl.DataFrame({EVIL: [EVIL] * 80})),
        feature_names=[EVIL, EVIL2],
        log_rows=[{"step": i, "total": 1.0, EVIL: 0.5} for i in range(3)],
        settings={EVIL: EVIL2, "deep": {EVIL: [EVIL]}},
        command=EVIL2,
        data={"file": EVIL, EVIL2: EVIL},
        seconds=75,
    )


@pytest.fixture(scope="module")
def bare() -> Summary:
    """A run without rules, test rows, names or log."""
    x = np.random.default_rng(0).normal(size=(40, 2))
    y = np.where(np.arange(40) < 20, (x[:, 0] > 0).astype(int), -1)
    model = DSSLClassifier(steps=5, random_state=0).fit(x, y)
    return summarise(model, x, y, log_rows=[], settings={}, command="", data={}, seconds=0.2)


# ---- the page as a whole ----


def test_whatever_comes_from_data_is_escaped(evil: Summary) -> None:
    text = render(evil)
    page = Page(text)
    assert page.open == []
    assert len(page.all("script")) == 1
    assert not page.all("img")
    assert not [name for _, attributes in page.elements for name in attributes if name.startswith("on")]
    assert EVIL in page.text  # it is shown, as text
    assert "{{ 7*7 }}" in page.text  # and not taken for a template


def test_nothing_is_asked_of_the_network(evil: Summary, bare: Summary) -> None:
    for summary in (evil, bare):
        text = render(summary)
        for _, attributes in Page(text).elements:
            assert not {"src", "srcset", "action", "background"} & set(attributes)
            assert (attributes.get("href") or "#").startswith(("#", "data:,", "data:text/csv;base64,"))
        assert not re.search(r"url\(|@import|https?:", text.replace("http-equiv", ""))


def test_the_policy_allows_just_our_style_and_script(evil: Summary) -> None:
    text = render(evil)
    policy = csp(text)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for tag in ("style", "script"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    with pytest.raises(DataError, match="has no Content-Security-Policy"):
        csp("<html></html>")


def test_rows_to_label_are_exported_with_their_values(evil: Summary) -> None:
    (link,) = [a for a in Page(render(evil)).all("a") if "download" in a]
    content = base64.b64decode((link["href"] or "").partition(",")[2]).decode()
    first, *lines = csv.reader(io.StringIO(content))
    assert first == ["row", "name", "most probable label", "probability", "effective number of labels", EVIL]
    assert [line[0] for line in lines] == [str(u.row) for u in evil.uncertain]
    assert {line[-1] for line in lines} == {EVIL}


def test_the_page_can_be_read_without_eyes(evil: Summary) -> None:
    page = Page(render(evil))
    names = [tag for tag, _ in page.elements]
    assert all(names.count(tag) == 1 for tag in ("header", "nav", "main", "footer", "h1"))
    assert page.all("html")[0]["lang"] == "en"
    ids = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    for link in page.all("a"):
        assert (link["href"] or "")[1:] in ids or link["download"] == "label-next.csv"
    for section in page.all("section"):
        assert section.get("aria-label") or section["aria-labelledby"] in ids
    assert all(cell.get("scope") in ("row", "col") for cell in page.all("th"))
    assert all(svg.get("aria-label") or svg.get("aria-hidden") == "true" for svg in page.all("svg"))
    levels = [int(tag[1]) for tag in names if re.fullmatch("h[1-6]", tag)]
    assert all(b - a <= 1 for a, b in pairwise(levels))


def test_each_section_tells_how_to_read_it(evil: Summary, bare: Summary) -> None:
    for summary in (evil, bare):
        text = render(summary)
        sections = re.findall(r'<section id="(\w+)" aria-labelledby.*?</section>', text, re.DOTALL)
        assert len(sections) == 13
        for section in re.findall(r'<section id="\w+" aria-labelledby.*?</section>', text, re.DOTALL):
            assert section.count('class="how"') == 1


def test_the_file_is_written_whole(evil: Summary, tmp_path: Path) -> None:
    path = write_report(evil, tmp_path / "a" / "report.html")
    assert path.read_text() == render(evil)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


# ---- what it says ----


def test_headlines(evil: Summary) -> None:
    text = Page(render(evil)).text
    hits, of = evil.right["test"]
    low, high = measures.interval(hits, of)
    assert f"{hits} of {of} rows right in every label; 95 % interval {100 * low:.1f}–{100 * high:.1f} %" in text
    assert "20 labelled, 60 unlabelled, 80 for test" in text
    assert "1 min 15 s" in text
    broken = evil.broken["unlabelled"]
    assert re.search(rf"{broken.raw / broken.rows * 100:.1f}\s%\s+→\s+0\s%", text)


def test_rules_stand_with_how_often_they_are_broken(evil: Summary) -> None:
    section = re.search(r'<section id="rules".*?</section>', render(evil), re.DOTALL)
    assert section is not None
    rows = re.findall(r"<tr>.*?</tr>", section[0], re.DOTALL)[1:-1]
    assert len(rows) == len(evil.rules) > 0
    for row, rule in zip(rows, evil.rules):
        counts = [int(v) for v in re.findall(r'data-v="(\d+)"', row)]
        assert counts == [n for b in rule.broken.values() for n in (b.raw, b.final)]
        assert rule.text in Page(row).text


def test_what_a_run_lacks_is_said(bare: Summary) -> None:
    text = Page(render(bare)).text
    for said in (
        "No labelled test rows were given",
        "The run had no rules",
        "The run left no log",
        "There are no test rows: scores and calibration were measured on the rows that the model was trained on.",
    ):
        assert said in text
    full = replace(
        bare, uncertain=(), uncertain_cells=(), collapse=None, varieties=(), scored=None, calibrations=(), scores=()
    )
    text = Page(render(full)).text
    for said in (
        "no unlabelled rows, so there is no collapse",
        "There are no unlabelled rows left",
        "No labels are known to score",
        "No labels are known to compare confidence with",
    ):
        assert said in text


def test_a_soft_rule_is_marked_and_a_broken_hard_one_stands_out(evil: Summary) -> None:
    counts = {"unlabelled": measures.Broken(10, 5, 2)}
    rules = (RuleBreaks("a -> b", 3, 0.9, counts), RuleBreaks("b -> c", 4, None, counts))
    text = render(replace(evil, rules=rules, broken=counts))
    assert "soft, 0.9" in text
    assert len(re.findall(r'class="n bad"', text)) == 1
    assert "2 final predictions on unlabelled rows break a rule" in text


def test_few_rows_looked_at_are_said(evil: Summary) -> None:
    text = Page(render(replace(evil, looked_at={"unlabelled": (20_000, 1_000_000)}))).text
    assert "Of 1,000,000 unlabelled rows, 20,000 drawn at random were looked at" in text
    assert "drawn at random" not in Page(render(evil)).text


def test_durations_at_their_edges() -> None:
    assert [report.duration(s) for s in (0, 9.94, 59.6, 3599.6)] == ["0.0 s", "9.9 s", "1 min 0 s", "1 h 0 min"]


# ---- size ----


def test_a_huge_run_makes_a_page_below_a_megabyte(evil: Summary) -> None:
    name = "a name that goes on and on " * 20
    counts = {"unlabelled": measures.Broken(10, 5, 0), "test": measures.Broken(10, 5, 0)}
    cells = tuple((i, j, 1 + i * j) for i in range(50) for j in range(50))
    values = tuple(f"{i} {name}" for i in range(50))
    columns = [f"{name} {i}" for i in range(3000)]
    huge = replace(
        evil,
        title=name * 10,
        space=name * 5000,
        feature_names=tuple(columns),
        settings=dict.fromkeys(columns, name * 10),
        rules=tuple(RuleBreaks(name * 3, i, None, counts) for i in range(3000)),
        broken=counts,
        frequencies=tuple(Frequency(c, c, 0.1, 0.2) for c in columns),
        scores=tuple(Score(c, c, 5, 0.5, 0.5, i / 3000) for i, c in enumerate(columns)),
        variable_scores=tuple(measures.VariableScore(c, 5, 0.5) for c in columns),
        confusions=tuple(Confusion(c, values, cells) for c in columns[:60]),
        varieties=tuple(Variety(c, 0.5, 0.6) for c in columns),
        curves=tuple({"step": float(i), **dict.fromkeys("abcdefgh", 0.5), "total": 1.0} for i in range(300)),
    )
    text = render(huge)
    assert len(text.encode()) < 1_000_000
    page = Page(text)
    for said in ("2,900 others are left out", "2,970 others are left out", "56 further variables"):
        assert said in page.text
    assert text.count("Confusion matrix of") >= 1


def test_many_classes_show_mistakes_in_place_of_a_matrix(evil: Summary) -> None:
    wide = Confusion("kind", tuple(map(str, range(80))), ((3, 4, 9), (5, 6, 2)))
    summary = replace(evil, confusions=(wide,), variable_scores=(measures.VariableScore("kind", 5, 0.5),))
    text = render(summary)
    assert "kind: most frequent mistakes" in text
    assert "Confusion matrix" not in text
