"""Sizes and seconds of every family of the rule language, n growing: how text, reading, search and circuit grow.

Run with ``python benchmarks/families.py [--quick]``. A family ends at its first n that takes more than the time-out.
PySDD and oxidd are given the normal form of the same rules: a variable for each value, clauses one by one, and each sum
step by step. They say nothing of how that form is reached, and so are timed without it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from dssl.circuits.compile.compiler import compile_constraints
from dssl.errors import BudgetError
from dssl.logic.reasoning.constraints import Constraints, Sum
from dssl.logic.space import LabelSpace

RESULT = Path(__file__).parent / "results" / "families.json"
BIO = "{O, B_per, I_per, B_loc, I_loc}"


def grid(n: int) -> str:
    """The edges of a grid of n by n vertices, as declarations."""
    across = [(r * n + c, r * n + c + 1) for r in range(n) for c in range(n - 1)]
    down = [(r * n + c, (r + 1) * n + c) for r in range(n - 1) for c in range(n)]
    return ", ".join(f"e[{u},{v}]" for u, v in across + down) + "\n"


def sudoku(givens: int) -> str:
    """A square of nine by nine with some cells given."""
    cells = random.Random(0).sample(range(81), givens)
    known = [f"cell[{r + 1},{c + 1}] = {(3 * (r % 3) + r // 3 + c) % 9 + 1}" for r, c in (divmod(i, 9) for i in cells)]
    rules = "for i in 1..9: all_different(cell[i, *])\nfor j in 1..9: all_different(cell[*, j])\n"
    blocks = "for r, c in {0, 3, 6}: all_different(cell[r+1..r+3, c+1..c+3])\n"
    return "cell[1..9, 1..9]: 1..9\n" + rules + blocks + "\n".join(known)


def table(n: int) -> str:
    """n rows of three numbers below 100."""
    rng = random.Random(0)
    rows = ", ".join("({}, {}, {})".format(*(rng.randrange(100) for _ in range(3))) for _ in range(n))
    return f"x, y, z: 0..99\ntable(x, y, z) in {{{rows}}}"


def hierarchy(n: int) -> str:
    """n leaves, ten in a group."""
    groups = ["\n        ".join([f"    g{i}", *(f"l{i}_{j}" for j in range(10))]) for i in range(n // 10)]
    return "\n".join(["hierarchy leaf:", *groups])


Family = tuple[Callable[[int], str], tuple[int, ...]]
FAMILIES: dict[str, Family] = {
    "all_different, n numbers": (lambda n: f"x[1..{n}]: 1..{n}\nall_different(x[*])", (6, 8, 10, 12)),
    "queens, n": (
        lambda n: f"q[1..{n}]: 1..{n}\nfor s in {{-1, 0, 1}}: all_different(q[i] + s*i for i in 1..{n})",
        (5, 6, 7, 8),
    ),
    "permutation, n by n": (lambda n: f"x[1..{n}, 1..{n}]\npermutation(x[*, *])", (4, 6, 8, 10)),
    "ranking of n": (lambda n: f"x[1..{n}, 1..{n}]\nranking(x[*, *])", (3, 4, 5, 6)),
    "increasing, n numbers up to 9": (lambda n: f"x[1..{n}]: 0..9\nincreasing(x[*])", (5, 10, 20, 40)),
    "lex, two rows of n": (lambda n: f"x[1..{n}], y[1..{n}]\nlex(x[*], y[*])", (5, 10, 20, 40)),
    "exactly n of 2n": (lambda n: f"a[1..{2 * n}]\nexactly({n}, a[*])", (50, 100, 200, 400, 1000)),
    "knapsack, n weights up to 100": (
        lambda n: f"a[1..{n}]\nsum((37*i mod 100 + 1) * a[i] for i in 1..{n}) <= {25 * n}",
        (20, 40, 80, 160),
    ),
    "parity of n": (lambda n: f"a[1..{n}]\n" + " ^ ".join(f"a[{i}]" for i in range(1, n + 1)), (100, 400, 1000)),
    "regular: BIO tags, length n": (
        lambda n: f't[1..{n}]: {BIO}\nregular(t[*], "(O | B_per I_per* | B_loc I_loc*)*")',
        (50, 200, 1000),
    ),
    "loops: BIO tags, length n": (
        lambda n: (
            f"t[1..{n}]: {BIO}\nt[1] not in {{I_per, I_loc}}\nfor i in 2..{n}:\n"
            "  t[i] = I_per -> t[i-1] in {B_per, I_per}\n  t[i] = I_loc -> t[i-1] in {B_loc, I_loc}"
        ),
        (50, 200, 1000),
    ),
    "hierarchy, n leaves": (hierarchy, (100, 1000, 3000)),
    "table, n rows of three": (table, (100, 1000, 10_000)),
    "element of n": (lambda n: f"x[1..{n}]: 0..9\ni: 1..{n}\nelement(i, x[*]) = 7", (5, 10, 20)),
    "sudoku, n givens": (sudoku, (45, 35, 28)),
    "paths in a grid, n by n": (lambda n: f"{grid(n)}path(e[*, *], 0, {n * n - 1})", (3, 4, 5)),
    "spanning trees of a grid, n by n": (lambda n: f"{grid(n)}tree(e[*, *])", (3, 4, 5)),
    "connected grids, n by n": (lambda n: f"{grid(n)}connected(e[*, *])", (3, 4, 5)),
}


# ---- peers ----


def ordered(constraints: Constraints) -> list[int]:
    """The blocks, each hidden one behind the last of those that it is defined by: the order that suits peers best."""
    block_of = [block for block, size in enumerate(constraints.sizes) for _ in range(size)]
    parts: dict[int, set[int]] = {}
    owned = [*zip(constraints.clause_owners, constraints.clauses)]
    owned += [(owner, s.values) for owner, s in zip(constraints.sum_owners, constraints.sums)]
    for owner, values in owned:
        parts.setdefault(owner, set()).update(block_of[value] for value in values)
    place = {block: float(block) for block in range(constraints.visible)}
    for block in range(constraints.visible, len(constraints.sizes)):
        place[block] = max((place[b] for b in parts.get(block, ()) if b in place), default=-1.0)
    return sorted(place, key=lambda block: (place[block], block))


def built(constraints: Constraints, true: Any, variable: Callable[[int], Any], negated: Callable[[Any], Any]) -> Any:
    """The conjunction of the normal form by another library's operators, a variable for each value."""
    offsets, number = constraints.offsets, 0
    value_of: list[Any] = [None] * offsets[-1]
    for block in ordered(constraints):
        if constraints.sizes[block] == 2 and not constraints.categorical[block]:
            value_of[offsets[block] : offsets[block] + 2] = [negated(variable(number)), variable(number)]
            number += 1
        else:
            value_of[offsets[block] : offsets[block + 1]] = [
                variable(number + v) for v in range(constraints.sizes[block])
            ]
            number += constraints.sizes[block]
    rank = {block: i for i, block in enumerate(ordered(constraints))}
    block_of = [block for block, size in enumerate(constraints.sizes) for _ in range(size)]
    root = true
    for block, size in enumerate(constraints.sizes):
        if size != 2 or constraints.categorical[block]:
            values = tuple(range(offsets[block], offsets[block + 1]))
            root = root & added(
                constraints, Sum(values, (1,) * size, ((1, 1),)), true, value_of, negated, one_by_one=True
            )
    for clause in sorted(constraints.clauses, key=lambda c: max((rank[block_of[value]] for value in c), default=0)):
        part = negated(true)
        for value in clause:
            part = part | value_of[value]
        root = root & part
    for s in constraints.sums:
        root = root & added(constraints, s, true, value_of, negated)
    return root


