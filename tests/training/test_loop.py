"""The loop: resuming to the last bit, stopping early, interruptions, numbers that are not finite."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from dssl import LabelSpace
from dssl.data.rows import ArrayData, Batch, Data
from dssl.errors import DataError
from dssl.priors import DeterministicPrior
from dssl.training.loop import Settings, train
from dssl.training.networks import make_network
from dssl.training.objective import Objective
from dssl.training.terms.consistency import Consistency, Look
from training.tiny_runs import (
    TINY,
    TinyLoss,
    TinyObjective,
    every_term,
    fit,
    same_weights,
    tiny_data,
    tiny_network,
    tiny_run,
)

# ---- what it learns ----


def test_labels_are_learned_and_every_evaluation_leaves_a_row() -> None:
    space = LabelSpace.classes(["a", "b", "c"])
    data = tiny_data(300, 60)
    network = make_network("mlp", data.batch([0]).x, 3, seed=0)
    history = train(
        network,
        Objective(space, DeterministicPrior(space), 0.1),
        data,
        Settings(steps=150, labelled_batch=32, unlabelled_batch=32, eval_every=50),
    )
    assert (history.steps_done, history.stopped, history.network) == (150, "steps", network)
    assert [row["step"] for row in history.rows] == [50, 100, 150]
    assert history.rows[-1].keys() == {"step", "lr", "total", "supervised", "prior", "accuracy", "seconds"}
    assert history.rows[-1]["total"] < history.rows[0]["total"]
    assert history.rows[-1]["accuracy"] > 0.9
    assert not network.training


def test_streams_of_one_kind_suffice() -> None:
    for rows in (0, 60):
        data = tiny_data(60, rows)
        assert train(tiny_network(), TinyObjective(), data, Settings(steps=3)).steps_done == 3


def test_the_same_seed_gives_the_same_weights_and_another_seed_others() -> None:
    a, b, c = tiny_run(), tiny_run(), tiny_run(seed=4)
    assert same_weights(a.network, b.network)
    assert not same_weights(a.network, c.network)


def test_global_generators_are_left_alone() -> None:
    torch.manual_seed(0)
    random.seed(0)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    tiny_run(steps=2)
    after = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


def test_averaged_weights_are_the_ones_used() -> None:
    """With decay 0 the average is the last step's weights; with much decay it lags behind."""

    def run(ema: float | None) -> nn.Module:
        return train(tiny_network(), TinyObjective(), tiny_data(), Settings(steps=20, ema=ema)).network

    assert same_weights(run(0.0), run(None))
    assert not same_weights(run(0.99), run(None))


def test_without_validation_nothing_but_the_last_weights_is_used() -> None:
    history = train(tiny_network(), TinyObjective(), tiny_data(), Settings(steps=4, eval_every=1))
    assert (history.best_step, history.best_score) == (None, None)


def test_the_best_weights_are_kept_and_patience_ends_the_run() -> None:
    scores = iter([0.1, 0.5, 0.4, 0.3, 0.2])
    seen: list[dict[str, torch.Tensor]] = []

    def validate(network: nn.Module) -> float:
        assert not network.training
        assert not torch.is_grad_enabled()
        seen.append({name: t.clone() for name, t in network.state_dict().items()})
        return next(scores)

    settings = Settings(steps=1000, eval_every=2, patience=3)
    history = train(tiny_network(), TinyObjective(), tiny_data(), settings, validate=validate)
    assert (history.stopped, history.steps_done, history.best_step, history.best_score) == ("patience", 10, 4, 0.5)
    assert all(torch.equal(t, seen[1][name]) for name, t in history.network.state_dict().items())


def test_a_score_that_is_no_number_is_never_the_best() -> None:
    scores = iter([0.1, float("nan"), 0.05])
    settings = Settings(steps=6, eval_every=2)
    history = train(tiny_network(), TinyObjective(), tiny_data(), settings, validate=lambda network: next(scores))
    assert history.best_score == 0.1


