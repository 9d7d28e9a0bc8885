"""Kernels compiled for processors unlike this one: what runs here is what runs there."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import llvmlite.binding
import pytest
from numba.core.registry import cpu_target

from dssl.circuits.jit import Target, _Shelf, target_of

HOST = llvmlite.binding.get_host_cpu_features()
AVX2 = "+avx,+avx2,+fma,+sse4.1,+sse4.2,+popcnt,+bmi,+bmi2,-avx512f"
TARGETS = {
    "generic": {"NUMBA_CPU_NAME": "generic"},
    "avx2": {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": AVX2},
}
ROOT = Path(__file__).parents[2]
KERNEL_TESTS = ("vectors", "wmc", "expectations", "best", "heaviest", "samples")

needs_avx2 = pytest.mark.skipif(
    not (HOST.get("avx2") and HOST.get("fma")), reason="code for AVX2 runs on processors that have it"
)
EVERY = ["generic", pytest.param("avx2", marks=needs_avx2)]


def environment(target: str, folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "PYTEST_"))}
    return {**kept, **TARGETS.get(target, {}), "NUMBA_CACHE_DIR": str(folder)}


@pytest.mark.compiled
@pytest.mark.parametrize("target", EVERY)
def test_the_kernels_tests_pass_for_another_processor(target: str, tmp_path: Path) -> None:
    """In a process of its own with nothing kept: LLVM ends the process where it cannot make an instruction."""
    files = [f"tests/circuits/evaluate/test_{name}.py" for name in KERNEL_TESTS]
    options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files],
        cwd=ROOT, env=environment(target, tmp_path), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert " passed" in done.stdout


SHARING = """
import sys
from numba.core.registry import cpu_target
from dssl.circuits.jit import always, target_of
sys.path.insert(0, sys.argv[1])
from kernel import tripled
compiled = always(tripled)
compiled(1)
print(target_of(cpu_target.target_context).processor, sum(compiled.stats.cache_hits.values()))
"""


@pytest.mark.compiled
def test_processors_that_share_a_folder_never_load_each_others_code(tmp_path: Path) -> None:
    """As on a network home. Each finds its own code the second time, and only that."""
    (tmp_path / "kernel.py").write_text("def tripled(x):\n    return 3 * x\n")
    told = [
        subprocess.run(
            [sys.executable, "-c", SHARING, str(tmp_path)],
            env=environment(target, tmp_path / "shared"), capture_output=True, text=True, check=True,
        ).stdout.split()
        for target in ("generic", "host", "generic", "host")
    ]  # fmt: skip
    assert [hits for _, hits in told] == ["0", "0", "1", "1"]
    assert told[0] == ["generic", "0"]
    assert told[1][0] == llvmlite.binding.get_host_cpu_name()
    assert len(list((tmp_path / "shared").rglob("*.nbc"))) == 2


def test_what_is_kept_has_another_name_for_each_feature_of_the_target(tmp_path: Path) -> None:
    class Cache:
        cache_path = str(tmp_path)

        class _impl:
            filename_base = "kernel-1.py311"

    shelf = _Shelf(Cache, "0123456789abcdef")
    targets = [Target("x86_64", name, features) for name in ("a", "b") for features in ("+avx2", "+avx2,-fma", "")]
    paths = {shelf.path((("int64",), tuple(target), ("code", "closure"))) for target in targets}
    assert len(paths) == len(targets)
    assert {path.parent for path in paths} == {tmp_path}


def test_a_target_has_what_is_stated_and_nothing_else() -> None:
    target = Target("x86_64-unknown-linux-gnu", "haswell", "+avx2,-avx512f,+avx512fp16")
    assert target.has("avx2")
    assert not target.has("avx512f")
    assert not target.has("avx")
    assert not Target("", "generic", "").has("")


@pytest.mark.compiled
def test_the_target_is_numbas_not_the_hosts() -> None:
    ours = target_of(cpu_target.target_context)
    assert ours.processor == os.environ.get("NUMBA_CPU_NAME", llvmlite.binding.get_host_cpu_name())
    assert platform.machine().lower().replace("amd64", "x86_64").split("_")[0] in ours.triple
