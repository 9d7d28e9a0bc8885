"""One reader for every element, through the estimator: which array, partial labels, tokens, files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.datasets import load_digits
from torch import Tensor, nn

from dssl import DataError, LabelSpace, load, save
from dssl.data.features import Standardiser
from dssl.models.auto.elements import build_network, find_elements, network_name, takes_whole_numbers, with_tokens
from dssl.models.estimators import DSSLClassifier
from dssl.training.elements.network import ElementNetwork

PAIR = "digit[1..2]: 0..9\ntotal: 0..18\ndigit[1] + digit[2] = total"
BITS = "bit[1..3]\nparity\nparity <-> bit[1] ^ bit[2] ^ bit[3]"
TAGS = 'tag[1..6]: {O, B, I}\nregular(tag[*], "(O | B I*)*")'


def quick(rules: Any, **more: Any) -> DSSLClassifier:
    return DSSLClassifier(rules, **({"steps": 30, "random_state": 0, "calibrate": False} | more))


def bits(n: int = 200, told: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Three noisy numbers each, and their signs; of most rows only the parity is known."""
    random = np.random.default_rng(0)
    y = random.integers(0, 2, (n, 3))
    x = (2 * y - 1)[:, :, None] + 0.3 * random.normal(size=(n, 3, 2))
    labels = np.column_stack([y, y.sum(axis=1) % 2]).astype(float)
    labels[told:, :3] = np.nan
    return x, labels


# ---- which array ----


def test_the_one_array_of_that_length_is_read() -> None:
    space = LabelSpace("cell[1..3, 1..3]: 1..3\nother[1..4]\nsingle")
    found = find_elements(space, (9, 8, 8))
    assert found is not None
    assert (found.called, len(found), found.axes) == ("cell", 9, 1)
    assert found.names[:2] == (("cell[1,1]",), ("cell[1,2]",))
    assert found.places(space)[1].tolist() == [3, 4, 5]
    grid = find_elements(space, (3, 3, 5))
    assert grid is not None
    assert (grid.called, grid.axes) == ("cell", 2)
    assert find_elements(space, (5, 8, 8)) is None
    assert find_elements(space, (9,)) is None, "columns of a table are features"
    assert find_elements(space, (9,), network="sequence") is not None
    assert find_elements(space, (9, 8, 8), None) is None
    assert find_elements(space, (9, 8, 8), network=nn.Identity()) is None, "a module reads rows unless told otherwise"
    assert find_elements(space, (9, 8, 8), "cell", nn.Identity()) is not None


def test_an_array_of_different_values_is_not_taken() -> None:
    space = LabelSpace("x[1..2]: 1..3\nx[3..4]: 1..4")
    assert find_elements(space, (4, 5)) is None
    with pytest.raises(DataError, match="have different values"):
        find_elements(space, (4, 5), "x")