def test_gradients_are_clipped_and_the_learning_rate_follows_its_schedule() -> None:
    settings = Settings(steps=1, optimizer="sgd", lr=1.0, warmup=0, clip=1e-3, schedule="constant")
    network = tiny_network()
    before = torch.cat([p.detach().flatten().clone() for p in network.parameters()])
    train(network, TinyObjective(), tiny_data(), settings)
    moved = torch.cat([p.detach().flatten() for p in network.parameters()]) - before
    assert float(moved.norm()) == pytest.approx(1e-3 * 1.9, rel=1e-3)  # Nesterov's first step is 1 + .9 of the gradient


def test_half_precision_where_it_is_asked_for() -> None:
    seen = []

    class Probe(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            seen.append(out.dtype)
            return out

    for amp in (True, "auto"):
        history = train(Probe(6, 3), TinyObjective(), tiny_data(), Settings(steps=2, amp=amp, accelerator="cpu"))
        assert history.steps_done == 2
    assert seen == [torch.bfloat16] * 2 + [torch.float32] * 2


def test_weights_of_the_objective_are_trained_too() -> None:
    class Shifted(TinyObjective):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(3))

        def forward(self, logits: Any, y: Any, step: int | None = None, sample_weight: Any = None) -> TinyLoss:
            return super().forward(logits + self.shift, y, step, sample_weight)

    objective = Shifted()
    train(tiny_network(), objective, tiny_data(), Settings(steps=5))
    assert float(objective.shift.detach().abs().max()) > 0


def test_data_that_ask_for_it_are_fetched_ahead_and_give_the_same_weights() -> None:
    class Slow(ArrayData):
        ahead = 3

    slow = tiny_data()
    slow.__class__ = Slow
    settings = Settings(steps=10, labelled_batch=8, unlabelled_batch=16)
    a = train(tiny_network(), TinyObjective(), tiny_data(), settings)
    b = train(tiny_network(), TinyObjective(), slow, settings)
    assert same_weights(a.network, b.network)


def test_an_error_of_the_data_ends_the_run_as_it_is() -> None:
    class Broken(Data):
        ahead = 2
        labelled, unlabelled = np.arange(4), np.arange(0)

        def __len__(self) -> int:
            return 4

        def batch(self, indices: Any) -> Batch:
            raise DataError("row 3 cannot be read")

    with pytest.raises(DataError, match="row 3"):
        train(tiny_network(), TinyObjective(), Broken(), Settings(steps=5))


# ---- numbers that are not finite ----


class Exploding(TinyObjective):
    def forward(self, logits: Any, y: Any, step: int | None = None, sample_weight: Any = None) -> TinyLoss:
        loss = super().forward(logits, y, step, sample_weight)
        if step != 20:
            return loss
        parts = {**loss.parts, "prior": loss.parts["prior"] * float("inf")}
        return TinyLoss(sum(parts.values(), torch.zeros(())), parts)


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_last_good_checkpoint(tmp_path: Path) -> None:
    settings = Settings(steps=60, checkpoint=tmp_path, checkpoint_every=6, eval_every=50)
    with pytest.raises(FloatingPointError, match=r"step 20: .*supervised .*prior inf"):
        train(tiny_network(), Exploding(), tiny_data(), settings)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000012.safetensors", "step-000000018.safetensors"]


def test_no_checkpoint_is_promised_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError) as stopped:
        train(tiny_network(), Exploding(), tiny_data(), Settings(steps=60, checkpoint=tmp_path, checkpoint_every=50))
    assert "checkpoint" not in str(stopped.value)


class Cliff(TinyObjective):
    """A finite loss with a gradient that is not: √0."""

    def forward(self, logits: Any, y: Any, step: int | None = None, sample_weight: Any = None) -> TinyLoss:
        loss = super().forward(logits, y, step, sample_weight)
        return TinyLoss(loss.total + (logits - logits.detach()).sum().sqrt(), loss.parts)


