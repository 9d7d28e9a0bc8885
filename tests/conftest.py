"""Where the published data lies, for the tests that need it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder DSSL_DATA names; tests that need it are skipped where it is not set."""
    folder = os.environ.get("DSSL_DATA")
    if not folder:
        pytest.skip("set DSSL_DATA to the data folder to run this test")
    return Path(folder)
