"""Zoo: the type of animals and parts of their bodies, from few labels and rules such as "fins -> legs in {0, 2}".

    DSSL_DATA=… python experiments/zoo.py               # everything; what is done is not done again
    DSSL_DATA=… python experiments/zoo.py --choose      # as λ was chosen, on other seeds; kept in another file

Of UCI's 101 animals, ten attributes are x: how they live and what is plain to see. Type, legs, hair, feathers, milk,
backbone and fins are y. The rules below were written from what the words mean, and hold for every animal of the set;
7,296 of the 1,376,256 combinations of all values obey them. They see x as attributes that are certain, in training and
in decoding. By seed, 34 animals are for testing, and of the others 10 to 50 % have labels. Many animals have equal
rows, so that test rows are not all new; this is so for every method.

LTNtorch is given the same rules, rows, network, optimiser, steps and supervised loss. Its loss is 1 − SatAgg, with
product connectives, and each rule quantified over the rows of a step (p-mean error with p = 2, its defaults).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from ledger import Case, Ledger, markdown, percent, summary
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.app.measures import Part, calibrations
from dssl.data.published import load_zoo
from dssl.data.rows import ArrayData
from dssl.logic.labels import indices
from dssl.logic.language.formula import And, Formula, Iff, Implies, In, Is, Not, Or
from dssl.logic.space import LabelSpace
from dssl.models.decoding import Decoder
from dssl.priors import DeterministicPrior, Prior, PseudoLabelPrior, TNormPrior
from dssl.training import settings as training
from dssl.training.loop import train
from dssl.training.objective import Loss, Objective, Ramp, linear_ramp

PICTURES = Path(__file__).parents[1] / "docs" / "pictures"

RULES = """
eggs, airborne, aquatic, predator, toothed, breathes, venomous, tail, domestic, catsize    # x, always known

type: {mammal, bird, reptile, fish, amphibian, insect, invertebrate}
legs: {0, 2, 4, 5, 6, 8}
hair, feathers, milk, backbone, fins

type = mammal <-> milk
type = bird <-> feathers
type in {mammal, bird, reptile, fish, amphibian} <-> backbone
type = bird -> legs = 2 & eggs & breathes & !toothed
type = insect -> legs = 6 & breathes
type = amphibian -> legs = 4 & aquatic & breathes
type = fish -> legs = 0 & fins & aquatic & !breathes
type = reptile -> legs in {0, 4}
type = mammal -> legs in {0, 2, 4} & breathes
hair -> type in {mammal, insect}
fins -> legs in {0, 2} & type in {mammal, fish}
fins -> aquatic
airborne -> type in {mammal, bird, insect}
toothed -> backbone
legs = 2 -> backbone
"""
SPACE = LabelSpace(RULES)
GIVEN = 10  # variables, and columns, that are x
SURE = 1e3  # the logit of what is known

METHODS = {
    "none": "no rules",
    "t-norm": "t-norm (product)",
    "ltn": "LTNtorch",
    "semantic": "semantic loss, T = 1",
    "dp1.5": "DP, T = 1.5",
    "dp2": "DP, T = 2",
    "dp10": "DP, T = 10",
    "pl": "PL (most probable valid label)",
    "likelihood": "rules in the likelihood",
}
_PRIORS: dict[str, Callable[[LabelSpace], Prior]] = {
    "t-norm": TNormPrior,
    "semantic": partial(DeterministicPrior, power=1.0),
    "dp1.5": partial(DeterministicPrior, power=1.5),
    "dp2": partial(DeterministicPrior, power=2.0),
    "dp10": partial(DeterministicPrior, power=10.0),
    "pl": PseudoLabelPrior,
}


@dataclass(frozen=True)
class Settings:
    labels: tuple[int, ...] = (10, 20, 30, 50)  # per cent of the rows that are not for testing
    methods: tuple[str, ...] = tuple(METHODS)
    first_seed: int = 0
    seeds: int = 16
    test: int = 34  # rows
    hidden: int = 64
    steps: int = 200
    batch: int = 32  # labelled rows per step
    unlabelled_batch: int = 64
    lr: float = 5e-3
    weight_decay: float = 1e-4
    ramp: float = 0.4  # share of the steps in which the rules' weight rises
    weights: dict[str, float] = field(
        default_factory=lambda: dict.fromkeys(METHODS, 0.1) | {"ltn": 1.0, "pl": 0.3}
    )  # λ


# ---- data ----


@cache
def read() -> NDArray[np.float32]:
    """All animals as columns (101, width) of the space; the first ten are x."""
    data = load_zoo()
    place = {name: i for i, name in enumerate(data.features)}
    kinds = next(variable.values for variable in SPACE.variables if variable.name == "type")
    animals = [
        [kinds[kind] if v.name == "type" else _value(v, row[place[v.name]]) for v in SPACE.variables]
        for row, kind in zip(data.train.x, data.train.y)
    ]
    return SPACE.encode(animals).astype(np.float32)


def _value(variable: Any, number: float) -> Any:
    """A number of the table as the value of a variable."""
    return bool(number) if variable.binary else next(v for v in variable.values if int(v) == int(number))


def split(labels: int, seed: int, test: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Rows with a label, rows without, and rows for testing."""
    order = np.random.default_rng(seed).permutation(len(read()))
    held, rest = order[:test], order[test:]
    count = round(len(rest) * labels / 100)
    return rest[:count], rest[count:], held