def test_arrays_of_the_same_length_are_named() -> None:
    space = LabelSpace("row[1..4]: 0..3\ncolumn[1..4]: 0..3")
    with pytest.raises(DataError, match=r"several arrays have elements: row, column\n.*elements='row'"):
        find_elements(space, (4, 6))
    both = find_elements(space, (4, 6), ["row", "column"])
    assert both is not None
    assert both.names[2] == ("row[3]", "column[3]")
    assert both.places(space).shape == (4, 8)
    mixed = find_elements(space, (3, 6), ["row[1]", "column[2]", "row[4]"])
    assert mixed is not None
    assert mixed.names == (("row[1]",), ("column[2]",), ("row[4]",))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("rwo", "there is no array and no variable 'rwo'\nDid you mean 'row'?"),
        ("row", r"4 elements, and rows of shape \(5, 6\) have 5 parts"),
        (["row", "short"], r"4, 2 elements, and rows"),
        ([], "there is no array and no variable None"),
    ],
)
def test_what_cannot_be_elements_is_refused(asked: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        find_elements(LabelSpace("row[1..4]: 0..3\nshort[1..2]: 0..3"), (5, 6), asked)


def test_a_sequence_needs_elements() -> None:
    with pytest.raises(DataError, match=r"'sequence' reads elements of a row.*\n.*tag\[1..7\]"):
        quick(TAGS, network="sequence").fit(np.zeros((2, 7), int), [["O"] * 6] * 2)


def test_names_of_networks() -> None:
    space = LabelSpace(TAGS)
    assert network_name("auto", None, (5,)) == "mlp"
    assert network_name("auto", None, (3, 5, 5)) == "cnn"
    vectors = find_elements(space, (6, 4))
    assert network_name("auto", vectors, (6, 4)) == "mlp"
    assert network_name("auto", find_elements(space, (6, 8, 8)), (6, 8, 8)) == "cnn"
    tokens = with_tokens(find_elements(space, (6,), "tag"), np.array([[0, 1, 2, 3, 4, 41]]), "auto")
    assert tokens is not None
    assert tokens.vocabulary == 42
    assert network_name("auto", tokens, (6,)) == "sequence"
    assert network_name("linear", tokens, (6,)) == "linear"


def test_the_plan_says_what_was_taken_for_elements() -> None:
    digits = np.zeros((4, 2, 8, 8))
    digits[::2] = 1
    y = np.array([[1, 2, 3], [4, 5, 9]] * 2)
    model = quick(PAIR, steps=2).fit(digits, y)
    assert model.elements_ is not None
    first = str(model.plan_).splitlines()[0]
    assert first.split()[:2] == ["elements", "digit"]
    assert "elements=None would take them for channels" in first
    assert "total is not read" in first
    whole = quick(PAIR, steps=2, elements=None).fit(digits, y)
    assert whole.elements_ is None
    assert not str(whole.plan_).startswith("elements")


# ---- learning ----


@pytest.mark.parametrize("network", ["auto", "linear", "sequence", "transformer"])
def test_elements_are_learned_and_predictions_obey_the_rules(network: str) -> None:
    x, y = bits()
    model = quick(BITS, network=network, steps=150).fit(x, y)
    found = model.predict(x)
    assert np.mean(found[:, :3] == y[:, :3]) > 0.97
    assert (found[:, 3] == found[:, :3].sum(axis=1) % 2).all()
    p = model.predict_proba(x)
    assert p.shape == (200, 4)
    assert ((p > 0.5)[:, :3] == y[:, :3]).mean() > 0.97


def test_a_grid_of_elements() -> None:
    space = LabelSpace("at[1..2, 1..2]\nexactly_one(at[*, *])")
    where = np.random.default_rng(0).integers(0, 4, 80)
    y = np.eye(4)[where]
    x = y.reshape(-1, 2, 2, 1) + 0.1 * np.random.default_rng(1).normal(size=(80, 2, 2, 3))
    model = quick(space, steps=60).fit(x, np.where(np.arange(80)[:, None] < 8, y, np.nan))
    assert model.elements_ is not None
    assert model.elements_.axes == 2
    assert model.score(x, y) > 0.95


def test_digits_are_read_from_sums_alone() -> None:
    pictures, digits = load_digits(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(digits))
    pairs, test = rows[:1200].reshape(-1, 2), rows[1200:1600].reshape(-1, 2)
    y = np.full((600, 3), np.nan)
    y[:, 2] = digits[pairs].sum(axis=1)
    model = quick(PAIR, steps=None).fit(pictures.reshape(-1, 8, 8)[pairs], y)
    found = model.predict(pictures.reshape(-1, 8, 8)[test])
    assert np.mean(found[:, :2] == digits[test]) > 0.93, "chance is .1"
    assert model.n_steps_ == 400


def test_constants_of_what_no_element_shows() -> None:
    """A variable under a rule begins at 0; one that no rule names, at the frequency of its labels."""
    x, y = bits()
    rare = (np.arange(200) % 10 == 0).astype(float)
    space = LabelSpace(BITS.replace("parity\n", "parity, rare\n", 1))
    labels = np.column_stack([y, rare])
    model = quick(space, steps=1, learning_rate=1e-6).fit(x, labels)
    network = model.network_
    assert isinstance(network, ElementNetwork)
    assert network.constants.detach()[0].abs() < 1e-3
    assert float(network.constants.detach()[1].sigmoid()) == pytest.approx(0.1, abs=0.01)


def test_elements_share_mean_and_scale() -> None:
    x, y = bits()
    x[:, 0] += 100  # if each element had its own mean, this one would be moved back
    model = quick(BITS, steps=2).fit(x, y)
    assert model.standardiser_.mean.shape == (2,)
    assert model.standardiser_.mean == pytest.approx(x.reshape(-1, 2).mean(axis=0), rel=1e-6)
    images = np.random.default_rng(0).normal(size=(50, 3, 5, 5))
    pictures = quick(BITS, steps=2).fit(images, y[:50])
    assert pictures.standardiser_.mean.shape == (1, 1, 1)
    assert pictures.standardiser_.mean.item() == pytest.approx(images.mean(), abs=1e-6)
    colours = np.random.default_rng(0).normal(size=(50, 3, 2, 5, 5))
    assert quick(BITS, steps=2).fit(colours, y[:50]).standardiser_.mean.shape == (2, 1, 1)


def test_a_module_reads_one_element() -> None:
    x, y = bits()
    body = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 5))
    model = quick(BITS, network=body, elements="bit", steps=300, learning_rate=1e-2).fit(x, y)
    assert np.mean(model.predict(x)[:, :3] == y[:, :3]) > 0.95
    assert body[-1].out_features == 5


