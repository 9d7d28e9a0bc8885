"""The training loop on one screen: `train` has the steps, `_Run` holds them in the order in which they are taken."""

from __future__ import annotations

import copy
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dssl.data.rows import Batch, Data
from dssl.training import checkpoints, processes
from dssl.training.averaging import Average
from dssl.training.identity import identity, refuse_other
from dssl.training.logs import Bar, Board, LogFile, Row, Told, accuracy
from dssl.training.networks import fit_inputs
from dssl.training.settings import Settings
from dssl.training.signals import stoppable
from dssl.training.streams import Streams, batches, own_randomness, randomness, seed_torch, set_randomness

__all__ = ["History", "Settings", "train"]

Validate = Callable[[nn.Module], float]


class _Loss(Protocol):
    @property
    def total(self) -> Tensor: ...
    @property
    def parts(self) -> Mapping[str, Tensor]: ...


@dataclass(frozen=True)
class History:
    """The result of a run: steps done, why it stopped, a row for each evaluation, and the network to use.

    `stopped`: "steps" (all done), "patience" (no better score for long) or "interrupted" (Ctrl-C). `network` has the
    weights of the best validation if there was one, else the averaged ones if there are, else the last. `carry` is
    what a run that continues from here needs: see `train`.
    """

    network: nn.Module
    steps_done: int
    rows: list[Row]
    best_step: int | None
    best_score: float | None
    stopped: str
    carry: Carry


@dataclass(frozen=True)
class Carry:
    """The end of a run: steps done so far, the last weights (not averaged), averaged ones, the optimiser's state."""

    steps: int
    weights: dict[str, Tensor]
    average: dict[str, Any] | None
    optimizer: dict[str, Any]


def train(
    network: nn.Module,
    objective: Any,
    data: Data,
    settings: Settings,
    *,
    validate: Validate | None = None,
    carry: Carry | None = None,
    watch: Validate | None = None,
) -> History:
    """Trains the network in place.

    `objective(logits, y, step=…, sample_weight=…)` gives a loss with `total` and named `parts`, and may have more, as
    `Objective` does: `views` that rows are seen in, `consistency` terms that are shown x and the network, `prepare`.
    `validate(network)` gives a score; larger is better. With `devices` above 1, processes are started, from
    scripts and notebooks; under torchrun every process calls this. Each process then validates, and the first
    one's score counts. `carry`: from the history of an earlier run of the same network, which this one continues,
    with its last weights, its averages and its optimiser's state, as if the rows had come in parts. `watch(network)` is
    a score that the log has as "watched", and that decides nothing.
    """
    if settings.devices > 1 and not processes.outside():
        return _in_processes(network, objective, data, settings, validate, carry, watch)
    with _Run(network, objective, data, settings, validate, carry, watch) as run:
        for batch in run.batches():
            loss, logits, y = run.forward(batch)
            run.update(loss)
            run.report(loss, logits, y)
            if run.step % settings.eval_every == 0 or run.step == settings.steps:
                run.evaluate(logits, y)
            if run.step % settings.checkpoint_every == 0 or run.stopped:
                run.save()
            if run.stopped:
                break
        return run.finish()


