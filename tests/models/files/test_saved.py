"""Saved models come back as they were; changed, cut and newer files are refused; nothing is executed."""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import safetensors.torch
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from torch import nn

from dssl import DataError, LabelSpace
from dssl.models.estimators import DSSLClassifier
from dssl.models.files import saved
from dssl.models.files.saved import load, save
from dssl.models.generative import GenerativeClassifier
from dssl.priors import LearnedPrior, learn_prior

RULES = "legs, fins\nlegs -> !fins"
X = np.random.default_rng(0).normal(size=(30, 4)) * [1, 10, 100, 1000] + 5
Y = np.stack([X[:, 0] > 5, X[:, 0] < 4], axis=1).astype(float)


def quick(**parameters: Any) -> DSSLClassifier:
    return DSSLClassifier(**{"steps": 15, "random_state": 0, **parameters})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return save(quick(rules=RULES).fit(X, Y), tmp_path / "animals", metrics={"accuracy": 0.9})


@pytest.mark.parametrize(
    ("x", "y", "parameters"),
    [
        (X, np.array([0, 1, -1] * 10), {}),
        (X, ["a", "b", None] * 10, {"settings": {"patience": 5}, "prior": "entropy"}),
        (X, Y, {"rules": RULES}),
        (X, Y, {"settings": {"standardise": False}, "network": "linear"}),
        (pd.DataFrame(X, columns=list("abcd")), pd.DataFrame(Y, columns=["legs", "fins"]), {"rules": "legs -> !fins"}),
        (X.reshape(30, 1, 2, 2), [1, 2] * 15, {}),
        (X, Y, {"rules": RULES, "prior": "learned"}),
    ],
)
def test_predictions_come_back(tmp_path: Path, x: Any, y: Any, parameters: dict[str, Any]) -> None:
    model = quick(**parameters).fit(x, y)
    again = load(save(model, tmp_path / "model"))
    assert (np.asarray(again.predict(x)) == np.asarray(model.predict(x))).all()
    assert type(again.predict(x)) is type(model.predict(x))
    assert (again.predict_proba(x) == model.predict_proba(x)).all()
    assert again.classes_.tolist() == model.classes_.tolist()
    assert again.classes_.dtype == model.classes_.dtype
    assert again.steps == 15
    again.set_params(network="auto").fit(x, y)  # and it can be trained anew


@pytest.mark.parametrize("learn", [False, True])
def test_a_learned_prior_is_saved_with_the_model(tmp_path: Path, learn: bool) -> None:
    given = learn_prior(Y, LabelSpace(RULES), learn=learn)
    y = Y.copy()
    y[5:] = np.nan
    model = quick(rules=RULES, prior=given, objective={"labelled_prior_weight": 1.0}, consistency=None).fit(X, y)
    again = load(save(model, tmp_path / "model"))
    assert isinstance(again.prior, LearnedPrior)
    assert again.prior_ is again.prior
    found, kept = (m.prior_.log_prob_labels(Y).detach() for m in (again, model))
    assert found.tolist() == kept.tolist()
    moved = (kept - given.log_prob_labels(Y).detach()).abs().max() > 1e-4
    assert bool(moved) == learn  # the one given stays as it is, its copy learns
    again.set_params(network="auto").fit(X, y)


def test_a_harmed_prior_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(quick(rules=RULES, prior="learned").fit(X, Y), tmp_path / "model")
    monkeypatch.setattr("dssl.priors.learned._VERSION", 0)
    with pytest.raises(DataError, match="the model's prior cannot be read: it has format 1"):
        load(folder)


def test_what_the_folder_holds(folder: Path) -> None:
    facts = json.loads((folder / "model.json").read_text())
    assert sorted(file.name for file in folder.iterdir()) == ["README.md", "model.json", "model.safetensors"]
    assert facts["metrics"] == {"accuracy": 0.9}
    assert facts["targets"]["space"] == RULES + "\n" or facts["targets"]["space"].strip() == RULES
    assert {"dssl", "torch", "python"} <= set(facts["versions"])
    assert load(folder).metrics_ == {"accuracy": 0.9}
    assert "legs -> !fins" in (folder / "README.md").read_text()
    assert not list(folder.parent.glob(".*"))


