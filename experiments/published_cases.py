"""Cases made of published data: the sets that scikit-learn brings, and those of the folder that DSSL_DATA names."""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import grid
import numpy as np
import sudoku
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfVectorizer
from splits import Arrays, Split, cut, evenly, parted, shown, split

from dssl.app.demo import DIGITS
from dssl.data.published import Published, load_cifar10, load_hmc, load_mnist, load_mulan, load_zoo
from dssl.data.published import Split as Part
from dssl.logic.space import LabelSpace


def folder() -> Path:
    """Where published data are."""
    return Path(os.environ["DSSL_DATA"])


# ---- tables ----


@cache
def read(name: str) -> Arrays | None:
    """The features and labels of a data set, or None if it is not here."""
    built_in: dict[str, Callable[..., Arrays]] = {
        "digits": load_digits,
        "iris": load_iris,
        "wine": load_wine,
        "breast cancer": load_breast_cancer,
    }
    name = name.removesuffix(", random")
    if name in built_in:
        return built_in[name](return_X_y=True)
    if "DSSL_DATA" not in os.environ:
        return None
    part = load_zoo().train if name == "zoo" else load_mulan(name).train
    return part.x, part.y.astype(int)


def table(seed: int, *, name: str, labels: int, test: int) -> Split:
    """Labels as frequent as in the data."""
    found = read(name)
    assert found is not None, f"{name} needs DSSL_DATA"
    x, y, x_test, truth = split(*found, labels, test, seed, random=False)
    return Split(x, y if y.ndim == 1 else np.where(y < 0, np.nan, y), x_test, truth)


def rare_digit(seed: int, *, digit: int, labels: int) -> Split:
    """One digit against the others, in 4 % of the rows; as many labels of it as of the others."""
    x, y = load_digits(return_X_y=True)
    rare, common = np.flatnonzero(y == digit), np.flatnonzero(y != digit)
    rows = np.concatenate([np.random.default_rng(seed).permutation(rare)[: round(len(common) / 24)], common])
    is_rare = (y[rows] == digit).astype(int)
    return cut(x[rows], is_rare, None, seed, labels=labels, train=1200, test=len(rows) - 1200, even=is_rare)


def uneven_digits(seed: int, *, labels: int, by_hand: bool) -> Split:
    """Digit k in a share of the rows that falls from 30 to 2 %; labels at random, or as many of each by hand."""
    x, y = load_digits(return_X_y=True)
    random = np.random.default_rng(seed)
    counts = np.round(170 * 0.75 ** np.arange(10)).astype(int)
    rows = np.concatenate([random.permutation(np.flatnonzero(y == k))[:count] for k, count in enumerate(counts)])
    return cut(x[rows], y[rows], None, seed, labels=labels, train=400, test=len(rows) - 400,
               even=y[rows] if by_hand else None)  # fmt: skip


# ---- digits and rules ----


@cache
def digit_attributes() -> LabelSpace:
    """A digit, and five attributes that follow from it."""
    return LabelSpace(DIGITS)


def completed(space: LabelSpace, classes: NDArray[Any], values: list[Any]) -> NDArray[np.float32]:
    """Columns (n, width) of a space whose first variable fixes all others: the label of each class (n,)."""
    name = space.variables[0].name
    return space.complete([{name: value} for value in values])[classes]


def attributes_of_digits(seed: int, *, labels: int, partial: int = 0) -> Split:
    """Digit and attributes of few rows; of `partial` others the attributes."""
    x, y = load_digits(return_X_y=True)
    space = digit_attributes()
    tells = np.arange(space.width) >= 10
    return cut(x, completed(space, y, list(range(10))), space, seed, labels=labels, train=1297, test=500, even=y,
               tells=tells, partial=partial)  # fmt: skip


@cache
def sums() -> LabelSpace:
    """Two digits and their total."""
    return LabelSpace("a, b: 0..9\ntotal: 0..18\na + b = total")