def test_a_gradient_that_is_not_finite_stops_the_run_before_the_update() -> None:
    network = tiny_network()
    with pytest.raises(FloatingPointError, match="gradient is not finite at step 0"):
        train(network, Cliff(), tiny_data(), Settings(steps=3))
    assert same_weights(network, tiny_network())


def test_weights_that_are_not_finite_never_reach_a_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(FloatingPointError, match="not finite"):
        train(
            tiny_network(),
            Cliff(),
            tiny_data(),
            Settings(steps=3, clip=None, checkpoint=tmp_path, checkpoint_every=1),
        )
    assert list(tmp_path.iterdir()) == []


def test_a_gradient_that_is_not_finite_is_noticed_without_clipping_too() -> None:
    network = tiny_network()
    with pytest.raises(FloatingPointError, match="gradient is not finite at step 0"):
        train(network, Cliff(), tiny_data(), Settings(steps=1, clip=None))
    assert same_weights(network, tiny_network())


def test_weights_that_overflow_in_the_last_step_are_not_handed_out() -> None:
    settings = Settings(steps=1, optimizer="sgd", lr=3e38, clip=None, schedule="constant")
    with pytest.raises(FloatingPointError, match=r"weights are not finite after step 1\nLower the learning rate"):
        train(nn.Linear(6, 3), TinyObjective(), tiny_data(), settings)


def test_a_first_score_that_is_no_number_does_not_stay_the_best() -> None:
    scores = iter([float("nan"), 0.2, 0.1])
    settings = Settings(steps=6, eval_every=2)
    history = train(tiny_network(), TinyObjective(), tiny_data(), settings, validate=lambda network: next(scores))
    assert (history.best_score, history.best_step) == (0.2, 4)


# ---- resuming ----


def test_the_last_weights_are_the_best_here_so_comparing_them_compares_whole_runs() -> None:
    assert tiny_run().best_step == 60


def test_a_run_that_is_resumed_ends_in_the_same_weights_and_the_same_log(tmp_path: Path) -> None:
    whole = tiny_run(tmp_path / "whole", log=tmp_path / "whole.csv")

    def stop(network: nn.Module) -> float:
        stop.calls += 1  # type: ignore[attr-defined]
        if stop.calls == 4:  # type: ignore[attr-defined]
            raise RuntimeError("power cut")
        return fit(network)

    stop.calls = 0  # type: ignore[attr-defined]
    with pytest.raises(RuntimeError, match="power cut"):
        train(
            tiny_network(),
            TinyObjective(),
            tiny_data(),
            replace(TINY, checkpoint=tmp_path / "cut", log=tmp_path / "cut.csv"),
            validate=stop,
        )
    resumed = tiny_run(tmp_path / "cut", log=tmp_path / "cut.csv")
    assert same_weights(whole.network, resumed.network)
    strip = [[{k: v for k, v in row.items() if k != "seconds"} for row in h.rows] for h in (whole, resumed)]
    assert strip[0] == strip[1]
    logs = [[line.rsplit(",", 1)[0] for line in (tmp_path / f).read_text().split()] for f in ("whole.csv", "cut.csv")]
    assert logs[0] == logs[1]
    assert (resumed.best_step, resumed.best_score) == (whole.best_step, whole.best_score)


def test_a_finished_run_is_not_run_again(tmp_path: Path) -> None:
    first = tiny_run(tmp_path)
    again = tiny_run(tmp_path)
    assert same_weights(first.network, again.network)
    assert first.rows == again.rows
    assert again.stopped == "steps"


def test_a_folder_of_another_run_is_refused(tmp_path: Path) -> None:
    tiny_run(tmp_path, steps=4)
    with pytest.raises(DataError, match=r"another run:\n  lr: 0.001 there, 0.1 here\n.*another folder"):
        tiny_run(tmp_path, steps=4, lr=0.1)