def test_components_are_of_whole_rows() -> None:
    x, y = bits(40)
    with pytest.raises(ValueError, match="components=2 are for rows that are read as a whole"):
        quick(BITS, objective={"components": 2}).fit(x, y)
    assert (
        quick(BITS, objective={"components": 2}, elements=None, network="mlp").fit(x.reshape(40, 6), y).predict_proba
        is not None
    )


def test_columns_of_elements_are_not_rare_labels() -> None:
    """Without rules a hundred columns would be taken for rare labels; of one reader they are three."""
    space = LabelSpace("tag[1..40]: {O, B, I}")
    x = np.random.default_rng(0).normal(size=(10, 40, 3))
    y = np.array(["O", "B", "I"])[x.argmax(axis=2)]
    model = quick(space, steps=3).fit(x, y)
    assert model.plan_.dropout == (0.1, 0.0)
    assert model._pace(x).batch == 64


def test_calibration_by_left_out_rows() -> None:
    x, y = bits(60)
    model = quick(BITS, calibrate=True, steps=40).fit(x, y)
    assert "calibration" in str(model.plan_)
    assert np.mean(model.predict(x)[:, :3] == y[:, :3]) > 0.9


def test_more_rows_later() -> None:
    x, y = bits()
    model = quick(BITS).partial_fit(x[:100], y[:100])
    for _ in range(40):
        model.partial_fit(x[100:], y[100:])
    assert np.mean(model.predict(x)[:, :3] == y[:, :3]) > 0.9


# ---- tokens ----