def digit_sums(seed: int, *, told: int) -> Split:
    """Pairs of digits side by side, of which the total is known; of `told` pairs the digits too."""
    x, y = load_digits(return_X_y=True)
    pairs = np.random.default_rng(seed).permutation(len(y))[:1796].reshape(-1, 2)
    digits = np.column_stack([y[pairs], y[pairs].sum(axis=1)])
    columns = sums().encode(digits)
    x = (x[pairs] / 16).reshape(len(pairs), -1)
    tells = np.arange(sums().width) >= 20
    return cut(x, columns, sums(), seed, labels=told, train=648, test=250, tells=tells, partial=648)


def boards(seed: int, *, labels: int) -> Split:
    """Sudokus of 16 digits, each of 4×4 pixels; no digit of a test board is in a board to learn from."""
    x, y = load_digits(return_X_y=True)
    small = x.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(len(x), -1)
    random = np.random.default_rng(seed)
    parts = []
    for rows, count in zip(parted(len(x), len(x) - 500, 500, seed), (500, 250)):
        values = sudoku.squares()[random.integers(len(sudoku.squares()), size=count)]
        images = np.empty(values.shape, dtype=np.int64)
        for value in range(4):
            images[values == value] = random.choice(rows[y[rows] == value + 1], np.sum(values == value))
        parts.append(Part(small[images].reshape(count, -1), sudoku.space().encode(values + 1)))
    train, test = parts
    return Split(train.x, shown(train.y, np.arange(labels)), test.x, test.y, sudoku.space())


# ---- images ----


@cache
def images(name: str) -> Published:
    """MNIST or CIFAR-10 at half their size, from 0 to 1."""
    found = load_mnist() if name == "mnist" else load_cifar10()
    assert found.test is not None
    return Published(found.space, _halved(found.train), _halved(found.test))


