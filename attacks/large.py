"""Large instances, and what is asked of them: the parts of `interrupts`.

Each part is made of what is there before, and of a call whose result is a small thing that can be compared. A call that
is given up for its budget has a result, too: that.
"""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dssl import LabelSpace, learn_rules
from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError
from dssl.logic.language.formula import And, Formula, Implies, Is, Not, Or
from dssl.logic.language.parser import Rule
from dssl.logic.language.variables import Variable

SIZE = 100_000
FOLDER = Path(tempfile.gettempdir())
Part = tuple[Callable[[], Any], Callable[[Any], Any]]

# ---- spaces ----


def names(n: int) -> list[str]:
    return [f"x{i + 1}" for i in range(n)]


def space_of(n: int, formulas: Iterable[Formula]) -> LabelSpace:
    return LabelSpace.of(map(Variable, names(n)), map(Rule, formulas))


def chain(n: int) -> LabelSpace:
    """Each variable implies the next."""
    return space_of(n, (Implies(Is(a), Is(b)) for a, b in zip(names(n), names(n)[1:])))


def grid(side: int) -> LabelSpace:
    """No two neighbours of a square grid hold."""
    at = [[Is(f"x{side * i + j + 1}") for j in range(side)] for i in range(side)]
    right = [(row[j], row[j + 1]) for row in at for j in range(side - 1)]
    down = [(a, b) for upper, lower in pairwise(at) for a, b in zip(upper, lower)]
    return space_of(side * side, (Not(And.of(a, b)) for a, b in right + down))


def tree(n: int) -> LabelSpace:
    return LabelSpace.hierarchy([(f"x{i}", f"x{i // 2}") for i in range(2, n + 1)])


def wide_clause(n: int) -> LabelSpace:
    return space_of(n, [Or.of(*map(Is, names(n)))])


def counted(n: int, least: int, most: int) -> LabelSpace:
    text = f"at_least({least}, {', '.join(names(n))})\nat_most({most}, {', '.join(names(n))})"
    return LabelSpace(", ".join(names(n)) + "\n" + text)


def clauses(n: int, m: int, seed: int = 0) -> list[list[int]]:
    chance = random.Random(seed)
    return [[x if chance.random() < 0.5 else -x for x in chance.sample(range(1, n + 1), 3)] for _ in range(m)]


def dimacs(name: str, n: int, rows: list[list[int]]) -> Path:
    path = FOLDER / f"interrupts-{os.getpid()}-{name}.cnf"
    path.write_text(f"p cnf {n} {len(rows)}\n" + "".join(" ".join(map(str, row)) + " 0\n" for row in rows))
    return path


def table(rows: int, columns: int) -> LabelSpace:
    chance = np.random.default_rng(0)
    return LabelSpace.table(names(columns), np.unique(chance.random((rows, columns)) < 0.5, axis=0))


# ---- calls ----


def digest(*arrays: Any) -> str:
    out = hashlib.sha256()
    for array in arrays:
        out.update(np.ascontiguousarray(array).tobytes())
    return out.hexdigest()[:16]


def sizes(space: LabelSpace) -> list[int]:
    return [space.width, len(space.rules)]


def compiled(space: LabelSpace, relaxation: str | None = None, budget_s: float = 60.0) -> list[Any]:
    """Compile anew, whatever is kept with the space or on disk."""
    space._circuit = None
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DSSL_CACHE"] = folder
        try:
            circuit: Any = space.compile(relaxation=relaxation, budget_s=budget_s)
        except BudgetError as error:
            return [str(error)[:60]]
    return [circuit.nodes, circuit.edges] if relaxation is None else [len(circuit.parts)]


def fresh(c: Circuit) -> Circuit:
    """The same circuit, of which nothing is known or proved yet."""
    return Circuit(c.kind, c.literal, c.ptr, c.child, c.starts, c.categorical, c.names, c.soft)


def queried(name: str, circuit: Circuit, rows: int = 4, **options: Any) -> str:
    import torch

    circuit = fresh(circuit)
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rows, circuit.width, generator=generator, requires_grad=True)
    log = torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    if name == "sample":
        options["generator"] = generator
    out = getattr(circuit, name)(*log, **options)
    out = out if isinstance(out, tuple) else (out,)
    if name == "log_wmc":
        out[0].sum().backward()
        out = (logits.grad,)
    return digest(*(x.detach().numpy() for x in out))


def some_known(space: LabelSpace, rows: int) -> Any:
    out = np.full((rows, space.width), np.nan, np.float32)
    out[np.arange(rows), np.random.default_rng(0).integers(0, space.width, rows)] = 1
    return out


def asked_in_part(what: str, space: LabelSpace, rows: int = 2) -> Any:
    answer = getattr(space, what)(some_known(space, rows))
    return digest(answer) if what == "complete" else len(answer)