# ---- the peer ----


class LogicTensorNetwork(nn.Module):
    """Supervised loss + λ · (1 − SatAgg of the rules over the rows of a step), with LTNtorch's own operators."""

    def __init__(self, space: LabelSpace, weight: float, ramp: Ramp) -> None:
        super().__init__()
        try:
            import ltn
        except ImportError as error:
            raise ImportError("LTNtorch is not installed\nInstall it with pip install 'dssl[bench]'.") from error
        self.ltn, self.space, self.weight, self.ramp = ltn, space, weight, ramp
        self.supervised = Objective(space, None, mean="terms")
        ops = ltn.fuzzy_ops
        self.negation = ltn.Connective(ops.NotStandard())
        self.conjunction = ltn.Connective(ops.AndProd())
        self.disjunction = ltn.Connective(ops.OrProbSum())
        self.implication = ltn.Connective(ops.ImpliesReichenbach())
        self.equivalence = ltn.Connective(ops.Equiv(ops.AndProd(), ops.ImpliesReichenbach()))
        self.every = ltn.Quantifier(ops.AggregPMeanError(p=2), quantifier="f")
        self.satisfied = ops.SatAgg()
        self.predicates = {str(atom): self._predicate(atom) for rule in space.rules for atom in _atoms(rule.formula)}

    def forward(self, logits: Tensor, y: Any, *, step: int | None = None, sample_weight: Tensor | None = None) -> Loss:
        supervised = self.supervised(logits, y, sample_weight=sample_weight).total
        rules = self.ramp(step or 0) * self.weight * (1 - self.satisfaction(logits))
        return Loss(supervised + rules, {"supervised": supervised, "rules": rules})

    def satisfaction(self, logits: Tensor) -> Tensor:
        """SatAgg of all rules, each for every row of logits (n, width)."""
        x = self.ltn.Variable("x", logits)
        return self.satisfied(*(self.every(x, self.read(rule.formula, x)) for rule in self.space.rules))

    def read(self, formula: Formula, x: Any) -> Any:
        """A formula about rows x, of LTNtorch's objects."""
        match formula:
            case Is() | In():
                return self.predicates[str(formula)](x)
            case Not(part):
                return self.negation(self.read(part, x))
            case And(parts) | Or(parts):
                join = self.conjunction if isinstance(formula, And) else self.disjunction
                first, *rest = (self.read(part, x) for part in parts)
                for other in rest:
                    first = join(first, other)
                return first
            case Implies(premise, conclusion):
                return self.implication(self.read(premise, x), self.read(conclusion, x))
            case Iff(left, right):
                return self.equivalence(self.read(left, x), self.read(right, x))
        raise TypeError(f"{type(formula).__name__} has no reading for LTNtorch")

    def _predicate(self, atom: Is | In) -> Any:
        """The probability of an atom: σ of a logit, or softmax over a variable's values, those wanted added up."""
        names = [variable.name for variable in self.space.variables]
        variable, (start, stop) = next(
            (self.space.variables[i], self.space.spans[i]) for i, name in enumerate(names) if name == atom.name
        )
        if isinstance(atom, Is):
            return self.ltn.Predicate(func=lambda z: z[:, start].sigmoid())
        wanted = torch.tensor([value in atom.values for value in variable.values])
        return self.ltn.Predicate(func=lambda z: z[:, start:stop].softmax(-1)[:, wanted].sum(-1).clamp(max=1))


def _atoms(formula: Formula) -> list[Any]:
    match formula:
        case Is() | In():
            return [formula]
        case Not(part):
            return _atoms(part)
        case And(parts) | Or(parts):
            return [atom for part in parts for atom in _atoms(part)]
        case Implies(left, right) | Iff(left, right):
            return _atoms(left) + _atoms(right)
    raise TypeError(f"{type(formula).__name__} has no reading for LTNtorch")


# ---- one run ----


def objective(method: str, settings: Settings) -> nn.Module:
    weight, ramp = settings.weights[method], linear_ramp(max(1, round(settings.ramp * settings.steps)))
    if method == "ltn":
        return LogicTensorNetwork(SPACE, weight, ramp)
    prior = _PRIORS[method](SPACE) if method in _PRIORS else None
    return Objective(SPACE, prior, weight, ramp=ramp, mean="terms", constrained=method == "likelihood")


