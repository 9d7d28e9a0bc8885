"""Pictures of small circuits: Graphviz text, and SVG laid out here without any other tool."""

from __future__ import annotations

import itertools
from html import escape

import numpy as np

from dssl.circuits.circuit import Circuit
from dssl.circuits.nodes import AND, FALSE, LITERAL, OR, TRUE
from dssl.errors import DataError

_MOST = 200  # nodes that can still be read
_SYMBOLS = {FALSE: "⊥", TRUE: "⊤", AND: "∧", OR: "∨"}
_GAP, _ROW, _LETTER, _RADIUS, _MARGIN, _BEND = 14.0, 68.0, 7.6, 15.0, 14.0, 6.0  # pixels
_STYLE = """
  .dssl-circuit { color: #1f2430; --and: #2f6fb3; --or: #b3552f; --leaf: #6b7280; --paper: #ffffff; }
  @media (prefers-color-scheme: dark) {
    .dssl-circuit { color: #e6e8ee; --and: #7db4ee; --or: #f0a27e; --leaf: #9aa3b2; --paper: #16181d; }
  }
  .dssl-circuit text { font: 14px system-ui, sans-serif; fill: currentColor; text-anchor: middle; }
  .dssl-circuit path { stroke: var(--leaf); stroke-width: 1.1; fill: none; }
  .dssl-circuit .and { stroke: var(--and); } .dssl-circuit .or { stroke: var(--or); }
  .dssl-circuit .leaf { stroke: var(--leaf); }
  .dssl-circuit .and, .dssl-circuit .or, .dssl-circuit .leaf { fill: var(--paper); stroke-width: 1.6; }
""".strip("\n")


def labels(circuit: Circuit) -> list[str]:
    """What is written on each node: ∧, ∨, ⊤, ⊥, or a literal such as ¬legs or species=cat."""
    _refuse_large(circuit)
    names = circuit.names + tuple(f"soft rule {i + 1}" for i in range(len(circuit.soft)))
    out = []
    for kind, literal in zip(circuit.kind.tolist(), circuit.literal.tolist()):
        name = names[abs(literal) - 1] if literal else ""
        out.append(("¬" if literal < 0 else "") + name if kind == LITERAL else _SYMBOLS[kind])
    return out


def to_dot(circuit: Circuit) -> str:
    """The circuit as Graphviz text."""
    shapes = {AND: "circle", OR: "circle"}
    lines = ["digraph circuit {", "  node [fontname=sans];", "  edge [arrowhead=none];"]
    for node, label in enumerate(labels(circuit)):
        text = label.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'  {node} [label="{text}", shape={shapes.get(int(circuit.kind[node]), "box")}];')
    lines += [f"  {upper} -> {lower};" for upper, lower in _edges(circuit)]
    return "\n".join([*lines, "}", ""])


def to_svg(circuit: Circuit) -> str:
    """The circuit as an SVG picture, root on top, for light and dark pages."""
    texts = labels(circuit)
    width = [2 * _RADIUS] * circuit.nodes
    for node in np.flatnonzero(circuit.kind == LITERAL).tolist():
        width[node] = max(width[node], _LETTER * len(texts[node]) + 14)
    rows = _rows(circuit)
    chains = _chains(circuit, rows, width)
    x, total = _across(rows, width, chains)
    y = {node: _MARGIN + _RADIUS + _ROW * depth for depth, row in enumerate(rows) for node in row}
    height = 2 * (_MARGIN + _RADIUS) + _ROW * (len(rows) - 1)
    drawn = [node for row in rows for node in row if node < circuit.nodes]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="dssl-circuit" viewBox="0 0 {total:.0f} {height:.0f}" '
            f'width="{total:.0f}" height="{height:.0f}" role="img">',
            f"  <title>Circuit of {circuit.nodes} nodes and {circuit.edges} edges</title>",
            f"  <style>\n{_STYLE}\n  </style>",
            *(_curve([(x[node], y[node]) for node in chain]) for chain in chains),
            *(_node(circuit.kind[node], texts[node], x[node], y[node], width[node]) for node in drawn),
            "</svg>",
            "",
        ]
    )


