"""More than one process: the same gradients, each row once, and an end rather than a hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dssl.errors import DataError
from dssl.training import processes
from dssl.training.loop import Settings, train
from dssl.training.networks import make_network
from dssl.training.processes import Ranks, join, launch
from training.tiny_runs import TINY, TinyLoss, TinyObjective, every_term, fit, tiny_data

SECONDS = timedelta(seconds=60)


def normed(seed: int = 0) -> nn.Module:
    """With batch norm, whose statistics are a term of the whole batch too."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def gradients(rows: int) -> tuple[dict[str, Tensor], Tensor, Tensor, bool]:
    """Of every term on its own and of their sum, over `rows` rows; then batch norm's means, and rows gathered."""
    ranks = join("cpu", SECONDS)
    batch = tiny_data(rows, rows // 2).batch(torch.arange(rows)[ranks.share(rows)].numpy())
    out = {}
    for term in ("supervised", "prior", "balance", "total"):
        network, objective = normed(), TinyObjective()
        with processes.global_batch_norm(network, ranks):
            logits, y, weight, flag = ranks.together(rows, network(batch.x), batch.y, batch.weight, ranks.rank == 1)
            loss = objective(logits, y, sample_weight=weight)
            (loss.total if term == "total" else loss.parts[term]).backward()
            ranks.sum_gradients(network.parameters())
        assert type(network[1]) is nn.BatchNorm1d
        out[term] = torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None])
    means = torch.cat([network[1].running_mean, network[1].running_var])  # type: ignore[list-item]
    counted = ranks.gather(torch.arange(rows)[ranks.share(rows), None], rows)[:, 0]
    return out, means, counted, flag


def test_the_gradient_of_every_term_is_that_of_one_process() -> None:
    """13 rows on two ranks: 6 and 7; terms that are not means over rows, and batch norm, included."""
    alone, means, counted, flag = gradients(13)
    assert not flag
    together, means2, counted2, flag2 = launch(gradients, 13, devices=2)
    assert flag2  # rank 1 raised it, rank 0 knows
    for term, gradient in alone.items():
        torch.testing.assert_close(together[term], gradient, rtol=1e-6, atol=1e-6)
        assert float(gradient.abs().max()) > 1e-3
    torch.testing.assert_close(means2, means, rtol=1e-6, atol=1e-6)
    assert counted2.tolist() == counted.tolist() == list(range(13))  # each row once


def test_leaving_the_gather_out_would_be_seen() -> None:
    """The twin: the mean of the ranks' own gradients is not the gradient of the balance term."""
    data = tiny_data(13, 6)
    halves = []
    for rows in (range(13), range(6), range(6, 13)):
        network, batch = normed().eval(), data.batch(list(rows))
        TinyObjective()(network(batch.x), batch.y, sample_weight=batch.weight).parts["balance"].backward()
        halves.append(torch.cat([p.grad.flatten() for p in network.parameters() if p.grad is not None]))
    assert float((halves[0] - (halves[1] + halves[2]) / 2).abs().max()) > 1e-3


