"""Cases made by a random number generator, each to stress one thing: shapes, noise, rarity, trees, words, counts."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from published_cases import folder
from sklearn.datasets import make_circles, make_moons
from sklearn.feature_extraction.text import CountVectorizer
from splits import Split, cut

from dssl.logic.space import LabelSpace

_EXAMPLE = Path(__file__).parents[1] / "examples" / "taxonomy"


# ---- classes ----


def moons(seed: int, *, labels: int) -> Split:
    x, y = make_moons(1500, noise=0.15, random_state=seed)
    return cut(x, y, None, seed, labels=labels, train=1000, test=500, even=y)


def circles(seed: int, *, labels: int) -> Split:
    x, y = make_circles(1500, noise=0.08, factor=0.5, random_state=seed)
    return cut(x, y, None, seed, labels=labels, train=1000, test=500, even=y)


def blobs(seed: int, *, labels: int) -> Split:
    """Five round clouds in a hundred dimensions, all apart along few of them."""
    random = np.random.default_rng(seed)
    y = random.integers(5, size=1500)
    x = random.normal(size=(1500, 100))
    x[:, :8] += 2.2 * random.normal(size=(5, 8))[y]
    return cut(x, y, None, seed, labels=labels, train=1000, test=500, even=y)


def linear(seed: int, *, labels: int) -> Split:
    """Three classes by the largest of three linear functions of five features; 95 others say nothing."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(1500, 100))
    y = (x[:, :5] @ random.normal(size=(5, 3)) + 0.3 * random.normal(size=(1500, 3))).argmax(axis=1)
    return cut(x, y, None, seed, labels=labels, train=1000, test=500, even=y)


def nothing(seed: int, *, labels: int) -> Split:
    """Classes that have nothing to do with x, one twice as frequent as the others."""
    random = np.random.default_rng(seed)
    x, y = random.normal(size=(1500, 20)), random.choice(3, 1500, p=[0.5, 0.25, 0.25])
    return cut(x, y, None, seed, labels=labels, train=1000, test=500)


def rare(seed: int, *, labels: int) -> Split:
    """Two clouds, one of them of 4 % of the rows; as many labels of it as of the other."""
    random = np.random.default_rng(seed)
    y = (random.random(2500) < 0.04).astype(int)
    x = random.normal(size=(2500, 10)) + 2.5 * y[:, None] * np.array([1.0] * 2 + [0.0] * 8)
    return cut(x, y, None, seed, labels=labels, train=1500, test=1000, even=y)


# ---- taxonomies ----


