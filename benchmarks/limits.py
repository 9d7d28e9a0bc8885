"""Where circuits end: every step of the ladder on rules that do not compile within a small budget.

    DSSL_DATA=… python benchmarks/limits.py              # all; about two minutes
    python benchmarks/limits.py --only latin pigeons     # some; the Gene Ontology needs DSSL_DATA

For each set of rules: who answers, processor seconds until that is decided, whether predicted labels obey every rule,
how many of them are proven to be the most probable, processor seconds per row, and by how much V′ is larger than V
where V can be counted with four times the budget.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dssl.circuits.beyond import ladder
from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.beyond.superset import UNPROVEN, Superset
from dssl.circuits.circuit import Circuit
from dssl.data.published import load_hmc
from dssl.errors import BudgetError
from dssl.logic.space import LabelSpace
from dssl.priors.blocks import Blocks

ROWS = 5


def ontology() -> LabelSpace:
    """4,125 classes of the Gene Ontology, 1,477 of them with several classes right above."""
    return load_hmc("cellcycle_GO").space


def latin(size: int = 7) -> LabelSpace:
    """Every row and every column has each number once."""
    n = f"1..{size}"
    return LabelSpace(f"x[{n}, {n}]: {n}\nfor i in {n}: all_different(x[i, *])\nfor j in {n}: all_different(x[*, j])")


def sudoku(givens: int = 12) -> LabelSpace:
    """9×9 with so few numbers given that millions of grids are left."""
    lines = ["x[1..9, 1..9]: 1..9", "for i in 1..9: all_different(x[i, *])", "for j in 1..9: all_different(x[*, j])"]
    for i in (1, 4, 7):
        for j in (1, 4, 7):
            cells = ", ".join(f"x[{a},{b}]" for a in range(i, i + 3) for b in range(j, j + 3))
            lines.append(f"all_different({cells})")
    for k in np.random.default_rng(0).permutation(81)[:givens]:
        i, j = divmod(int(k), 9)
        lines.append(f"x[{i + 1},{j + 1}] = {(i * 3 + i // 3 + j) % 9 + 1}")
    return LabelSpace("\n".join(lines))


def clauses(variables: int = 150, ratio: float = 2.5) -> LabelSpace:
    """Random clauses of three literals."""
    random = np.random.default_rng(0)
    lines = [f"x[1..{variables}]"]
    for _ in range(round(ratio * variables)):
        three = random.choice(variables, 3, replace=False) + 1
        lines.append(" | ".join(("!" if random.random() < 0.5 else "") + f"x[{v}]" for v in three))
    return LabelSpace("\n".join(lines))


def pigeons(holes: int = 24) -> LabelSpace:
    """As many pigeons as holes, each in a hole of its own."""
    n = f"1..{holes}"
    return LabelSpace(f"home[{n}, {n}]\nfor i in {n}: exactly(1, home[i, *])\nfor j in {n}: at_most(1, home[*, j])")


def groups(names: int = 200, number: int = 60, size: int = 8) -> LabelSpace:
    """At most one of each of many groups, which overlap at random."""
    random = np.random.default_rng(0)
    lines = [f"x[1..{names}]"]
    for _ in range(number):
        members = ", ".join(f"x[{v}]" for v in sorted(random.choice(names, size, replace=False) + 1))
        lines.append(f"at_most(1, {members})")
    return LabelSpace("\n".join(lines))


def schedule(jobs: int = 8, slots: int = 20) -> LabelSpace:
    """Each job has a slot of its own, and the first half of them come one after the other."""
    order = "\n".join(f"slot[{k}] < slot[{k + 1}]" for k in range(1, jobs // 2))
    return LabelSpace(f"slot[1..{jobs}]: 1..{slots}\nall_different(slot[*])\n{order}")


def trees(n: int = 5) -> LabelSpace:
    """The spanning trees of a grid."""
    return LabelSpace(f"{_grid(n)}tree(e[*, *])")


def paths(n: int = 5) -> LabelSpace:
    """The simple paths from corner to corner of a grid."""
    return LabelSpace(f"{_grid(n)}path(e[*, *], 0, {n * n - 1})")


def _grid(n: int) -> str:
    """The edges of a grid whose places are numbered row by row."""
    right = [(n * i + j, n * i + j + 1) for i in range(n) for j in range(n - 1)]
    down = [(n * i + j, n * i + j + n) for i in range(n - 1) for j in range(n)]
    return ", ".join(f"e[{a},{b}]" for a, b in right + down) + "\n"


SETS: dict[str, Callable[[], LabelSpace]] = {
    "ontology": ontology, "latin": latin, "sudoku": sudoku, "clauses": clauses, "pigeons": pigeons,
    "sudoku-16": lambda: sudoku(16), "groups": groups, "schedule": schedule, "trees": trees, "paths": paths,
}  # fmt: skip


def counted(space: LabelSpace, answers: Superset, seconds: float) -> str:
    """|V′| / |V|, if the valid labels can be counted with more time after all."""
    try:
        return f"{answers.circuit.count() / space.compile(budget_s=seconds).count():.3g}"
    except BudgetError:
        return "not counted"


def asked(answers: Circuit | Cascade | Superset, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
    """The most probable labels, and how many of them are proven to be that."""
    if isinstance(answers, Cascade):
        label, _, how = answers.search(log_pos, log_neg)
        return label, int(how.sum())
    if isinstance(answers, Superset):
        label, _, how = answers.search(log_pos, log_neg)
        return label, int((how != UNPROVEN).sum())
    return answers.mpe(log_pos, log_neg)[0], len(log_pos)


def row(name: str, budget: float) -> list[str]:
    """One line of the table."""
    space = SETS[name]()
    began = time.process_time()
    step = ladder.climb(space, budget)
    decided = time.process_time() - began
    logits = torch.from_numpy(np.random.default_rng(0).normal(size=(ROWS, space.width)))
    if isinstance(step.answers, Cascade):
        logits -= 2.0  # classes are rarer than those above them
    blocks = Blocks(space)
    weights = blocks.literals([z.log_softmax(-1) for z in blocks.logits(logits)])
    asked(step.answers, *(part[:1] for part in weights))  # kernels are compiled and solvers made
    began = time.process_time()
    label, proven = asked(step.answers, *weights)
    seconds = (time.process_time() - began) / ROWS
    larger = counted(space, step.answers, 4 * budget) if isinstance(step.answers, Superset) else "1"
    valid = 1 - len(space.check(label.double().numpy())) / ROWS
    return [name, step.value, f"{decided:.1f}", f"{valid:.0%}", f"{proven}/{ROWS}", f"{seconds:.3f}", larger]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--budget", type=float, default=5.0, help="processor seconds of compiling")
    chosen = parser.parse_args()
    head = ["rules", "who answers", "decided, s", "valid", "proven", "s per row", "|V′| / |V|"]
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for name in chosen.only:
        print("| " + " | ".join(row(name, chosen.budget)) + " |", flush=True)


if __name__ == "__main__":
    main()