def test_interruption_saves_and_says_how_to_resume(tmp_path: Path, capsys: Any) -> None:
    def validate(network: nn.Module) -> float:
        if not list(tmp_path.glob("*14*")):
            signal.raise_signal(signal.SIGINT)
        return fit(network)

    handler = signal.getsignal(signal.SIGINT)
    history = train(
        tiny_network(),
        TinyObjective(),
        tiny_data(),
        replace(TINY, checkpoint=tmp_path, checkpoint_every=100),
        validate=validate,
    )
    assert (history.stopped, history.steps_done) == ("interrupted", 8)
    assert f"interrupted at step 8 of 60; saved in '{tmp_path}': run the same again" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGINT) is handler
    resumed = tiny_run(tmp_path, checkpoint_every=100)
    assert same_weights(resumed.network, tiny_run().network)


KILLED = """
import os, signal, sys
from dataclasses import replace
from dssl.training.loop import train
from training.tiny_runs import TINY, every_term, fit, tiny_data, tiny_network

calls = []


def killed(network):
    calls.append(network)
    if len(calls) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return fit(network)


train(tiny_network(), every_term(), tiny_data(), replace(TINY, checkpoint=sys.argv[1]), validate=killed)
"""


def test_consistency_terms_go_on_where_a_killed_run_ended(tmp_path: Path) -> None:
    """Teacher, ensemble and running means are in the checkpoint: weights and terms end equal to the last bit."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, tmp_path / "killed"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
        timeout=120,
    )
    assert done.returncode == -signal.SIGKILL
    assert max(int(p.stem[5:]) for p in (tmp_path / "killed").iterdir()) == 27
    runs = []
    for folder in ("killed", "whole"):
        objective, settings = every_term(), replace(TINY, checkpoint=tmp_path / folder)
        runs.append((train(tiny_network(), objective, tiny_data(), settings, validate=fit), objective))
    (resumed, ours), (whole, theirs) = runs
    assert same_weights(resumed.network, whole.network)
    assert same_weights(ours, theirs)
    state = ours.state_dict()
    assert int(state["consistency.temporal_ensembling.visits"].min()) > 0
    assert int(state["consistency.mean_teacher.teacher._extra_state"]) == 60
    without = train(tiny_network(), every_term(random=False), tiny_data(), TINY, validate=fit)
    assert not same_weights(without.network, whole.network)


def test_a_network_without_a_seed_is_resumed_with_its_teacher(tmp_path: Path) -> None:
    """The teacher begins as the network does, and what that is may differ in a run that is not finished."""
    settings = replace(TINY, steps=8, checkpoint=tmp_path, checkpoint_every=2, ema=None)

    def cut(network: nn.Module) -> float:
        raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(tiny_network(seed=1), every_term(), tiny_data(), settings, validate=cut)
    assert train(tiny_network(seed=2), every_term(), tiny_data(), settings).steps_done == 8


def test_terms_see_the_weak_view_the_rows_and_the_precision_of_the_run() -> None:
    looks: list[Look] = []

    class Spy(Consistency):
        def forward(self, look: Look) -> torch.Tensor:
            looks.append(look)
            assert look.run(look.x).dtype == torch.float32
            return look.logits.sum(1)

    seen = []

    class Probe(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out = super().forward(x)
            seen.append((x, out.dtype))
            return out

    space, data = LabelSpace.classes(["a", "b", "c"]), tiny_data()
    objective = Objective(space, None, consistency=Spy(), augment=(lambda x: 2 * x, None))
    settings = Settings(steps=1, labelled_batch=4, unlabelled_batch=6, amp=True, accelerator="cpu")
    train(Probe(6, 3), objective, data, settings)
    (look,) = looks
    assert look.rows is not None
    assert torch.equal(look.x, data.batch(look.rows.numpy()).x)
    assert torch.equal(look.seen, 2 * look.x)
    assert torch.equal(seen[0][0], look.seen)
    assert [dtype for _, dtype in seen] == [torch.bfloat16] * 2
    assert (look.size, look.complete.tolist()) == (10, [True] * 4 + [False] * 6)


KILLS = """
import json, os, random, signal, sys, time
from pathlib import Path

