"""Names in Unicode's decomposed form, as some systems write them, are the names that they look like, at every door."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
import torch

from dssl import DSSLClassifier, GenerativeClassifier, LabelSpace
from dssl.data.targets import Targets
from dssl.training.balance import given_frequencies

NFC = ["Käfer", "Vögel", "Bär"]
NFD = [unicodedata.normalize("NFD", name) for name in NFC]
assert NFC != NFD
MIXED = [NFC[0], NFD[1], NFC[2]]
X = np.random.default_rng(0).normal(size=(12, 3))

SPACES = {
    "classes": lambda a, b, c: LabelSpace.classes([a, b, c]),
    "classes of a named variable": lambda a, b, c: LabelSpace.classes(["x", b], name=a),
    "attributes": lambda a, b, c: LabelSpace.attributes([a, b, c], f'"{a}" -> "{b}"'),
    "hierarchy of a mapping": lambda a, b, c: LabelSpace.hierarchy({a: b, c: b}),
    "hierarchy of lists": lambda a, b, c: LabelSpace.hierarchy({a: [b, c]}, exclusive_siblings=True),
    "hierarchy of pairs": lambda a, b, c: LabelSpace.hierarchy([(a, b), (c, b)]),
    "table": lambda a, b, c: LabelSpace.table([a, "n"], [(b, 1), (c, 0), ("x", 1)]),
    "class_attributes": lambda a, b, c: LabelSpace.class_attributes([[1, 0], [0, 1]], [a, b], [c, "x"], name="ö"),
    "class_attributes, open": lambda a, b, c: LabelSpace.class_attributes([[1, np.nan], [0, 1]], [a, b], [c, "x"]),
    "rules": lambda a, b, c: LabelSpace(f'"{a}", "{b}", "{c}"\n"{a}" -> "{b}"'),
    "renamed": lambda a, b, c: LabelSpace("x, y\nx -> y").rename({"x": a, "y": b}),
}


@pytest.mark.parametrize("names", [NFD, MIXED], ids=["decomposed", "mixed"])
@pytest.mark.parametrize("door", SPACES)
def test_spaces(door, names):
    space = SPACES[door](*names)
    assert space == SPACES[door](*NFC)
    assert space.count() == SPACES[door](*NFC).count()


def test_a_hierarchy_in_both_forms():
    space = LabelSpace.hierarchy([(NFD[0], NFC[1]), (NFC[0], NFD[2])])
    assert space == LabelSpace.hierarchy({NFC[0]: NFC[1:]})


@pytest.mark.parametrize(
    "as_array", [list, np.array, lambda y: np.array(y, dtype=object)], ids=["list", "str", "object"]
)
@pytest.mark.parametrize("kind", [DSSLClassifier, GenerativeClassifier])
def test_estimators(kind, as_array):
    """Classes in both forms are the same classes; a model that was fitted on one form scores on the other."""
    y = [NFC[0], NFD[0], NFC[1], NFD[1]] * 3
    options = {"steps": 2, "network": "linear", "random_state": 0} if kind is DSSLClassifier else {}
    model = kind(**options).fit(X, as_array(y))
    assert model.classes_.tolist() == NFC[:2]
    assert model.score(X, [unicodedata.normalize("NFC", v) for v in y]) == model.score(
        X, [unicodedata.normalize("NFD", v) for v in y]
    )
    assert set(model.predict(X)) <= set(NFC)


def test_classes_given_beforehand():
    assert Targets.of([NFD[0]], classes=NFD).classes.tolist() == sorted(NFC)


@pytest.mark.parametrize(
    "weights", [{NFD[0]: 0.2}, {"v": {NFD[0]: 1.0, NFC[1]: 2.0}}], ids=["of variables", "of values"]
)
def test_weights_and_frequencies_by_name(weights):
    spaces = {NFD[0]: LabelSpace.attributes([NFC[0]]), "v": LabelSpace.classes(NFC[:2], name="v")}
    space = spaces[next(iter(weights))]
    composed = {NFC[0]: 0.2} if NFD[0] in weights else {"v": {NFC[0]: 1.0, NFC[1]: 2.0}}
    found, expected = (given_frequencies(space, given, 100) for given in (weights, composed))
    assert torch.equal(torch.as_tensor(found.share), torch.as_tensor(expected.share))