def added(
    constraints: Constraints,
    s: Sum,
    true: Any,
    value_of: list[Any],
    negated: Callable[[Any], Any],
    one_by_one: bool = False,
) -> Any:
    """A sum as a diagram: the last values first, a node for each total so far."""
    weight = dict(zip(s.values, s.coefficients))
    if one_by_one:
        groups: list[list[int]] = [[value] for value in s.values]
    else:
        groups = [
            list(range(constraints.offsets[b], constraints.offsets[b + 1]))
            for b in range(len(constraints.sizes))
            if any(constraints.offsets[b] <= value < constraints.offsets[b + 1] for value in s.values)
        ]
    choices = [
        [(weight[group[0]], value_of[group[0]]), (0, negated(value_of[group[0]]))]
        if one_by_one
        else [(weight.get(value, 0), value_of[value]) for value in group]
        for group in groups
    ]
    reached = [{0}]
    for choice in choices:
        reached.append({total + c for total in reached[-1] for c, _ in choice})
    below = {total: true if any(a <= total <= b for a, b in s.intervals) else negated(true) for total in reached[-1]}
    for totals, choice in zip(reversed(reached[:-1]), reversed(choices)):
        here = {}
        for total in totals:
            node = negated(true)
            for c, literal in choice:
                node = node | (literal & below[total + c])
            here[total] = node
        below = here
    return below[0]