def _refuse_large(circuit: Circuit) -> None:
    if circuit.nodes > _MOST:
        raise DataError(
            f"a drawing shows up to {_MOST} nodes, and this circuit has {circuit.nodes}. "
            "Draw a smaller rule set, or write the circuit with to_nnf() for another tool."
        )


def _edges(circuit: Circuit) -> list[tuple[int, int]]:
    """(parent, child) of each edge."""
    upper = np.repeat(np.arange(circuit.nodes), np.diff(circuit.ptr))
    return list(zip(upper.tolist(), circuit.child.tolist()))


def _rows(circuit: Circuit) -> list[list[int]]:
    """Nodes by their longest distance from the root, so every edge points down."""
    depth = {circuit.nodes - 1: 0}
    for upper, lower in sorted(_edges(circuit), reverse=True):
        if upper in depth:
            depth[lower] = max(depth.get(lower, 0), depth[upper] + 1)
    rows: list[list[int]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in sorted(depth):
        rows[depth[node]].append(node)
    return rows


def _chains(circuit: Circuit, rows: list[list[int]], width: list[float]) -> list[list[int]]:
    """Each edge as a chain of nodes row by row; the bends between its ends are added to `rows` and `width`."""
    depth = {node: i for i, row in enumerate(rows) for node in row}
    chains = []
    for upper, lower in _edges(circuit):
        if upper in depth:
            chain = [upper]
            for between in range(depth[upper] + 1, depth[lower]):
                chain.append(len(width))
                rows[between].append(len(width))
                width.append(_BEND)
            chains.append([*chain, lower])
    return chains


def _across(
    rows: list[list[int]], width: list[float], chains: list[list[int]], sweeps: int = 24
) -> tuple[dict[int, float], float]:
    """The middle of each node from the left, and the picture's width: nodes move to the middle of their neighbours."""
    near: dict[int, list[int]] = {node: [] for row in rows for node in row}
    for upper, lower in (pair for chain in chains for pair in itertools.pairwise(chain)):
        near[upper].append(lower)
        near[lower].append(upper)
    x = {node: float(i) for row in rows for i, node in enumerate(row)}
    for sweep in range(sweeps):
        for row in rows if sweep % 2 else rows[::-1]:
            wish = {node: sum(x[n] for n in near[node]) / len(near[node]) if near[node] else 0.0 for node in row}
            x.update(_spread(sorted(row, key=wish.__getitem__), wish, width))
    left = min(x[node] - width[node] / 2 for node in x) - _MARGIN
    x = {node: place - left for node, place in x.items()}
    return x, max(x[node] + width[node] / 2 for node in x) + _MARGIN


def _spread(row: list[int], wish: dict[int, float], width: list[float]) -> dict[int, float]:
    """Places near the wishes that do not overlap: pushed to the right one by one, then all moved back together."""
    place: dict[int, float] = {}
    edge = -np.inf
    for node in row:
        place[node] = max(wish[node], edge + width[node] / 2)
        edge = place[node] + width[node] / 2 + _GAP
    shift = sum(place[node] - wish[node] for node in row) / len(row)
    return {node: place[node] - shift for node in row}


def _curve(points: list[tuple[float, float]]) -> str:
    """A path through the points that leaves and enters each of them vertically."""
    path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (ax, ay), (bx, by) in itertools.pairwise(points):
        path += f" C{ax:.1f},{ay + _ROW / 2:.1f} {bx:.1f},{by - _ROW / 2:.1f} {bx:.1f},{by:.1f}"
    return f'  <path d="{path}"/>'


def _node(kind: int, text: str, x: float, y: float, width: float) -> str:
    style = {AND: "and", OR: "or"}.get(kind, "leaf")
    if style == "leaf":
        shape = (
            f'<rect class="leaf" x="{x - width / 2:.1f}" y="{y - _RADIUS + 2:.1f}" width="{width:.1f}" '
            f'height="{2 * _RADIUS - 4:.1f}" rx="6"/>'
        )
    else:
        shape = f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{_RADIUS:.1f}"/>'
    return f'  <g>{shape}<text x="{x:.1f}" y="{y + 5:.1f}">{escape(text)}</text></g>'
