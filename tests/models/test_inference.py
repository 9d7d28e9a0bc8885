"""Networks on rows, and the device they run on."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse as sp
import torch
from torch import nn

from dssl import DataError, DSSLClassifier
from dssl.data.features import Standardiser
from dssl.data.targets import Targets
from dssl.models.inference import Resident, as_tensor, count, device_to_predict_on, right, run, seen, taken


def test_rows_in_every_form_and_more_than_one_batch() -> None:
    network = nn.Linear(2, 3)
    x = np.random.default_rng(0).normal(size=(2500, 2)).astype(np.float32)
    expected = network(torch.from_numpy(x)).detach()
    torch.testing.assert_close(run(network, x), expected)
    torch.testing.assert_close(run(network, sp.csr_array(x)), expected)
    assert network.training
    assert as_tensor(x[::2]).is_contiguous()


FORMS = {
    "array": np.asarray,
    "list": lambda x: x.tolist(),
    "tensor": torch.from_numpy,
    "sparse array": sp.csr_array,
    "sparse matrix": sp.csr_matrix,
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
}


@pytest.mark.parametrize("form", FORMS)
def test_rows_are_counted_and_taken_in_the_form_they_have(form: str) -> None:
    x = np.arange(12.0).reshape(4, 3)
    given, rows = FORMS[form](x), np.array([2, 0])
    some = taken(given, rows)
    assert count(given) == 4
    assert count(some) == 2
    assert type(some) is type(given)
    assert (np.asarray(some.toarray() if sp.issparse(some) else some) == x[rows]).all()


def test_a_row_is_right_if_all_that_is_known_is() -> None:
    known = np.array([[1, 0], [1, np.nan], [np.nan, np.nan], [0, 1]])
    best = np.array([[1, 0], [1, 1], [0, 0], [0, 0]])
    assert right(best, known) == pytest.approx(2 / 3)
    assert right(best, known, [1, 1, 9, 2]) == 0.5
    with pytest.raises(DataError, match="no row is labelled"):
        right(best[:1], known[2:3])


def test_the_network_is_copied_to_a_device_once_and_stays_behind_when_pickled() -> None:
    network = nn.Linear(2, 2)
    assert Resident(network, torch.device("cpu")).network() is network
    there = Resident(network, torch.device("meta"))
    assert there.network().weight.device.type == "meta"
    assert there.network() is there.network()
    assert network.weight.device.type == "cpu"
    assert pickle.loads(pickle.dumps(there))._copy is None


def test_settings_that_ask_for_the_cpu_are_kept_to() -> None:
    assert device_to_predict_on({"accelerator": "cpu"}).type == "cpu"
    assert device_to_predict_on({"accelerator": "cuda"}) == device_to_predict_on(None)  # may be another machine's


def test_predictions_run_on_the_device_and_training_drops_the_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """On `meta` nothing is computed, so bringing logits back fails: proof that they were asked for there."""
    x, y = np.eye(4), [0, 1, 0, 1]
    model = DSSLClassifier(steps=2, network="linear", random_state=0).fit(x, y)
    model.predict(x)
    assert model._resident.network() is model.network_
    model._resident = Resident(model.network_, torch.device("meta"))
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        model.predict(x)
    model.set_params(warm_start=True).fit(x, y)
    assert model._resident.network() is model.network_
    assert model.predict(x).shape == (4,)


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_are_standardised_a_few_at_a_time(sparse: bool) -> None:
    x = np.random.default_rng(0).normal(size=(2500, 3)).astype(np.float32)
    rows = sp.csr_matrix(x) if sparse else x
    standardise = Standardiser.fit(rows)
    network = nn.Linear(3, 2)
    seen_at_once = []

    def noted(part: Any) -> Any:
        seen_at_once.append(part.shape[0])
        return standardise(part)

    assert torch.equal(run(network, rows, noted), run(network, standardise(rows)))
    assert max(seen_at_once) <= 1024
    assert sum(seen_at_once) == 2500


def test_evidence_about_classes_comes_as_classes_or_as_columns() -> None:
    targets = Targets.of(["cat", "dog", "eel"])
    assert seen(targets, None) is None
    nan = np.nan
    np.testing.assert_array_equal(seen(targets, ["dog", None]), [[0, 1, 0], [nan] * 3])
    np.testing.assert_array_equal(seen(targets, [[0, nan, nan], [0, 0, nan]]), [[0, nan, nan], [0, 0, 1]])
    np.testing.assert_array_equal(seen(targets, [{"class": "eel"}]), [[0, 0, 1]])


def test_evidence_of_other_rows_is_refused() -> None:
    """It was taken by place: a sorted frame narrowed the wrong rows."""
    targets = Targets.of(["cat", "dog", None])
    rows = pandas.DataFrame({"a": [1.0, 2.0]}, index=["r0", "r1"])
    given = pandas.Series(["cat", None], index=["r0", "r1"])
    expected = [[1, 0], [np.nan, np.nan]]
    for same in (given, given.reset_index(drop=True), ["cat", None]):
        np.testing.assert_array_equal(seen(targets, same, rows), expected)
    np.testing.assert_array_equal(seen(targets, given, rows.reset_index(drop=True)), expected)
    with pytest.raises(DataError, match=r"its row 0 is called 'r1', that of X 'r0'\nGive evidence\.loc"):
        seen(targets, given[::-1], rows)
