"""A row as a picture: the same pixels come back."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest

from dssl.app.findings.pictures import picture

Image = pytest.importorskip("PIL.Image", reason="install '.[images]' to read pictures back")


def read(address: str | None) -> np.ndarray:
    assert address is not None
    head, _, body = address.partition(",")
    assert head == "data:image/png;base64"
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))


@pytest.mark.parametrize("shape", [(5, 7), (1, 5, 7), (3, 5, 7), (4, 1, 9)])
def test_bytes_come_back_as_they_were(shape: tuple[int, ...]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    expected = pixels if len(shape) == 2 else pixels[0] if shape[0] == 1 else np.moveaxis(pixels, 0, -1)
    assert (read(picture(pixels)) == expected).all()


def test_other_numbers_fill_the_range() -> None:
    found = read(picture(np.array([[-1.0, 0.0], [np.nan, 1.0]])))
    assert found.tolist() == [[0, 127], [127, 255]]
    assert read(picture(np.full((4, 4), 0.3))).max() == 0  # all alike


def test_large_pictures_are_thinned_and_what_is_no_picture_is_none() -> None:
    assert read(picture(np.zeros((3, 300, 100), np.uint8), 96)).shape == (75, 25, 3)
    assert read(picture(np.zeros((3, 300, 100), np.uint8))).shape == (300, 100, 3)
    assert picture(np.zeros(9)) is None
    assert picture(np.zeros((2, 9, 9))) is None
    assert picture(np.zeros((1, 0, 9))) is None
