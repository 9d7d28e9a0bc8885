"""What a circuit can be asked, on batches: log WMC, marginals, entropy, the heaviest labels, samples.

On the CPU the kernels answer (see `launch`), first derivatives included. Other devices, and derivatives of derivatives,
go through the torch operations of `layered`. Where a row's weights leave no valid label, log weights are −inf,
marginals, entropy and gradients 0 and labels false; with ``strict=True`` such rows are an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from dssl.circuits.circuit import Circuit
from dssl.circuits.evaluate import layered
from dssl.circuits.evaluate.launch import launch
from dssl.circuits.evaluate.program import program_of
from dssl.circuits.proof import require_decomposable, require_deterministic
from dssl.errors import DataError

_FLOATS = (torch.float32, torch.float64)
_GRAIN = 32_768  # numbers from which torch wakes its threads, which then spin for a while on the cores that ours need
_HELD = 1 << 24  # literals of labels that one k-best call may hold


def log_wmc(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
    """log of the sum over valid labels of the product of literal weights; shape (...)."""
    return _ask(circuit, log_pos, log_neg, strict, layered.log_wmc, _log_wmc)


def marginals(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
    """P(column is true | V), the gradient of log WMC (MATH §4, identity 3); shape (..., width)."""
    return _ask(circuit, log_pos, log_neg, strict, layered.marginals, _marginals)


def entropy(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> Tensor:
    """Entropy of p(y | V) in nats; shape (...)."""
    return _ask(circuit, log_pos, log_neg, strict, layered.entropy, _entropy)


def mpe(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, *, strict: bool = False) -> tuple[Tensor, Tensor]:
    """The heaviest valid label, bool (..., width), and its log weight (...), whose gradient is that label."""
    labels, weight = top_k(circuit, log_pos, log_neg, 1, strict=strict)
    return labels.squeeze(-2), weight.squeeze(-1)


def top_k(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, k: int, *, strict: bool = False) -> tuple[Tensor, Tensor]:
    """The k heaviest valid labels, bool (..., k, width), heaviest first, and their log weights (..., k).

    Where fewer than k labels are valid, the rest are all false and weigh −inf.
    """
    if k < 1:
        raise DataError(f"top_k was asked for k = {k} labels. Ask for at least one.")
    (require_deterministic if k > 1 else require_decomposable)(circuit)
    log_pos, log_neg = _checked(circuit, log_pos, log_neg)
    if log_pos.device.type != "cpu":
        labels, weight = layered.top_k(circuit, log_pos, log_neg, k)
    else:
        shape = log_pos.shape[:-1]
        pos, neg = _flat(log_pos), _flat(log_neg)
        step = max(1, _HELD // (k * int(circuit.starts[-1]) + 1))
        parts = [_top_k(circuit, p, n, k) for p, n in zip(pos.split(step), neg.split(step))]
        labels, weight = (torch.cat(part) for part in zip(*parts))  # (batch, k, columns), (batch, k)
        labels = labels[..., : circuit.width].reshape(*shape, k, circuit.width)
        weight = weight.reshape(*shape, k)
    if strict:
        layered.require_valid(weight[..., 0] == -math.inf)
    return labels, weight


def sample(
    circuit: Circuit, log_pos: Tensor, log_neg: Tensor, n: int = 1, generator: torch.Generator | None = None
) -> Tensor:
    """n labels for each row, drawn exactly and independently from p(y | V); bool (n, ..., width).

    The same generator state gives the same labels, whatever the number of threads. Rows without a valid label are an
    error: there is nothing to draw.
    """
    if n < 0:
        raise DataError(f"sample was asked for n = {n} labels. Ask for 0 or more.")
    require_deterministic(circuit)
    log_pos, log_neg = _checked(circuit, log_pos.detach(), log_neg.detach())
    if log_pos.device.type != "cpu":
        return layered.sample(circuit, log_pos, log_neg, n, generator)
    pos, neg = _flat(log_pos), _flat(log_neg)
    program = program_of(circuit)
    value = pos.new_empty(len(pos))
    labels = torch.empty(n, len(pos), program.columns, dtype=torch.bool)
    seed = int(torch.randint(1 << 62, (1,), generator=generator))
    if launch("sample", program, pos, neg, value, labels, given=seed, number=n):
        layered.require_valid((value == -math.inf).reshape(log_pos.shape[:-1]))
    return labels[..., : circuit.width].reshape(n, *log_pos.shape[:-1], circuit.width)


# ---- what all queries share ----


def _ask(
    circuit: Circuit,
    log_pos: Tensor,
    log_neg: Tensor,
    strict: bool,
    elsewhere: Callable[[Circuit, Tensor, Tensor], Tensor],
    here: Callable[[Circuit, Tensor, Tensor], tuple[Tensor, int]],
) -> Tensor:
    """Answer by `here` on (batch, width) tensors of the CPU, by `elsewhere` on other devices."""
    require_deterministic(circuit)
    log_pos, log_neg = _checked(circuit, log_pos, log_neg)
    if log_pos.device.type != "cpu":
        if strict:
            layered.require_valid(layered.log_wmc(circuit, log_pos, log_neg) == -math.inf)
        return elsewhere(circuit, log_pos, log_neg)
    answer, empty = here(circuit, _flat(log_pos), _flat(log_neg))
    if strict and empty:
        layered.require_valid(log_wmc(circuit, log_pos.detach(), log_neg.detach()) == -math.inf)
    if log_pos.dim() == 2:
        return answer
    return answer.reshape(log_pos.shape[:-1] + answer.shape[1:])


def _checked(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, Tensor]:
    """The weights as floats of one type and shape, or an error that says what is wrong with them."""
    for name, x in (("log_pos", log_pos), ("log_neg", log_neg)):
        if x.dtype not in _FLOATS:
            raise DataError(
                f"{name} is {x.dtype}, but log weights are float32 or float64. Convert it, as in {name}.float()."
            )
        if x.dim() == 0 or x.shape[-1] != circuit.width:
            raise DataError(
                f"{name} has shape {tuple(x.shape)}, but the circuit has {circuit.width} columns. "
                f"Give it the shape (..., {circuit.width})."
            )
    if log_pos.dtype != log_neg.dtype:
        log_pos, log_neg = log_pos.double(), log_neg.double()
    if log_pos.shape != log_neg.shape:
        try:
            log_pos, log_neg = torch.broadcast_tensors(log_pos, log_neg)
        except RuntimeError:
            shapes = f"{tuple(log_pos.shape)} and {tuple(log_neg.shape)}"
            raise DataError(f"log_pos and log_neg have shapes {shapes}, which do not broadcast.") from None
    return log_pos, log_neg


def _flat(x: Tensor) -> Tensor:
    return x if x.dim() == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


# ---- derivatives ----


def _differentiable(log_pos: Tensor, log_neg: Tensor) -> bool:
    return torch.is_grad_enabled() and (log_pos.requires_grad or log_neg.requires_grad)


def _again(ctx: Any, query: Callable[[Circuit, Tensor, Tensor], Tensor], grad: Tensor) -> tuple[None, Any, Any]:
    """The gradient as differentiable torch operations, for derivatives of derivatives."""
    weights = ctx.saved_tensors[:2]
    wanted = [x for x in weights if x.requires_grad]
    found = iter(
        torch.autograd.grad(query(ctx.circuit, *weights), wanted, grad, create_graph=True, materialize_grads=True)
    )
    pos, neg = (next(found) if x.requires_grad else None for x in weights)
    return None, pos, neg


def _covariance(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, direction: Tensor) -> Tensor:
    """Cov(y)·v for v of shape (batch, columns); shape (batch, width)."""
    out = torch.empty(log_pos.shape, dtype=log_pos.dtype)
    launch("covariance", program_of(circuit), log_pos, log_neg, out, given=direction.contiguous())
    return out


def _log_wmc(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
    if _differentiable(log_pos, log_neg):
        return _LogWMC.apply(circuit, log_pos, log_neg)
    value = log_pos.new_empty(len(log_pos))
    return value, launch("log_wmc", program_of(circuit), log_pos, log_neg, value)


class _LogWMC(torch.autograd.Function):
    """The gradient μ is computed together with the value, and waits for the backward pass."""

    @staticmethod
    def forward(ctx: Any, circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
        value, mu = log_pos.new_empty(log_pos.shape[0]), torch.empty(log_pos.shape, dtype=log_pos.dtype)
        empty = launch("gradient", program_of(circuit), log_pos, log_neg, value, mu)
        ctx.circuit, ctx.mu, ctx.none = circuit, mu, value == -math.inf if empty else None
        ctx.save_for_backward(log_pos, log_neg)
        return value, empty

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[None, Tensor | None, Tensor | None]:
        if torch.is_grad_enabled():
            return _again(ctx, layered.log_wmc, grad)
        if ctx.none is not None:
            grad = grad.masked_fill(ctx.none, 0)
        grad = grad.unsqueeze(1)
        if ctx.mu.numel() < _GRAIN:
            pos = ctx.mu * grad
            return None, pos, grad - pos if ctx.needs_input_grad[2] else None
        scale = grad.numpy()
        product = scale * ctx.mu.numpy()
        return None, torch.from_numpy(product), torch.from_numpy(scale - product) if ctx.needs_input_grad[2] else None


def _marginals(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
    if _differentiable(log_pos, log_neg):
        return _Marginals.apply(circuit, log_pos, log_neg)
    value, mu = log_pos.new_empty(len(log_pos)), torch.empty(log_pos.shape, dtype=log_pos.dtype)
    return mu, launch("gradient", program_of(circuit), log_pos, log_neg, value, mu)


class _Marginals(torch.autograd.Function):
    """∂(v·μ) / ∂ log w = Cov(y)·v, and its negative for w̄."""

    @staticmethod
    def forward(ctx: Any, circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
        ctx.circuit = circuit
        ctx.save_for_backward(log_pos, log_neg)
        return _marginals(circuit, log_pos, log_neg)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[None, Tensor | None, Tensor | None]:
        if torch.is_grad_enabled():
            return _again(ctx, layered.marginals, grad)
        log_pos, log_neg = ctx.saved_tensors
        direction = torch.nn.functional.pad(grad, (0, len(ctx.circuit.soft)))
        change = _covariance(ctx.circuit, log_pos, log_neg, direction)
        return None, change, -change


def _entropy(circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
    if _differentiable(log_pos, log_neg):
        return _Entropy.apply(circuit, log_pos, log_neg)
    value = log_pos.new_empty(len(log_pos))
    return value, launch("entropy", program_of(circuit), log_pos, log_neg, value)


class _Entropy(torch.autograd.Function):
    """∂H / ∂ log w = −Cov(y)·(log w − log w̄), and its negative for w̄."""

    @staticmethod
    def forward(ctx: Any, circuit: Circuit, log_pos: Tensor, log_neg: Tensor) -> tuple[Tensor, int]:
        ctx.circuit = circuit
        ctx.save_for_backward(log_pos, log_neg)
        return _entropy(circuit, log_pos, log_neg)

    @staticmethod
    def backward(ctx: Any, grad: Tensor, _: Any) -> tuple[None, Tensor | None, Tensor | None]:
        if torch.is_grad_enabled():
            return _again(ctx, layered.entropy, grad)
        log_pos, log_neg = ctx.saved_tensors
        pos, neg = layered.with_soft(ctx.circuit, log_pos, log_neg)
        odds = (pos - neg).nan_to_num(0, 0, 0)  # evidence does not vary, so its direction does not matter
        change = grad.unsqueeze(1) * _covariance(ctx.circuit, log_pos, log_neg, odds)
        return None, -change, change


# ---- the heaviest labels ----


def _top_k(circuit: Circuit, log_pos: Tensor, log_neg: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k heaviest valid labels, bool (batch, k, columns), and their log weights (batch, k), −inf if none."""
    program, batch = program_of(circuit), len(log_pos)
    found = log_pos.new_empty(batch, k)
    labels = torch.empty(batch, k, program.columns, dtype=torch.bool)
    pos, neg = log_pos.detach(), log_neg.detach()
    launch("best" if k == 1 else "k_best", program, pos, neg, found, labels, number=k)
    log_pos, log_neg = layered.with_soft(circuit, log_pos, log_neg)
    weight = torch.where(labels, log_pos.unsqueeze(1), log_neg.unsqueeze(1)).sum(-1)
    return labels, layered.or_nan(weight.masked_fill(found == -math.inf, -math.inf), log_pos, log_neg)
