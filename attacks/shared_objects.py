"""Every public object asked by several threads at once: whether answers depend on who else is asking.

Each name of `dssl.__all__` has a case. Those that threads may share (docs/threads.md) are made once and asked by all
threads; those that belong to one thread are made by each, which shows that nothing behind them is shared.
"""

from __future__ import annotations

import pickle
import sys
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

import dssl

RULES = """
a, b, c, d, e, f, g, h
kind: {ant, bird, cat, dog}
size: 0..6
a -> b | c
b -> !d
at_most(2, a, b, c, d)
kind = ant -> e & !f
kind in {cat, dog} -> f
size >= 4 -> g
e ^ f ^ g
h <-> (a & size > 2)
a + b + c + size <= 7
0.8 :: kind = dog -> size >= 2
"""
Question = Callable[[Any], Any]


@dataclass(frozen=True)
class Case:
    """A public name (of a method, perhaps), how to make what it stands for, and what to ask of it."""

    name: str
    make: Callable[[], Any]
    questions: tuple[Question, ...]
    shared: bool = True  # False: an object of its own for each thread


def _space() -> dssl.LabelSpace:
    return dssl.LabelSpace(RULES)


def _weights(seed: int, width: int, rows: int = 33) -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))
    return torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)


def _logits(seed: int, width: int = 19, rows: int = 33) -> torch.Tensor:
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed))


def _partial(seed: int) -> list[dict[str, Any]]:
    """Some labels of which two things are known."""
    rng = np.random.default_rng(seed)
    return [{"abcdefgh"[i]: bool(rng.integers(2)), "size": int(rng.integers(7))} for i in rng.integers(0, 8, 12)]


def _completed(space: dssl.LabelSpace, seed: int) -> Any:
    rows = [row for row in _partial(seed) if not space.check([row])]
    return space.complete(rows)


def _space_questions() -> tuple[Question, ...]:
    asked: list[Question] = [lambda s, i=i: _completed(s, i) for i in range(6)]  # type: ignore[misc]
    asked += [lambda s, i=i: str(s.check(_partial(i))) for i in range(6)]  # type: ignore[misc]
    asked += [lambda s: list(s.valid(40)), lambda s: str(s.diagnose()), lambda s: s.count(), lambda s: hash(s)]
    return (*asked, lambda s: s.compile().nodes, lambda s: str(s.where("a -> e")), lambda s: str(s & s))