class _Run:
    """A run in progress; `save` and `_resume` handle everything that the rest of it depends on."""

    def __init__(
        self, network: nn.Module, objective: Any, data: Data, settings: Settings,
        validate: Validate | None, carry: Carry | None, watch: Validate | None = None,
    ) -> None:  # fmt: skip
        self.ranks = processes.join(settings.accelerator, timedelta(minutes=settings.timeout))
        self.network, self.objective, self.data = network.to(self.ranks.device), objective, data
        self.settings, self.validate, self.watch = settings, validate, watch
        self.terms = objective.to(self.ranks.device) if isinstance(objective, nn.Module) else nn.Module()
        fit_inputs(network, data)
        self.ranks.same(network)
        self.streams = Streams(data, settings.labelled_batch, settings.unlabelled_batch, settings.seed)
        self.average = None if settings.ema is None else Average(settings.ema)
        if self.average is not None:
            self.average.of(network)
        self.past, self.carry = 0 if carry is None else carry.steps, carry
        if carry is not None:
            network.load_state_dict(carry.weights)
            if self.average is not None and carry.average is not None:
                self.average.load_state_dict(carry.average)
        amp = settings.amp is True or (settings.amp == "auto" and _fast_bfloat16(self.ranks.device))
        self.amp = torch.autocast(self.ranks.device.type, torch.bfloat16) if amp else nullcontext()
        self.step, self.waited, self.stopped = 0, 0, ""
        self.asked_to_stop = self.interrupted = False  # by a signal here; as agreed by all ranks
        self.rows: list[Row] = []
        self.best: dict[str, Tensor] = {}
        self.best_step: int | None = None
        self.best_score: float | None = None
        self.sums: dict[str, Any] = {}  # of the loss's parts since the last evaluation, on their device
        self.summed, self.started = 0, time.monotonic()
        self.bar: Bar | None = None

    def __enter__(self) -> _Run:
        self._exits = ExitStack()
        self._exits.enter_context(processes.global_batch_norm(self.network, self.ranks))
        self._exits.enter_context(own_randomness(self.settings.seed, self.ranks.rank))
        self._exits.enter_context(stoppable(self._stop))
        try:
            if self.settings.checkpoint is not None:
                self._identity = identity(self.network, self.objective, self.data, self.settings)
            torch.default_generator.manual_seed(self.settings.seed)  # terms begin with the same weights on all ranks
            _prepare(self.objective, self.network, self.data)
            self._optimise()
            self._resume()
            self._open_logs()
        except BaseException:
            self._exits.close()
            raise
        self.network.train()
        self.terms.train()
        return self

    def __exit__(self, *error: object) -> None:
        self._exits.close()

    def _optimise(self) -> None:
        """The optimiser of the network's weights and the terms', which some of them make when they see the data."""
        self.weights = [p for p in self.network.parameters() if p.requires_grad]
        others = [p for p in self.terms.parameters() if p.requires_grad]
        self.optimizer = self.settings.make_optimizer(self.network, others)
        self.trained = self.weights + others
        if self.carry is not None:
            self._take_up(self.carry)

    # ---- the rungs ----

    def batches(self) -> Iterator[Batch]:
        """This rank's rows of every step still to do."""
        last = self.step if self.stopped else self.settings.steps
        return batches(self.data, self.streams, self.step, last, self.ranks.share(self.streams.size))

    def forward(self, batch: Batch) -> tuple[_Loss, Tensor, Tensor]:
        """The loss of the global batch, its logits and its labels.

        Here the network, the objective and this rank's rows of x meet: whatever needs all three belongs here.
        """
        seed_torch(self.settings.seed, self.past + self.step, self.ranks)
        self.batch = batch = batch.to(self.ranks.device)
        views = getattr(self.objective, "views", None)
        x = batch.x if views is None else views.weak(batch.x, batch.rows)
        with self.amp:
            logits = self.network(x)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        logits, y, weight, self.interrupted = self.ranks.together(
            self.streams.size, logits, batch.y, batch.weight, self.asked_to_stop
        )
        look: dict[str, Any] = {}
        if getattr(self.objective, "consistency", None):
            look = {"x": batch.x, "seen": x, "rows": batch.rows, "network": self.network}
            look |= {"ranks": self.ranks, "within": self.amp}
        return self.objective(logits, y, step=self.step, sample_weight=weight, **look), logits, y

    def refuse_non_finite(self, loss: _Loss, norm: Tensor) -> None:
        """Stops before a loss or gradient that is not finite spoils the weights; asks the device once per step."""
        total, size = torch.stack([loss.total.detach(), norm.to(loss.total)]).tolist()
        if math.isfinite(total) and math.isfinite(size):
            return
        parts = ", ".join(f"{name} {part.item():g}" for name, part in loss.parts.items())
        what = "gradient" if math.isfinite(total) else "loss"
        rows = _odd_rows(self.batch)
        remedy = "Lower the learning rate or the weight of the part that exploded, or clip gradients."
        if rows:
            remedy = f"The data are not finite in rows {', '.join(map(str, rows))}: fill in or drop such entries."
        raise FloatingPointError(
            f"the {what} is not finite at step {self.step}: total {loss.total.item():g}, {parts}\n"
            f"{self._kept()}{remedy}"
        )

    def refuse_bad_weights(self) -> None:
        """Stops before weights that are not finite are saved or used."""
        if not all(bool(p.isfinite().all()) for p in self.trained):
            raise FloatingPointError(
                f"weights are not finite after step {self.step}\n"
                f"{self._kept()}Lower the learning rate, or clip gradients."
            )

    def update(self, loss: _Loss) -> None:
        """One step of the optimiser, and of the averaged weights."""
        self.optimizer.zero_grad()
        loss.total.backward()
        self.ranks.sum_gradients(self.weights)
        most = math.inf if self.settings.clip is None else self.settings.clip
        self.refuse_non_finite(loss, nn.utils.clip_grad_norm_(self.trained, most))
        for group in self.optimizer.param_groups:
            group["lr"] = self.settings.learning_rate(self.step)
        self.optimizer.step()
        if self.average is not None:
            self.average.update(self.network)
        self.step += 1

    def report(self, loss: _Loss, logits: Tensor, y: Tensor) -> None:
        """Adds the parts to their sums, moves the bar, and notes when the run is over."""
        for name, part in loss.parts.items():
            self.sums[name] = self.sums.get(name, 0.0) + part.detach()
        self.summed += 1
        if self.bar is not None:
            self.bar.step = self.step
        if self.bar is not None and self.bar.due:
            now = {name: part.item() for name, part in loss.parts.items()}
            score = self.rows[-1].get("score") if self.rows else None
            self.bar.show(self.step, {**now, "accuracy": accuracy(self._space, logits, y), "score": score})
        if self.interrupted or self.step == self.settings.steps:
            self.stopped = "steps" if self.step == self.settings.steps else "interrupted"

    def evaluate(self, logits: Tensor, y: Tensor) -> None:
        """A row of the log; with a validation also the best weights so far, and whether to stop."""
        means = {name: float(total) / self.summed for name, total in self.sums.items()}
        row: Row = {"step": self.step, "lr": self.settings.learning_rate(self.step - 1), "total": sum(means.values())}
        row |= {**means, "accuracy": accuracy(self._space, logits, y)}
        self.sums, self.summed = {}, 0
        if self.validate is not None:
            row["score"] = self._score(self.validate)
        if self.watch is not None and self.ranks.first:
            row["watched"] = self._scored(self.watch)
        self.rows.append({**row, "seconds": round(time.monotonic() - self.started, 3)})
        if self.ranks.first:
            for log in self.logs:
                log.add(self.rows)

    def save(self) -> None:
        """Writes a checkpoint, if the settings name a folder for them."""
        if self.settings.checkpoint is None or not self.ranks.first:
            return
        self.refuse_bad_weights()
        tensors: dict[str, Tensor] = {}
        state = checkpoints.pack("run", self._state(), tensors)
        checkpoints.save(Path(self.settings.checkpoint), checkpoints.Checkpoint(self.step, tensors, state))

    def finish(self) -> History:
        """The history; the network gets the weights to use and is left in evaluation mode."""
        self.refuse_bad_weights()
        self.stopped = self.stopped or "steps"  # no step was to be done
        if self.stopped == "interrupted" and self.ranks.first:
            print(self._how_to_resume(), file=sys.stderr)
        carry = self._carry()
        self.network.load_state_dict(self.best or self._used().state_dict())
        self.network.eval()
        return History(self.network, self.step, self.rows, self.best_step, self.best_score, self.stopped, carry)

    # ---- from run to run ----

    def _carry(self) -> Carry:
        average = None if self.average is None else self.average.state_dict()
        held = (self.network.state_dict(), average, self.optimizer.state_dict())
        return Carry(self.past + self.step, *copy.deepcopy(held))

    def _take_up(self, carry: Carry) -> None:
        """The state of the optimiser that ran before."""
        held = [len(group["params"]) for group in carry.optimizer["param_groups"]]
        if held == [
            len(group["params"]) for group in self.optimizer.param_groups
        ]:  # otherwise another one was asked for
            ours = [{k: v for k, v in g.items() if k != "params"} for g in self.optimizer.param_groups]
            self.optimizer.load_state_dict(carry.optimizer)
            for group, options in zip(self.optimizer.param_groups, ours):
                group.update(options)  # learning rate and weight decay are those of this run

    # ---- what they stand on ----

    @property
    def _space(self) -> Any:
        return getattr(self.objective, "space", None)

    def _used(self) -> nn.Module:
        """The network as it would be used now: with averaged weights, if they are asked for."""
        return self.network if self.average is None else self.average.with_buffers(self.network)

    def _scored(self, validate: Validate) -> float:
        """A score of the network as it would be used now."""
        with torch.no_grad():
            score = float(validate(self._used().eval()))
        self.network.train()
        return score

    def _score(self, validate: Validate) -> float:
        """The validation's score; better ones are remembered with their weights."""
        network, score = self._used(), self.ranks.agreed(self._scored(validate))
        if score > (-math.inf if self.best_score is None else self.best_score):  # NaN is never better
            self.best = {name: tensor.clone() for name, tensor in network.state_dict().items()}
            self.best_score, self.best_step, self.waited = score, self.step, 0
        else:
            self.waited += 1
        if self.settings.patience is not None and self.waited >= self.settings.patience and not self.stopped:
            self.stopped = "patience"
        return score

    def _state(self) -> dict[str, Any]:
        return {
            "identity": self._identity,
            "network": self.network.state_dict(),
            "average": {} if self.average is None else self.average.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "objective": self.terms.state_dict(),
            "best": self.best,
            "random": randomness(),
            "plain": {name: getattr(self, name) for name in _PLAIN},
            "sums": {name: float(total) for name, total in self.sums.items()},
            "seconds": time.monotonic() - self.started,
        }

    def _resume(self) -> None:
        """Goes on from the last checkpoint, if there is one."""
        if self.settings.checkpoint is None:
            return
        folder = Path(self.settings.checkpoint)
        found = checkpoints.latest(folder) if self.ranks.first else None
        step = int(self.ranks.agreed(found.step if found else -1))
        if step < 0:
            return
        found = found or checkpoints.load(checkpoints.path(folder, step))
        state = checkpoints.unpack(found.state, found.tensors)
        finished = state["plain"]["stopped"] in ("steps", "patience")
        refuse_other(self._identity, state["identity"], folder, finished=finished)
        self.network.load_state_dict(state["network"])
        self.terms.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        self.best = {name: t.to(self.ranks.device) for name, t in state["best"].items()}
        vars(self).update(state["plain"])
        self.sums = state["sums"]
        self.stopped = "" if self.stopped == "interrupted" else self.stopped
        self.started = time.monotonic() - state["seconds"]
        set_randomness(state["random"])

    def _open_logs(self) -> None:
        self.logs: list[LogFile | Board | Told] = []
        if not self.ranks.first:
            return
        if self.settings.log is not None:
            self.logs.append(LogFile(self.settings.log, self.rows))
        if self.settings.tensorboard is not None:
            self.logs.append(Board(self.settings.tensorboard, self.step))
        self.logs += [Told(callback) for callback in self.settings.callbacks or ()]
        if self.settings.progress:
            self.bar = Bar(self.settings.steps, self.step)
        for shown in (*self.logs, self.bar):
            if shown is not None:
                self._exits.callback(shown.close)

    def _stop(self) -> None:
        self.asked_to_stop = True  # the step ends first

    def _kept(self) -> str:
        """Where the last good checkpoint is, if there is one."""
        where = self.settings.checkpoint
        if where is None or not any(Path(where).glob("step-*.safetensors")):
            return ""
        return f"The last good checkpoint is in '{where}'. "

    def _how_to_resume(self) -> str:
        where = self.settings.checkpoint
        how = f"saved in '{where}': run the same again to resume" if where else "set `checkpoint` to resume such runs"
        return f"interrupted at step {self.step} of {self.settings.steps}; {how}"