def variables_of(constraints: Constraints) -> int:
    return sum(1 if n == 2 and not c else n for n, c in zip(constraints.sizes, constraints.categorical))


Answer = tuple[int, int]  # edges, and labels if they can be counted


def pysdd(constraints: Constraints) -> Answer:
    from pysdd.sdd import SddManager, Vtree

    manager = SddManager.from_vtree(Vtree(var_count=variables_of(constraints), vtree_type="right"))
    root = built(constraints, manager.true(), lambda i: manager.literal(i + 1), lambda node: ~node)
    return int(root.size()), int(root.global_model_count())


def oxidd(constraints: Constraints) -> Answer:
    from oxidd.bdd import BDDManager

    manager = BDDManager(20_000_000, 1_000_000, 1)
    manager.add_vars(variables_of(constraints))
    return 2 * int(built(constraints, manager.true(), manager.var, lambda node: ~node).node_count()), -1


PEERS: dict[str, Callable[[Constraints], Answer]] = {"pysdd": pysdd, "oxidd": oxidd}


def _child(name: str, constraints: Constraints, pipe: Connection) -> None:
    begin = time.perf_counter()
    edges, labels = PEERS[name](constraints)
    pipe.send((time.perf_counter() - begin, edges, labels))


def beside(name: str, constraints: Constraints, labels: int, timeout: float) -> dict[str, Any]:
    """Seconds and edges of another library, in a process of its own; nothing if it takes too long or ends otherwise."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_child, args=(name, constraints, theirs))
    process.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(timeout) else None
    except EOFError:
        answer = None
    process.kill()
    process.join()
    if answer is not None and answer[2] >= 0 and labels < 2**60:
        assert answer[2] == labels, f"{name} counts {answer[2]:,} labels, not {labels:,}"
    return {} if answer is None else {f"{name}_s": round(answer[0], 3), f"{name}_edges": answer[1]}


# ---- the run ----


def measured(text: str, timeout: float, peers: dict[str, float]) -> dict[str, Any]:
    """Seconds to read and check the text, to compile and to count; the size of the circuit; the same of peers."""
    begin = time.perf_counter()
    space = LabelSpace(text)
    read = time.perf_counter()
    circuit = compile_constraints(space.constraints, space.columns, budget_s=timeout, cache=False)
    seconds = time.perf_counter() - read
    begun = time.perf_counter()
    labels = circuit.count()
    counted = time.perf_counter() - begun
    said = f"{labels:,}" if labels < 10**9 else f"2^{labels.bit_length() - 1}"
    found = {
        "rules": len(space.rules), "read_s": round(read - begin, 3), "compile_s": round(seconds, 3),
        "count_s": round(counted, 3),
        "nodes": circuit.nodes, "edges": circuit.edges, "labels": said,
    }  # fmt: skip
    for name, most in list(peers.items()):
        found |= beside(name, space.constraints, labels, most)
        if f"{name}_s" not in found:  # larger ones take longer still
            del peers[name]
    return found


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--quick", action="store_true", help="the two smallest of each family")
    arguments.add_argument("--timeout", type=float, default=20.0, help="seconds for one circuit")
    arguments.add_argument("--peers", type=float, default=3.0, help="seconds for one circuit of a peer; 0 for none")
    given = arguments.parse_args()
    for text, sizes in FAMILIES.values():  # compiled code is made and loaded once, whichever kernels a family needs
        for n in sizes[:2]:
            measured(text(n), 60.0, {})
    out: dict[str, dict[str, Any]] = {}
    for name, (text, sizes) in FAMILIES.items():
        out[name] = {}
        peers = dict.fromkeys(PEERS, given.peers) if given.peers else {}
        for n in sizes[:2] if given.quick else sizes:
            try:
                found = measured(text(n), given.timeout, peers)
            except BudgetError:
                print(f"{name}, n = {n}: more than {given.timeout:g} s", flush=True)
                break
            out[name][str(n)] = found
            print(f"{name}, n = {n}:", *(f"{key} {value}" for key, value in found.items()), flush=True)
    if not given.quick:
        RESULT.write_text(json.dumps(out, indent=2) + "\n")


if __name__ == "__main__":
    main()
