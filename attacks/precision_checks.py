"""What `precision` compares: circuits of all sizes, priors and queries on them, and the worst of every kind."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from mpmath import mp, mpf
from torch import Tensor

from attacks.exact import Blocks, Exact, answer, columns, entropy
from dssl.circuits import queries
from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate import layered
from dssl.logic.space import LabelSpace
from dssl.priors import (
    DeterministicPrior,
    EntropyPrior,
    ExclusivityPrior,
    Prior,
    PseudoLabelPrior,
    TNormPrior,
    learn_prior,
)

DTYPES = {"float32": torch.float32, "float64": torch.float64}
CLASSES = (100, 1_000, 10_000)  # edges, at most


@dataclass(frozen=True)
class Settings:
    seed: int = 0
    digits: int = 60
    most: int = 130_000  # edges
    families: tuple[str, ...] = ("clauses", "soft clauses", "at most", "hierarchy", "sums", "paths")
    powers: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 10.0, 100.0)
    scales: tuple[str, ...] = ("1", "30", "±1e4", "ties")
    fuzzy: int = 20  # spaces of a few rules, for t-norms


# ---- circuits ----


@dataclass(frozen=True)
class Case:
    """A family's member: a space and its circuit."""

    family: str
    space: LabelSpace
    circuit: Circuit

    @property
    def size(self) -> str:
        return next((f"≤ {most:,}" for most in CLASSES if self.circuit.edges <= most), "more")


def random_clauses(n: int, m: int, rng: np.random.Generator, soft: float = 0.0) -> str:
    rules = []
    for _ in range(m):
        picked = rng.choice(n, min(3, n), replace=False)
        clause = " | ".join(f"{'!' if rng.random() < 0.5 else ''}v{i}" for i in picked)
        rules.append(f"{rng.choice([0.7, 0.9, 0.999])} :: {clause}" if rng.random() < soft else clause)
    return "\n".join([", ".join(f"v{i}" for i in range(n)), *rules])


def _at_most(n: int, k: int) -> str:
    names = ", ".join(f"v{i}" for i in range(n))
    return f"{names}\nat_most({k}, {names})"


def _hierarchy(n: int) -> str:
    rules = [f"v{i} -> v{(i - 1) // 3}" for i in range(1, n)]
    return "\n".join([", ".join(f"v{i}" for i in range(n)), *rules])


def _sums(k: int) -> str:
    digits = [f"d{i}" for i in range(k)]
    return "\n".join([*(f"{d}: 0..9" for d in digits), f"t: 0..{9 * k}", f"{' + '.join(digits)} = t"])


def _grid(n: int) -> Circuit:
    right = [((i, j), (i, j + 1)) for i in range(n) for j in range(n - 1)]
    down = [((i, j), (i + 1, j)) for i in range(n - 1) for j in range(n)]
    return Circuit.paths([*right, *down], (0, 0), (n - 1, n - 1))


FAMILIES: dict[str, tuple[tuple[Any, ...], Callable[..., str | Circuit]]] = {
    "clauses": (((5, 4), (12, 20), (30, 45), (52, 52)), random_clauses),
    "soft clauses": (((5, 6), (12, 12), (24, 30)), lambda n, m, rng: random_clauses(n, m, rng, 0.3)),
    "at most": (((6, 2), (20, 5), (60, 20), (250, 100)), lambda n, k, rng: _at_most(n, k)),
    "hierarchy": (((20,), (300,), (5000,)), lambda n, rng: _hierarchy(n)),
    "sums": (((2,), (8,), (28,)), lambda k, rng: _sums(k)),
    "paths": (((3,), (4,), (6,), (7,)), lambda n, rng: _grid(n)),
}


def cases(settings: Settings) -> Iterator[Case]:
    """All members of the families whose circuits are small enough."""
    for family in settings.families:
        sizes, make = FAMILIES[family]
        for size in sizes:
            made = make(*size, np.random.default_rng(settings.seed))
            space = LabelSpace(made) if isinstance(made, str) else LabelSpace.attributes(list(made.names))
            circuit = space.compile() if isinstance(made, str) else made
            assert isinstance(circuit, Circuit)
            if circuit.edges <= settings.most:
                yield Case(family, space, circuit)


def logits_of(width: int, scale: str, rng: np.random.Generator) -> Tensor:
    """One row (width,) in float32: normal of a scale, ±1e4 and 0, or the same number everywhere."""
    if scale == "±1e4":
        z = rng.choice([-1e4, 0.0, 1e4], width) + rng.normal(size=width) * (rng.random(width) < 0.5)
    elif scale == "ties":
        z = np.full(width, rng.choice([0.0, 1e4, -1e4]))
    else:
        z = rng.normal(size=width) * float(scale)
    return torch.tensor(z, dtype=torch.float32)


