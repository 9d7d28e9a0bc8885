"""Element networks: the same weights for every element, in their places."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import oracle
from dssl import LabelSpace, Objective
from dssl.training.elements.network import ElementNetwork, elements_of, make_element_network
from dssl.training.elements.readers import IN_CONTEXT

PLACES = np.array([[0, 1, 2], [5, 6, 7], [8, 9, 10]])  # columns 3 and 4 are of no element
SHAPES = {"linear": (4,), "mlp": (4,), "cnn": (8, 8), "wrn-28-2": (1, 8, 8), "sequence": (4,), "transformer": (4,)}


def rows(n: int, *shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, *shape, generator=torch.Generator().manual_seed(seed))


def made(name: str, vocabulary: int | None = None) -> ElementNetwork:
    example = rows(2, 3, *SHAPES[name]) if vocabulary is None else torch.zeros(2, 3, dtype=torch.int64)
    return make_element_network(name, example, PLACES, 11, vocabulary=vocabulary, seed=0).eval()


ALONE = [name for name in SHAPES if name not in IN_CONTEXT]


@pytest.mark.parametrize("name", ALONE)
def test_equal_elements_have_equal_logits_wherever_they_stand(name: str) -> None:
    network = made(name)
    one, other = rows(1, *SHAPES[name]), rows(1, *SHAPES[name], seed=1)
    z = network(torch.stack([torch.cat([one, other, one]), torch.cat([other, one, other])]))
    torch.testing.assert_close(z[0, PLACES[0]], z[0, PLACES[2]])
    torch.testing.assert_close(z[0, PLACES[0]], z[1, PLACES[1]])
    assert not torch.allclose(z[0, PLACES[0]], z[0, PLACES[1]])


@pytest.mark.parametrize("name", ALONE)
@given(order=st.permutations(range(3)))
def test_permuted_elements_have_permuted_logits(name: str, order: list[int]) -> None:
    network = made(name)
    x = rows(2, 3, *SHAPES[name])
    with torch.no_grad():
        plain, permuted = network(x), network(x[:, order])
    torch.testing.assert_close(permuted[:, PLACES.ravel()], plain[:, PLACES[order].ravel()], rtol=1e-4, atol=1e-5)
    assert torch.equal(permuted[:, [3, 4]], plain[:, [3, 4]])


@pytest.mark.parametrize("name", IN_CONTEXT)
def test_neighbours_count_only_in_context(name: str) -> None:
    x = rows(1, 3, 4)
    changed = x.clone()
    changed[:, 1] += 1
    assert not torch.allclose(made(name)(changed)[:, PLACES[0]], made(name)(x)[:, PLACES[0]])
    torch.testing.assert_close(made("mlp")(changed)[:, PLACES[0]], made("mlp")(x)[:, PLACES[0]])


def test_a_transformer_knows_where_an_element_stands_and_convolutions_only_the_ends() -> None:
    x = rows(1, 1, 4).expand(1, 9, 4)  # nine elements, all alike
    places = np.arange(27).reshape(9, 3)
    for name, same in (("sequence", True), ("transformer", False)):
        z = make_element_network(name, x, places, 27, seed=0).eval()(x)
        assert torch.allclose(z[:, places[3]], z[:, places[5]], atol=1e-6) is same
        assert not torch.allclose(z[:, places[0]], z[:, places[4]])


def test_what_is_not_read_is_a_constant_that_learns() -> None:
    network = made("linear")
    assert network.unread.tolist() == [3, 4]
    assert torch.equal(network(rows(5, 3, 4))[:, [3, 4]], torch.zeros(5, 2))
    network(rows(5, 3, 4))[:, 3].sum().backward()
    assert network.constants.grad is not None
    assert network.constants.grad.tolist() == [5.0, 0.0]


@pytest.mark.parametrize("name", ["linear", "mlp", "sequence", "transformer"])
def test_tokens_are_looked_up_and_new_ones_are_unknown(name: str) -> None:
    network = made(name, vocabulary=5)
    known = torch.tensor([[0, 1, 4]])
    assert network(known).shape == (1, 11)
    unknown = [network(torch.tensor([[0, token, 4]])) for token in (5, 99, -1)]
    assert torch.equal(unknown[0], unknown[1])
    assert torch.equal(unknown[0], unknown[2])
    assert not torch.equal(unknown[0], network(known))


def test_axes_of_elements_are_read_row_by_row() -> None:
    x = rows(2, 3, 3, 4)
    flat, grid = elements_of(x.flatten(1, 2)), elements_of(x, axes=2)
    assert torch.equal(flat, grid)
    assert elements_of(x[:, 0]).shape == (6, 4)
    assert elements_of(rows(2, 5, 8, 8)).shape == (10, 1, 8, 8)
    assert elements_of(rows(2, 5)).shape == (10, 1)
    assert elements_of(rows(2, 3, 3, 4), axes=2, apart=False).shape == (2, 9, 4)


def test_a_module_reads_one_element_and_gets_its_head() -> None:
    body = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 2))
    network = make_element_network(body, rows(2, 3, 4), PLACES, 11)
    assert network(rows(2, 3, 4)).shape == (2, 11)
    assert isinstance(network.reader, nn.Sequential)
    assert network.reader[-1].out_features == 3


def test_seeds_fix_weights_and_leave_the_generator_alone() -> None:
    before = torch.random.get_rng_state()
    one, two = made("transformer"), made("transformer")
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters()))


def test_the_gradient_of_a_partial_label_is_that_of_enumeration() -> None:
    """Only the sum is known: −log Σ over valid labels with this sum, of the elements' own probabilities, by hand."""
    space = LabelSpace("a[1..2]: 0..2\ntotal: 0..4\na[1] + a[2] = total")
    places = np.array([[0, 1, 2], [3, 4, 5]])
    network = make_element_network("linear", rows(2, 2, 3), places, space.width, seed=0)
    x = rows(4, 2, 3)
    totals = [0, 1, 3, 4]
    y = torch.from_numpy(space.encode([{"total": total} for total in totals]))
    loss = Objective(space, None, constrained=True)(network(x), y)
    found = torch.autograd.grad(loss.total, list(network.parameters()))
    z = network(x)
    by_hand = torch.zeros(())
    labels = [tuple(label.values()) for label in oracle.obeying(space.rules, oracle.records(space.variables))]
    assert len(labels) == 9
    for row, total in zip(z, totals):
        weight = {label: row[label[0]] + row[3 + label[1]] + row[6 + label[2]] for label in labels}
        fits = torch.stack([w for label, w in weight.items() if label[2] == total])
        by_hand = by_hand + torch.stack(list(weight.values())).logsumexp(0) - fits.logsumexp(0)
    by_hand = by_hand / len(x)
    assert float(loss) == pytest.approx(float(by_hand.detach()), rel=1e-4)
    for one, other in zip(found, torch.autograd.grad(by_hand, list(network.parameters()))):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-5)