import torch

torch.set_num_threads(1)
from safetensors.torch import save_file
from training.tiny_runs import tiny_run

tiny_run(steps=1)  # imports what torch puts off, once for all


def start(folder, out):
    pid = os.fork()
    if not pid:
        save_file(tiny_run(folder).network.state_dict(), out)
        os._exit(0)
    return pid


def steps(folder):
    return max([int(p.stem[5:]) for p in folder.glob("step-*.safetensors")], default=0)


top, count = Path(sys.argv[1]), int(sys.argv[2])
began = time.monotonic()
os.waitpid(start(top / "whole", top / "whole.safetensors"), 0)
lasted = time.monotonic() - began
random.seed(0)
reached = []
for i in range(count):
    folder, out = top / f"killed-{i}", top / f"killed-{i}.safetensors"
    pid = start(folder, out)
    target = random.randrange(0, 55)  # steps, not seconds: the machine may be busy
    while steps(folder) < target:
        time.sleep(0.002)
    time.sleep(random.uniform(0, 3 * lasted / 60))
    os.kill(pid, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    reached.append(steps(folder) if code == -signal.SIGKILL else None)
    os.waitpid(start(folder, out), 0)
print(json.dumps(reached))
"""


def test_killed_at_ten_random_instants_a_run_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """kill −9 in the middle of steps and of checkpoints; the child is forked so that ten of them take seconds."""
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(tmp_path), "10"],
        cwd=Path(__file__).parent.parent,
        env={"OMP_NUM_THREADS": "1", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    reached = json.loads(done.stdout)
    assert sum(step is not None for step in reached) >= 8  # killed before the end
    assert len(set(reached)) >= 4
    whole = (tmp_path / "whole.safetensors").read_bytes()
    for i in range(10):
        assert (tmp_path / f"killed-{i}.safetensors").read_bytes() == whole, f"killed at step {reached[i]}"


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path: Path) -> None:
    tiny_run(tmp_path, steps=60, patience=None)
    last = sorted(tmp_path.iterdir())[-1]
    last.write_bytes(last.read_bytes()[:-7] + b"garbage")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        resumed = tiny_run(tmp_path)
    assert "is damaged" in str(caught[0].message)
    assert same_weights(resumed.network, tiny_run().network)


# ---- runs that go on ----


def test_a_run_in_parts_is_the_run() -> None:
    """Weights, averages and the optimiser's state are carried over: constant rate, all rows in every step."""
    data, network, parts = tiny_data(), tiny_network(), tiny_network()
    how = replace(TINY, schedule="constant", labelled_batch=99, unlabelled_batch=99, steps=24)
    whole = train(network, TinyObjective(), data, how)
    carry, objective = None, TinyObjective()
    for steps in (5, 1, 10, 8):
        found = train(parts, objective, data, replace(how, steps=steps), carry=carry)
        carry = found.carry
    assert found.carry.steps == 24
    for name, tensor in whole.network.state_dict().items():
        torch.testing.assert_close(tensor, found.network.state_dict()[name], rtol=1e-6, atol=1e-7)


def test_without_what_is_carried_it_is_another_run() -> None:
    """The twin."""
    data, network, parts = tiny_data(), tiny_network(), tiny_network()
    how = replace(TINY, schedule="constant", labelled_batch=99, unlabelled_batch=99, steps=24)
    whole, objective = train(network, TinyObjective(), data, how), TinyObjective()
    for steps in (5, 19):
        found = train(parts, objective, data, replace(how, steps=steps))
    assert not same_weights(whole.network, found.network)
