"""Losses: what an estimator was asked for and what its plan adds, as the objective of one fit."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from dssl.logic.labels import Columns
from dssl.models.auto.plan import Plan
from dssl.models.fitting.lessons import Later, Lesson, Rise
from dssl.models.names import make_prior, make_terms
from dssl.training.balance import frequencies, given_frequencies
from dssl.training.objective import Objective
from dssl.training.terms.consistency import Consistency, Neighbours, Taught
from dssl.training.terms.matching import FixMatch

_PRIOR_WEIGHT = 0.3  # λ, where a prior was asked for and the plan gives no weight
_OPTIONS = {"labelled_prior_weight": 0.0, "ramp": 0.4, "rising": True, "consistency_weight": 1.0}


@dataclass(frozen=True)
class Asked:
    """What an estimator was told about its loss, by the names of its parameters, and where in training this fit is.

    `rows`: about how many open rows a batch has. `steps` of training, `done` of which are past.
    """

    prior: Any
    prior_weight: float | None
    consistency: Any
    options: dict[str, Any]
    on_violation: str
    rows: int
    steps: int
    done: int

    @property
    def frequencies(self) -> Any:
        """What predictions are held to."""
        return self.options.get("frequencies", "auto")

    @property
    def wants_prior(self) -> bool:
        """Whether the user wants the prior, whatever the labels say."""
        labelled = self.options.get("labelled_prior_weight")
        return self.prior is not None and bool(self.prior != "auto" or self.prior_weight or labelled)


def make_objective(lesson: Lesson, asked: Asked, plan: Plan, extra: Columns | None = None) -> Objective:
    """The objective of a lesson; `extra` are labels that come without rows."""
    told = _OPTIONS | asked.options
    labels, counts = _labels(lesson, asked, extra)
    planned = plan.uses_unlabelled and (plan.prior_weight or asked.consistency != "auto")
    used = bool(planned) or asked.wants_prior
    prior = make_prior(asked.prior, lesson.space, labels, counts, lesson.circuit) if used else None
    return Objective(
        lesson.space,
        prior,
        prior_weight=(plan.prior_weight or _PRIOR_WEIGHT) if asked.prior_weight is None else asked.prior_weight,
        labelled_prior_weight=told["labelled_prior_weight"],
        ramp=_ramp(told["ramp"], asked),
        rising=told["rising"],
        constrained=told.get("constrained", plan.given_rules),
        circuit=lesson.circuit,
        strict=asked.on_violation != "warn",
        balance=_balance(lesson, asked, plan.balance if prior is not None else 0.0),
        frequencies=_frequencies(lesson, asked, plan, labels, counts),
        consistency=_terms(lesson, asked, plan),
        consistency_weight=told["consistency_weight"],
        augment=plan.views,
        mean="terms",
        components=plan.components,
    )


def told(plan: Plan, asked: Asked, made: Objective) -> Plan:
    """The plan with what the user asked for, and the objective has, in place of what it would have been."""
    if asked.prior_weight is not None or asked.prior != "auto":
        prior = "none" if made.prior is None else f"{type(made.prior).__name__}, weight {made.prior_weight:.2g}"
        plan = plan.as_asked("prior", prior)
    if asked.consistency != "auto":
        terms = ", ".join(term.name for term in make_terms(asked.consistency)) or "none"
        plan = plan.as_asked("consistency", terms, "neighbours", "teacher", "matching")
    if asked.options.get("balance") is not None:
        plan = plan.as_asked("balance", f"weight {asked.options['balance']:.2g}")
    return plan


def _labels(lesson: Lesson, asked: Asked, extra: Columns | None) -> tuple[Columns, Any]:
    """Labels to take frequencies from, and how often each counts."""
    extra = lesson.columns[:0] if extra is None else extra
    labels = np.concatenate([lesson.columns[lesson.kept], extra])
    counts = np.concatenate([lesson.weight[lesson.kept], np.ones(len(extra))])
    if asked.on_violation == "warn":  # a prior cannot have labels that break rules
        valid = ~lesson.space.check(labels).invalid
        return labels[valid], counts[valid]
    return labels, counts


def _ramp(ramp: Any, asked: Asked) -> Any:
    if callable(ramp):
        return Later(ramp, asked.done) if asked.done else ramp
    return Rise(ceil(ramp * asked.steps), asked.done) if ramp else None


def _terms(lesson: Lesson, asked: Asked, plan: Plan) -> list[Consistency]:
    if asked.consistency != "auto":
        return make_terms(asked.consistency)
    given = plan.given_rules and bool(lesson.space.rules)
    once = 1 / len(lesson.space.variables) if given else 1.0  # variables that follow from others count nothing extra
    matched = [FixMatch(once)] if plan.matching else []
    near = [Neighbours(given_rules=given)] if plan.neighbours else []
    wide = plan.above is not None  # otherwise a teacher's marginals need not be those of valid labels
    taught = [] if plan.teacher is None else [Taught(plan.teacher, given_rules=wide, labelled=wide)]
    return [*matched, *near, *taught]


def _balance(lesson: Lesson, asked: Asked, planned: float) -> float:
    """The weight of the balance: as told, otherwise as planned beside a prior; less where few rows are open."""
    told = asked.options.get("balance")
    if isinstance(asked.frequencies, str) and asked.frequencies == "unknown":
        if told:
            raise ValueError(
                f'objective={{"frequencies": "unknown", "balance": {told!r}}}: unknown frequencies leave nothing to '
                "balance predictions by\nLeave out one of them."
            )
        return 0.0
    return lesson.share(lesson.open) * (planned if told is None else told)


def _frequencies(lesson: Lesson, asked: Asked, plan: Plan, labels: Columns, counts: Any) -> Any:
    """The label frequencies that a batch's mean prediction is held to."""
    given = asked.frequencies
    if not isinstance(given, str):
        return given_frequencies(lesson.space, given, asked.rows)
    if given == "auto" and plan.shares is not None and len(labels) == len(lesson.kept):
        return plan.shares
    none = slice(0) if given == "uniform" else slice(None)
    return frequencies(lesson.space, labels[none], asked.rows, counts[none])
