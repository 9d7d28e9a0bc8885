"""Charts are well-formed, say what they show, put marks where the numbers are, and escape every name."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from dssl.app import charts

HOSTILE = "</title><script>alert('x')</script>\"&"
LINES = [
    charts.Series("total", [(0, 2.0), (10, 1.0), (20, 0.5)], 1),
    charts.Series(HOSTILE, [(0, 1.0), (10, None), (20, 0.25)], 2),
]
EVERY = {
    "lines": charts.lines(LINES, label=HOSTILE, x_label=HOSTILE, y_label=HOSTILE),
    "histogram": charts.histogram([0, 5, 100], [1, 0, 9], label=HOSTILE, x_label=HOSTILE, y_label=HOSTILE, colour=2),
    "reliability": charts.reliability([(HOSTILE, 1, [(10, 0.2, 0.3), (90, 0.9, 0.8)])], label=HOSTILE),
    "pairs": charts.pairs([(HOSTILE, 0.2, 0.4), ("b", None, 0.1)], end=0.5, names=(HOSTILE, "q"), label=HOSTILE),
    "matrix": charts.matrix([HOSTILE, "b"], [(0, 0, 8), (0, 1, 2), (1, 1, 5)], label=HOSTILE),
    "stacked": charts.stacked([(HOSTILE, 3, 1), ("none", 0, 2)], label=HOSTILE),
}


def tree(picture: Markup) -> ElementTree.Element:
    return ElementTree.fromstring(picture)


def numbers(element: ElementTree.Element, *names: str) -> list[float]:
    return [float(element.attrib[name]) for name in names]


# ---- numbers ----


@given(low=st.floats(-1e6, 1e6), span=st.floats(1e-6, 1e6), about=st.integers(2, 10))
def test_ticks_are_few_even_and_inside(low: float, span: float, about: int) -> None:
    high = low + span
    found = charts.ticks(low, high, about)
    slack = 1e-6 * max(abs(low), abs(high), span)
    assert all(low - slack <= t <= high + slack for t in found)
    if span > 1e-3 * abs(low):
        assert about / 3 <= len(found) <= 2 * about + 2
        steps = [b - a for a, b in pairwise(found)]
        assert all(s == pytest.approx(steps[0], rel=1e-3) for s in steps)


def test_ticks_of_nothing_are_one() -> None:
    assert charts.ticks(3, 3) == [3]
    assert charts.ticks(0, math.inf) == [0]


@given(share=st.floats(0, 1))
def test_percent_is_exact_only_at_the_ends(share: float) -> None:
    text = charts.percent(share)
    assert (text == "0\xa0%") == (share == 0)
    assert (text == "100\xa0%") == (share == 1)
    assert "\x20" not in text  # it is not broken at the end of a line


# ---- every chart ----


@pytest.mark.parametrize("name", EVERY)
def test_charts_are_well_formed_labelled_and_escaped(name: str) -> None:
    picture = EVERY[name]
    root = tree(picture)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == HOSTILE
    assert "<script" not in picture
    allowed = {"svg", "line", "path", "rect", "circle", "text", "title"}
    assert {element.tag for element in root.iter()} <= allowed
    assert "nan" not in picture
    assert any(HOSTILE[:8] in (element.text or "") for element in root.iter() if element.tag in ("title", "text"))


@pytest.mark.parametrize("name", [name for name in EVERY if name != "stacked"])
def test_marks_lie_within_the_picture(name: str) -> None:
    root = tree(EVERY[name])
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    for element in root.iter():
        if element.tag in ("rect", "circle"):
            x, y = numbers(element, *(("x", "y") if element.tag == "rect" else ("cx", "cy")))
            assert 0 <= x <= width
            assert 0 <= y <= height


# ---- single charts ----


def test_lines_go_through_their_points_and_break_where_one_is_missing() -> None:
    paths = [e.attrib["d"] for e in tree(EVERY["lines"]).iter("path")]
    assert [d.count("M") for d in paths] == [1, 2]
    first = [tuple(map(float, pair.split())) for pair in re.split("[ML]", paths[0])[1:]]
    assert first[0][0] < first[1][0] < first[2][0]
    assert first[0][1] < first[1][1] < first[2][1]  # falling values lie lower
    assert first[1][0] - first[0][0] == pytest.approx(first[2][0] - first[1][0], abs=0.2)
    dashes = [e.attrib["stroke-dasharray"] for e in tree(EVERY["lines"]).iter("path")]
    assert len(set(dashes)) == 2  # told apart without colour


def test_lines_without_a_number_are_none_and_constant_ones_are_drawn() -> None:
    assert charts.lines([charts.Series("x", [(0, None)])], label="", x_label="", y_label="") == ""
    flat = charts.lines([charts.Series("x", [(0, 0.0), (1, 0.0)])], label="flat", x_label="step", y_label="loss")
    assert "nan" not in flat
    assert tree(flat).find("path") is not None
    assert "inf" not in charts.lines([charts.Series("x", [(5, -1.0)])], label="", x_label="", y_label="")


def test_long_curves_have_few_titles() -> None:
    long = charts.Series("x", [(i, i / 1000) for i in range(1000)])
    titles = [e.text for e in tree(charts.lines([long], label="", x_label="step", y_label="")).iter("title")]
    assert 20 < len(titles) <= 40
    assert titles[-1] == "x, step 999: 0.999"


def test_bars_of_a_histogram_grow_with_the_logarithm() -> None:
    picture = charts.histogram([1, 10, 100, 0], None, label="", x_label="", y_label="")
    heights = [float(e.attrib["height"]) for e in tree(picture).iter("rect")]
    assert len(heights) == 3
    assert heights[1] - heights[0] == pytest.approx(heights[2] - heights[1], abs=0.2)
    assert heights[0] > 0  # a single one is seen
    assert [e.text for e in tree(picture).iter("title")][2] == "0.5 to 0.75: 100"


def test_an_empty_histogram_has_no_bars() -> None:
    assert not list(tree(charts.histogram([0, 0], None, label="", x_label="", y_label="")).iter("rect"))


def test_reliable_points_lie_on_the_diagonal() -> None:
    root = tree(charts.reliability([("r", 1, [(5, 0.1, 0.1), (5, 0.8, 0.8)])], label=""))
    (ideal,) = [e for e in root.iter("line") if e.attrib["class"] == "ideal"]
    x1, y1, x2, y2 = numbers(ideal, "x1", "y1", "x2", "y2")
    for dot in root.iter("circle"):
        x, y = numbers(dot, "cx", "cy")
        assert (y - y1) / (y2 - y1) == pytest.approx((x - x1) / (x2 - x1), abs=0.01)


def test_pairs_show_what_is_known() -> None:
    root = tree(EVERY["pairs"])
    assert len(list(root.iter("circle"))) == 1  # of the second row only the second share is known
    assert len([e for e in root.iter("path") if e.attrib["class"] == "f c2"]) == 2
    assert len([e for e in root.iter("line") if e.attrib["class"] == "link"]) == 1


def test_matrix_cells_are_shaded_by_their_share_of_the_row() -> None:
    root = tree(EVERY["matrix"])
    cells = [e for e in root.iter("rect") if e.attrib["class"].startswith("f ")]
    assert [e.attrib["class"] for e in cells] == ["f c1 q8", "f c2 q4", "f c1 q8"]  # shares .8, .2, 1
    assert cells[1].find("title").text.endswith("predicted b: 2 (20.0\xa0%)")  # type: ignore[union-attr]
    counts = [e.text for e in root.iter("text") if "count" in e.attrib["class"]]
    assert counts == ["8", "2", "5"]
    many = charts.matrix([str(i) for i in range(50)], [(i, i, 1) for i in range(50)], label="")
    assert not [e for e in tree(many).iter("text") if "count" in e.attrib["class"]]  # too small to read


def test_parts_of_a_bar_are_in_proportion() -> None:
    root = tree(charts.stacked([("a", 100, 1), ("b", 300, 2), ("c", 0, 3)], label=""))
    widths = [float(e.attrib["width"]) for e in root.iter("rect")]
    assert len(widths) == 2
    assert widths[1] / widths[0] == pytest.approx(3, rel=0.05)
    few = tree(charts.stacked([("a", 1, 1), ("b", 1_000_000, 2)], label=""))
    assert float(next(few.iter("rect")).attrib["width"]) >= 1


def test_a_meter_is_empty_only_at_nothing() -> None:
    assert 'width="0.0"' in charts.meter(0)
    assert 'width="1.5"' in charts.meter(1e-9)
    assert 'class="f c1" width="60.0"' in charts.meter(1.5)


def test_legends_escape_names() -> None:
    found = charts.legend([(HOSTILE, 1, "line 2"), ("b", 2, "dot"), ("c", 3, "bar"), ("d", 4, "diamond")])
    assert "<script" not in found
    assert found.count("<li>") == 4
    assert tree(found).find("li/svg/path").attrib["stroke-dasharray"]  # type: ignore[union-attr]
