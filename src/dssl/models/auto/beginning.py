"""Beginning: the network of a fit before it has learned anything: it predicts label frequencies for every row."""

from __future__ import annotations

from torch import nn

from dssl.models.auto.calibration import joined
from dssl.models.auto.elements import Elements, begin_at_frequencies, build_network
from dssl.models.auto.outputs import (
    Conditional,
    Floats,
    begin_at,
    coherent_outputs,
    drop,
    first_outputs,
    of_components,
    open_outputs,
)
from dssl.models.auto.plan import Plan
from dssl.models.fitting.lessons import Lesson
from dssl.models.inference import as_tensor
from dssl.training.networks import Standardise


def new_network(
    network: str | nn.Module, elements: Elements | None, lesson: Lesson, plan: Plan, seed: int
) -> nn.Module:
    """The network that was asked for, made for the rows of a lesson; a module is taken as it is."""
    space, components = lesson.space, plan.components
    made = build_network(network, elements, as_tensor(lesson.x[:2]), space, components=components, seed=seed)
    if isinstance(network, nn.Module):
        return made
    for module in made.modules():
        if isinstance(module, Standardise):
            module.fitted.fill_(True)  # rows come standardised, so it has nothing to do
    first = outputs_of(lesson, plan)
    if elements is None:
        begin_at(made, of_components(first, components, seed))
    else:
        begin_at_frequencies(made, elements, space, first)
    drop(made, *plan.dropout)
    return joined(made, None if plan.above is None else Conditional(plan.above, components))


def outputs_of(lesson: Lesson, plan: Plan) -> Floats:
    """What a network says of every row before it has learned (width,): label frequencies, made coherent given rules."""
    labels, weight = lesson.columns[lesson.kept], lesson.weight[lesson.kept]
    if not plan.given_rules or not lesson.space.rules or plan.above is not None:
        return first_outputs(lesson.space, labels, weight, plan.above)
    if lesson.cascade is not None:
        return open_outputs(lesson.cascade, labels, weight)
    return coherent_outputs(lesson.space, labels, weight, lesson.family)
