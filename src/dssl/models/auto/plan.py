"""The plan: what "auto" means for these data, decided from labels and rows before training, with reasons.

What the user sets is kept, and the rest is planned around it. Nothing here ever sees a test row.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dssl.circuits.beyond.cascade import Cascade
from dssl.circuits.beyond.superset import Superset
from dssl.logic.labels import Columns
from dssl.logic.language.formula import Is, Or
from dssl.logic.space import LabelSpace
from dssl.models.auto.ground import Ground
from dssl.models.auto.judging import Judged, judge
from dssl.models.auto.outputs import forest
from dssl.models.auto.views import judge_views
from dssl.priors.predictive import Answers
from dssl.training.balance import Frequencies, frequencies
from dssl.training.terms.augmentation import Views, make_views

_ANY = 0.5  # rows of some kind, fewer of which count as none: weights may be small
_MANY = 3  # unlabelled rows for each labelled one, below which they are not smoothed over
_FEW = 5  # labels per class, below which they cannot tell how good they are
_GOOD = 0.05  # error of a linear model on left-out rows, up to which there is little to gain
_MUCH = 0.25  # share of the variance that other ways leave, above which neighbours that agree have much to add
_AHEAD = -1.5  # standard errors by which neighbours are ahead of other ways, at least
_LESS = 0.85  # share of their error that neighbours leave, at most
_CLEAR = -2.0  # standard errors by which a teacher is ahead of a linear model
_HARD = 0.9  # error of the best way, above which a network would learn labels by heart
_TAUGHT = 30  # labels that a teacher needs, and frequencies of values in each place of an array
_WIDE = 50  # columns without rules, from which most labels are rare; a forest of classes has rare ones sooner
_TREE = 20  # and so have texts of several topics
# Shares of hidden units that are dropped: behind the last layer, and behind those before it. Measured on left-out news:
# rows of texts lose their rare words at the larger shares, and are learned better from labels alone.
_FREQUENT, _RARE, _TEXTS = (0.1, 0.0), (0.65, 0.65), (0.3, 0.3)
_IN_FULL = 0.05  # share of the rows with labels, below which those labelled in full are too few to begin from
_MEMBERS = 2  # networks, where most columns are rare: +.001 to +.004 on the validation rows of FunCat
_SHARP = 0.8  # error of the best way, above which predictions are not made sharper
_IMAGES = 4  # dimensions of rows that are images: their number, channels, height, width
_SHIFTED = 0.2  # share of the entropy of labels that unlabelled rows' frequencies are away, if labels were hand-picked


@dataclass(frozen=True)
class Decision:
    """One line of a plan: what was decided, and why."""

    what: str
    value: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """What training does, and why. Printed, it is a table.

    `views`: how rows are seen; `matching`: a guess about a row's weak view is asked for in its strong view.
    `neighbours`: predictions of near rows are drawn together. `teacher` (n, width): probabilities that unlabelled rows
    learn from. `given_rules`: likelihood and divergences are of p(y | V). `above`: outputs are log odds given the class
    above. `beside`: the judge, whose best ridge model may answer beside the network; `ground`: what it knows about the
    rows. `components`: of how many predictions the model is a mixture. `members`: networks, trained apart and averaged.
    `prior_weight` and `balance` are weights; `shares`, the frequencies of labels, if those of the labels are not taken.
    """

    uses_unlabelled: bool
    views: Views = field(default_factory=Views, repr=False)
    matching: bool = False
    neighbours: bool = False
    teacher: NDArray[np.float64] | None = field(default=None, repr=False)
    given_rules: bool = False
    above: NDArray[np.int64] | None = field(default=None, repr=False)
    prior_weight: float = 0.0
    balance: float = 0.0
    shares: Frequencies | None = field(default=None, repr=False)
    beside: Judged | None = field(default=None, repr=False)
    ground: Ground | None = field(default=None, repr=False)
    components: int = 1
    members: int = 1
    dropout: tuple[float, float] = _FREQUENT
    decisions: tuple[Decision, ...] = ()

    @property
    def reason(self) -> str:
        """Why unlabelled rows are used, or not."""
        return next(d.reason for d in self.decisions if d.what == "unlabelled rows")

    def with_decision(self, what: str, value: str, reason: str) -> Plan:
        """The plan with one more line."""
        return replace(self, decisions=(*self.decisions, Decision(what, value, reason)))

    def as_asked(self, what: str, value: str, *instead: str) -> Plan:
        """The plan with what was asked for, in place of what it says of that and of `instead`."""
        asked = Decision(what, value, "as asked for")
        kept = [asked if d.what == what else d for d in self.decisions if d.what not in instead]
        return replace(self, decisions=(*kept, *([] if asked in kept else [asked])))

    def for_stream(self, rows: int, sample: int) -> Plan:
        """The plan for more rows than it was made from: a teacher, or a second network, would know the sample only."""
        kept = tuple(d for d in self.decisions if d.what not in ("teacher", "networks"))
        plan = replace(self, teacher=None, members=1, decisions=kept)
        return plan.with_decision("rows", "streamed", f"{rows:,}; planned and calibrated on a sample of {sample:,}")

    def __str__(self) -> str:
        rows = [(d.what, d.value, d.reason) for d in self.decisions]
        widths = [max(len(row[i]) for row in rows) for i in range(2)]
        return "\n".join(f"{what:{widths[0]}}  {value:{widths[1]}}  {reason}" for what, value, reason in rows)


def make_plan(
    space: LabelSpace,
    x: Any,
    columns: Columns,
    weight: NDArray[np.float64] | None = None,
    *,
    rows: int = 256,
    seed: int = 0,
    asked: str = "",
    alone: str = "",
    judges: bool = True,
    components: int = 1,
    several: bool = False,
    calibrated: bool = True,
    ground: Ground | None = None,
    circuit: Answers | None = None,
    elements: tuple[str, str] | None = None,
    anchored: bool = False,
    augment: Any = None,
) -> Plan:
    """A plan for standardised rows x (n, …) with label columns (n, width); a mean prediction is over `rows` rows.

    A row of `weight` w counts as w rows, 1 unless given.

    >>> space = LabelSpace.classes(["left", "right"])
    >>> x = np.arange(-20.0, 20.0)[:, None] / 10
    >>> y = np.where(x < 0, [1.0, 0.0], [0.0, 1.0])
    >>> print(make_plan(space, x, y))
    unlabelled rows  not used     every row is labelled
    likelihood       independent  there are no rules
    outputs          log odds     of the labels' frequencies

    `asked`: why unlabelled rows are used in any case; `alone`: why they are not. With ``judges=False`` labels do not
    decide what helps, which would take about a second. `ground`: what a plan from more labels already knows about the
    rows. `calibrated`: whether left-out labels will say how sure predictions are. `several`: whether networks may be
    more than one.
    `circuit`: who answers for the rules; labels decide only if it is the exact circuit.
    `elements`: what one reader reads in each row, and why, if it reads elements; `anchored`: whether some element was
    labelled with each of the values, so that no two readings are equally good. `augment`: views of rows as they were
    asked for; with "auto" labels decide which changes of images leave them as they are.
    """
    if not judges or alone or elements or isinstance(circuit, Cascade | Superset) or are_texts(space, x):
        ground = None
    elif ground is None:
        ground = Ground.of(x, columns, seed, weight)
    judged = judge(space, x, columns, ground)
    weight = np.ones(len(columns)) if weight is None else weight
    cascade = isinstance(circuit, Cascade)
    planner = _Planner(space, x, columns, weight, rows, judged, cascade, in_elements=elements is not None)
    if elements:
        planner.say("elements", *elements)
        planner.anchored = anchored
    planner.several = several
    planner.augment, planner.seed = augment, seed
    return replace(planner.plan(asked, alone, components, calibrated), ground=ground)


def is_wide(space: LabelSpace, *, in_elements: bool = False) -> bool:
    """Whether labels have so many columns that most are rare: many without rules, or a forest of classes.

    Columns of elements that one reader learns are no more than those of one element.
    """
    if in_elements:
        return False
    above = forest(space)
    return space.width >= (_WIDE if above is None else _TREE) and (above is not None or _only_never_empty(space))


def are_images(x: Any) -> bool:
    """Whether rows are images, (n, channels, height, width)."""
    return bool(x.ndim == _IMAGES and x.dtype.kind == "f")


def are_texts(space: LabelSpace, x: Any) -> bool:
    """Whether rows are sparse, as those of texts are, and labels many rare ones without rules between them."""
    several = space.width >= _TREE and all(variable.binary for variable in space.variables)
    return bool(sp.issparse(x)) and several and _only_never_empty(space)


def _only_never_empty(space: LabelSpace) -> bool:
    """Whether no rule says more than that some column holds."""
    return all(
        rule.probability is None and isinstance(rule.formula, Or)
        and [part.name for part in rule.formula.args if isinstance(part, Is)] == [v.name for v in space.variables]
        for rule in space.rules
    )  # fmt: skip


class _Planner:
    """Decides one thing after another, and keeps the reasons."""

    def __init__(
        self,
        space: LabelSpace,
        x: Any,
        columns: Columns,
        weight: NDArray[np.float64],
        rows: int,
        judged: Judged | None,
        cascade: bool,
        *,
        in_elements: bool,
    ) -> None:
        self.space, self.x, self.columns, self.weight, self.rows = space, x, columns, weight, rows
        self.whole = np.asarray(~np.isnan(columns).any(axis=1))
        labelled = (~np.isnan(columns)).any(axis=1)
        self.known, self.open = float(weight[self.whole].sum()), float(weight[~self.whole].sum())
        self.classes = len(space.variables) == 1 and not space.variables[0].binary
        self.above = forest(space)
        self.cascade = cascade
        self.wide = is_wide(space, in_elements=in_elements) or cascade
        self.texts = not in_elements and are_texts(space, x)
        self.partial = bool(weight[labelled & ~self.whole].sum() >= _ANY)
        self.piecewise = self.known < _IN_FULL * float(weight[labelled].sum())
        self.judged, self.in_elements, self.anchored, self.several = judged, in_elements, False, False
        self.augment: Any = None
        self.seed = 0
        self.decisions: list[Decision] = []

    def say(self, what: str, value: str, reason: str) -> None:
        self.decisions.append(Decision(what, value, reason))

    def plan(self, asked: str, alone: str, components: int = 1, calibrated: bool = True) -> Plan:
        used = self._unlabelled(asked, alone)
        self.mixed = components > 1
        if self.mixed:
            self.say(
                "components",
                str(components),
                "as asked for; neighbours, ridge models and calibration work with one only",
            )
        views = self._views()
        matching = used and not self.mixed and self._matching(views)
        if not matching and self._judges_views:
            views = views.all_strong()
        near = used and not self.mixed and not matching and self._neighbours()
        teacher = self._teacher(near) if used and not self.mixed else None
        prior = self._prior(near, teacher) if used else 0.0
        given = self._likelihood(near, bool(prior), calibrated)
        balance, shares = self._balance() if used and (near or prior or asked) else (0.0, None)
        above = self.above if self.wide and not self.cascade else None
        how = (
            ", given the class above"
            if above is not None
            else ", given all classes above"
            if self.cascade
            else ", coherent with the rules"
            if given
            else ""
        )
        first = f"of the labels' frequencies{how}"
        self.say("outputs", "log odds", first)
        members = 1 if used or self.mixed else self._members()
        return Plan(
            used, views, matching, near, teacher, given, above, prior, balance, shares,
            components=components, members=members,
            beside=None if self.partial or above is not None else self.judged,  # fully labelled rows may be of one kind
            dropout=_TEXTS if self.texts else _RARE if self.wide else _FREQUENT, decisions=tuple(self.decisions),
        )  # fmt: skip

    # ---- one decision each ----

    def _unlabelled(self, asked: str, alone: str) -> bool:
        known, open_ = self.known, f"{self.open:,.0f}"
        if self.open < _ANY or alone:
            return self._say_used(False, alone or "every row is labelled")
        if asked:
            return self._say_used(True, asked)
        if self.cascade:
            return self._say_used(False, "classes are learned from known labels alone")
        if self.texts:
            return self._say_used(False, "words say more about rare labels than neighbours or a teacher do")
        if self.space.rules or self.wide:
            return self._say_used(True, f"{open_} rows are not labelled in full")
        if self.open < _MANY * known:
            return self._say_used(False, f"{open_} unlabelled rows are few beside {known:,.0f} labelled ones")
        if self.classes and known >= _FEW * self.space.width and self.judged is not None:
            n = self.judged.count
            wrong = max(self.judged.wrong, 0.5 / n)
            spread = (wrong * (1 - wrong) / n) ** 0.5
            if wrong - spread <= _GOOD and not (self._near_agree and self._others > _MUCH):
                found = f"{known:.0f} labels leave a linear model an error of {self.judged.wrong:.1%} ± {spread:.1%}"
                return self._say_used(False, f"{found}: there is little to gain")
        return self._say_used(True, f"{known:,.0f} labels are few beside {open_} unlabelled rows")

    def _say_used(self, used: bool, reason: str) -> bool:
        self.say("unlabelled rows", "used" if used else "not used", reason)
        return used

    @property
    def _judges_views(self) -> bool:
        return isinstance(self.augment, str) and self.augment == "auto"

    def _views(self) -> Views:
        if not self._judges_views:
            return make_views(copy.deepcopy(self.augment))
        if not are_images(self.x) or self.in_elements:
            return Views()
        seen = judge_views(self.space, self.x, self.columns, self.weight, self.seed)
        if seen is None:
            self.say("views", "as they are", "too few rows are labelled to tell which changes leave labels as they are")
            return Views()
        self.say("views", *seen.said())
        return seen.views

    def _matching(self, views: Views) -> bool:
        matching = are_images(self.x) and views.changes("strong") and not self.wide
        if matching:
            self.say("matching", "used", "a confident guess about a row is asked for in changed views of it")
        return matching

    def _neighbours(self) -> bool:
        if self.judged is None or "graph" not in self.judged.errors:
            what = "too few rows are labelled in full to tell" if self.x.ndim == 2 else "rows are not tables"
            few = self.x.ndim == 2 and self.classes and self.open > 1
            self.say("neighbours", "drawn together" if few else "left alone", what)
            return few
        error, others, near = self.judged.error("graph"), self._others, self._near_agree
        found = f"they leave {error:.0%} of the variance of left-out labels unexplained, other ways {others:.0%}"
        self.say("neighbours", "drawn together" if near else "left alone", found)
        return near

    @property
    def _near_agree(self) -> bool:
        """Whether left-out labels are predicted better by near rows than by other ways."""
        if self.judged is None or "graph" not in self.judged.errors or self.wide:
            return False
        _, z = self.judged.behind("graph", "linear", "smooth")
        return z <= _AHEAD and self.judged.error("graph") < _LESS * self._others

    @property
    def _others(self) -> float:
        """What ways that know nothing of near rows leave of the variance of left-out labels."""
        return 1.0 if self.judged is None else min(self.judged.error(way) for way in ("linear", "smooth"))

    def _teacher(self, near: bool) -> NDArray[np.float64] | None:
        if self.judged is None or near or self.partial:
            return None
        _, z = self.judged.behind(self.judged.best, "linear")
        error = self.judged.error(self.judged.best)
        taught = (z <= _CLEAR or error > _HARD) and self.known >= _TAUGHT
        if not (self.wide or taught):
            return None
        self.say("teacher", self.judged.best, f"a ridge model leaves {error:.0%} of the variance unexplained")
        told = self.judged.marginals.copy()
        told[self.judged.rows] = self.judged.left_out  # labelled rows learn what others say about them
        return told

    def _prior(self, near: bool, teacher: NDArray[np.float64] | None) -> float:
        if self.wide or self.texts:
            self.say("prior", "none", f"most of {self.space.width} labels are rare")
            return 0.0
        if self.piecewise and not self.anchored:
            self.say("prior", "none", "hardly any row is labelled in full: a prior could settle on a wrong reading")
            return 0.0
        weight = 0.3 if near or self.classes or self.space.rules else 0.0
        if self.judged is not None and self.judged.error(self.judged.best) > _SHARP:
            weight = 0.0
        if teacher is not None:
            weight = min(weight, 0.1)
        weight /= len(self.space.variables)  # it adds up over variables, also those that follow from others
        why = "besides other uses of unlabelled rows" if weight else "labels are hardly predictable, or independent"
        self.say("prior", f"weight {weight:.2g}" if weight else "none", why)
        return weight

    def _likelihood(self, near: bool, prior: bool, calibrated: bool) -> bool:
        if not self.space.rules:
            self.say("likelihood", "independent", "there are no rules")
            return False
        reasons = {
            "soft rules count once": any(rule.probability is not None for rule in self.space.rules),
            "each class is learned from the rows that have the class above": self.wide
            and self.above is not None
            and not self.cascade,
            "each class is learned from the rows that have all classes above": self.cascade,
            "rows are known in part, and the rules say what that leaves": self.piecewise,
            "components are weighed given the rules": self.mixed,
            "neighbours are compared given the rules": near,
            "the prior asks unlabelled rows to obey the rules": prior,
            "variables that follow from others must count once: no calibration corrects that": not calibrated,
        }
        why = next((reason for reason, holds in reasons.items() if holds), "")
        given = bool(why)
        self.say("likelihood", "given the rules" if given else "independent", why or
                 "every variable is learned, even those that follow from others")  # fmt: skip
        return given

    def _members(self) -> int:
        if not self.several or not self.wide or self.texts:
            return 1
        self.say("networks", str(_MEMBERS), "trained apart and averaged: they rank rare columns differently")
        return _MEMBERS

    def _balance(self) -> tuple[float, Frequencies | None]:
        if self.wide or (self.in_elements and self.known < _TAUGHT):  # few labels of each place
            return 0.0, None
        shares = frequencies(self.space, self.columns, self.rows, self.weight)
        moved = (
            _shifted(self.space, shares, self.judged, np.where(self.whole, 0, self.weight)) if self.classes else None
        )
        if moved is None:
            self.say("frequencies", "of the labels", "unlabelled rows do not contradict them")
            return min(1.0, 3 / len(self.space.variables)), shares
        self.say("frequencies", "between", "those of the labels and of unlabelled rows: labels look hand-picked")
        return 1.0, moved


def _shifted(
    space: LabelSpace, shares: Frequencies, judged: Judged | None, weight: NDArray[np.float64]
) -> Frequencies | None:
    """Frequencies that leave room for those of unlabelled rows, if these seem to be far from those of the labels.

    `weight` (n,): that of unlabelled rows, 0 for others. Their frequencies are found by Saerens, Latinne &
    Decaestecker's (2002) iteration from a judge's probabilities.
    """
    if judged is None or not weight.any():
        return None
    open_ = weight > 0
    p, counts, labels = judged.marginals[open_], weight[open_, None], shares.share
    total = counts.sum()
    found = labels.copy()
    for _ in range(30):
        each = p * (found / labels)
        found = (counts * (each / each.sum(axis=1, keepdims=True))).sum(axis=0) / total
        found = (found * total + 1) / (total + len(found))
    apart = float((found * np.log(found / labels)).sum()) / np.log(space.width)
    if apart < _SHIFTED:
        return None
    low, high = np.minimum(found, labels - shares.error), np.maximum(found, labels + shares.error)
    return Frequencies((low + high) / 2, (high - low) / 2)