@cache
def example() -> ModuleType:
    """examples/taxonomy/make.py."""
    spec = importlib.util.spec_from_file_location("taxonomy_make", _EXAMPLE / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@cache
def products() -> LabelSpace:
    return LabelSpace.read(_EXAMPLE / "products.rules")


def titles(seed: int, *, data: int, labels: int) -> Split:
    """Products as `make.py --seed data` makes them; the seed says which have tags, and which are for testing."""
    random, make = np.random.default_rng(data), example()
    made = [make._product(random) for _ in range(make.ROWS + make.TEST)]
    words = CountVectorizer(binary=True, dtype=np.float32).fit_transform([text for text, _ in made]).toarray()
    tags = np.array([np.isin(products().columns, tags.split()) for _, tags in made], dtype=np.float32)
    return cut(words, tags, products(), seed, labels=labels, train=make.ROWS, test=make.TEST)


def two_levels(tops: int, kinds: int) -> LabelSpace:
    """A top that follows from a kind: both choices."""
    rules = [f"kind in {{{', '.join(map(str, range(t * kinds, (t + 1) * kinds)))}}} -> top = {t}" for t in range(tops)]
    return LabelSpace("\n".join([f"top: 0..{tops - 1}", f"kind: 0..{tops * kinds - 1}", *rules]))


@cache
def shelves() -> LabelSpace:
    return two_levels(4, 4)


def words(seed: int, *, labels: int) -> Split:
    """Counts of 120 words, drawn by words of a top, words of a kind and words of all."""
    random = np.random.default_rng(seed)
    kind = random.integers(16, size=2000)
    general, by_top, by_kind = (random.dirichlet(np.full(120, 0.1), size=n) for n in (1, 4, 16))
    chance = 0.6 * general[0] + 0.15 * by_top[kind // 4] + 0.25 * by_kind[kind]
    x = np.stack([random.multinomial(count, p) for count, p in zip(random.integers(10, 40, size=2000), chance)])
    y = shelves().encode(np.stack([kind // 4, kind], axis=1))
    return cut(x.astype(np.float32), y, shelves(), seed, labels=labels, train=1500, test=500)


@cache
def wards() -> LabelSpace:
    return two_levels(3, 3)


def mixed(seed: int, *, labels: int) -> Split:
    """A table of amounts on scales from cents to millions and of choices of four, some of which say something."""
    random = np.random.default_rng(seed)
    kind = random.choice(9, 2000, p=random.dirichlet(np.full(9, 5.0)))
    amounts = np.exp(0.8 * random.normal(size=(9, 4))[kind] + 0.7 * random.normal(size=(2000, 4)))
    amounts = np.hstack([amounts, random.lognormal(size=(2000, 3))]) * 10.0 ** np.arange(-2, 5)
    choices = [np.array([random.choice(4, p=p) for p in random.dirichlet(np.full(4, 0.7), size=9)[kind]])
               for _ in range(3)]  # fmt: skip
    x = np.hstack([amounts, *(np.eye(4)[choice] for choice in choices)])
    y = wards().encode(np.stack([kind // 3, kind], axis=1))
    return cut(x, y, wards(), seed, labels=labels, train=1500, test=500)


# ---- trees, copies and counts ----


@cache
def tree() -> LabelSpace:
    """Three classes, each with three below it, each with three below these: 39."""
    upper = {f"{a}{b}": str(a) for a in range(3) for b in range(3)}
    return LabelSpace.hierarchy(upper | {f"{name}{c}": name for name in upper for c in range(3)})


def branches(seed: int, *, labels: int) -> Split:
    """Classes of a tree by linear functions of thirty features: a class can hold only where the one above does."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(2000, 30))
    score = 1.5 * x @ random.normal(size=(30, tree().width)) / 30**0.5
    drawn = score + random.logistic(size=score.shape) * 0.5 > 0.2
    place = {name: i for i, name in enumerate(tree().columns)}
    y = np.array(
        [np.logical_and.reduce([drawn[:, place[name[:d]]] for d in range(1, len(name) + 1)]) for name in place]
    )
    return cut(x, y.T.astype(np.float32), tree(), seed, labels=labels, train=1500, test=500)


@cache
def repeated() -> LabelSpace:
    """A class of five, and three copies of each of its values."""
    copies = [f"copy{k}{c} <-> kind = {k}" for k in range(5) for c in "abc"]
    names = ", ".join(f"copy{k}{c}" for k in range(5) for c in "abc")
    return LabelSpace("\n".join(["kind: 0..4", names, *copies]))


def copies(seed: int, *, labels: int) -> Split:
    """Attributes that are the class once more, three times: they say nothing that it does not."""
    plain = blobs(seed, labels=labels)
    known = [_copied(y) for y in (plain.y_train, plain.y_test)]
    return Split(plain.X_train, known[0], plain.X_test, known[1], repeated())


def _copied(kind: NDArray[Any]) -> NDArray[np.float32]:
    one = np.eye(5)[kind]
    columns = np.hstack([one, one.repeat(3, axis=1)]).astype(np.float32)
    columns[kind < 0] = np.nan
    return columns


@cache
def chosen() -> LabelSpace:
    names = [f"item{i}" for i in range(8)]
    return LabelSpace.attributes(names, f"exactly(2, {', '.join(names)})")


def two_of_eight(seed: int, *, labels: int) -> Split:
    """The two of eight items that score highest by linear functions of twenty features, with noise."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(2000, 20))
    score = x @ random.normal(size=(20, 8)) + random.normal(size=(2000, 8))
    y = (score.argsort(axis=1).argsort(axis=1) >= 6).astype(np.float32)
    return cut(x, y, chosen(), seed, labels=labels, train=1500, test=500)


def independent(seed: int, *, labels: int) -> Split:
    """Ten labels of different frequency, each by its own linear function of forty features; no rules."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(2000, 40))
    score = x @ random.normal(size=(40, 10)) / 40**0.5 + 0.3 * random.normal(size=(2000, 10))
    y = (score > np.linspace(-0.8, 1.6, 10)).astype(np.float32)
    return cut(x, y, None, seed, labels=labels, train=1500, test=500)


# ---- animals with attributes ----


@cache
def knowledge() -> LabelSpace:
    """AwA's table: fifty animals, and which of 85 attributes each has."""
    place = folder() / "awa"
    matrix = np.loadtxt(place / "predicate-matrix-binary.txt", dtype=int)
    names = [[line.split()[1] for line in (place / f"{file}.txt").read_text().splitlines()]
             for file in ("classes", "predicates")]  # fmt: skip
    return LabelSpace.class_attributes(matrix, *names, name="animal")


def animals(seed: int, *, labels: int, partial: int = 0, unseen: int = 0) -> Split:
    """Features made of the attributes, mixed at random, with noise; no label is of the last `unseen` animals."""
    space = knowledge()
    matrix = np.loadtxt(folder() / "awa" / "predicate-matrix-binary.txt", dtype=np.float32)
    random = np.random.default_rng(seed)
    animal = random.integers(50, size=2000)
    signs = 2 * matrix[animal] - 1 + 1.5 * random.normal(size=(2000, 85))
    x = signs @ random.normal(size=(85, 60)) / 85**0.5
    y = np.hstack([np.eye(50, dtype=np.float32)[animal], matrix[animal]])
    order = np.where(animal < 50 - unseen, animal, 50)  # those unseen come last, if at all
    tells = np.arange(space.width) >= 50
    made = cut(x, y, space, seed, labels=labels, train=1400, test=600, even=order, tells=tells, partial=partial)
    if not unseen:
        return made
    hidden = made.y_train[:, 50 - unseen : 50].any(axis=1) & made.known.any(axis=1)
    return Split(made.X_train, np.where(hidden[:, None], np.nan, made.y_train), made.X_test, made.y_test, space)
