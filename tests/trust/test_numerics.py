"""Numbers against mpmath, what is not finite, and batches that are poisoned. At full size: `attacks/precision.py`."""

from __future__ import annotations

import io
import math
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from attacks import precision_checks as checks
from attacks.exact import Exact, answer, columns, entropy
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from sklearn.exceptions import NotFittedError

import dssl
import oracle
from circuits.strategies import constraint_sets, literal_weights, naive_circuit, with_soft
from dssl.app.cli import main
from dssl.data.rows import ArrayData, Batch
from dssl.errors import DataError, RuleError
from dssl.logic.space import LabelSpace
from dssl.priors import DeterministicPrior, learn_prior
from dssl.training import checkpoints
from dssl.training.loop import Settings, train
from dssl.training.objective import Objective
from dssl.training.streams import Streams
from priors.cases import PAIRS, SPACES, logits_of, make
from training.tiny_runs import same_weights, tiny_data, tiny_network
from trust import right

FEW = settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def digits() -> Iterator[None]:
    with mp.workdps(50):
        yield


# ---- the twin ----


@settings(FEW, max_examples=30)
@given(constraints=constraint_sets(blocks=4, choices=100), seed=st.integers(0, 2**32 - 1))
def test_the_twin_equals_enumeration(constraints: Any, seed: int) -> None:
    circuit, rows = naive_circuit(constraints), oracle.valid_columns(constraints)
    assume(len(rows))
    exact = Exact(circuit)
    pos, neg = literal_weights(circuit, seed)
    logs = []
    for a, b, binary in zip(circuit.starts, circuit.starts[1:], exact.binary):
        if a < circuit.width:
            p, n = pos[a:b].tolist(), neg[a:b].tolist()  # value k weighs w_k Π_{j≠k} w̄_j
            logs.append([mpf(n[0]), mpf(p[0])] if binary else [mpf(x) + sum(n) - m for x, m in zip(p, n)])
    given_ = with_soft(circuit, pos, neg)
    true = answer(exact, logs)
    assert float(true.log) == pytest.approx(oracle.log_wmc(rows, *given_), abs=1e-9)
    expected = oracle.marginals(rows, *given_)[: circuit.width]
    assert [float(m) for m in columns(exact, true.marginals)] == pytest.approx(expected, abs=1e-9)
    assert float(entropy(exact, logs)[0]) == pytest.approx(oracle.entropy(rows, *given_), abs=1e-9)


# ---- numbers ----


def fine(tally: checks.Tally) -> None:
    bad = [row for row in tally.table() if row["not finite"] or not row["share"] <= 1]
    assert tally.rows
    assert not bad


