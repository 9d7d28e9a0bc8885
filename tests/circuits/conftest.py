"""Without numba's compiler (NUMBA_DISABLE_JIT=1), tests of compiling itself and of speed have nothing to test."""

from __future__ import annotations

import pytest

from dssl.circuits.jit import PLAIN


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out tests marked `compiled` where nothing is compiled."""
    if PLAIN:
        for item in items:
            if item.get_closest_marker("compiled"):
                item.add_marker(pytest.mark.skip(reason="kernels are not compiled: NUMBA_DISABLE_JIT is set"))