def test_an_own_module_must_be_passed(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    model = quick(network=module).fit(X, Y)
    folder = save(model, tmp_path / "own")
    with pytest.raises(DataError, match=r"your own module \(Sequential\)"):
        load(folder)
    fresh = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    assert (load(folder, network=fresh).predict_proba(X) == model.predict_proba(X)).all()
    with pytest.raises(DataError, match="does not describe a model"):
        load(folder, network=nn.Linear(4, 2))


def change_json(change: Callable[[dict[str, Any]], None], *, honest: bool) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        facts = json.loads((folder / "model.json").read_text())
        change(facts)
        if honest:
            facts["checksum"] = saved._checksum(facts)
        (folder / "model.json").write_text(json.dumps(facts))

    return apply


def flip_a_byte(folder: Path) -> None:
    content = bytearray((folder / "model.safetensors").read_bytes())
    content[-5] ^= 1
    (folder / "model.safetensors").write_bytes(bytes(content))


def cut(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-10]) and None


def pickle_instead(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(pickle.dumps({"network": 1}))


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (
            change_json(lambda f: f["targets"].update(space="legs, fins"), honest=False),
            "was changed after it was saved",
        ),
        (change_json(lambda f: f.update(version=3), honest=True), "has model format 3, and this dssl reads up to 2"),
        (change_json(lambda f: f.update(format="other"), honest=True), "not a model saved by dssl"),
        (change_json(lambda f: f["network"].update(name="linear"), honest=True), "does not describe a model"),
        (change_json(lambda f: f["parameters"].update(evil=1), honest=True), "does not describe a model"),
        (flip_a_byte, "model.safetensors' was changed or cut short"),
        (cut("model.safetensors"), "changed or cut short"),
        (cut("model.json"), "cannot be read"),
        (pickle_instead, "changed or cut short"),
        (lambda folder: (folder / "model.safetensors").unlink(), "is missing"),
        (lambda folder: (folder / "model.json").unlink(), "has no model.json"),
    ],
)
def test_harmed_folders_are_refused(folder: Path, harm: Callable[[Path], None], said: str) -> None:
    harm(folder)
    with pytest.raises(DataError, match=said):
        load(folder)


def test_a_layout_of_the_same_facts_is_accepted(folder: Path) -> None:
    change_json(lambda facts: None, honest=False)(folder)
    assert load(folder).space_.count() == 3


def test_weights_that_are_no_safetensors(folder: Path) -> None:
    content = b"\xff" * 50
    (folder / "model.safetensors").write_bytes(content)
    import hashlib

    change_json(lambda f: f["files"].update({"model.safetensors": hashlib.sha256(content).hexdigest()}), honest=True)(
        folder
    )
    with pytest.raises(DataError, match="is not a safetensors file"):
        load(folder)


def test_saving_replaces_a_model_and_nothing_else(folder: Path, tmp_path: Path) -> None:
    model = quick().fit(*load_iris(return_X_y=True))
    save(model, folder)
    assert load(folder).classes_.tolist() == [0, 1, 2]
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").touch()
    with pytest.raises(DataError, match="exists and is not a saved model"):
        save(model, tmp_path / "photos")
    with pytest.raises(NotFittedError):
        save(quick(), tmp_path / "none")


def test_a_failed_write_leaves_the_old_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = {file.name: file.read_bytes() for file in folder.iterdir()}

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DataError, match=r"/animals/model.*' cannot be written: No space left.*\n.*Free some space"):
        save(quick().fit(X, Y), folder)
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before
    assert not list(folder.parent.glob(".*"))