def _circuit_questions() -> tuple[Question, ...]:
    def of(ask: Callable[..., Any], seed: int) -> Question:
        return lambda c: ask(c, *_weights(seed, c.width))

    def drawn(c: Any, pos: torch.Tensor, neg: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = c.sample(pos, neg, n=5, generator=torch.Generator().manual_seed(7))
        return out

    asks: list[Callable[..., Any]] = [
        lambda c, p, n: c.log_wmc(p, n),
        lambda c, p, n: c.marginals(p, n),
        lambda c, p, n: c.mpe(p, n),
        lambda c, p, n: c.entropy(p, n),
        lambda c, p, n: c.top_k(p, n, 3),
        drawn,
    ]
    return (*(of(ask, seed) for seed in range(3) for ask in asks), lambda c: c.count(), lambda c: c.depth)


def _prior_questions(width: int = 19) -> tuple[Question, ...]:
    def ask(prior: Any, seed: int) -> Any:
        logits = _logits(seed, width).requires_grad_()
        out = prior(logits)
        return out.detach(), torch.autograd.grad(out.sum(), logits)[0]

    return tuple(lambda p, i=i: ask(p, i) for i in range(4))  # type: ignore[misc]


def _predictive_questions() -> tuple[Question, ...]:
    return (
        lambda p: p.log_valid,
        lambda p: p.marginals,
        lambda p: p.best(),
        lambda p: p.top_k(3),
        lambda p: p.entropy(),
        lambda p: dssl.Predictive(_logits(3), _space()).marginals,  # through the cache of families
    )


def _rows(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, 60)
    return rng.normal(size=(60, 4)) + 2 * np.eye(3, 4)[kind], np.where(np.arange(60) < 20, kind, -1)


def _classifier() -> Any:
    return dssl.DSSLClassifier(steps=5, random_state=0).fit(*_rows())


def _predictions() -> tuple[Question, ...]:
    x = _rows(1)[0]
    return (lambda m: m.predict(x), lambda m: m.predict_proba(x), lambda m: m.predict(x[:7]))


def _labels(seed: int = 0) -> list[dict[str, Any]]:
    space = dssl.LabelSpace("a, b, c\na -> b\nat_most(2, a, b, c)")
    valid = list(space.valid())
    return [valid[i] for i in np.random.default_rng(seed).integers(0, len(valid), 80)]


def _learned_prior() -> Any:
    return dssl.learn_prior(_labels(), dssl.LabelSpace("a, b, c\na -> b\nat_most(2, a, b, c)"))


def _saved(fitted: Any) -> Any:
    """What a model predicts that was saved and loaded, in a folder of this thread."""
    with tempfile.TemporaryDirectory() as folder:
        return dssl.load(dssl.save(fitted, Path(folder) / "model")).predict_theta(_rows(1)[0])


@cache
def _trained() -> Any:
    return _classifier()


@cache
def _kept() -> Path:
    """A saved model."""
    return dssl.save(_trained(), Path(tempfile.mkdtemp()) / "model")


def _scored(scorer: Any) -> float:
    return float(scorer(_trained(), *_rows()))


def _error(kind: type[Exception]) -> str:
    try:
        if kind is dssl.RuleError:
            dssl.LabelSpace("a\na -> bb")
        dssl.LabelSpace("a").encode([[7]])
    except kind as error:
        return str(error)
    return "no error"


def _loss(objective: Any) -> Any:
    y = torch.full((33, 19), torch.nan)
    y[:9, 0] = 1.0
    return objective(_logits(1), y).total.detach()


def cases() -> list[Case]:
    """One case for each public name."""
    priors = {name: getattr(dssl, name) for name in ("DeterministicPrior", "EntropyPrior", "ExclusivityPrior")}
    priors["PseudoLabelPrior"] = dssl.PseudoLabelPrior
    return [
        Case("LabelSpace", _space, _space_questions()),
        Case("Circuit", lambda: _space().compile(), _circuit_questions()),
        Case("Predictive", lambda: dssl.Predictive(_logits(0), _space()), _predictive_questions()),
        *(Case(name, lambda kind=kind: kind(_space()), _prior_questions()) for name, kind in priors.items()),  # type: ignore[misc]
        Case("GaussianPrior", lambda: dssl.GaussianPrior((0.0, 2.0), 1.0), _prior_questions(1)),
        Case("LearnedPrior", _learned_prior, _prior_questions(3)),
        Case("learn_prior", lambda: None, (lambda _: _learned_prior().weights.detach(),)),
        Case("learn_rules", lambda: _labels(3), (lambda y: dssl.learn_rules(y).text,)),
        Case("symbols", lambda: dssl.symbols("a, b"), (lambda ab: str((ab[0] >> ab[1]).iff(ab[1] | ab[0])),)),
        Case("RuleError", lambda: dssl.RuleError, (_error,)),
        Case("DataError", lambda: dssl.DataError, (_error,)),
        Case("DSSLClassifier", _classifier, _predictions()),
        # torch's generator is one for all threads, so weights depend on who else trains: only the shape is compared
        Case("DSSLClassifier.fit", lambda: None, (lambda _: _classifier().predict(_rows(1)[0]).shape,), shared=False),
        Case("GenerativeClassifier", lambda: dssl.GenerativeClassifier().fit(*_rows()), _predictions()),
        Case(
            "LabelledSplit",
            lambda: dssl.LabelledSplit(4, shuffle=True, random_state=0),
            (lambda s: [(a.tolist(), b.tolist()) for a, b in s.split(*_rows())],),
        ),
        Case("labelled_scorer", lambda: dssl.labelled_scorer("accuracy"), (_scored,)),
        Case("save", _trained, (_saved,)),
        Case("load", _kept, (lambda path: dssl.load(path).predict_theta(_rows(1)[0]),)),
        Case("Objective", lambda: dssl.Objective(_space(), dssl.EntropyPrior(_space())), (_loss,), shared=False),
    ]


def _bits(answer: Any) -> bytes:
    """An answer as bytes: equal if and only if it is the same to the last bit."""
    if isinstance(answer, torch.Tensor):
        answer = answer.detach().numpy()
    if isinstance(answer, np.ndarray):
        return repr((answer.shape, answer.dtype)).encode() + answer.tobytes()
    if isinstance(answer, tuple | list):
        return b"|".join(_bits(part) for part in answer)
    return pickle.dumps(answer)


def faults(case: Case, threads: int = 4, rounds: int = 3) -> list[str]:
    """What went wrong when so many threads asked everything at once, each in another order."""
    lone = case.make()
    alone = [_bits(ask(lone)) for ask in case.questions]
    found: list[str] = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # threads take turns a thousand times as often
    try:
        for _ in range(rounds):
            found += _round(case, alone, threads)
    finally:
        sys.setswitchinterval(interval)
    return found


def _round(case: Case, alone: list[bytes], threads: int) -> list[str]:
    held = case.make() if case.shared else None
    start, found = threading.Barrier(threads), []

    def work(number: int) -> None:
        try:
            mine = held if case.shared else case.make()
            start.wait()
            for i in range(len(case.questions)):
                at = (i + number * 5) % len(case.questions)
                if _bits(case.questions[at](mine)) != alone[at]:
                    found.append(f"question {at}: another answer than alone")
        except Exception as error:
            start.abort()
            found.append(f"{type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return found