# ---- comparing ----


@dataclass
class Tally:
    """The worst of every (size, type, power, quantity, scale of logits)."""

    scale: str = ""  # of what is added next
    rows: dict[tuple[str, str, str, str, str], dict[str, Any]] = field(default_factory=dict)
    circuits: list[dict[str, Any]] = field(default_factory=list)

    def add(self, case: str, dtype: str, power: Any, quantity: str, got: Any, exact: Any, bound: Any, of: Any) -> None:
        """Numbers got, the exact ones, the bound in u; `of`: what an error is divided by to be shown."""
        key = (case, dtype, f"{power:g}" if power else "", quantity, self.scale)
        row = self.rows.setdefault(key, {"numbers": 0, "not finite": 0, "error": 0.0, "share": 0.0})
        u = mpf(torch.finfo(DTYPES[dtype]).eps) / 2
        for a, e in zip(got, exact):
            row["numbers"] += 1
            if not math.isfinite(a):
                row["not finite"] += 1
                continue
            error = abs(mpf(a) - e)
            row["error"] = max(row["error"], float(error / of))
            row["share"] = max(row["share"], float(error / (u * bound)))

    def worst(self, name: str) -> float:
        return max((row[name] for row in self.rows.values()), default=0.0)

    def table(self) -> list[dict[str, Any]]:
        names = ("edges", "type", "power", "quantity", "logits")
        return [{**dict(zip(names, key)), **row} for key, row in self.rows.items()]


