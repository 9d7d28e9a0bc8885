"""The slow, obvious twin of every number: enumerate, multiply, add. Float64 and Python integers only.

Nothing here imports the code under test beyond the plain data it describes.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np

# ---- the normal form (dssl.logic.reasoning.constraints) ----


def choices(constraints: Any) -> Iterator[tuple[int, ...]]:
    """Every choice of one value index a block (hidden and soft blocks too) that all constraints allow."""
    offsets = constraints.offsets
    for picked in itertools.product(*(range(size) for size in constraints.sizes)):
        chosen = {offsets[block] + value for block, value in enumerate(picked)}
        if all(chosen & set(clause) for clause in constraints.clauses) and all(
            _sum_holds(s, chosen) for s in constraints.sums
        ):
            yield picked


def _sum_holds(s: Any, chosen: set[int]) -> bool:
    total = sum(c for v, c in zip(s.values, s.coefficients) if v in chosen)
    return any(low <= total <= high for low, high in s.intervals)


def valid_columns(constraints: Any) -> np.ndarray:
    """The valid labels as rows of columns (n, columns) of bool: visible and soft blocks, hidden ones left out."""
    kept = constraints.visible + len(constraints.soft)
    rows = []
    for picked in choices(constraints):
        row: list[bool] = []
        for size, categorical, value in zip(constraints.sizes, constraints.categorical, picked[:kept]):
            row += [value == v for v in range(size)] if categorical else [value == 1]
        rows.append(row)
    width = sum(s if c else 1 for s, c in zip(constraints.sizes[:kept], constraints.categorical[:kept]))
    return np.array(rows, dtype=bool).reshape(len(rows), width)


# ---- questions about a list of valid rows, for one sample's literal weights ----


def log_weights(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> np.ndarray:
    """log weight of each valid row: the sum of its literals' log weights (MATH §4)."""
    return np.array([sum(p if on else n for on, p, n in zip(row, log_pos, log_neg)) for row in rows], dtype=float)


def log_sum(values: np.ndarray) -> float:
    top = max(values, default=-math.inf)
    if top == -math.inf:
        return -math.inf
    return top + math.log(sum(math.exp(v - top) for v in values))