_PLAIN = ("step", "waited", "stopped", "rows", "best_step", "best_score", "summed")


def _prepare(objective: Any, network: nn.Module, data: Data) -> None:
    """Shows the network and the data to an objective that asks for them."""
    if hasattr(objective, "prepare"):
        objective.prepare(network, data)


def _fast_bfloat16(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)


def _odd_rows(batch: Batch, most: int = 5) -> list[int]:
    """Numbers of the first rows whose x or weight is not finite."""
    odd = ~(batch.x.isfinite().flatten(1).all(1) & batch.weight.isfinite())
    return [] if batch.rows is None else batch.rows[odd][:most].tolist()


# ---- more than one process ----


def _in_processes(network: nn.Module, objective: Any, data: Data, settings: Settings, *more: Any) -> History:
    """The same run in processes of its own; network and objective get the state they ended in."""
    history, weights, terms = processes.launch(
        _one_rank, network, objective, data, settings, *more, devices=settings.devices
    )
    network.load_state_dict(weights)
    network.eval()
    if isinstance(objective, nn.Module):
        _prepare(objective, network, data)
        objective.load_state_dict(terms)
    return replace(history, network=network)


def _one_rank(
    network: nn.Module, objective: Any, data: Data, settings: Settings,
    validate: Validate | None, carry: Carry | None, watch: Validate | None,
) -> tuple[History, dict[str, Tensor], dict[str, Tensor]]:  # fmt: skip
    history = train(network, objective, data, settings, validate=validate, carry=carry, watch=watch)
    terms = objective.state_dict() if isinstance(objective, nn.Module) else {}
    return (
        replace(history, network=nn.Module(), carry=_on_cpu(history.carry)),
        {name: tensor.cpu() for name, tensor in network.state_dict().items()},
        {name: tensor.cpu() for name, tensor in terms.items()},
    )


def _on_cpu(held: Any) -> Any:
    """The same with every tensor on the CPU, however deeply nested."""
    if isinstance(held, Tensor):
        return held.cpu()
    if isinstance(held, Carry):
        return replace(held, **{name: _on_cpu(value) for name, value in vars(held).items()})
    if isinstance(held, dict):
        return {key: _on_cpu(value) for key, value in held.items()}
    return [_on_cpu(value) for value in held] if isinstance(held, list) else held
