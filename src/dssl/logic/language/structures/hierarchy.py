"""Classes below other classes: what a hierarchy says, whether it was written as rule text or given from Python.

A class implies all classes right above it; it may have several. An option says which sets of classes are labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dssl.errors import RuleError
from dssl.logic.language.formula import And, Count, Formula, Implies, Is, Not, Or

OPTIONS = {
    "any": "any classes, each with all those above it",
    "one path": "one class, with all those above it",
    "leaf": "one class that has none below it, with all those above it",
}
Parents = Mapping[str, Sequence[str]]
_SHOWN, _LONGEST = 12, 60  # classes of a circle in a message, and letters of one


def formulas(parents: Parents, option: str = "any") -> list[Formula]:
    """What a hierarchy says: first an implication for every edge, then what the option adds.

    >>> tree = {"cat": ["animal"], "dog": ["animal"]}
    >>> for formula in formulas(tree, "leaf"):
    ...     print(formula)
    cat -> animal
    dog -> animal
    animal -> cat | dog
    at_most(1, cat, dog)
    exactly_one(animal)
    """
    if option not in OPTIONS:
        raise RuleError(f"a hierarchy has no option '{option}'", remedy=f"Choose {options()}.")
    implied: list[Formula] = [Implies(Is(child), Is(parent)) for child, parent in edges(parents)]
    return implied + {"any": lambda _: [], "one path": _one_path, "leaf": _leaf}[option](parents)


def edges(parents: Parents) -> list[tuple[str, str]]:
    """Pairs of a class and one right above it."""
    return [(child, parent) for child, above in parents.items() for parent in above]


def options() -> str:
    """The options, for a message."""
    return " or ".join(f"'{option}' ({meaning})" for option, meaning in OPTIONS.items())


def classes(parents: Parents) -> list[str]:
    """All classes of a hierarchy, each once."""
    return list(dict.fromkeys(name for child, above in parents.items() for name in (child, *above)))


def children(parents: Parents) -> dict[str, list[str]]:
    """The classes right below each class that has some."""
    out: dict[str, list[str]] = {}
    for child, parent in edges(parents):
        out.setdefault(parent, []).append(child)
    return out


def _leaf(parents: Parents) -> list[Formula]:
    """Exactly one leaf holds, and nothing that is not above it."""
    below = children(parents)
    down: list[Formula] = [Implies(Is(parent), Or.of(*map(Is, group))) for parent, group in below.items()]
    if _is_forest(parents):
        return [*down, *_apart(parents), _exactly_one(_roots(parents))]
    return [*down, *_apart(parents), _exactly_one(name for name in classes(parents) if name not in below)]


def _one_path(parents: Parents) -> list[Formula]:
    """Exactly one class holds that has none below it that holds."""
    if _is_forest(parents):
        return [*_apart(parents), _exactly_one(_roots(parents))]
    below = children(parents)
    lowest = (And.of(Is(name), *(Not(Is(child)) for child in below.get(name, ()))) for name in classes(parents))
    return [*_apart(parents), Count("=", 1, tuple(lowest))]


def _is_forest(parents: Parents) -> bool:
    return all(len(above) < 2 for above in parents.values())


def _roots(parents: Parents) -> list[str]:
    return [name for name in classes(parents) if not parents.get(name)]


def _exactly_one(names: Iterable[str]) -> Formula:
    return Count("=", 1, tuple(map(Is, names)))


def _apart(parents: Parents) -> list[Formula]:
    """Of the classes right below one, at most one holds: those that have no class below them in common.

    In a forest that is all there is to say. Elsewhere it follows from the other rules, and spares a search.
    """
    below, free = children(parents), _is_forest(parents)
    under = {} if free else _descendants(parents)
    out: list[Formula] = []
    for group in below.values():
        kept, seen = [], 0
        for name in group:
            if free or not under[name] & seen:
                kept.append(name)
                seen |= under.get(name, 0)
        if len(kept) > 1:
            out.append(Count("<=", 1, tuple(map(Is, kept))))
    return out


def _descendants(parents: Parents) -> dict[str, int]:
    """For each class a set of bits: itself and all classes below it."""
    names, waiting, below = classes(parents), Counter(parent for _, parent in edges(parents)), children(parents)
    out = {name: 1 << i for i, name in enumerate(names)}
    ready = [name for name in names if name not in below]
    for name in ready:  # grows while it is gone through: a class comes after all those below it
        for parent in parents.get(name, ()):
            out[parent] |= out[name]
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    return out


def circle(parents: Parents) -> list[str]:
    """Classes of which each is above the one before it, the first and last being the same; none if there are no such.

    >>> circle({"cat": ["animal"], "animal": ["thing"], "thing": ["cat"]})
    ['cat', 'animal', 'thing', 'cat']
    """
    done: set[str] = set()
    for start in parents:
        path: dict[str, None] = {}
        stack = [(start, iter(parents.get(start, ())))] if start not in done else []
        while stack:
            name, above = stack[-1]
            path[name] = None
            parent = next((p for p in above if p not in done), None)
            if parent is None:
                stack.pop()
                del path[name]
                done.add(name)
            elif parent in path:
                names = list(path)
                return [*names[names.index(parent) :], parent]
            else:
                stack.append((parent, iter(parents.get(parent, ()))))
    return []


def steps_text(names: Sequence[str]) -> str:
    """A circle for a message, cut if it is long."""
    steps = names if len(names) <= _SHOWN else [*names[: _SHOWN - 1], "…", names[-1]]
    return " → ".join(name if len(name) <= _LONGEST else name[:_LONGEST] + "…" for name in steps)