def first_valid(space: LabelSpace) -> list[int]:
    return [sum(map(bool, label.values())) for label in space.valid(1)]


def kept_and_read(circuit: Circuit) -> int:
    path = FOLDER / f"interrupts-{os.getpid()}.npz"
    circuit.save(path)
    return Circuit.load(path).edges


def nnf(circuit: Circuit) -> list[int]:
    again = Circuit.from_nnf(circuit.to_nnf())
    return [again.nodes, again.edges]


def induced(y: Any) -> int:
    return len(learn_rules(y).rules)


def counted_labels(circuit: Circuit) -> int:
    return fresh(circuit).count() % 1_000_000_007


def verified(circuit: Circuit) -> str:
    return str(fresh(circuit).verify())


def labels(n: int, width: int) -> Any:
    y = np.random.default_rng(0).random((n, width)) < 0.3
    y[:, 1::2] &= ~y[:, ::2]
    return y.astype(np.float32)


def diagnosed(space: LabelSpace) -> int:
    return len(space.diagnose())


def counting_twice(space: LabelSpace) -> int:
    return space.count() % 1_000_000_007


def circuit_of(space: LabelSpace) -> Circuit:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["DSSL_CACHE"] = folder
        return space.compile(budget_s=600.0)


def bounded(space: LabelSpace) -> list[Any]:
    return compiled(space, budget_s=15.0)


MILLION = 1_000_000
SPACES: dict[str, Callable[[], LabelSpace]] = {
    "chain": partial(chain, SIZE),
    "tree": partial(tree, SIZE),
    "grid": partial(grid, 300),
    "wide": partial(wide_clause, SIZE),
    "exactly_one": partial(counted, SIZE, 1, 1),
    "at_most": partial(counted, 3000, 0, 30),
}
FILES: dict[str, tuple[int, Callable[[], list[list[int]]]]] = {
    "million_chain": (MILLION, lambda: [[-i, i + 1] for i in range(1, MILLION)]),
    "million_few": (MILLION, lambda: [[i, -(i + 1), i + 2] for i in range(1, MILLION - 2, 1000)]),
    "million_wide": (MILLION, lambda: [list(range(1, MILLION + 1))]),
    "million_sparse": (MILLION, lambda: clauses(MILLION, 500_000)),
    "random": (SIZE, lambda: clauses(SIZE, 3 * SIZE)),
    "dense": (SIZE, lambda: clauses(SIZE, 10 * SIZE // 2)),
    "hard": (250, lambda: clauses(250, 1065)),
}


def from_file(name: str) -> LabelSpace:
    n, rows = FILES[name]
    return LabelSpace.dimacs(dimacs(name, n, rows()))


def _parts() -> dict[str, Part]:
    out: dict[str, Part] = {}
    for name, make in SPACES.items():
        out[f"{name}_make"] = (lambda: None, lambda _, make=make: sizes(make()))
        out[f"{name}_compile"] = (make, bounded if name in ("grid", "wide") else compiled)
    for name, (n, rows) in FILES.items():
        out[f"{name}_read"] = (
            lambda name=name, n=n, rows=rows: dimacs(name, n, rows()),
            lambda path: sizes(LabelSpace.dimacs(path)),
        )
        out[f"{name}_compile"] = (partial(from_file, name), bounded)
    for name in ("chain", "tree", "exactly_one", "wide"):
        make = partial(wide_clause, 5000) if name == "wide" else SPACES[name]  # its compiling takes quadratic time
        made = lambda make=make: circuit_of(make())  # noqa: E731
        out[f"{name}_count"] = (made, counted_labels)
        out[f"{name}_verify"] = (made, verified)
        out[f"{name}_save"] = (made, kept_and_read)
        out[f"{name}_nnf"] = (made, nnf)
        for query in ("log_wmc", "marginals", "mpe", "entropy"):
            out[f"{name}_{query}"] = (made, partial(queried, query, rows=64))
        out[f"{name}_sample"] = (made, partial(queried, "sample", rows=64, n=10))
        out[f"{name}_top_k"] = (made, partial(queried, "top_k", rows=16, k=20))
    for name in ("chain", "tree", "grid", "at_most"):
        make = SPACES[name]
        for what in ("complete", "check"):
            out[f"{name}_{what}"] = (make, partial(asked_in_part, what))
        out[f"{name}_valid"] = (make, first_valid)
        out[f"{name}_diagnose"] = (make, diagnosed)
    out["chain_relax"] = (partial(chain, 3000), partial(compiled, relaxation="clauses"))
    out["table_make"] = (lambda: None, lambda _: sizes(table(SIZE, 40)))
    out["table_compile"] = (partial(table, SIZE // 4, 40), compiled)
    out["labels_learn"] = (partial(labels, 20_000, 200), induced)
    return out


PARTS = _parts()