@FEW
@given(
    n=st.integers(2, 9),
    m=st.integers(1, 9),
    soft=st.sampled_from([0.0, 0.3]),
    scale=st.sampled_from(["1", "30", "±1e4", "ties"]),
    power=st.sampled_from([0.5, 1.0, 1.5, 2.0, 10.0, 100.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_every_prior_and_query_of_random_rules_is_within_its_bound(
    n: int, m: int, soft: float, scale: str, power: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    space = LabelSpace(checks.random_clauses(n, m, rng, soft))
    try:
        circuit = space.compile()
    except RuleError:
        assume(False)
    tally = checks.Tally()
    checks.check(checks.Case("random", space, circuit), checks.Settings(powers=(power,), scales=(scale,)), tally, rng)
    fine(tally)


@pytest.mark.parametrize("family", ["at most", "hierarchy", "sums", "paths"])
def test_every_family_is_within_its_bound(family: str) -> None:
    sizes, build = checks.FAMILIES[family]
    made = build(*sizes[0], np.random.default_rng(0))
    space = LabelSpace(made) if isinstance(made, str) else LabelSpace.attributes(list(made.names))
    case = checks.Case(family, space, space.compile() if isinstance(made, str) else made)
    tally = checks.Tally()
    chosen = checks.Settings(powers=(1.5, 100.0), scales=("30", "±1e4"))
    checks.check(case, chosen, tally, np.random.default_rng(1))
    fine(tally)


@pytest.mark.parametrize("scale", ["1", "30", "±1e4", "ties"])
def test_closed_forms_and_t_norms_are_within_their_bounds(scale: str) -> None:
    tally, rng = checks.Tally(), np.random.default_rng(0)
    for width in (2, 10):
        checks.check_closed(tally, width, scale, (0.5, 1.5, 100.0), rng)
    for _ in range(3):
        checks.check_fuzzy(tally, scale, rng)
    fine(tally)


@pytest.mark.parametrize(("dtype", "off"), [("float32", 1e-4), ("float64", 1e-12)])
def test_the_bound_notices_a_power_that_is_slightly_off(dtype: str, off: float) -> None:
    space = LabelSpace("a, b, c\na -> b\nb | c")
    circuit, tally = space.compile(), checks.Tally()
    row = checks.Row(checks.Case("one", space, circuit), Exact(circuit), torch.tensor([1.0, -2.0, 0.5]), tally)
    true = answer(row.exact, row.powered(10.0), 10.0)
    row.value(
        "right", 10, dtype, row.asked(DeterministicPrior(space, 10.0, scale="none"), dtype)[0], true.log, true.bound
    )
    fine(tally)
    wrong = DeterministicPrior(space, scale="none").to(checks.DTYPES[dtype])
    wrong.power = 10.0 * (1 + off)
    row.value("wrong", 10, dtype, row.asked(wrong, dtype)[0], true.log, true.bound)
    assert tally.worst("share") > 1


# ---- what is not finite ----


@pytest.mark.parametrize(("prior", "space"), PAIRS)
def test_logits_that_are_no_numbers_give_nan_in_their_row_and_nowhere_else(prior: str, space: str) -> None:
    q, z = make(prior, space), logits_of(SPACES[space], 4)
    if SPACES[space].width == 1:
        assert q(z).isfinite().all()
        return
    for odd in (math.nan, math.inf):
        for column in {0, SPACES[space].width // 2, SPACES[space].width - 1}:
            poisoned = z.clone()
            poisoned[1, column] = odd
            assert q(poisoned).isnan().tolist() == [False, True, False, False]


@pytest.mark.parametrize(("prior", "space"), [pair for pair in PAIRS if SPACES[pair[1]].width > 1])
def test_a_logit_of_minus_infinity_is_a_value_that_cannot_be(prior: str, space: str) -> None:
    q, z = make(prior, space), logits_of(SPACES[space], 4)
    z[:, 0] = -math.inf
    near = z.clone()
    near[:, 0] = -1e5
    out = q(z)
    assert not out.isnan().any()
    possible = out > -math.inf
    torch.testing.assert_close(out[possible], q(near)[possible], rtol=1e-6, atol=1e-6)


# ---- poisoned batches ----

RUN = Settings(
    steps=14, labelled_batch=8, unlabelled_batch=16, checkpoint_every=3, eval_every=5, seed=3, accelerator="cpu"
)
AT = 7  # the step that is poisoned


class Poisoned(ArrayData):
    """Rows of which one comes with x, or its weight, not finite."""

    row: int | None = None
    what = "x"
    odd = math.nan

    def batch(self, indices: Any) -> Batch:
        found = super().batch(indices)
        hit = torch.from_numpy(np.asarray(indices) == self.row)
        if self.what == "weight":
            return replace(found, weight=found.weight.masked_fill(hit, self.odd))
        return replace(found, x=found.x.masked_fill(hit[:, None], self.odd))


def poisoned(labelled: bool, what: str = "x", odd: float = math.nan) -> Poisoned:
    """Data whose bad row is first seen at step `AT`."""
    data = tiny_data(400, 160)
    data.__class__ = Poisoned
    assert isinstance(data, Poisoned)
    streams = Streams(data, RUN.labelled_batch, RUN.unlabelled_batch, RUN.seed)
    before = set(np.concatenate([streams.at(step) for step in range(AT)]).tolist())
    before |= set(np.linspace(0, len(data) - 1, 32).astype(int).tolist())  # that stand for all in a run's identity
    new = [row for row in streams.at(AT).tolist() if row not in before and (row < 160) == labelled]
    data.row, data.what, data.odd = new[0], what, odd
    return data


def learning() -> Objective:
    """With a prior that goes on learning, so that label probabilities could be poisoned as well."""
    space = LabelSpace.classes(["a", "b", "c"])
    prior = learn_prior(
        ["a", "b", "c", "a"], space, power=3.0, learn=True, normalised=True, learn_power=True, scale="none"
    )
    return Objective(space, prior)


@pytest.mark.parametrize("amp", [False, True])
@pytest.mark.parametrize("clip", [5.0, None])
@pytest.mark.parametrize(
    ("labelled", "what", "odd"),
    [(True, "x", math.nan), (False, "x", math.nan), (False, "x", math.inf), (True, "weight", math.nan)],
)
def test_a_poisoned_batch_stops_the_run_which_then_resumes_to_the_same_bits(
    labelled: bool, what: str, odd: float, clip: float | None, amp: bool, tmp_path: Path
) -> None:
    chosen, data = replace(RUN, amp=amp, clip=clip, checkpoint=tmp_path / "run"), poisoned(labelled, what, odd)
    network, objective = tiny_network(), learning()
    with pytest.raises(FloatingPointError) as stopped:
        train(network, objective, data, chosen)
    said = str(stopped.value)
    assert f"is not finite at step {AT}: " in said
    assert f"The last good checkpoint is in '{tmp_path / 'run'}'." in said
    assert f"The data are not finite in rows {data.row}: fill in or drop" in said
    for weights in (*network.parameters(), *objective.parameters()):
        assert weights.isfinite().all()
    kept = sorted((tmp_path / "run").iterdir())
    assert [path.name for path in kept] == ["step-000000003.safetensors", "step-000000006.safetensors"]
    assert [checkpoints.load(path).step for path in kept] == [3, 6]

    data.row = None
    resumed = train(tiny_network(), learning(), data, chosen)
    never = train(tiny_network(), learning(), data, replace(chosen, checkpoint=None))
    assert same_weights(resumed.network, never.network)


def test_a_poisoned_batch_before_the_first_checkpoint_promises_none(tmp_path: Path) -> None:
    chosen = replace(RUN, checkpoint=tmp_path / "run", checkpoint_every=100)
    with pytest.raises(FloatingPointError) as stopped:
        train(tiny_network(), learning(), poisoned(True), chosen)
    assert "checkpoint" not in str(stopped.value)


def test_data_that_are_poisoned_from_the_start_are_refused() -> None:
    x, y = torch.zeros(3, 2), np.zeros((3, 2))
    for odd in (math.nan, math.inf, -math.inf):
        with pytest.raises(DataError, match=r"missing or infinite entries\nFill them in"):
            ArrayData(x.index_fill(0, torch.tensor([1]), odd), y)
        with pytest.raises(DataError, match=r"not labels or weights\nGive 1, 0 or NaN"):
            ArrayData(x, y, [1, 1, odd])
    with pytest.raises(DataError, match=r"not labels or weights\nGive 1, 0 or NaN"):
        ArrayData(x, np.full((3, 2), np.inf))
    with pytest.raises(DataError, match="none of them negative"):
        learn_prior(["a", "b"], sample_weight=[1, math.nan])


class Glitch:
    """A view of rows that is not finite once, at its n-th use."""

    def __init__(self, at: int | None) -> None:
        self.at, self.uses = at, 0

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        self.uses += 1
        return x * math.nan if self.uses == self.at else x


def test_an_estimator_stops_and_resumes_as_the_loop_does(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(60, 4))
    y = np.where(np.arange(60) < 20, (x[:, 0] > 0).astype(int), -1)

    def model(at: int | None, folder: Path | None) -> dssl.DSSLClassifier:
        more = {"checkpoint": folder, "checkpoint_every": 3}
        views = (Glitch(at), None)
        return dssl.DSSLClassifier(
            steps=12, network="linear", consistency=None, augment=views, random_state=0, settings=more
        )

    failing = model(9, tmp_path)
    with pytest.raises(FloatingPointError, match=r"not finite at step 8: (?s:.*)The last good checkpoint is in"):
        failing.fit(x, y)
    with pytest.raises(NotFittedError):
        failing.predict(x)
    again, never = model(None, tmp_path).fit(x, y), model(None, None).fit(x, y)
    assert same_weights(again.network_, never.network_)


def test_the_command_stops_and_resumes_as_the_loop_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data.csv").write_text(right.DATA)
    (tmp_path / "a.rules").write_text(right.RULES)

    def fit(name: str) -> tuple[int, str]:
        words = ["fit", "data.csv", "--rules", "a.rules", "--out", name, "--network", "linear", "--steps", 12]
        words += ["--batch-size", 4, "--unlabelled-batch", 2, "--checkpoint-every", 3]
        with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
            code = main([str(word) for word in words])
        return code, out.getvalue() + err.getvalue()

    monkeypatch.chdir(tmp_path)
    plain, uses = ArrayData.batch, []

    def glitch(self: ArrayData, indices: Any) -> Batch:
        found = plain(self, indices)
        uses.append(len(found.x))
        return replace(found, x=found.x * math.nan) if uses.count(6) == 9 else found  # the ninth of training

    with monkeypatch.context() as patched:
        patched.setattr(ArrayData, "batch", glitch)
        code, said = fit("run")
    assert code == 1
    assert "error: the loss is not finite at step 8" in said
    assert "The last good checkpoint is in 'run/checkpoint'. The data are not finite in rows" in said
    kept = tmp_path / "run" / "checkpoint"
    assert sorted(path.name for path in kept.glob("step-*")) == [
        "step-000000003.safetensors", "step-000000006.safetensors",
    ]  # fmt: skip
    code, said = fit("run")
    assert code == 0
    assert "resuming from the last checkpoint" in said
    assert fit("never")[0] == 0
    weights = [next((tmp_path / name / "model").glob("*.safetensors")).read_bytes() for name in ("run", "never")]
    assert weights[0] == weights[1]