def _halved(part: Part) -> Part:
    rows = part.x[:10_000].astype(np.float32) / 255
    n, channels, size, _ = rows.shape
    small = rows.reshape(n, channels, size // 2, 2, size // 2, 2).mean(axis=(3, 5))
    return Part(small.astype(np.float32), part.y[:10_000])


def pictures(seed: int, *, name: str, labels: int) -> Split:
    """2,000 images to learn from and 1,000 to test on; as many labels of each class."""
    train, test = _some(name, seed)
    return Split(train.x, shown(train.y, evenly(train.y, labels)), test.x, test.y)


def _some(name: str, seed: int) -> tuple[Part, Part]:
    found = images(name)
    assert found.test is not None
    parts = []
    for part, count in ((found.train, 2000), (found.test, 1000)):
        rows = np.random.default_rng(seed).permutation(len(part.y))[:count]
        parts.append(Part(part.x[rows], part.y[rows]))
    return parts[0], parts[1]


SUPERCLASSES = """\
thing: {airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck}
vehicle, wheels, flies, pet, hooves, legs

vehicle <-> thing in {airplane, automobile, ship, truck}
wheels <-> thing in {airplane, automobile, truck}
flies <-> thing in {airplane, bird}
pet <-> thing in {cat, dog}
hooves <-> thing in {deer, horse}
legs <-> !vehicle
"""


@cache
def superclasses() -> LabelSpace:
    """CIFAR-10's classes, and kinds of them."""
    return LabelSpace(SUPERCLASSES)


def kinds_of_things(seed: int, *, labels: int) -> Split:
    """CIFAR-10 with superclasses: 2,000 images to learn from and 1,000 to test on."""
    train, test = _some("cifar10", seed)
    space = superclasses()
    names = list(space.variables[0].values)
    known = shown(completed(space, train.y, names), evenly(train.y, labels))
    return Split(train.x, known, test.x, completed(space, test.y, names), space)


# ---- hierarchies and animals ----


@cache
def genes(name: str) -> Published:
    return load_hmc(f"{name}_FUN")


def functions(seed: int, *, name: str, share: int) -> Split:
    """Functions of yeast genes: training and validation rows, `share` per cent of them with labels; the test rows."""
    found = genes(name)
    assert found.valid is not None
    assert found.test is not None
    x = np.concatenate([found.train.x, found.valid.x])
    y = np.concatenate([found.train.y, found.valid.y])
    kept = np.random.default_rng(seed).permutation(len(y))[: round(len(y) * share / 100)]
    return Split(x, shown(y, kept), found.test.x, found.test.y, found.space)


ANIMALS = """\
type: {mammal, bird, reptile, fish, amphibian, insect, invertebrate}
legs: {0, 2, 4, 5, 6, 8}
hair, feathers, milk, backbone, fins

type = mammal <-> milk
type = bird <-> feathers
type in {mammal, bird, reptile, fish, amphibian} <-> backbone
type = bird -> legs = 2
type = insect -> legs = 6
type = amphibian -> legs = 4
type = fish -> legs = 0 & fins
type = reptile -> legs in {0, 4}
type = mammal -> legs in {0, 2, 4}
hair -> type in {mammal, insect}
fins -> legs in {0, 2} & type in {mammal, fish}
legs = 2 -> backbone
"""


@cache
def parts_of_animals() -> LabelSpace:
    """The rules of zoo.py that are about what is to be predicted only."""
    return LabelSpace(ANIMALS)


@cache
def animals() -> Arrays:
    """Ten attributes of UCI's animals as x, type and parts as columns."""
    data, space = load_zoo(), parts_of_animals()
    place = {name: i for i, name in enumerate(data.features)}
    names = [variable.name for variable in space.variables]
    types = space.variables[0].values
    records = [
        {"type": types[kind], "legs": int(row[place["legs"]])} | {name: bool(row[place[name]]) for name in names[2:]}
        for row, kind in zip(data.train.x, data.train.y)
    ]
    given = [i for name, i in place.items() if name not in names]
    return data.train.x[:, given], space.encode(records)


def zoo(seed: int, *, labels: int) -> Split:
    x, y = animals()
    return cut(x, y, parts_of_animals(), seed, labels=labels, train=67, test=34)


# ---- texts and paths ----

TOPICS = "earn acq crude trade money-fx interest grain wheat corn oilseed soybean ship dlr sugar coffee".split()


@cache
def topics() -> LabelSpace:
    """Topics of news, with rules that nearly all of Reuters' labels obey."""
    return LabelSpace.attributes(
        TOPICS, 'wheat -> grain\ncorn -> grain\nsoybean -> oilseed\ndlr -> "money-fx"\nearn -> !(crude | grain | trade)'
    )


@cache
def news() -> Arrays:
    """Titles and beginnings of news of these topics, as TF-IDF of 300 words, and their topics; only valid ones."""
    with gzip.open(folder() / "reuters" / "reuters.csv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if set(row["topics"].split()) & set(TOPICS)]
    y = np.array([[topic in row["topics"].split() for topic in TOPICS] for row in rows], dtype=np.float32)
    broken = [row for row, _ in topics().check(y)]
    valid = np.setdiff1d(np.arange(len(y)), broken)[::2]
    texts = [f"{rows[i]['title']} {rows[i]['body'][:400]}" for i in valid]
    words = TfidfVectorizer(max_features=300, stop_words="english", sublinear_tf=True)
    return words.fit_transform(texts).toarray().astype(np.float32), y[valid]


def news_topics(seed: int, *, labels: int) -> Split:
    x, y = news()
    return cut(x, y, topics(), seed, labels=labels, train=2000, test=1000)


@cache
def ways() -> Arrays:
    """Grids with one shortest path between two nodes: what is there as x, and the columns of `grid.by_degree`."""
    lines = (folder() / "grid" / "paths.data").read_text().splitlines()
    found = grid.rows_of([line for line in lines if line.count(",") == 2])
    return found.x.numpy(), found.labels().numpy()


def paths(seed: int, *, labels: int) -> Split:
    """Of rows without a label the two ends are known, and that missing edges are not taken."""
    x, y = ways()
    kept, held = parted(len(x), 600, 250, seed)
    edges = np.isin(np.arange(y.shape[1]), grid.EDGE_COLUMNS.numpy())
    there = np.zeros(y.shape, dtype=bool)
    there[:, grid.EDGE_COLUMNS.numpy()] = x[:, :24] == 1
    known = np.where(edges & there, np.nan, y)[kept]
    known[:labels] = y[kept[:labels]]
    return Split(x[kept], known, x[held], y[held], grid.by_degree())