class Network(nn.Module):
    """x (n, 10) of 0 and 1 → logits (n, width): those of x itself are sure, the others a network's."""

    def __init__(self, x: NDArray[np.float32], settings: Settings) -> None:
        super().__init__()
        hidden = settings.hidden
        self.register_buffer("mean", torch.from_numpy(x.mean(axis=0)))
        self.layers = nn.Sequential(
            *(nn.Linear(GIVEN, hidden), nn.ReLU()),
            *(nn.Linear(hidden, hidden), nn.ReLU()),
            nn.Linear(hidden, SPACE.width - GIVEN),
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([SURE * (2 * x - 1), self.layers(2 * (x - self.mean))], dim=1)


def one(labels: int, method: str, seed: int, settings: Settings) -> Case:
    """One network, and its predictions for the test rows without and with the rules."""
    torch.set_num_threads(1)
    y = read()
    known, unknown, held = split(labels, seed, settings.test)
    rows = np.concatenate([known, unknown])
    shown = np.where(np.isin(rows, known)[:, None], y[rows], np.nan)
    how = training.Settings(
        steps=settings.steps,
        labelled_batch=settings.batch,
        unlabelled_batch=settings.unlabelled_batch,
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        optimizer="adamw",
        seed=seed,
    )
    torch.manual_seed(seed)
    network = Network(y[rows, :GIVEN], settings)
    train(network, objective(method, settings), ArrayData(y[rows, :GIVEN], shown), how)
    with torch.no_grad():
        logits = network(torch.from_numpy(y[held, :GIVEN]))
    asked = np.where(np.arange(SPACE.width) < GIVEN, np.nan, y[held]).astype(np.float32)
    return measured(Part("test", len(held), np.arange(len(held)), asked, logits, Decoder(SPACE)))


def measured(part: Part) -> Case:
    """Valid predictions, how often type and whole label are right, and calibration; "raw" without the rules."""
    raw, final = calibrations(part)
    out: Case = {}
    for stage, found, error in (("raw_", part.raw, raw.error), ("", part.final, final.error)):
        right = (indices(part.space, found) == part.truth)[:, GIVEN:]
        out |= {
            f"{stage}valid": 1 - len(part.space.check(found)) / len(part),
            f"{stage}type": float(right[:, 0].mean()),
            f"{stage}exact": float(right.all(axis=1).mean()),
            f"{stage}calibration": error,
        }
    return out


def cases(settings: Settings) -> list[Case]:
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    return [
        {"labels": labels, "method": method, "seed": seed}
        for labels in settings.labels
        for method in settings.methods
        for seed in seeds
    ]


# ---- the page ----

_MEASURES = (
    *("raw_valid", "raw_type", "raw_exact", "raw_calibration"),
    *("valid", "type", "exact", "calibration"),
)


def _rows(record: dict[str, Any]) -> dict[tuple[int, str], Case]:
    return {
        (row["labels"], row["method"]): row for row in summary(record["runs"], by=("labels", "method"), of=_MEASURES)
    }


def _table(rows: dict[tuple[int, str], Case], labels: int) -> str:
    head = ["", "valid, raw", "type, raw", "type, decoded", "label, raw", "label, decoded", "calibration error"]
    names = ("raw_valid", "raw_type", "type", "raw_exact", "exact", "calibration")
    lines = [
        [METHODS[method], *("–" if method == "likelihood" and "raw" in name else percent(row, name) for name in names)]
        for method in METHODS
        if (row := rows.get((labels, method)))
    ]
    return markdown(head, lines)


def _ours(method: str) -> bool:
    return method in _PRIORS and method != "t-norm"


def page(record: dict[str, Any]) -> str:
    """This experiment's part of docs/results.md."""
    rows, settings = _rows(record), record["settings"]
    shares = sorted({labels for labels, _ in rows})
    tables = "\n\n".join(f"**{labels} % of the labels**\n\n{_table(rows, labels)}" for labels in shares)

    def mean(method: str, measure: str) -> float:
        return float(np.mean([rows[labels, method][measure] for labels in shares]))

    methods = [method for method in METHODS if all((labels, method) in rows for labels in shares)]
    circuits = [method for method in methods if _ours(method)]
    best = max(circuits, key=lambda method: mean(method, "exact"))
    gain = mean(best, "exact") - mean("none", "exact")
    peer = mean(best, "exact") - mean("ltn", "exact")
    exact = mean("likelihood", "exact") - mean("none", "exact")
    rate = [f"{100 * mean(m, 'raw_valid'):.0f} % ({METHODS[m]})" for m in methods if m != "likelihood"]
    decoding = mean("none", "exact") - mean("none", "raw_exact")
    seconds = {
        name: sum(run["seconds"] for run in record["runs"] if run["method"] == name) / settings["seeds"] / len(shares)
        for name in (best, "ltn")
    }
    return f"""## Zoo: few labels and a page of rules

`dssl reproduce zoo`: ten attributes of 101 animals are given. Type, legs, hair, feathers, milk, backbone and fins are
to be predicted, with {len(SPACE.rules)} rules such as `fins -> legs in {{0, 2}} & type in {{mammal, fish}}` that relate
them to each other and to what is given (`experiments/zoo.py` has them). {settings["test"]} animals are for testing; of
the others {shares[0]} to {shares[-1]} % have labels. {settings["seeds"]} seeds, and the same network of two hidden
layers for all. λ was chosen for each method on other seeds, by exact labels (`python experiments/zoo.py --choose`);
every prior of the circuit lost there with λ = 1 or more. "Rules in the likelihood" learns log p(y | V) of the labelled
rows, with no term for the others; its network is meaningless without the rules.
LTNtorch {record["versions"].get("LTNtorch", "")} has the same rules, rows, network, steps and supervised loss, and its
own loss for the rules. "Raw" is the most probable value of each variable, "decoded" the most probable label that obeys
the rules; "label" is right if type and all parts are.

{tables}

Of raw predictions, {", ".join(rate)} are valid, in the mean over shares of labels; all decoded ones are. Decoding
alone, without rules in training, changes exact labels by {100 * decoding:+.1f} points. {METHODS[best]}, the best of our
priors when decoded, differs by {100 * gain:+.1f} points from no rules in training and by {100 * peer:+.1f} from
LTNtorch, decoded the same way. Rules in the likelihood differ by {100 * exact:+.1f} points from no rules in training. A
run takes {seconds[best]:.1f} s, with LTNtorch {seconds["ltn"]:.1f} s.

![Valid predictions and exact labels by share of labels](pictures/zoo.svg)
"""


def figures(record: dict[str, Any]) -> None:
    """docs/pictures/zoo.svg: valid raw predictions and exact decoded labels, by share of labels."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "dssl"
    rows = _rows(record)
    shares = sorted({labels for labels, _ in rows})
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    colours = {"none": "0.4", "ltn": "tab:red", "t-norm": "tab:orange", "semantic": "tab:green", "dp2": "tab:purple"}
    for axes, (measure, title) in zip(
        figure.subplots(1, 2), {"raw_valid": "valid, before decoding", "exact": "exact label, decoded"}.items()
    ):
        for method, colour in (colours | {"pl": "tab:blue"}).items():
            found = [rows[labels, method] for labels in shares]
            heights, errors = ([100 * row[key] for row in found] for key in (measure, f"{measure}_error"))
            axes.errorbar(shares, heights, errors, fmt="o-", color=colour, label=METHODS[method], ms=4, lw=1.3)
        axes.set(title=title, xlabel="labels, % of rows", ylabel="% of test rows", xticks=shares)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    PICTURES.mkdir(exist_ok=True)
    figure.savefig(PICTURES / "zoo.svg", metadata={"Date": None})


def choose(settings: Settings, jobs: int) -> None:
    """Each λ of each method with 20 % of the labels, on seeds that the results do not have; printed, not kept."""
    for weight in (0.1, 0.3, 1.0, 3.0):
        tried = replace(settings, labels=(20,), first_seed=100, seeds=8, weights=dict.fromkeys(METHODS, weight))
        ledger = Ledger(f"zoo_weight_{weight:g}", tried, packages=("LTNtorch",))
        ledger.complete(partial(one, settings=tried), cases(tried), jobs=jobs)
        for row in summary(ledger.runs, by=("method",), of=("exact", "type", "raw_valid")):
            print(f"λ {weight:4g} {row['method']:10} exact {row['exact']:.3f} type {row['type']:.3f}")


def main() -> None:
    settings = Settings()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=settings.methods, default=list(settings.methods))
    parser.add_argument("--jobs", type=int, default=0, help="processes; 0 for one a processor")
    parser.add_argument("--choose", action="store_true", help="try weights λ on other seeds")
    chosen = parser.parse_args()
    if chosen.choose:
        choose(settings, chosen.jobs)
        return
    ledger = Ledger("zoo", settings, packages=("LTNtorch",))
    wanted = [case for case in cases(settings) if case["method"] in chosen.methods]
    ledger.complete(partial(one, settings=settings), wanted, jobs=chosen.jobs)
    if wanted == cases(settings):
        ledger.keep(wanted)
    for row in summary(ledger.runs, by=("labels", "method"), of=_MEASURES):
        print(f"{row['labels']:3} {row['method']:10} " + "  ".join(f"{name} {row[name]:.3f}" for name in _MEASURES))


if __name__ == "__main__":
    main()
