"""Where the published data lies, for the tests that need it; and the same random numbers in every run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# as the command sets it: otherwise MKL adds up in another order where memory happens to lie otherwise, and a test whose
# tolerance is below float32's fails once in a hundred runs
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")


def pytest_runtest_setup() -> None:
    """Each test begins with the same random numbers, alone and among others: one that fails, fails again."""
    if "torch" in sys.modules:  # many tests do without it
        sys.modules["torch"].manual_seed(0)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder DSSL_DATA names; tests that need it are skipped where it is not set."""
    folder = os.environ.get("DSSL_DATA")
    if not folder:
        pytest.skip("set DSSL_DATA to the data folder to run this test")
    return Path(folder)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C raises `KeyboardInterrupt`, also in a process that was started in the background and ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