def test_two_processes_train_like_one(tmp_path: Path) -> None:
    """From Python, without a guard, with functions that exist only here; uneven batches of 5 + 8 rows."""

    def validate(network: nn.Module) -> float:
        return fit(network)

    def run(devices: int) -> Any:
        settings = Settings(
            steps=25,
            labelled_batch=5,
            unlabelled_batch=8,
            eval_every=5,
            devices=devices,
            accelerator="cpu",
            ema=0.9,
            optimizer="sgd",
            lr=0.05,
        )
        objective = TinyObjective()
        return train(normed(), objective, tiny_data(), settings, validate=validate), objective

    (one, terms), (two, terms2) = run(1), run(2)
    for name, tensor in one.network.state_dict().items():
        torch.testing.assert_close(two.network.state_dict()[name], tensor, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(terms2.mean, terms.mean)
    for a, b in zip(one.rows, two.rows):
        assert a["total"] == pytest.approx(b["total"], rel=1e-5)
    assert (two.best_step, two.steps_done, two.stopped) == (one.best_step, 25, "steps")


def test_consistency_terms_of_two_processes_are_those_of_one() -> None:
    """Teacher, ensemble, alignment, batch norm in further passes; each rank sees only its rows of x."""

    def run(devices: int) -> Any:
        settings = Settings(
            steps=20,
            labelled_batch=5,
            unlabelled_batch=8,
            eval_every=5,
            devices=devices,
            accelerator="cpu",
            optimizer="sgd",
            lr=0.02,
        )
        objective = every_term(random=False)
        return train(normed(), objective, tiny_data(), settings), objective

    (one, terms), (two, terms2) = run(1), run(2)
    assert {"mean_teacher", "temporal_ensembling", "fixmatch"} <= one.rows[-1].keys()
    assert all(one.rows[-1][name] > 0 for name in ("mean_teacher", "temporal_ensembling", "fixmatch"))
    for a, b in zip(one.rows, two.rows):
        assert a["total"] == pytest.approx(b["total"], rel=1e-4)
    for mine, theirs in ((one.network, two.network), (terms, terms2)):
        for name, tensor in mine.state_dict().items():
            torch.testing.assert_close(theirs.state_dict()[name], tensor, rtol=1e-4, atol=1e-5)


class Dying(TinyObjective):
    """Kills the second rank at its eighth step."""

    def forward(self, logits: Tensor, y: Tensor, step: int | None = None, sample_weight: Any = None) -> TinyLoss:
        if step == 7 and os.environ.get("RANK") == "1":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().forward(logits, y, step, sample_weight)


def test_a_rank_that_is_killed_ends_the_run_which_can_be_resumed(tmp_path: Path) -> None:
    began = time.monotonic()
    settings = replace(TINY, steps=12, devices=2, checkpoint=tmp_path)
    with pytest.raises(RuntimeError, match=r"rank 1 of the training was ended by signal 9 \(SIGKILL\).*\n.*resumes"):
        train(normed(), Dying(), tiny_data(), settings, validate=fit)
    assert time.monotonic() - began < 50
    assert max(int(p.stem[5:]) for p in tmp_path.iterdir()) == 6
    assert train(normed(), Dying(), tiny_data(), replace(settings, devices=1), validate=fit).steps_done == 12


def fails() -> None:
    ranks = join("cpu", SECONDS)
    if ranks.rank == 1:
        raise DataError("row 7 is unreadable")
    ranks.any(True)


def test_an_error_in_a_rank_is_raised_here() -> None:
    with pytest.raises(DataError, match="row 7 is unreadable"):
        launch(fails, devices=2)


def hangs() -> None:
    ranks = join("cpu", timedelta(seconds=2))
    if ranks.rank == 1:
        time.sleep(60)
    ranks.any(True)


def test_a_rank_that_hangs_ends_the_run_after_the_time_out() -> None:
    began = time.monotonic()
    with pytest.raises(RuntimeError, match=r"(?i)timed? ?out"):
        launch(hangs, devices=2)
    assert time.monotonic() - began < 50


SCRIPT = """
import sys
import torch
from training.test_processes import normed
from training.tiny_runs import TINY, TinyObjective, fit, tiny_data
from dataclasses import replace
from dssl.training.loop import train

settings = replace(TINY, steps=10, devices=2, checkpoint=sys.argv[1])
history = train(normed(), TinyObjective(), tiny_data(), settings, validate=fit)
print("total", history.rows[-1]["total"], flush=True)
"""


def test_under_torchrun(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node=2",
            script,
            tmp_path / "runs",
        ],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    alone = train(normed(), TinyObjective(), tiny_data(), replace(TINY, steps=10), validate=fit)
    totals = [float(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("total")]
    assert totals == pytest.approx([alone.rows[-1]["total"]] * 2, rel=1e-5)  # both ranks have the history
    assert len(list((tmp_path / "runs").iterdir())) == 2


INTERRUPTED = """
import sys
from dataclasses import replace
from training.test_processes import normed
from training.tiny_runs import TINY, TinyObjective, fit, tiny_data
from dssl.training.loop import train

settings = replace(TINY, optimizer="sgd", lr=0.05, steps=400, devices=2, checkpoint=sys.argv[1], checkpoint_every=10)
history = train(normed(), TinyObjective(), tiny_data(), settings, validate=fit)
print(history.stopped, history.steps_done)
"""


def test_interrupted_in_two_processes_and_resumed_in_one(tmp_path: Path) -> None:
    """Ctrl-C reaches the process that was started, which passes it on; all ranks end after the same step."""
    script = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED, tmp_path / "runs"],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not list((tmp_path / "runs").glob("*.safetensors")) and time.monotonic() < deadline:
        time.sleep(0.01)
    script.send_signal(signal.SIGINT)
    out, err = script.communicate(timeout=60)
    assert out.split()[0] == "interrupted", err
    assert "run the same again to resume" in err
    (last,) = sorted((tmp_path / "runs").iterdir())[-1:]
    assert int(last.stem[5:]) == int(out.split()[1]) < 400
    settings = replace(TINY, optimizer="sgd", lr=0.05, steps=400)
    whole = train(normed(), TinyObjective(), tiny_data(), settings, validate=fit)
    resumed = train(normed(), TinyObjective(), tiny_data(), replace(settings, checkpoint=last.parent), validate=fit)
    assert [row["total"] for row in resumed.rows] == pytest.approx([row["total"] for row in whole.rows], rel=1e-3)


def test_a_rank_leaves_when_the_process_that_started_it_is_gone() -> None:
    child = os.fork()
    if not child:
        processes._leave_with(parent=-1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 1


# ---- without processes ----


def test_shares_are_consecutive_and_cover_every_row_once() -> None:
    for world in (1, 2, 3, 5):
        for n in (0, 1, 4, 13):
            shares = [Ranks(r, world).share(n) for r in range(world)]
            rows = [row for share in shares for row in range(n)[share]]
            assert rows == list(range(n))
            assert max(len(range(n)[s]) for s in shares) - min(len(range(n)[s]) for s in shares) <= 1


def test_a_single_process_needs_no_connection() -> None:
    ranks, rows = Ranks(), torch.ones(3, 2, requires_grad=True)
    assert ranks.gather(rows, 3) is rows
    assert ranks.together(3, rows, rows, rows[:, 0], True)[3]
    assert ranks.agreed(2.5) == 2.5
    assert ranks.any(True)
    ranks.same(normed())
    ranks.sum_gradients(normed().parameters())


def test_an_accelerator_that_is_not_there_is_an_error() -> None:
    absent = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(DataError, match=f"accelerator='{absent}'"):
        join(absent, SECONDS)


def test_batch_norm_of_any_shape_is_as_torch_has_it() -> None:
    """One process, with the global one's formula in place of torch's."""
    torch.distributed.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
    try:
        for shape, kind in (
            ((7, 4), nn.BatchNorm1d),
            ((5, 4, 3, 3), nn.BatchNorm2d),
            ((5, 4, 2, 3, 2), nn.BatchNorm3d),
        ):
            x = torch.randn(shape, dtype=torch.float64)
            ours, theirs = kind(4).double(), kind(4).double()
            inputs = [x.clone().requires_grad_() for _ in range(2)]
            with processes.global_batch_norm(ours, Ranks(world=2)):
                a = ours(inputs[0])
            b = theirs(inputs[1])
            torch.testing.assert_close(a, b)
            a.square().mul(torch.arange(x.numel()).view(shape)).sum().backward()
            b.square().mul(torch.arange(x.numel()).view(shape)).sum().backward()
            torch.testing.assert_close(inputs[0].grad, inputs[1].grad)
            for mine, other in zip(ours.state_dict().values(), theirs.state_dict().values()):
                torch.testing.assert_close(mine, other)
            ours.eval()
            theirs.eval()
            with processes.global_batch_norm(ours, Ranks(world=2)):
                torch.testing.assert_close(ours(x), theirs(x))
    finally:
        torch.distributed.destroy_process_group()


def test_networks_with_batch_norm_keep_their_names() -> None:
    network = make_network("wrn-28-2", torch.zeros(1, 3, 8, 8), 3, seed=0)
    before = list(network.state_dict())
    with processes.global_batch_norm(network, Ranks(world=2)):
        assert list(network.state_dict()) == before