def sentences(n: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Words 0 to 3 are outside; 4 begins a name; 5 goes on with one, but is outside elsewhere."""
    random = np.random.default_rng(0)
    x = random.integers(0, 6, (n, 6))
    y = np.full((n, 6), "O", dtype=object)
    for row in range(n):
        for at in range(6):
            if x[row, at] == 4:
                y[row, at] = "B"
            elif x[row, at] == 5 and at and y[row, at - 1] != "O":
                y[row, at] = "I"
    return x, y


@pytest.mark.parametrize("network", ["sequence", "transformer"])
def test_tokens_in_context(network: str) -> None:
    x, y = sentences()
    model = quick(TAGS, network=network, steps=300).fit(x, y)
    assert model.elements_ is not None
    assert model.elements_.vocabulary == 6
    assert np.mean(model.predict(x) == y) > 0.97
    assert model.predict(np.full((1, 6), 77)).shape == (1, 6), "an unknown word"


def test_tokens_alone_know_no_neighbours() -> None:
    x, y = sentences()
    model = quick(LabelSpace(TAGS.splitlines()[0]), network="mlp", elements="tag", steps=200).fit(x, y)
    fives = model.predict(x)[x == 5]
    assert len(set(fives.tolist())) == 1, "each word has one answer"


def test_whole_numbers_reach_an_embedding() -> None:
    x = np.random.default_rng(0).integers(0, 9, (80, 3))
    y = np.where(x[:, 0] > 4, "high", "low")
    body = nn.Sequential(nn.Embedding(9, 8), nn.Flatten(), nn.Linear(24, 2))
    for standardise in (False, True):
        model = quick(None, network=body, settings={"standardise": standardise}, steps=150, learning_rate=1e-2).fit(
            x, y
        )
        assert model.score(x, y) > 0.95
    assert not takes_whole_numbers(x.astype(float), None, body)
    assert not takes_whole_numbers(x, None, nn.Linear(3, 2))


def test_an_embedding_reads_one_token() -> None:
    x, y = sentences()
    body = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 3))
    model = quick(TAGS, network=body, elements="tag", steps=100, learning_rate=1e-2).fit(x, y)
    assert np.mean((model.predict(x) == y)[x != 5]) > 0.97


def test_tokens_that_are_no_numbers_of_words() -> None:
    with pytest.raises(DataError, match="the largest token of X is 5,000,000,000"):
        quick(TAGS, network="sequence").fit(np.full((3, 6), 5_000_000_000), [["O"] * 6] * 3)


# ---- files ----


@pytest.mark.parametrize("network", ["auto", "sequence", "transformer"])
def test_saved_and_loaded(network: str, tmp_path: Path) -> None:
    for x, y, rules, more in ((*bits(60), BITS, {}), (*sentences(60), TAGS, {"elements": "tag"})):
        model = quick(rules, network=network, **more).fit(x, y)
        again = load(save(model, tmp_path / "model"))
        assert again.elements_ == model.elements_
        np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))
        assert str(again.plan_) == str(model.plan_)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(x), model.predict(x))
        assert clone(again).get_params()["elements"] == model.elements


def test_an_own_reader_is_loaded_with_its_module(tmp_path: Path) -> None:
    x, y = sentences(40)
    body = nn.Sequential(nn.Embedding(6, 8), nn.Linear(8, 3))
    model = quick(TAGS, network=body, elements="tag").fit(x, y)
    again = load(save(model, tmp_path / "model"), network=body)
    np.testing.assert_array_equal(again.predict(x), model.predict(x))


def test_exported_to_onnx(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    from dssl.models.files.export import OnnxModel, export_onnx

    x, y = bits(60)
    for standardise in (True, False):
        model = quick(BITS, settings={"standardise": standardise}).fit(x, y)
        assert export_onnx(model, tmp_path / "bits.onnx", x) < 1e-4
        found = OnnxModel(tmp_path / "bits.onnx").predict(x.astype(np.float32))
        np.testing.assert_array_equal(found, model.predict(x))
    with pytest.raises(DataError, match="reads whole numbers"):
        export_onnx(quick(TAGS, network="sequence", steps=2).fit(*sentences(20)), tmp_path / "tags.onnx")


def test_few_labels_of_each_place_are_no_frequencies() -> None:
    """One board told: predictions in a place are not held to the one label there. Many told: they are."""
    space = LabelSpace("at[1..2, 1..2]\nexactly_one(at[*, *])")
    where = np.random.default_rng(0).integers(0, 4, 120)
    y = np.eye(4)[where]
    x = y.reshape(-1, 2, 2, 1) + 0.1 * np.random.default_rng(1).normal(size=(120, 2, 2, 3))
    for told, balance in ((4, 0.0), (40, 0.75)):
        labels = np.where(np.arange(120)[:, None] < told, y, np.nan)
        assert quick(space, steps=2).fit(x, labels).plan_.balance == balance


def test_a_prior_needs_an_element_of_each_value() -> None:
    space = LabelSpace("cell[1..2, 1..2]: 1..2\nfor i in 1..2: all_different(cell[i, *])\ncell[1, 1] != cell[2, 1]")
    x = np.random.default_rng(0).normal(size=(30, 4, 3))
    y = np.full((30, 4), np.nan)
    y[0, 0] = 1  # and the rules tell the other three
    model = quick(space, steps=2).fit(x, y)
    assert model.elements_ is not None
    assert model.elements_.anchored(space, space.complete(space.encode(y)))
    assert model.plan_.prior_weight > 0
    pair = LabelSpace(PAIR)
    found = find_elements(pair, (2, 8, 8))
    assert found is not None
    assert not found.anchored(pair, pair.encode([{"total": 7}, {"digit[1]": 3}]))


class Twice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, x], dim=1)


def test_networks_of_rows_are_built_as_before() -> None:
    space = LabelSpace.classes(["a", "b"])
    assert build_network("linear", None, torch.zeros(2, 5), space)(torch.zeros(3, 5)).shape == (3, 2)
    assert build_network(Twice(), None, torch.zeros(2, 1), space)(torch.zeros(3, 1)).shape == (3, 2)
    whole = Standardiser(np.zeros(1), np.ones(1), whole=True)
    assert whole(np.array([[3, 4]], dtype=np.int32)).dtype == np.int64
