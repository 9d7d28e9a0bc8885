"""Charts as inline SVG: small functions from numbers to a picture that takes its colours from the page.

A mark has the classes `f` (filled) or `l` (drawn) and c1 … c6 for its colour, which the page's style sheet sets for
light and dark. Every chart has a label for screen readers, every mark a title to hover on. All text is
escaped.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

Points = Sequence[tuple[float, float | None]]
_DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "10 4")  # which, besides its colour, distinguishes a series
_HOVERED = 40  # points of a series that have a title
_CUT = 16  # letters of a name that are shown


@dataclass(frozen=True)
class Series:
    """A named line."""

    name: str
    points: Points
    colour: int = 1


@dataclass(frozen=True)
class Frame:
    """Where the data goes: the plot's box within the picture, and the ranges of its axes."""

    width: int
    height: int
    x: tuple[float, float]
    y: tuple[float, float]
    left: int = 46
    right: int = 10
    top: int = 12
    bottom: int = 40

    def at_x(self, value: float) -> float:
        low, high = self.x
        return self.left + (value - low) / (high - low) * (self.width - self.left - self.right)

    def at_y(self, value: float) -> float:
        low, high = self.y
        return self.height - self.bottom - (value - low) / (high - low) * (self.height - self.top - self.bottom)


# ---- numbers ----


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers from `low` to `high`, roughly `about` of them.

    >>> ticks(0, 1), ticks(0, 437, 4)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.0, 100.0, 200.0, 300.0, 400.0])
    """
    span = high - low
    if not (math.isfinite(span) and span > 0):
        return [low]
    rough = span / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((power * m for m in (1, 2, 5, 10)), key=lambda s: abs(math.log(s / rough)))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def number(value: float) -> str:
    """A number in few digits.

    >>> [number(v) for v in (0, 0.12345, 12.5, 1234567.0, -3.0)]
    ['0', '0.123', '12.5', '1,234,567', '−3']
    """
    text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return text.replace("-", "−")


def percent(share: float) -> str:
    r"""A share in percent: "0 %" and "100 %" only where they are exact.

    >>> [percent(s).replace("\N{NO-BREAK SPACE}", " ") for s in (0, 0.0004, 0.123, 0.9999, 1)]
    ['0 %', '< 0.1 %', '12.3 %', '> 99.9 %', '100 %']
    """
    if share in (0, 1):
        text = f"{100 * share:.0f} %"
    elif share < 0.001:
        text = "< 0.1 %"
    else:
        text = "> 99.9 %" if share > 0.999 else f"{100 * share:.1f} %"
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def shortened(name: str, most: int = _CUT) -> str:
    return name if len(name) <= most else name[: most - 1] + "…"


# ---- pieces ----


def _picture(width: float, height: float, label: str, body: Iterator[Markup] | Sequence[Markup]) -> Markup:
    head = Markup('<svg class="chart" role="img" viewBox="0 0 {:g} {:g}" width="{:g}" height="{:g}" aria-label="{}">')
    return head.format(width, height, width, height, label) + Markup("").join(body) + Markup("</svg>")


def _text(x: float, y: float, text: str, kind: str, more: str = "") -> Markup:
    return Markup('<text x="{:.1f}" y="{:.1f}" class="{}"{}>{}</text>').format(x, y, kind, Markup(more), text)


def _axes(
    frame: Frame, x_label: str, y_label: str, x_ticks: Sequence[float], y_ticks: Sequence[tuple[float, str]]
) -> Iterator[Markup]:
    left, right, base = frame.left, frame.width - frame.right, frame.height - frame.bottom
    for value, text in y_ticks:
        y = frame.at_y(value)
        yield Markup('<line class="grid" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(left, right, y, y)
        yield _text(left - 6, y + 4, text, "tick end")
    for value in x_ticks:
        yield _text(frame.at_x(value), base + 16, number(value), "tick mid")
    yield Markup('<line class="axis" x1="{}" x2="{}" y1="{:.1f}" y2="{:.1f}"/>').format(left, right, base, base)
    yield _text((left + right) / 2, frame.height - 6, x_label, "label mid")
    turned = f' transform="rotate(-90 12 {(frame.top + base) / 2:.1f})"'
    yield _text(12, (frame.top + base) / 2, y_label, "label mid", turned)


def legend(items: Sequence[tuple[str, int, str]]) -> Markup:
    """Names with the look of their marks: (name, colour, "line", "line 2", "bar", "dot" or "diamond")."""
    out = []
    for name, colour, look in items:
        out.append(Markup("<li>{}{}</li>").format(_swatch(colour, look), name))
    return Markup('<ul class="legend">') + Markup("").join(out) + Markup("</ul>")


def _swatch(colour: int, look: str) -> Markup:
    kind, _, which = look.partition(" ")
    shapes = {
        "line": f'<path class="l" d="M0 7H22" stroke-dasharray="{_DASHES[int(which or 0) % len(_DASHES)]}"/>',
        "bar": '<rect class="f" x="4" y="1" width="12" height="12" rx="2"/>',
        "dot": '<circle class="f" cx="11" cy="7" r="5"/>',
        "diamond": '<path class="f" d="M11 1l6 6-6 6-6-6z"/>',
    }
    return Markup(f'<svg class="swatch c{colour}" width="22" height="14" aria-hidden="true">{shapes[kind]}</svg>')


# ---- charts ----


def lines(series: Sequence[Series], *, label: str, x_label: str, y_label: str, unit: bool = False) -> Markup:
    """Curves over a common axis; with `unit` the axis upwards is from 0 to 1."""
    xs = [x for one in series for x, _ in one.points]
    ys = [y for one in series for _, y in one.points if y is not None]
    if not ys:
        return Markup("")
    low, high = (0.0, 1.0) if unit else (min(0.0, *ys), max(ys, default=1.0))
    high = high if high > low else low + 1
    frame = Frame(420, 270, (min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1), (low, high + 0.02 * (high - low)))

    def body() -> Iterator[Markup]:
        yield from _axes(frame, x_label, y_label, ticks(*frame.x), [(v, number(v)) for v in ticks(low, high)])
        for i, one in enumerate(series):
            path = _path(frame, one.points)
            dash = _DASHES[i % len(_DASHES)]
            yield Markup('<path class="l c{}" stroke-dasharray="{}" d="{}"/>').format(one.colour, dash, path)
            yield from _hovered(frame, one, x_label)

    return _picture(frame.width, frame.height, label, body())


def _path(frame: Frame, points: Points) -> str:
    """Through all points; where one is missing, or stands alone, the line breaks."""
    out, drawing = [], False
    for x, y in points:
        if y is not None:
            out.append(f"{'L' if drawing else 'M'}{frame.at_x(x):.1f} {frame.at_y(y):.1f}")
        drawing = y is not None
    return "".join(out)


def _hovered(frame: Frame, one: Series, x_label: str) -> Iterator[Markup]:
    known = [(x, y) for x, y in one.points if y is not None]
    step = max(1, math.ceil(len(known) / _HOVERED))
    for x, y in known[::-step][::-1]:  # the last one among them
        said = f"{one.name}, {x_label} {number(x)}: {number(y)}"
        dot = Markup('<circle class="hover c{}" cx="{:.1f}" cy="{:.1f}" r="5"><title>{}</title></circle>')
        yield dot.format(one.colour, frame.at_x(x), frame.at_y(y), said)


def histogram(
    counts: Sequence[int], true: Sequence[int] | None, *, label: str, x_label: str, y_label: str, colour: int = 1
) -> Markup:
    """Bars of counts over [0, 1] with a logarithmic axis upwards; `true` counts as a stepped line above them."""
    most = max(1, *counts, *(true or ()))
    frame = Frame(320, 230, (0.0, 1.0), (math.log10(0.6), math.log10(most) + 0.08))
    powers = range(math.floor(math.log10(most)) + 1)
    every = max(1, len(powers) // 5)

    def body() -> Iterator[Markup]:
        marks = [(float(p), number(10.0**p) if p < 5 else f"10^{p}") for p in powers if p % every == 0]
        yield from _axes(frame, x_label, y_label, ticks(0, 1), marks)
        base = frame.height - frame.bottom
        for i, n in enumerate(counts):
            if n:
                a, b = i / len(counts), (i + 1) / len(counts)
                x, y = frame.at_x(a) + 0.4, frame.at_y(math.log10(n))
                bar = Markup('<rect class="f c{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">')
                yield bar.format(colour, x, y, frame.at_x(b) - x - 0.4, base - y)
                yield Markup("<title>{:.3g} to {:.3g}: {:,}</title></rect>").format(a, b, n)
        if true is not None:
            yield Markup('<path class="step" d="{}"/>').format(_steps(frame, true))

    return _picture(frame.width, frame.height, label, body())


def _steps(frame: Frame, counts: Sequence[int]) -> str:
    base = frame.height - frame.bottom
    out = f"M{frame.left} {base}"
    for i, n in enumerate(counts):
        y = frame.at_y(math.log10(n)) if n else base
        out += f"V{y:.1f}H{frame.at_x((i + 1) / len(counts)):.1f}"
    return out + f"V{base}"


def reliability(curves: Sequence[tuple[str, int, Sequence[tuple[int, float, float]]]], *, label: str) -> Markup:
    """Confidence against the share that is right; a curve is (name, colour, levels of (count, confidence, right))."""
    frame = Frame(420, 360, (0.0, 1.0), (0.0, 1.0))
    most = max((n for _, _, levels in curves for n, _, _ in levels), default=1)

    def body() -> Iterator[Markup]:
        marks = [(v, number(v)) for v in ticks(0, 1)]
        yield from _axes(frame, "confidence", "share that is right", ticks(0, 1), marks)
        corner = (frame.at_x(0), frame.at_y(0), frame.at_x(1), frame.at_y(1))
        yield Markup('<line class="ideal" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>').format(*corner)
        for i, (name, colour, levels) in reversed(list(enumerate(curves))):  # the first lies on top
            path = _path(frame, [(c, r) for _, c, r in levels])
            yield Markup('<path class="l c{}" stroke-dasharray="{}" d="{}"/>').format(colour, _DASHES[i], path)
            for n, confidence, right in levels:
                said = f"{name}: {n:,} predictions, confidence {confidence:.2f}, right {right:.2f}"
                place = (frame.at_x(confidence), frame.at_y(right), 3 + 5 * math.sqrt(n / most))
                dot = Markup('<circle class="f c{}" cx="{:.1f}" cy="{:.1f}" r="{:.1f}" fill-opacity=".75">')
                yield dot.format(colour, *place) + Markup("<title>{}</title></circle>").format(said)

    return _picture(frame.width, frame.height, label, body())


def pairs(
    rows: Sequence[tuple[str, float | None, float | None]], *, end: float, names: tuple[str, str], label: str
) -> Markup:
    """Two shares per row, a dot and a diamond, joined by a line: (name, first, second). The axis ends at `end`."""
    letters = max((len(shortened(name)) for name, _, _ in rows), default=0)
    frame = Frame(440, 24 * len(rows) + 52, (0.0, end), (0.0, 1.0), left=20 + int(7.4 * letters), right=14, top=6)

    def body() -> Iterator[Markup]:
        base = frame.height - frame.bottom
        for value in ticks(0, end, 4):
            x = frame.at_x(value)
            yield Markup('<line class="grid" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(x, x, frame.top, base)
            yield _text(x, base + 16, f"{100 * value:.3g} %", "tick mid")
        for i, (name, *values) in enumerate(rows):
            y = frame.top + 24 * i + 14
            yield _text(frame.left - 10, y + 4, shortened(name), "name end")
            xs = [None if v is None else frame.at_x(v) for v in values]
            if xs[0] is not None and xs[1] is not None:
                yield Markup('<line class="link" x1="{:.1f}" x2="{:.1f}" y1="{}" y2="{}"/>').format(*xs, y, y)
            for k, v in enumerate(values):
                if v is not None:
                    yield _mark(k, frame.at_x(v), y, f"{shortened(name, 80)}, {names[k]}: {percent(v)}")
        yield _text((frame.left + frame.width - frame.right) / 2, frame.height - 6, "share of rows", "label mid")

    return _picture(frame.width, frame.height, label, body())


def _mark(which: int, x: float, y: float, said: str) -> Markup:
    if which == 0:
        return Markup('<circle class="f c1" cx="{:.1f}" cy="{}" r="5"><title>{}</title></circle>').format(x, y, said)
    return Markup('<path class="f c2" d="M{:.1f} {}l6 6-6 6-6-6z"><title>{}</title></path>').format(x, y - 6, said)


def matrix(values: Sequence[str], cells: Sequence[tuple[int, int, int]], *, label: str) -> Markup:
    """A confusion matrix: rows are true values, columns predicted ones, shaded by their share of the row."""
    size = len(values)
    side = 34 if size <= 12 else 26 if size <= 20 else 16
    names = _distinct(values, 12)
    margin = 34 + int(6.8 * max(map(len, names), default=1))
    turned = max(map(len, names), default=0) > 3
    top = margin if turned else 44
    total = [sum(n for t, _, n in cells if t == k) for k in range(size)]

    def body() -> Iterator[Markup]:
        yield _text(margin + size * side / 2, 14, "predicted", "label mid")
        middle = top + size * side / 2
        yield _text(12, middle, "true", "label mid", f' transform="rotate(-90 12 {middle:.1f})"')
        for k, name in enumerate(names):
            at = (k + 0.5) * side
            yield _text(margin - 6, top + at + 4, name, "name end")
            x, y = margin + at + (4 if turned else 0), top - 7
            more = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if turned else ""
            yield _text(x, y, name, "name" if turned else "name mid", more)
        yield Markup('<rect class="box" x="{}" y="{}" width="{}" height="{}"/>').format(margin, top, *[size * side] * 2)
        for truth, found, n in cells:
            pair = f"true {shortened(values[truth], 40)}, predicted {shortened(values[found], 40)}"
            said = f"{pair}: {n:,} ({percent(n / total[truth])})"
            left, high = margin + found * side, top + truth * side
            yield _cell(left, high, side, n / total[truth], truth == found, said)
            if side >= 26:
                count = f"{n}" if n < 10_000 else f"{n / 1000:.0f}k"
                yield _text(left + side / 2, high + side / 2 + 4, count, "count mid")

    return _picture(margin + size * side + 8, top + size * side + 8, label, body())


def _distinct(names: Sequence[str], most: int) -> list[str]:
    """Names cut to so many letters: their beginnings, or their ends if that leaves more of them apart.

    >>> _distinct(["kind of tent 1", "kind of tent 2"], 8)
    ['… tent 1', '… tent 2']
    """
    first = [shortened(name, most) for name in names]
    last = [name if len(name) <= most else "…" + name[len(name) - most + 1 :] for name in names]
    return last if len(set(last)) > len(set(first)) else first


def _cell(x: float, y: float, side: int, share: float, right: bool, said: str) -> Markup:
    shade = max(1, math.ceil(8 * math.sqrt(share)))  # a few mistakes are visible, too
    rect = '<rect class="f c{} q{}" x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>'
    return Markup(rect).format(1 if right else 2, shade, x + 0.5, y + 0.5, side - 1, side - 1, said)


def stacked(items: Sequence[tuple[str, int, int]], *, label: str) -> Markup:
    """Counts as parts of one bar: (name, count, colour). Even a small count is visible."""
    whole = sum(n for _, n, _ in items) or 1
    widths = [max(4.0, 640 * n / whole) if n else 0.0 for _, n, _ in items]
    scale = 640 / sum(widths) if sum(widths) else 1.0

    def body() -> Iterator[Markup]:
        x = 0.0
        for (name, n, colour), width in zip(items, widths):
            if n:
                bar = '<rect class="f c{}" x="{:.1f}" y="0" width="{:.1f}" height="18"><title>{}: {:,}</title></rect>'
                yield Markup(bar).format(colour, x, max(1.0, width * scale - 2), name, n)
            x += width * scale

    picture = Markup('<svg class="stacked" role="img" viewBox="0 0 640 18" preserveAspectRatio="none" aria-label="{}">')
    return picture.format(label) + Markup("").join(body()) + Markup("</svg>")


def meter(share: float, colour: int = 1) -> Markup:
    """A bar in a table's cell, beside its number."""
    width = 0 if share == 0 else max(1.5, 60 * min(1.0, share))
    bar = '<svg class="meter" width="60" height="8" viewBox="0 0 60 8" aria-hidden="true">'
    bar += (
        '<rect class="track" width="60" height="8" rx="4"/><rect class="f c{}" width="{:.1f}" height="8" rx="4"/></svg>'
    )
    return Markup(bar).format(colour, width)