def log_wmc(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> float:
    """log of the sum over valid rows of the product of literal weights."""
    return log_sum(log_weights(rows, log_pos, log_neg))


def probabilities(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> np.ndarray:
    """p(y | V) of each valid row."""
    weights = log_weights(rows, log_pos, log_neg)
    return np.exp(weights - log_sum(weights))


def marginals(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> np.ndarray:
    """P(column is true | V) of each column."""
    return probabilities(rows, log_pos, log_neg) @ rows.astype(float)


def entropy(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray) -> float:
    """Entropy of p(y | V) in nats."""
    return -sum(p * math.log(p) for p in probabilities(rows, log_pos, log_neg) if p > 0)


def best(rows: np.ndarray, log_pos: np.ndarray, log_neg: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k heaviest valid rows and their log weights, heaviest first."""
    weights = log_weights(rows, log_pos, log_neg)
    order = np.argsort(-weights, kind="stable")[:k]
    return rows[order], weights[order]


def expected_right(spans: Any, binary: Any, rows: np.ndarray, marginals: np.ndarray) -> np.ndarray:
    """Of each label (n, width) the expected number of variables that are right, given marginals of columns (width,)."""
    out = np.zeros(len(rows))
    for (start, stop), two in zip(spans, binary):
        mu, y = marginals[start:stop], rows[:, start:stop]
        out += (y * mu + (1 - y) * (1 - mu)).sum(axis=1) if two else (y * mu).sum(axis=1)
    return out


def f1_ratio(rows: np.ndarray, marginals: np.ndarray) -> np.ndarray:
    """Of each label (n, width): 2 Σ μ y / (Σ y + Σ μ)."""
    return 2 * (rows * marginals).sum(axis=1) / np.maximum(rows.sum(axis=1) + marginals.sum(), 1e-12)


def power_sum(p: np.ndarray, power: float) -> float:
    """log Σ p(y)^T of the probabilities of labels."""
    return math.log(sum(float(x) ** power for x in p if x > 0))


def from_the_top(space: Any, row: np.ndarray, u: np.ndarray) -> float:
    """log probability of a label of implications: a class all of whose classes above hold does so with σ(u)."""
    names = [variable.name for variable in space.variables]
    total = 0.0
    for k, name in enumerate(names):
        above = [rule.formula.conclusion.name for rule in space.rules if rule.formula.premise.name == name]
        if all(row[names.index(a)] for a in above):
            total += -math.log1p(math.exp(-u[k] if row[k] else u[k]))
        elif row[k]:
            return -math.inf
    return total


def divergence(p: np.ndarray, q: np.ndarray) -> float:
    """KL(p ‖ q) of two distributions over the same labels."""
    return sum(a * math.log(a / b) for a, b in zip(p, q) if a > 0)


# ---- mixtures (dssl.priors.mixture) ----


def mixture(weights: np.ndarray, each: list[np.ndarray]) -> np.ndarray:
    """Σ_m w_m p_m(y) of each valid label, from softmax weights w = exp(z) / Σ exp(z) of z (M,)."""
    shares = [math.exp(z - log_sum(np.array(weights, dtype=float))) for z in weights]
    return sum(share * p for share, p in zip(shares, each))  # type: ignore[return-value]


def given_labels(rows: np.ndarray, p: np.ndarray, known: np.ndarray) -> np.ndarray:
    """p of each label (n,) given columns known to be 1 or 0, NaN where not known: others are struck out."""
    fits = ((rows == known) | np.isnan(known)).all(axis=1)
    return np.where(fits, p, 0.0) / p[fits].sum()


# ---- rules (dssl.logic.language.formula): what a formula says about one complete record ----


def total(terms: Any, record: Any) -> Any:
    """A sum of variables, numbers and formulas that count as 1 where they hold; a name alone may be a word."""
    if len(terms) == 1 and terms[0][0] == 1 and isinstance(terms[0][1], str):
        value = record[terms[0][1]]
        return value if isinstance(value, str) else int(value)
    counted = [(c, 1 if x is None else record[x] if isinstance(x, str) else holds(x, record)) for c, x in terms]
    return sum(c * int(value) for c, value in counted)


def _pattern_holds(function: str, values: list[Any]) -> bool:
    """What a constraint on many values says of them, in the plainest words."""
    n, half, side = len(values), len(values) // 2, math.isqrt(len(values))
    rows = [values[i * side : (i + 1) * side] for i in range(side)]
    if function == "all_different":
        return len(set(values)) == n
    if function == "increasing":
        return values == sorted(values)
    if function == "strictly_increasing":
        return values == sorted(set(values))
    if function == "lex":
        return tuple(values[:half]) <= tuple(values[half:])
    if function == "permutation":
        return all(sum(row) == 1 for row in rows) and all(sum(column) == 1 for column in zip(*rows))
    assert function == "ranking"
    orders = itertools.permutations(range(side))
    return any(
        all(rows[i][j] == (order.index(i) < order.index(j)) for i in range(side) for j in range(side))
        for order in orders
    )


def _chosen(function: str, vertices: set[str], taken: list[Any], between: list[str]) -> bool:
    """Whether chosen edges are a path, a spanning tree, or connect all vertices: parts are joined one by one."""
    degree = {v: sum(v in edge for edge in taken) for v in vertices}
    if function == "path":
        if set(between) - vertices or any(degree[v] != 1 for v in between):
            return False
        if any(degree[v] not in (0, 2) for v in vertices - set(between)):
            return False
        vertices = {v for v in vertices if degree[v]}
    parts = [{v} for v in vertices]
    for u, v in taken:
        joined = [part for part in parts if u in part or v in part]
        parts = [part for part in parts if part not in joined] + [set().union(*joined)]
    return len(parts) == 1 and (function == "connected" or len(taken) == len(vertices) - 1)


def _matches(pattern: str, values: list[Any]) -> bool:
    """Whether values in a row are what an expression describes, by Python's own: every value is written as a letter."""
    if "->" in pattern:
        return _walks(pattern, values)
    letters: dict[str, str] = {}

    def letter(value: Any) -> str:
        return letters.setdefault(str(int(value) if isinstance(value, bool) else value), chr(0xE000 + len(letters)))

    def translated(word: re.Match[str]) -> str:
        return f"[^{letter(word[2])}]" if word[1] else letter(word[2])

    expression = re.sub(r"(!?)(?<![{,\d])\s*(-?\d+\b(?![,}])|[^\W\d]\w*)", translated, pattern)
    return re.fullmatch(expression.replace(" ", ""), "".join(map(letter, values)), re.DOTALL) is not None


def _walks(automaton: str, values: list[Any]) -> bool:
    """Whether values in a row lead through an automaton that is written out, to one of its ends."""
    parts = [part.partition(":") for part in automaton.split(";")]
    states = {name.strip(): rest for name, _, rest in parts if name.strip() != "end"}
    ends = [rest.replace(",", " ").split() for name, _, rest in parts if name.strip() == "end"]
    here = next(iter(states))
    for value in values:
        arrows = [arrow.split("->") for arrow in states[here].split(",") if arrow.strip()]
        leads = {by.strip(): to.strip() for by, to in arrows}
        key = str(int(value) if isinstance(value, bool) else value)
        if key not in leads and "." not in leads:
            return False
        here = leads.get(key, leads.get(".", ""))
    return here in (ends[0] if ends else states)


def holds(formula: Any, record: Any) -> bool:
    """Whether a record (name → value) obeys a formula, read off the meaning of each connective."""
    kind = type(formula).__name__
    if kind == "Truth":
        return bool(formula.value)
    if kind == "Is":
        return bool(record[formula.name])
    if kind == "In":
        return any(record[formula.name] == value for value in formula.values)
    if kind == "Pattern":
        return _pattern_holds(formula.function, [total(operand, record) for operand in formula.operands])
    if kind == "Chosen":
        edges = [re.fullmatch(r".*\[(.*),(.*)\]", name).groups() for name in formula.columns]  # type: ignore[union-attr]
        taken = [edge for edge, name in zip(edges, formula.columns) if record[name]]
        return _chosen(formula.function, {v for edge in edges for v in edge}, taken, [str(v) for v in formula.between])
    if kind == "Regular":
        return _matches(formula.pattern, [record[name] for name in formula.columns])
    if kind == "Tuples":
        return any(all(record[name] == value for name, value in zip(formula.columns, row)) for row in formula.rows)
    if kind == "Compare":
        left, right = total(formula.left, record), total(formula.right, record)
        sign = (left > right) - (left < right)
        return sign in {"<": (-1,), "<=": (-1, 0), ">": (1,), ">=": (0, 1), "=": (0,), "!=": (-1, 1)}[formula.op]
    if kind == "Implies":
        return holds(formula.conclusion, record) if holds(formula.premise, record) else True
    truths = [holds(part, record) for part in formula.parts]
    number = truths.count(True)
    if kind == "Not":
        return number == 0
    if kind == "And":
        return number == len(truths)
    if kind == "Or":
        return number > 0
    if kind == "Xor":
        return number in range(1, len(truths) + 1, 2)
    if kind == "Iff":
        return number in (0, 2)
    if kind == "Count":
        return (
            number
            in {
                "<=": range(formula.k + 1),
                ">=": range(formula.k, len(truths) + 1),
                "=": range(formula.k, formula.k + 1),
            }[formula.op]
        )
    raise AssertionError(f"no meaning for {kind}")


def hierarchy_labels(parents: dict[str, list[str]], option: str) -> set[frozenset[str]]:
    """The sets of classes that a hierarchy allows, by trying all: closed upwards, and what the option asks."""
    names = list(dict.fromkeys([*parents, *(p for above in parents.values() for p in above)]))
    inner = {p for above in parents.values() for p in above}
    out = set()
    for bits in itertools.product((False, True), repeat=len(names)):
        chosen = {name for name, bit in zip(names, bits) if bit}
        closed = all(parent in chosen for name in chosen for parent in parents.get(name, []))
        lowest = [name for name in chosen if not any(name in parents.get(other, []) for other in chosen)]
        if closed and (option == "any" or (len(lowest) == 1 and (option == "one path" or lowest[0] not in inner))):
            out.add(frozenset(chosen))
    return out


def records(variables: Any) -> list[dict[str, Any]]:
    """Every label, valid or not, as a record: the first variable varies slowest."""
    names = [variable.name for variable in variables]
    return [dict(zip(names, values)) for values in itertools.product(*(variable.values for variable in variables))]


def obeying(rules: Any, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records that obey every hard rule."""
    hard = [rule.formula for rule in rules if rule.probability is None]
    return [record for record in rows if all(holds(formula, record) for formula in hard)]


def projections(rows: list[dict[str, Any]], names: Any) -> set[tuple[Any, ...]]:
    """What labels look like to someone who sees some variables only."""
    return {tuple(row[name] for name in names) for row in rows}


def weighted_count(space: Any) -> float:
    """Σ over valid labels of the weights of their literals and soft rules, exactly, by listing them."""
    weights = np.ones((space.width, 2)) if space.literal_weights is None else space.literal_weights
    total = Fraction(0)
    for row in obeying([rule for rule in space.rules if rule.probability is None], records(space.variables)):
        weight = Fraction(1)
        for variable, (start, _) in zip(space.variables, space.spans):
            for i, value in enumerate(variable.values[1:] if variable.binary else variable.values):
                weight *= Fraction(float(weights[start + i][0 if row[variable.name] == value else 1]))
        for rule in space.rules:
            if rule.probability is not None:
                p = Fraction(rule.probability)
                weight *= p if holds(rule.formula, row) else 1 - p
        total += weight
    return float(total)


def completions(rows: list[dict[str, Any]], allowed: dict[str, Any]) -> list[dict[str, Any]]:
    """The records that agree with what is known: each variable takes one of its allowed values."""
    return [record for record in rows if all(record[name] in values for name, values in allowed.items())]


# ---- priors (MATH §2–4): one sample's logits over the variables of a space ----


def log_literals(variables: Any, logits: Any) -> tuple[np.ndarray, np.ndarray]:
    """log θ of each column being true, and of its being false: log(1−θ) if it is binary, 0 if it is categorical."""
    pos, neg, start = [], [], 0
    for variable in variables:
        block = [float(z) for z in logits[start : start + len(variable.columns)]]
        start += len(block)
        if variable.binary:
            pos.append(-math.log1p(math.exp(-block[0])))
            neg.append(-math.log1p(math.exp(block[0])))
        else:
            pos += [z - log_sum(np.array(block)) for z in block]
            neg += [0.0] * len(block)
    return np.array(pos), np.array(neg)


def soft_log_weights(constraints: Any) -> tuple[np.ndarray, np.ndarray]:
    """log p and log(1−p) of each soft rule, whose columns stand behind those of the space."""
    p = np.array(constraints.soft, dtype=float)
    return np.log(p), np.log1p(-p)


def exclusivity(theta: np.ndarray) -> float:
    """log Σ_k θ_k Π_{j≠k} (1−θ_j)."""
    return math.log(
        sum(theta[k] * math.prod(1 - theta[j] for j in range(len(theta)) if j != k) for k in range(len(theta)))
    )


def fuzzy(formula: Any, logic: str, chance: Any) -> float:
    """Truth of a formula in a fuzzy logic, by the textbook; `chance(atom)` is the probability of an atom."""
    conjunction = {
        "product": lambda a, b: a * b,
        "goedel": min,
        "lukasiewicz": lambda a, b: max(0.0, a + b - 1),
    }[logic]

    def disjunction(a: float, b: float) -> float:
        return 1 - conjunction(1 - a, 1 - b)

    def equal(a: float, b: float) -> float:
        return conjunction(disjunction(1 - a, b), disjunction(1 - b, a))

    kind = type(formula).__name__
    parts = [fuzzy(part, logic, chance) for part in formula.parts]
    if kind == "Truth":
        return float(formula.value)
    if kind == "Not":
        return 1 - parts[0]
    if kind in ("And", "Or"):
        return _fold(conjunction if kind == "And" else disjunction, parts)
    if kind == "Implies":
        return disjunction(1 - parts[0], parts[1])
    if kind == "Iff":
        return equal(*parts)
    if kind == "Xor":
        return _fold(lambda a, b: 1 - equal(a, b), parts)
    if kind == "Count":
        low, high = _at_least(logic, formula.k, parts), 1 - _at_least(logic, formula.k + 1, parts)
        return {">=": low, "<=": high, "=": conjunction(low, high)}[formula.op]
    return chance(formula)


def _fold(join: Any, parts: list[float]) -> float:
    out = parts[0]
    for part in parts[1:]:
        out = join(out, part)
    return out


def _at_least(logic: str, k: int, parts: list[float]) -> float:
    if k <= 0 or k > len(parts):
        return float(k <= 0)
    if logic == "goedel":
        return max(min(some) for some in itertools.combinations(parts, k))
    if logic == "lukasiewicz":
        return min(1.0, max(0.0, sum(parts) - k + 1))
    worlds = itertools.product((True, False), repeat=len(parts))
    return sum(math.prod(t if on else 1 - t for on, t in zip(world, parts)) for world in worlds if sum(world) >= k)


# ---- the generative model (dssl.models.generative) ----


def log_normal(x: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """log N(x; μ, Σ) by determinant and inverse."""
    apart = x - mean
    square = float(apart @ np.linalg.inv(covariance) @ apart)
    return -0.5 * (len(x) * math.log(2 * math.pi) + math.log(np.linalg.det(covariance)) + square)


def log_bernoullis(x: np.ndarray, chances: np.ndarray) -> float:
    """log Π_j p_j^x_j (1−p_j)^(1−x_j)."""
    return sum(math.log(p if on else 1 - p) for on, p in zip(x, chances))


def generative(weights: np.ndarray, log_densities: np.ndarray, candidates: list[set[int]], counts: Any) -> float:
    """Eq. G: Σ_i count_i log Σ_y π_y p(x_i | y) over the candidates y of row i; log densities (n, K)."""
    total = 0.0
    for row, possible, count in zip(log_densities, candidates, counts):
        total += count * log_sum(np.array([math.log(weights[y]) + row[y] for y in possible]))
    return total


# ---- learned weights: a circuit whose last columns are branches (dssl.circuits.branches) ----


def branch_probability(circuit: Any, label: Any, phi: Any) -> float:
    """π_y: the circuit at the literals of a label, 1 or 0, and at the probabilities of branches."""
    values: list[float] = []
    for node, literal in enumerate(circuit.literal.tolist()):
        below = [values[x] for x in circuit.child[circuit.ptr[node] : circuit.ptr[node + 1]].tolist()]
        if literal:
            column = abs(literal) - 1
            true = float(label[column] if column < len(label) else phi[column - len(label)])
            values.append(true if literal > 0 else 1 - true)
        else:
            values.append(math.prod(below) if circuit.kind[node] in (1, 3) else math.fsum(below))  # TRUE and AND
    return values[-1]
