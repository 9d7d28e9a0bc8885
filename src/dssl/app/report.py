"""The report of a run: a summary in, one HTML page out. It needs no network and no other file."""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from dssl.app import charts
from dssl.app.findings.comparison import CONSTANT, LABELS, MODEL, RULES
from dssl.app.findings.sentences import by_difference, excess, notices, three_sentences
from dssl.app.measures import CLASSES, Confusion, Frequency, Histogram, RuleBreaks, Score, interval
from dssl.app.summary import Cells, Summary
from dssl.errors import DataError
from dssl.files import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment

_PARTS = {"labelled": 1, "unlabelled": 6, "test": 3}  # and their colours
_RATES = {  # columns of a log, and what they are
    "accuracy": "labelled rows of each update, as the network alone predicts them",
    "score": "labelled rows held out to stop by, given the rules",
    "watched": "test rows, given the rules",
}
_NOT_LOSS = {"step", "lr", "total", "seconds", *_RATES}  # columns of a log that are not part of the loss
_RULES, _SCORES, _PAIRS, _VARIETIES, _MISTAKES, _FEATURES = 100, 100, 30, 30, 10, 12  # shown at most
_MATRICES, _MATRIX_CELLS, _SETTINGS = 4, 3000, 200
_BESIDE = 12  # values of a matrix, at most, that has a table beside it
_VALUES = 12  # columns of a row
_IMPORTANT = 15  # columns of the table


def write_report(summary: Summary, path: str | Path) -> Path:
    """Write the page to a file: the whole of it appears, or none."""
    path = Path(path)
    write_whole(path, render(summary).encode(), parents=True)
    return path


def render(summary: Summary) -> str:
    """The page as text. Whatever comes from data is escaped."""
    environment = _environment()
    style = Markup(environment.get_template("report.css").render())
    script = Markup(_template("report.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )
    return environment.get_template("report.html").render(
        s=summary,
        style=style,
        script=script,
        policy=policy,
        sentences=three_sentences(summary),
        tiles=_tiles(summary),
        comparison=_comparison(summary),
        wrong=_wrong(summary),
        columns=_columns(summary),
        notices=notices(summary),
        data=_data(summary),
        rules=_rules(summary.rules),
        curves=_curves(summary),
        histograms=_histograms(summary),
        confusions=_confusions(summary),
        scores=_scores(summary.scores),
        calibration=_calibration(summary),
        varieties=sorted(summary.varieties, key=lambda v: v.predicted - v.labelled)[:_VARIETIES],
        next=_next(summary),
        settings=_flat(summary.settings)[:_SETTINGS],
        facts=_flat({name: value for name, value in summary.data.items() if name != "title"})[:_SETTINGS],
        named=_FEATURES,
    )


def csp(page: str) -> str:
    """The Content-Security-Policy that a page of ours asks for: to be sent with it where it is served."""
    found = re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]*)">', page)
    if found is None:
        raise DataError("this page has no Content-Security-Policy\nWrite the report again with write_report.")
    return unescape(found[1])


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _template(name: str) -> str:
    return (Path(__file__).parent / "templates" / name).read_text(encoding="utf-8")