def test_loading_unpickles_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("unpickled")

    monkeypatch.setattr(pickle, "loads", refuse)
    monkeypatch.setattr(pickle, "load", refuse)
    monkeypatch.setattr(pickle, "Unpickler", refuse)
    assert load(folder).predict(X).shape == (30, 2)
    assert "mean" in safetensors.torch.load_file(folder / "model.safetensors")


def test_other_estimators_are_refused(tmp_path: Path) -> None:
    model = GenerativeClassifier().fit(np.array([[0.0], [1.0], [2.0], [3.0]]), [0, 0, 1, 1])
    with pytest.raises(DataError, match="a GenerativeClassifier cannot be saved, only a DSSLClassifier"):
        save(model, tmp_path / "model")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rules", ["a, b, c, d\nexactly(2, a, b, c, d)", "hierarchy"])
def test_a_mixture_comes_back(tmp_path: Path, rules: str) -> None:
    wide = {f"c{i}": f"c{i // 3}" for i in range(3, 24)}  # as log odds given the class above
    space = LabelSpace.hierarchy(wide) if rules == "hierarchy" else LabelSpace(rules)
    valid = space.encode([*space.valid(12)])
    x = np.random.default_rng(0).normal(size=(30, 3))
    model = DSSLClassifier(space, objective={"components": 3}, steps=5, random_state=0).fit(
        x, valid[np.arange(30) % len(valid)]
    )
    again = load(save(model, tmp_path / "mixed"))
    assert again.decoder_.components == again.objective["components"] == 3
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    np.testing.assert_array_equal(again.predict_proba(x), model.predict_proba(x))


def test_networks_that_answer_together_come_back(tmp_path: Path) -> None:
    space = LabelSpace.hierarchy({f"c{i}": f"c{i // 3}" for i in range(3, 24)})
    x, valid = np.random.default_rng(0).normal(size=(30, 3)), space.encode([*space.valid(10)])
    model = quick(rules=space).fit(x, valid[np.arange(30) % 10])
    folder = save(model, tmp_path / "two")
    assert json.loads((folder / "model.json").read_text())["network"]["members"] == 2
    np.testing.assert_array_equal(load(folder).predict_proba(x), model.predict_proba(x))
    change_json(lambda facts: facts["network"].update(members=10**6), honest=True)(folder)
    with pytest.raises(DataError, match="a model of 1000000 networks"):
        load(folder)


@pytest.mark.parametrize("components", [0, 10**9, "3", True])
def test_a_number_of_components_that_makes_no_sense_is_refused(tmp_path: Path, components: object) -> None:
    folder = save(DSSLClassifier(steps=2, random_state=0).fit(np.eye(4), [0, 1, 0, 1]), tmp_path / "model")
    facts = json.loads((folder / "model.json").read_text())
    facts["network"]["components"] = components
    facts["checksum"] = saved._checksum(facts)
    (folder / "model.json").write_text(json.dumps(facts))
    with pytest.raises(DataError, match="components"):
        load(folder)


def test_a_model_saved_when_the_estimator_had_more_parameters_still_loads(tmp_path: Path) -> None:
    model = DSSLClassifier(steps=2, random_state=0).fit(np.eye(4), [0, 1, 0, 1])
    folder = save(model, tmp_path / "model")
    former = {"label_frequencies": "uniform", "components": 1, "standardise": True, "verbose": False}
    change_json(lambda facts: facts["parameters"].update(former), honest=True)(folder)
    again = load(folder)
    assert again.objective == {"frequencies": "uniform", "components": 1}
    np.testing.assert_array_equal(again.predict_proba(np.eye(4)), model.predict_proba(np.eye(4)))
    again.fit(np.eye(4), [0, 1, 0, 1])


def test_a_loaded_model_is_fitted_again_as_the_first_was(tmp_path: Path) -> None:
    """Also where a ridge model answered beside the network: "auto" stays "auto"."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 4))
    y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    model = DSSLClassifier(steps=30, random_state=0).fit(X, y)
    save(model, tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.network == "auto"
    np.testing.assert_array_equal(again.fit(X, y).predict_theta(X), model.predict_theta(X))