@dataclass(frozen=True)
class Row:
    """One row of logits of a case, exactly, and what is to be compared with it."""

    case: Case
    exact: Exact
    z: Tensor
    tally: Tally

    @cached_property
    def log_theta(self) -> Blocks:
        return self.exact.log_theta(self.z.double().tolist())

    @cached_property
    def theta(self) -> list[Any]:
        return columns(self.exact, [[mp.exp(x) for x in block] for block in self.log_theta])

    def powered(self, power: float) -> Blocks:
        return [[mpf(power) * x for x in block] for block in self.log_theta]

    def value(self, quantity: str, power: Any, dtype: str, got: Tensor, exact: Any, bound: Any, unit: Any = 1) -> None:
        of = max(mpf(1), abs(exact))
        size = self.case.size
        self.tally.add(size, dtype, power, quantity, [got.item()], [exact], bound * unit, of)

    def slope(self, quantity: str, power: Any, dtype: str, got: Tensor, exact: list[Any], bound: Any) -> None:
        self.tally.add(self.case.size, dtype, power, quantity, got.double().tolist(), exact, bound, mpf(1))

    def asked(self, prior: Prior, dtype: str, evidence: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """What a prior says of the row, and its gradient."""
        z = self.z.to(DTYPES[dtype]).clone().requires_grad_()
        known = None if evidence is None else evidence.to(z.dtype).unsqueeze(0)
        out = prior.to(DTYPES[dtype])(z.unsqueeze(0), known)[0]
        return out.detach(), torch.autograd.grad(out, z)[0]


def check_powers(row: Row, powers: Sequence[float]) -> None:
    """The deterministic prior, raw and scaled, with and without weights, constants and evidence, at every T."""
    space, circuit, theta, mass = row.case.space, row.case.circuit, row.theta, row.exact.mass
    for power in powers:
        true = answer(row.exact, row.powered(power), power)
        slope = [m - t for m, t in zip(columns(row.exact, true.marginals), theta)]
        for dtype in DTYPES:
            raw = DeterministicPrior(space, power, scale="none", circuit=circuit)
            scaled = DeterministicPrior(space, power, circuit=circuit)
            normal = DeterministicPrior(space, power, scale="none", normalised=True, circuit=circuit)
            row.value("log q", power, dtype, row.asked(raw, dtype)[0], true.log, true.bound)
            got, gradient = row.asked(scaled, dtype)
            row.value("log q / T", power, dtype, got, true.log / power, true.bound, 1 / mpf(power))
            row.slope("∂ log q / T", power, dtype, gradient, slope, true.bound_of_share)
            constant = mp.fsum(
                mp.loggamma(mpf(power) + len(block)) - mp.loggamma(mpf(power) + 1) for block in row.log_theta
            )
            bound = true.bound + mass.bound + 4 * (abs(constant) + abs(true.log) + abs(mass.log))
            full = true.log + constant - mass.log
            row.value("log q, normalised", power, dtype, row.asked(normal, dtype)[0], full, bound)


def check_weighted(row: Row, power: float) -> None:
    """Weights π of values besides θ; their logs are held in torch's default type, float32, and no better than that."""
    width = row.case.circuit.width
    pi = torch.linspace(0.25, 0.75, width)
    logs, at = [], 0
    for block, binary in zip(row.powered(power), row.exact.binary):
        size = 1 if binary else len(block)
        given = [mpf(x) for x in pi[at : at + size].double().tolist()]
        given = [mpf((1 - pi[at]).item()), given[0]] if binary else given
        logs.append([x + mp.log(p) for x, p in zip(block, given)])
        at += size
    true = answer(row.exact, logs, power)
    prior = DeterministicPrior(row.case.space, power, weights=pi, circuit=row.case.circuit)
    got, gradient = row.asked(prior, "float32")
    row.value("log q / T, weighted", power, "float32", got, true.log / power, true.bound, 1 / mpf(power))
    slope = [m - t for m, t in zip(columns(row.exact, true.marginals), row.theta)]
    row.slope("∂ log q / T, weighted", power, "float32", gradient, slope, true.bound_of_share)


def check_evidence(row: Row, power: float) -> None:
    """Half of a valid label is known."""
    circuit, flat = row.case.circuit, torch.zeros(1, row.case.circuit.width)
    label = circuit.sample(flat, flat, 1, torch.Generator().manual_seed(0))[0, 0]
    known = label.float().masked_fill(torch.arange(len(label)) % 2 == 0, math.nan)
    logs, at = [], 0
    for block, binary in zip(row.powered(power), row.exact.binary):
        size = 1 if binary else len(block)
        seen = known[at : at + size].tolist()
        one = not binary and 1.0 in seen
        allowed = [seen[0] != 1, seen[0] != 0] if binary else [x == 1 if one else x != 0 for x in seen]
        logs.append([x if a else mpf("-inf") for x, a in zip(block, allowed)])
        at += size
    true = answer(row.exact, logs, power)
    prior = DeterministicPrior(row.case.space, power, circuit=circuit)
    for dtype in DTYPES:
        got, gradient = row.asked(prior, dtype, known)
        row.value("log q / T, evidence", power, dtype, got, true.log / power, true.bound, 1 / mpf(power))
        slope = [m - t for m, t in zip(columns(row.exact, true.marginals), row.theta)]
        row.slope("∂ log q / T, evidence", power, dtype, gradient, slope, true.bound_of_share)


def check_others(row: Row) -> None:
    """Semantic loss, entropy with and without it, pseudo-label."""
    space, circuit = row.case.space, row.case.circuit
    true = answer(row.exact, row.log_theta, 1.0)
    h, dh = entropy(row.exact, row.log_theta)
    load = true.bound_of_share * (1 + h)
    best = mp.fsum(max(block) for block in row.log_theta)
    best += mp.fsum(max(mp.log(w) for w in block) for block in row.exact.soft)
    relative = [[x - max(block) for x in block] for block in row.log_theta]
    soft = [[mp.log(w) - max(map(mp.log, block)) for w in block] for block in row.exact.soft]
    most = best + row.exact.largest([*relative, *soft])
    known = columns(row.exact, true.marginals)
    for dtype in DTYPES:
        got, gradient = row.asked(ExclusivityPrior(space, circuit=circuit), dtype)
        row.value("semantic loss", 0, dtype, got, true.log, true.bound)
        row.slope("∂ semantic loss", 0, dtype, gradient, [m - t for m, t in zip(known, row.theta)], true.bound_of_share)
        got, gradient = row.asked(EntropyPrior(space, circuit=circuit), dtype)
        row.value("entropy", 0, dtype, got, -h, load)
        slope = [-x for x in columns(row.exact, dh)]
        row.slope("∂ entropy", 0, dtype, gradient, slope, load * (1 + max(map(abs, slope))))
        got, _ = row.asked(EntropyPrior(space, semantic=True, circuit=circuit), dtype)
        row.value("entropy + semantic", 0, dtype, got, true.log - h, load + true.bound)
        got, _ = row.asked(PseudoLabelPrior(space, circuit=circuit), dtype)
        row.value("pseudo-label", 0, dtype, got, most, 4 * (abs(most) + len(row.exact.binary)))


def check_queries(row: Row, power: float) -> None:
    """Circuits at log weights of their own: the true number is that of the weights as they are given."""
    circuit, width = row.case.circuit, row.case.circuit.width
    binary = torch.tensor(
        columns(row.exact, [[b] * (2 if b else len(t)) for b, t in zip(row.exact.binary, row.log_theta)])
    )
    log = torch.nn.functional.logsigmoid
    for dtype, kind in DTYPES.items():
        z = row.z.to(kind)
        pos = torch.where(binary, power * log(z), power * (z - z.max()))
        neg = torch.where(binary, power * log(-z), torch.zeros_like(z))
        given, at = [], 0
        for block, two in zip(row.log_theta, row.exact.binary):
            size = 1 if two else len(block)
            p, n = pos[at : at + size].tolist(), neg[at : at + size].tolist()
            given.append([mpf(n[0]), mpf(p[0])] if two else [mpf(x) for x in p])
            at += size
        true = answer(row.exact, given)
        p, n = pos.unsqueeze(0), neg.unsqueeze(0)
        row.value("log WMC", 0, dtype, queries.log_wmc(circuit, p, n), true.log, true.bound)
        deep = 1 + circuit.depth  # each of its sums is of logarithms, and off by u times one
        row.value("log WMC, torch", 0, dtype, layered.log_wmc(circuit, p, n), true.log, true.bound, deep)
        known = columns(row.exact, true.marginals)
        row.slope("marginals", 0, dtype, queries.marginals(circuit, p, n)[0], known, true.bound_of_share)
        label, weight = queries.mpe(circuit, p, n)
        own = mp.fsum(mpf(x) for x in torch.where(label, p, n)[0].double().tolist())
        drawn = queries.sample(circuit, p, n, 2, torch.Generator().manual_seed(0)).reshape(-1, width)
        for one in [label[0], *drawn]:
            if not row.exact.allows(one.tolist()):
                raise AssertionError(f"a label that is not valid: {row.case.family}, {dtype}, {one.int().tolist()}")
        if not circuit.soft:
            row.value("weight of the best label", 0, dtype, weight[0], own, 4 * (abs(own) + len(row.exact.binary)))


def check_learned(row: Row, power: float) -> None:
    """Label probabilities on the circuit's branches, learned from labels that were drawn from it."""
    flat = torch.zeros(40, row.case.circuit.width)
    labels = row.case.circuit.sample(flat, flat, 1, torch.Generator().manual_seed(1))[0].double().numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        prior = learn_prior(labels, row.case.space, power=power, backoff=1.0)
    branches, owner = prior.labels.branches.detach().double().tolist(), prior.labels.owner.tolist()
    totals = [mpf(0)] * (max(owner, default=-1) + 1)
    for own, logit in zip(owner, branches):
        totals[own] += mp.exp(logit)
    phi = [float(mp.exp(logit) / totals[own]) for own, logit in zip(owner, branches)]
    exact = Exact(prior.labels.choices.fixed(phi))
    for dtype in DTYPES:
        model = prior.to(DTYPES[dtype])
        true = answer(exact, row.powered(power), power)
        got, gradient = row.asked(model, dtype)
        row.value("log q / T, learned", power, dtype, got, true.log / power, true.bound, 1 / mpf(power))
        slope = [m - t for m, t in zip(columns(row.exact, true.marginals), row.theta)]
        row.slope("∂ log q / T, learned", power, dtype, gradient, slope, true.bound_of_share)


# ---- without circuits ----


def check_closed(tally: Tally, width: int, scale: str, powers: Sequence[float], rng: np.random.Generator) -> None:
    """The closed forms of one categorical variable (Table 1)."""
    space, z = LabelSpace.classes([f"c{i}" for i in range(width)]), logits_of(width, scale, rng)
    exact = [mpf(x) for x in z.double().tolist()]
    top = max(exact)
    total = top + mp.log(mp.fsum(mp.exp(x - top) for x in exact))
    log_theta = [x - total for x in exact]
    theta = [mp.exp(x) for x in log_theta]
    rest = [mp.fsum(t for j, t in enumerate(theta) if j != k) for k in range(width)]
    spread = mp.fsum(map(mp.log, rest))
    load = mp.fsum(t * abs(x) for t, x in zip(theta, log_theta))
    truths: dict[str, tuple[float, Callable[[], Prior], Any, Any]] = {
        "entropy": (0, lambda: EntropyPrior(space), mp.fsum(t * x for t, x in zip(theta, log_theta)), load + width),
        "exclusivity": (
            0,
            lambda: ExclusivityPrior(space),
            mp.log(mp.fsum(mp.exp(x - mp.log(r)) for x, r in zip(log_theta, rest))) + spread,
            width * (abs(spread) + width + max(abs(x) for x in log_theta)),
        ),
        "pseudo-label": (0, lambda: PseudoLabelPrior(space), max(log_theta), abs(max(log_theta)) + width),
    }
    for power in powers:
        powered = [power * x for x in log_theta]
        value = mp.log(mp.fsum(mp.exp(x) for x in powered))
        mean = mp.fsum(mp.exp(x - value) * abs(x) for x in powered)
        truths[f"log q {power:g}"] = (
            power,
            lambda power=power: DeterministicPrior(space, power, scale="none"),
            value,
            mean + (1 + power) * width + abs(value),
        )
    for name, (power, make, value, bound) in truths.items():
        for dtype, kind in DTYPES.items():
            x = z.to(kind).clone().requires_grad_()
            out = make().to(kind)(x.unsqueeze(0))[0]
            (gradient,) = torch.autograd.grad(out, x)
            quantity = f"{'log q' if power else name}, one variable"
            tally.add("none", dtype, power, quantity, [out.item()], [value], 4 * bound, max(mpf(1), abs(value)))
            if not bool(gradient.isfinite().all()):
                raise AssertionError(f"a gradient that is not finite: {quantity}, {dtype}, {scale}")


def check_fuzzy(tally: Tally, scale: str, rng: np.random.Generator) -> None:
    """t-norms of a few clauses: q itself, as Łukasiewicz' is 0 for many θ."""
    n, m = int(rng.integers(3, 9)), int(rng.integers(1, 7))
    picked = [(rng.choice(n, 3, replace=False), rng.random(3) < 0.5) for _ in range(m)]
    rules = [" | ".join(f"{'' if on else '!'}v{i}" for i, on in zip(*clause)) for clause in picked]
    space, z = LabelSpace("\n".join([", ".join(f"v{i}" for i in range(n)), *rules])), logits_of(n, scale, rng)
    theta = [1 / (1 + mp.exp(-mpf(x))) for x in z.double().tolist()]
    degrees = [[theta[i] if on else 1 - theta[i] for i, on in zip(*clause)] for clause in picked]
    truths = {
        "product": mp.fprod(1 - mp.fprod(1 - t for t in clause) for clause in degrees),
        "goedel": min(max(clause) for clause in degrees),
        "lukasiewicz": max(mpf(0), mp.fsum(min(mpf(1), mp.fsum(clause)) for clause in degrees) - m + 1),
    }
    for logic, value in truths.items():
        for dtype, kind in DTYPES.items():
            x = z.to(kind).clone().requires_grad_()
            out = TNormPrior(space, logic).to(kind)(x.unsqueeze(0))[0]
            (gradient,) = torch.autograd.grad(out, x)
            if not bool(gradient.isfinite().all()):
                raise AssertionError(f"a gradient that is not finite: {logic}, {dtype}, {scale}")
            tally.add("none", dtype, 0, f"q, {logic}", [math.exp(out.item())], [value], mpf(8 * n * m), mpf(1))


# ---- everything ----

LEARNED = 3_000  # edges up to which label probabilities are learned: a circuit of its branches is much larger


def check(case: Case, settings: Settings, tally: Tally, rng: np.random.Generator) -> None:
    """Every prior and query on one circuit."""
    exact = Exact(case.circuit)
    for scale in settings.scales:
        tally.scale = scale
        row = Row(case, exact, logits_of(case.circuit.width, scale, rng), tally)
        check_powers(row, settings.powers)
        check_others(row)
        check_queries(row, 2.0)
        check_evidence(row, 10.0)
        check_weighted(row, 10.0)
        if case.space.rules and case.circuit.edges <= LEARNED and not case.circuit.soft:
            check_learned(row, 10.0)


def run(settings: Settings, say: Callable[[str], None] = lambda text: None) -> Tally:
    """The whole attack."""
    tally, rng = Tally(), np.random.default_rng(settings.seed)
    with mp.workdps(settings.digits):
        for case in cases(settings):
            began = time.monotonic()
            check(case, settings, tally, rng)
            tally.circuits.append({"family": case.family, "edges": case.circuit.edges, "depth": case.circuit.depth})
            say(f"{case.family:14} {case.circuit.edges:9,} edges  {time.monotonic() - began:6.1f} s")
        for scale in settings.scales:
            tally.scale = scale
            for width in (2, 10, 100):
                check_closed(tally, width, scale, settings.powers, rng)
            for _ in range(settings.fuzzy):
                check_fuzzy(tally, scale, rng)
    return tally
