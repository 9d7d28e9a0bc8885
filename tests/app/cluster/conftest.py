"""A Ray cluster of two nodes on this machine, ended with all its processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="package")
def cluster() -> Iterator[Any]:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'dssl[ray]'")
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=2)
        ray.init(address=nodes.address, log_to_driver=False, logging_level="error")
        yield ray
    finally:
        ray.shutdown()
        nodes.shutdown()
