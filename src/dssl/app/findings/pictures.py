"""The image of a row as part of a page: pixels in, an address that holds the whole picture out."""

from __future__ import annotations

import base64
import struct
import zlib
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = {1: 0, 3: 2, 4: 6}  # PNG's name for grey, colours, and colours with opacity, by number of channels


def picture(pixels: NDArray[Any], longest: int | None = None) -> str | None:
    """An array (height, width) or (channels, height, width) as a PNG in a data address; None if it is no image.

    With `longest`, of larger pictures only every second, third, … line and column is taken.

    >>> picture(np.zeros((1, 8, 8), np.uint8))[:22]
    'data:image/png;base64,'
    >>> picture(np.zeros(8))
    """
    if pixels.ndim == 2:
        pixels = pixels[None]
    if pixels.ndim != 3 or len(pixels) not in _KINDS or not pixels.size:
        return None
    step = 1 if longest is None else ceil(max(pixels.shape[1:]) / longest)
    pixels = pixels[:, ::step, ::step]
    return f"data:image/png;base64,{base64.b64encode(_png(_bytes(pixels))).decode()}"


def _bytes(pixels: NDArray[Any]) -> NDArray[np.uint8]:
    """Numbers of any range from 0 to 255; bytes stay as they are."""
    if pixels.dtype == np.uint8:
        return pixels
    pixels = np.nan_to_num(pixels.astype(np.float64))
    low, high = float(pixels.min()), float(pixels.max())
    return (255 * (pixels - low) / max(high - low, 1e-9)).astype(np.uint8)


def _png(pixels: NDArray[np.uint8]) -> bytes:
    """A PNG file of (channels, height, width): each line of it is stored as it is."""
    channels, height, width = pixels.shape
    lines = np.moveaxis(pixels, 0, -1).reshape(height, width * channels)
    body = np.hstack([np.zeros((height, 1), np.uint8), lines]).tobytes()
    head = struct.pack(">IIBBBBB", width, height, 8, _KINDS[channels], 0, 0, 0)
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(body, 9)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
