"""Views: what they change, what they leave, and that every row has its own chance."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dssl.data.rows import ArrayData
from dssl.errors import DataError
from dssl.training.terms.augmentation import (
    AUGMENTATIONS,
    Affine,
    Augmentation,
    Chain,
    Cutout,
    Flip,
    Lighting,
    Mask,
    NearestNeighbours,
    Noise,
    RandAugment,
    Shift,
    Swap,
    Views,
    make_views,
)

IMAGE_VIEWS: dict[str, Augmentation] = {
    "shift": Shift(),
    "flip": Flip(),
    "affine": Affine(),
    "lighting": Lighting(),
    "cutout": Cutout(),
}
ALL = {**IMAGE_VIEWS, "noise": Noise(), "mask": Mask(), "swap": Swap()}


def images(n: int = 64, channels: int = 3, height: int = 8, width: int = 10) -> Tensor:
    """Copies of one image, so that whatever differs is chance."""
    one = torch.randn(1, channels, height, width, generator=torch.Generator().manual_seed(0))
    return one.expand(n, -1, -1, -1).clone()


@pytest.mark.parametrize("name", ALL)
def test_rows_keep_shape_and_type_have_their_own_chance_and_follow_the_seed(name: str) -> None:
    x = images()
    if name in ("noise", "mask", "swap"):
        x = torch.randn(64, 20, generator=torch.Generator().manual_seed(1))
    before = x.clone()
    torch.manual_seed(0)
    a = ALL[name](x)
    torch.manual_seed(0)
    assert torch.equal(ALL[name](x), a)
    assert not torch.equal(ALL[name](x), a)
    assert torch.equal(x, before)
    assert (a.shape, a.dtype) == (x.shape, x.dtype)
    changes = (a - x).flatten(1)
    assert len({tuple(row.tolist()) for row in changes}) > (1 if name == "flip" else 5)
    assert ALL[name](x[:0]).shape == x[:0].shape
    assert ALL[name](x[:1]).isfinite().all()


# ---- tables ----


def test_noise_is_relative_to_the_spread() -> None:
    x = torch.randn(4000, 2) * torch.tensor([1.0, 100.0]) + torch.tensor([0.0, 1e3])
    moved = Noise(0.5)(x) - x
    torch.testing.assert_close(moved.std(0), torch.tensor([0.5, 50.0]), rtol=0.1, atol=0)


def test_masked_features_are_means_or_zeros() -> None:
    x = torch.rand(3000, 4) + 1
    for fill, expected in (("mean", x.mean(0).expand_as(x)), ("zero", torch.zeros_like(x))):
        seen = Mask(0.3, fill)(x)
        changed = seen != x
        assert float(changed.float().mean()) == pytest.approx(0.3, abs=0.02)
        torch.testing.assert_close(seen[changed], expected[changed])
    with pytest.raises(ValueError, match="fill='median': choose mean or zero"):
        Mask(fill="median")


def test_swapped_features_are_those_of_other_rows() -> None:
    x = torch.arange(3000.0).view(1000, 3)
    seen = Swap(0.4)(x)
    assert bool((seen % 3 == x % 3).all())  # each feature keeps to its column
    assert float((seen != x).float().mean()) == pytest.approx(0.4, abs=0.03)


# ---- neighbours ----


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 12), st.integers(1, 15), st.integers(0, 1000))
def test_neighbours_are_the_nearest_other_rows(n: int, k: int, seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 5, size=(n, 2)).astype(np.float32)  # with ties and equal rows
    view = NearestNeighbours(k, share=1.0).fit(x)
    near = view._all(view._data)  # type: ignore[arg-type]
    assert near.shape == (n, min(k, n - 1))
    for i in range(n):
        assert i not in near[i] and len(set(near[i])) == len(near[i])  # noqa: PT018
        far = np.sort([((x[i] - x[j]) ** 2).sum() for j in range(n) if j != i])
        np.testing.assert_allclose(np.sort(((x[i] - x[near[i]]) ** 2).sum(1)), far[: near.shape[1]], atol=1e-4)


def test_a_share_of_the_way_is_drawn_between_two() -> None:
    x = torch.tensor([[0.0], [10.0], [1000.0], [1010.0]])
    rows = torch.zeros(500, dtype=torch.int64)
    seen = NearestNeighbours(1, share=(0.2, 0.6)).fit(x)(x[rows], rows)
    assert float(seen.min()) == pytest.approx(2, abs=0.1)
    assert float(seen.max()) == pytest.approx(6, abs=0.1)


def test_neighbours_of_sparse_rows_and_of_images() -> None:
    sparse = pytest.importorskip("scipy.sparse").csr_array(np.eye(4, dtype=np.float32))
    seen = NearestNeighbours(2, share=1.0).fit(sparse)(torch.eye(4), torch.arange(4))
    assert bool((seen.sum(1) == 1).all())
    assert not bool((seen * torch.eye(4)).any())
    x = images(3) + torch.arange(3.0).view(3, 1, 1, 1)
    assert torch.allclose(NearestNeighbours(1, share=1.0).fit(x)(x[:1], torch.tensor([0])), x[1:2])


def test_neighbours_among_many_rows_are_the_nearest_of_a_sample() -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    view = NearestNeighbours(k=2, share=1.0, pool=20).fit(x)
    rows = torch.arange(60)
    seen = {tuple(row) for _ in range(30) for row in torch.stack([rows, _found(x, view(x, rows))], 1).tolist()}
    assert view._sample is not None
    kept = view._sample[0]
    for row in range(60):
        others = kept[kept != row]
        nearest = others[(x[others] - x[row]).norm(dim=1).argsort()[:2]]
        assert {near for one, near in seen if one == row} == set(nearest.tolist())


def _found(x: Tensor, moved: Tensor) -> Tensor:
    """The numbers of the rows of x that the moved ones are at."""
    return torch.cdist(moved, x).argmin(1)


def test_neighbours_say_what_they_need() -> None:
    with pytest.raises(ValueError, match=r"must know the data.*\n.*fit\(x\)"):
        NearestNeighbours()(torch.zeros(2, 2), torch.arange(2))
    with pytest.raises(ValueError, match="rows=their_numbers"):
        NearestNeighbours().fit(torch.zeros(4, 2))(torch.zeros(2, 2))


def test_a_single_row_stays_where_it_is() -> None:
    assert NearestNeighbours().fit(torch.ones(1, 2))(torch.ones(1, 2), torch.arange(1)).tolist() == [[1, 1]]


def test_other_data_are_learned_anew() -> None:
    view = NearestNeighbours(1, share=1.0)
    for scale in (1.0, 3.0):
        data = ArrayData(scale * np.arange(4.0)[:, None], np.zeros((4, 1)))
        Views(view).prepare(data)
        assert float(view(torch.zeros(1, 1), torch.tensor([0]))) == scale


# ---- images ----


def test_shifts_are_by_whole_pixels_and_repeat_the_border() -> None:
    x = torch.arange(8.0 * 8).view(1, 1, 8, 8).expand(200, 1, 8, 8)
    for seen in Shift(0.25)(x)[:, 0]:
        down, right = int(seen[4, 4]) // 8 - 4, int(seen[4, 4]) % 8 - 4
        assert max(abs(down), abs(right)) <= 2
        rows, columns = (torch.arange(8) + down).clamp(0, 7), (torch.arange(8) + right).clamp(0, 7)
        assert torch.equal(seen, x[0, 0][rows][:, columns])


def test_half_of_the_images_are_flipped() -> None:
    x = images(1000)
    flipped = (Flip()(x) == x.flip(-1)).all(3).all(2).all(1)
    assert float(flipped.float().mean()) == pytest.approx(0.5, abs=0.05)


@pytest.mark.parametrize("size", [(9, 9), (9, 15)])
def test_a_quarter_turn_is_a_quarter_turn_in_pixels(size: tuple[int, int], monkeypatch: Any) -> None:
    """Whatever height and width are, the middle is turned and not stretched."""
    monkeypatch.setattr(
        "dssl.training.terms.augmentation._uniform", lambda x, low, high: torch.full((len(x), 1, 1, 1), high)
    )
    x = torch.randn(2, 1, *size)
    seen = Affine(90, 0, 0)(x)
    top, left = (size[0] - 9) // 2, (size[1] - 9) // 2
    middle, turned = (t[:, :, top : top + 9, left : left + 9] for t in (x, seen))
    torch.testing.assert_close(turned, middle.rot90(1, (2, 3)), rtol=1e-4, atol=1e-4)


def test_affine_with_nothing_to_do_does_nothing() -> None:
    x = images(4)
    torch.testing.assert_close(Affine(0, 0, 0)(x), x, rtol=1e-4, atol=1e-4)


def test_lighting_is_linear_in_each_image() -> None:
    x = images(50)
    seen = Lighting(0.5, 0.5)(x)
    slope = (seen.amax((1, 2, 3)) - seen.amin((1, 2, 3))) / (x.amax((1, 2, 3)) - x.amin((1, 2, 3)))
    assert 0.6 < float(slope.min()) < 0.7
    assert 1.5 < float(slope.max()) < 1.65
    moved = (seen.mean((1, 2, 3)) - x.mean((1, 2, 3))) / x.std((1, 2, 3), correction=0)
    assert float(moved.abs().max()) <= 0.5


def test_cut_out_is_a_square_of_the_mean() -> None:
    x = torch.rand(300, 2, 16, 16)
    seen = Cutout(0.5)(x)
    cut = (seen != x).any(1)
    assert 0 < float(cut.float().mean()) < 0.15
    for i in range(300):
        rows, columns = cut[i].any(1).nonzero().flatten(), cut[i].any(0).nonzero().flatten()
        if len(rows):
            box = cut[i, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
            assert bool(box.all())
            assert max(box.shape) <= 9
            assert bool((seen[i, :, rows[0], columns[0]] == x[i].mean((1, 2))).all())


def test_images_are_asked_for() -> None:
    with pytest.raises(DataError, match=r'Shift is for images.*shape \(5,\)\n.*augment="table"'):
        Shift()(torch.zeros(4, 5))


@pytest.mark.skipif(importlib.util.find_spec("kornia") is None, reason="kornia is not installed: dssl[augment] has it")
def test_kornias_randaugment_in_any_range_of_pixels() -> None:
    x = images(32) * 3 + 5
    torch.manual_seed(0)
    view = RandAugment(groups=4)
    seen = view(x)
    assert seen.shape == x.shape
    assert float(seen.min()) >= float(x.min()) - 1e-3
    assert float(seen.max()) <= float(x.max()) + 1e-3
    kinds = {tuple(image.flatten()[:60].tolist()) for image in seen}
    assert len(kinds) > 1  # the groups differ
    assert not list(view.state_dict())
    assert "torchvision" not in sys.modules


def test_without_kornia_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kornia.augmentation.auto", None)
    with pytest.raises(ImportError, match=r"dssl\[augment\]"):
        RandAugment()(images(2))


# ---- weak and strong ----


def test_names_functions_pairs_and_nothing() -> None:
    x = torch.ones(2, 3)
    for given_, weak, strong in (
        (None, 1, 1),
        (lambda x: 2 * x, 2, 2),
        ((None, lambda x: 3 * x), 1, 3),
        ([lambda x: 2 * x, lambda x: 3 * x], 2, 3),
        (Views(strong=lambda x: 5 * x), 1, 5),
    ):
        views = make_views(given_)
        assert float(views.weak(x).mean()) == weak
        assert float(views.strong(x).mean()) == strong
    for name in AUGMENTATIONS:
        view = make_views(name)
        assert view.strong(images() if name != "table" else x).isfinite().all()
    mirrored = [any(isinstance(m, Flip) for m in make_views(name).modules()) for name in ("image", "digits")]
    assert mirrored == [True, False]


def test_a_function_may_ask_for_row_numbers() -> None:
    def numbered(x: Tensor, rows: Tensor) -> Tensor:
        return x + rows[:, None]

    assert make_views(numbered).weak(torch.zeros(2, 1), torch.tensor([4, 7])).tolist() == [[4], [7]]
    assert Chain(numbered, torch.neg)(torch.zeros(1, 1), torch.tensor([3])).tolist() == [[-3]]


def test_what_is_no_view_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no augmentation 'images': choose image, digits, table"):
        make_views("images")
    with pytest.raises(ValueError, match="augment=3: give a name"):
        make_views(3)
    with pytest.raises(DataError, match=r"augmentation <lambda> turned a batch of shape \(2, 3\) into shape \(2, 2\)"):
        make_views(lambda x: x[:, :2]).weak(torch.zeros(2, 3))
    with pytest.raises(DataError, match="into NoneType"):
        make_views(lambda x: None).weak(torch.zeros(2, 3))