def _environment() -> Environment:
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=lambda name: name is not None and name.endswith(".html"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": charts.number, "percent": charts.percent, "cut": charts.shortened}
    environment.globals |= {"meter": charts.meter, "values": _values}
    return environment


def duration(seconds: float) -> str:
    """Seconds in words.

    >>> [duration(s) for s in (0.34, 42, 75, 3725)]
    ['0.3 s', '42 s', '1 min 15 s', '1 h 2 min']
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes = whole // 60
    return f"{minutes} min {whole % 60} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


# ---- overview ----


def _tiles(summary: Summary) -> list[tuple[str, str, str]]:
    """Name, figure and a line below it."""
    tiles = [
        _accuracy_tile(summary),
        ("Rows", f"{summary.counts.rows:,}", _rows_text(summary)),
        _rules_tile(summary),
        _calibration_tile(summary),
        _variety_tile(summary),
        ("Time", duration(summary.seconds), f"{_steps(summary)}{summary.network}, {summary.weights:,} weights"),
    ]
    return [(name, figure, below.replace(" %", "\N{NO-BREAK SPACE}%")) for name, figure, below in tiles]


def _accuracy_tile(summary: Summary) -> tuple[str, str, str]:
    hits, of = summary.right.get("test", (0, 0))
    if not of:
        return "Accuracy", "–", "No labelled test rows were given, so accuracy is not known."
    low, high = interval(hits, of)
    whole = " in every label" if len(summary.variable_scores) > 1 else ""
    return (
        "Accuracy on test rows",
        charts.percent(hits / of),
        f"{hits:,} of {of:,} rows right{whole}; 95 % interval {100 * low:.1f}–{100 * high:.1f} %",
    )


def _rows_text(summary: Summary) -> str:
    c = summary.counts
    said = [(c.labelled, "labelled"), (c.partly, "partly labelled"), (c.unlabelled, "unlabelled"), (c.test, "for test")]
    return ", ".join(f"{n:,} {what}" for n, what in said if n)


def _rules_tile(summary: Summary) -> tuple[str, Any, str]:
    if not summary.rules:
        return "Rows that break rules", "–", "There are no rules."
    part, found = next(iter(summary.broken.items()))
    arrow = Markup('{}<span class="arrow" aria-label="before, and after"> → </span>{}')
    shares = [charts.percent(n / found.rows) for n in (found.raw, found.final)]
    said = f"of {part} rows: for the network alone, and for the final predictions"
    return "Rows that break rules", arrow.format(*shares), said


def _calibration_tile(summary: Summary) -> tuple[str, str, str]:
    if not summary.calibrations:
        return "Calibration error", "–", "No labels to compare confidence with."
    last = summary.calibrations[-1]
    side = "overconfident" if excess(last.levels) > 0 else "underconfident"
    return "Calibration error", charts.percent(last.error), f"on {last.part} rows, {side} on average"


def _variety_tile(summary: Summary) -> tuple[str, str, str]:
    if summary.collapse is None:
        return "Variety", "–", "There are no unlabelled rows."
    said = "of predictions on unlabelled rows, against that of the labels; far below 100 % means collapse"
    return "Variety", f"{100 * summary.collapse:.0f} %", said


def _steps(summary: Summary) -> str:
    steps = summary.curves[-1].get("step") if summary.curves else None
    return "" if steps is None else f"{steps:,.0f} steps, "


# ---- data ----


def _data(summary: Summary) -> dict[str, Any]:
    c = summary.counts
    items = [
        ("labelled", c.labelled, 1),
        ("partly labelled", c.partly, 4),
        ("unlabelled", c.unlabelled, 6),
        ("test", c.test, 3),
    ]
    some = [f for f in summary.frequencies if f.labelled is not None or f.predicted is not None]
    shown = some if len(some) <= _PAIRS else by_difference(some)[:_PAIRS]
    names = ("labels", "predicted for unlabelled rows")
    return {
        "bar": charts.stacked(items, label=f"Rows: {_rows_text(summary)}"),
        "legend": charts.legend([(f"{name} {n:,}", colour, "bar") for name, n, colour in items if n]),
        "pairs": list(_pairs(shown, names)),
        "pairs_legend": charts.legend(
            [(names[0], 1, "dot")] + ([(names[1], 2, "diamond")] if any(f.predicted is not None for f in shown) else [])
        ),
        "frequencies": shown,
        "left_out": len(some) - len(shown),
    }


def _pairs(shown: Sequence[Frequency], names: tuple[str, str]) -> Iterator[Markup]:
    """Values of classes and attributes, each kind with its own axis; many of one kind in two pictures."""
    label = "How often each value occurs in the labels and in the predictions for unlabelled rows"
    kinds = [[f for f in shown if (f.column == f.variable) is binary] for binary in (False, True)]
    for kind in kinds:
        rows = [(f.column, f.labelled, f.predicted) for f in kind]
        end = min(1.0, 1.05 * max((v for _, *both in rows for v in both if v is not None), default=1.0) or 1.0)
        half = (len(rows) + 1) // 2 if len(rows) > 8 and not all(kinds) else len(rows)
        for part in (rows[:half], rows[half:]):
            if part:
                yield charts.pairs(part, end=end, names=names, label=label)


# ---- rules ----


def _rules(rules: Sequence[RuleBreaks]) -> dict[str, Any]:
    """The rules to show: all in their order, or the most broken ones."""
    shown = list(rules)
    if len(shown) > _RULES:
        shown = sorted(shown, key=lambda r: sum(b.raw for b in r.broken.values()), reverse=True)[:_RULES]
    return {"shown": shown, "left_out": len(rules) - len(shown)}


# ---- learning ----


def _curves(summary: Summary) -> dict[str, Any] | None:
    rows = [row for row in summary.curves if row.get("step") is not None]
    if len(rows) < 2:
        return None
    names = [name for name in dict.fromkeys(name for row in rows for name in row) if name not in _NOT_LOSS]
    loss = [charts.Series(name, _points(rows, name), i + 1) for i, name in enumerate(["total", *names[:5]])]
    rates = [charts.Series(_RATES[name], _points(rows, name), 1 + 2 * i) for i, name in enumerate(_RATES)]
    panels = []
    for title, series, upwards, unit in (("Loss", loss, "loss", False), ("Rows predicted right", rates, "share", True)):
        series = [one for one in series if any(y is not None for _, y in one.points)]
        if series:
            label = f"{title} over the steps of training: {', '.join(one.name for one in series)}"
            chart = charts.lines(series, label=label, x_label="step", y_label=upwards, unit=unit)
            items = [(one.name, one.colour, f"line {i}") for i, one in enumerate(series)]
            panels.append((title, chart, charts.legend(items)))
    last = [(one.name, y) for one in (*loss, *rates) for y in [one.points[-1][1]] if y is not None]
    held = any(one.name != _RATES["accuracy"] and one.points[-1][1] is not None for one in rates)
    return {"panels": panels, "last": last, "held": held}


def _points(rows: Sequence[Mapping[str, float | None]], name: str) -> list[tuple[float, float | None]]:
    return [(float(row["step"] or 0), row.get(name)) for row in rows]


# ---- θ ----


def _histograms(summary: Summary) -> list[dict[str, Any]]:
    """By kind: panels (part, chart), one per part."""
    out = []
    for kind, title, below in (
        ("classes", "Classes", "θ of the most probable value"),
        ("attributes", "Attributes", "θ of each attribute"),
    ):
        panels = [(h.part, sum(h.counts), _histogram(h, below)) for h in summary.histograms if h.kind == kind]
        if panels:
            out.append({"title": title, "panels": panels})
    return out


def _histogram(h: Histogram, below: str) -> Markup:
    label = f"Histogram of {below}, {h.part} rows, {sum(h.counts):,} predictions, logarithmic"
    colour = _PARTS[h.part]
    return charts.histogram(h.counts, h.true, label=label, x_label=below, y_label="predictions", colour=colour)


# ---- scores ----


def _confusions(summary: Summary) -> dict[str, Any]:
    """Matrices of the variables predicted worst, as far as they fit on the page, and the most frequent mistakes."""
    accuracy = {v.variable: 2.0 if v.accuracy is None else v.accuracy for v in summary.variable_scores}
    chosen = sorted(summary.confusions, key=lambda c: accuracy[c.variable])[:_MATRICES]
    out, cells = [], 0
    for c in chosen:
        fits = 1 < len(c.values) <= CLASSES and cells + len(c.cells) <= _MATRIX_CELLS
        cells += len(c.cells) if fits else 0
        label = f"Confusion matrix of {c.variable} on {summary.scored} rows"
        chart = charts.matrix(c.values, c.cells, label=label) if fits else None
        out.append({"variable": c.variable, "chart": chart, "mistakes": _mistakes(c), "large": len(c.values) > _BESIDE})
    return {"shown": out, "left_out": len(summary.confusions) - len(out)}


def _mistakes(c: Confusion) -> list[tuple[str, str, int]]:
    wrong = sorted((cell for cell in c.cells if cell[0] != cell[1]), key=lambda cell: -cell[2])[:_MISTAKES]
    return [(c.values[truth], c.values[found], n) for truth, found, n in wrong]


def _scores(scores: Sequence[Score]) -> dict[str, Any]:
    """The columns to show: all in their order, or those of lowest F1."""
    shown = list(scores)
    if len(shown) > _SCORES:
        some = [s for s in shown if s.f1 is not None and s.support]
        shown = sorted(some, key=lambda s: s.f1 or 0.0)[:_SCORES]
    return {"shown": shown, "left_out": len(scores) - len(shown)}


def _calibration(summary: Summary) -> dict[str, Any] | None:
    if not summary.calibrations:
        return None
    ruled = "given the rules" if summary.rules else "as they are"
    names = {"before": (f"{ruled}, before calibration", 4), "raw": ("the network alone (θ)", 2), "final": (ruled, 1)}
    if not summary.rules:
        names |= {"raw": (ruled, 1)}
    found = summary.calibrations[::-1]  # the final ones, if there are any, first
    curves = [(*names[c.stage], [(v.count, v.confidence, v.right) for v in c.levels]) for c in found]
    label = "Reliability: " + "; ".join(
        f"{names[c.stage][0]}, error {charts.percent(c.error)}" for c in summary.calibrations
    )
    return {
        "chart": charts.reliability(curves, label=label),
        "legend": charts.legend([(name, colour, f"line {i}") for i, (name, colour, _) in enumerate(curves)]),
        "rows": [(names[c.stage][0], c.error, sum(v.count for v in c.levels)) for c in summary.calibrations],
        "part": summary.calibrations[0].part,
    }


# ---- against what, and where it fails ----


_WAYS = {
    CONSTANT: "the most frequent label, whatever the row",
    LABELS: "the same network, from labelled rows only, as if there were no rules",
    RULES: "the same, with the rules",
    MODEL: "labels, rules and unlabelled rows",
}


def _comparison(summary: Summary) -> dict[str, Any] | None:
    """Each way with its share, interval, and how it differs from the model."""
    if not summary.comparison:
        return None
    rows = []
    for way in summary.comparison:
        low, high = interval(way.right, way.of)
        fate = "" if way.name == MODEL else "no" if not way.differs else "yes"
        rows.append({"way": way, "what": _WAYS[way.name], "low": low, "high": high, "differs": fate})
    return {"rows": rows, "seconds": duration(sum(way.seconds for way in summary.comparison))}


def _wrong(summary: Summary) -> dict[str, Any]:
    """The wrong rows that are listed, of how many."""
    hits, of = summary.right.get(summary.scored or "", (0, 0))
    rows = summary.mistakes
    return {
        "rows": rows,
        "of": of - hits,
        "named": any(m.name not in (None, f"line {m.row}", f"row {m.row}") for m in rows),
        "pictures": any(m.picture for m in rows),
        "cells": any(m.cells for m in rows),
    }


def _columns(summary: Summary) -> dict[str, Any] | None:
    """The columns that matter most, and how many others there are."""
    if not summary.importances:
        return None
    shown = summary.importances[:_IMPORTANT]
    return {"shown": shown, "left_out": len(summary.importances) - len(shown), "most": max(i.lost for i in shown)}


# ---- what to label next ----


def _next(summary: Summary) -> dict[str, Any]:
    """Rows worth labelling with their values; names that only say where a row is are left out."""
    rows = list(zip(summary.uncertain, summary.uncertain_cells, strict=True))
    return {
        "rows": rows,
        "named": any(u.name not in (None, f"line {u.row}", f"row {u.row}") for u, _ in rows),
        "cells": any(summary.uncertain_cells),
        "csv": f"data:text/csv;base64,{base64.b64encode(next_csv(summary).encode()).decode()}",
    }


def next_csv(summary: Summary) -> str:
    """The rows worth labelling as CSV: number, name, what is predicted, how sure that is, and the row's own columns."""
    columns = list(dict.fromkeys(name for cells in summary.uncertain_cells for name in cells))
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(["row", "name", "most probable label", "probability", "effective number of labels", *columns])
    for u, cells in zip(summary.uncertain, summary.uncertain_cells, strict=True):
        said = [u.row, u.name or "", u.label, f"{u.probability:.4f}", f"{u.perplexity:.2f}"]
        writer.writerow([*said, *(cells.get(name, "") for name in columns)])
    return out.getvalue()


def _values(cells: Cells) -> Markup:
    """A row's columns in one paragraph."""
    pair = Markup('<span class="note">{}</span> {}')
    return Markup(", ").join(
        pair.format(charts.shortened(n, 40), charts.shortened(v, 160)) for n, v in list(cells.items())[:_VALUES]
    )


# ---- settings ----


def _flat(settings: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested settings as names and texts."""
    out: list[tuple[str, str]] = []
    for name, value in settings.items():
        if isinstance(value, dict) and value:
            out += _flat(value, f"{before}{name}.")
        else:
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            out.append((before + name, text))
    return out
