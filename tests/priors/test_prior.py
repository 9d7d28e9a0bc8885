"""The contract of every prior on every kind of space."""

from __future__ import annotations

import copy
import io
import pickle

import pytest
import torch

from dssl.errors import DataError
from dssl.priors import DeterministicPrior, EntropyPrior, ExclusivityPrior, Prior, PseudoLabelPrior, TNormPrior
from dssl.priors.prior import Unbound
from priors.cases import FUZZY, PAIRS, RULED, SPACES, evidence_of, logits_of, make

every = pytest.mark.parametrize(("prior", "space"), PAIRS)
some = pytest.mark.parametrize(("prior", "space"), [x for x in PAIRS if x[1] in ("mix", "rules and soft rules")])
both = pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])


@every
@both
def test_shapes_types_and_batches(prior, space, dtype):
    q, z = make(prior, space, dtype), logits_of(SPACES[space], 6).to(dtype)
    out = q(z)
    assert out.shape == (6,)
    assert out.dtype == dtype
    assert q(z[0]).shape == ()
    assert q(z.reshape(2, 3, -1)).shape == (2, 3)
    assert q(z[:0]).shape == (0,)
    close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 1e-9, "atol": 1e-9}
    for size in (1, 2, 3, 5):  # a batch's rows do not see each other
        torch.testing.assert_close(torch.cat([q(part) for part in z.split(size)]), out, **close)
        losses = torch.stack([-q(row) for row in z[:size]])
        torch.testing.assert_close(-q(z[:size]).mean(), losses.mean(), **close)


@every
@both
def test_finite_at_huge_logits(prior, space, dtype):
    q = make(prior, space, dtype)
    generator = torch.Generator().manual_seed(1)
    z = 1e4 * torch.randint(-1, 2, (16, SPACES[space].width), generator=generator).to(dtype)
    z.requires_grad_()
    out = q(z)
    assert out.isfinite().all()
    out.sum().backward()
    assert z.grad.isfinite().all()


@every
def test_evidence_gives_finite_values_and_gradients(prior, space):
    q, z = make(prior, space), logits_of(SPACES[space], 8).requires_grad_()
    known = evidence_of(SPACES[space], 8)
    out = q(z, known)
    assert out.isfinite().all()
    out.sum().backward()
    assert z.grad.isfinite().all()
    nothing = torch.full_like(known, float("nan"))
    torch.testing.assert_close(q(z, nothing), q(z))


@every
def test_gradcheck(prior, space):
    q = make(prior, space)
    for parameter in q.parameters():
        parameter.requires_grad_(False)
    z = logits_of(SPACES[space], 2, seed=3, scale=1.0).requires_grad_()
    assert torch.autograd.gradcheck(q, (z,))


@some
def test_state_dict_copy_and_pickle(prior, space):
    q, z = make(prior, space), logits_of(SPACES[space], 3)
    before = q(z)
    file = io.BytesIO()
    torch.save(q.state_dict(), file)
    file.seek(0)
    other = make(prior, space)
    for tensor in [*other.parameters(), *other.buffers()]:
        if tensor.is_floating_point():
            tensor.data.fill_(0.5)
    other.load_state_dict(torch.load(file, weights_only=True))
    torch.testing.assert_close(other(z), before)
    torch.testing.assert_close(copy.deepcopy(q)(z), before)
    if prior != "spike":  # the local function cannot be pickled by name everywhere
        torch.testing.assert_close(pickle.loads(pickle.dumps(q))(z), before)


@some
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # dynamo looks at it where a graph breaks
def test_compile(prior, space):
    torch._dynamo.reset()
    q, z = make(prior, space), logits_of(SPACES[space], 3).requires_grad_()
    compiled = torch.compile(q, backend="eager")
    torch.testing.assert_close(compiled(z), q(z))
    (found,) = torch.autograd.grad(compiled(z).sum(), z)
    torch.testing.assert_close(found, torch.autograd.grad(q(z).sum(), z)[0])


@some
def test_vmap_works_or_says_why_not(prior, space):
    q, z = make(prior, space), logits_of(SPACES[space], 3)
    if prior not in FUZZY and (space in RULED or prior.startswith("learned")):  # where a circuit is asked
        with pytest.raises(RuntimeError, match=r"inside torch.func.vmap.*Call the prior on the whole batch"):
            torch.func.vmap(q)(z)
    else:
        torch.testing.assert_close(torch.func.vmap(q)(z), q(z))


@pytest.mark.parametrize("space", ["mix", "rules"])
def test_half_precision_is_widened(space):
    q, z = make("deterministic", space, torch.float32), logits_of(SPACES[space], 4).to(torch.bfloat16).requires_grad_()
    assert torch.equal(q(z), q(z.float()))
    q(z).sum().backward()
    assert z.grad.dtype == torch.bfloat16


@pytest.mark.parametrize("kind", [EntropyPrior, ExclusivityPrior, PseudoLabelPrior, DeterministicPrior, TNormPrior])
def test_a_prior_without_a_space_is_made_when_it_gets_one(kind):
    space, z = SPACES["rules"], logits_of(SPACES["rules"], 3)
    later = kind()
    assert isinstance(later, Unbound)
    torch.testing.assert_close(later(space)(z), kind(space)(z))
    assert later == kind() == pickle.loads(pickle.dumps(copy.deepcopy(later)))


def test_an_unbound_prior_keeps_its_options_and_says_what_it_lacks():
    sharp = DeterministicPrior(power=7.0)
    assert float(sharp(SPACES["rule"]).power) == 7.0
    with pytest.raises(AttributeError, match=r"has no 'log_prob'\nWrite DeterministicPrior\(space, power=7\.0\)\."):
        sharp.log_prob(torch.zeros(1, 2))
    with pytest.raises(TypeError, match="unexpected keyword argument 'powers'"):
        DeterministicPrior(powers=7.0)
    with pytest.raises(TypeError, match="a prior needs a LabelSpace, not float"):
        DeterministicPrior(7.0)
    with pytest.raises(TypeError, match="abstract"):
        Prior()


def test_misfits_are_refused():
    q = make("entropy", "mix")
    with pytest.raises(DataError, match=r"shape \(2, 3\).*do not fit"):
        q(torch.zeros(2, 3))
    with pytest.raises(DataError, match=r"torch.int64"):
        q(torch.zeros(2, 10, dtype=torch.long))
    with pytest.raises(DataError, match=r"shape \(2, 4\)"):
        q(torch.zeros(2, 10), torch.zeros(2, 4))
