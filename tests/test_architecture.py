"""The tree is the data flow: each room imports only from rooms above it, each module has its tests."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dssl

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dssl"
ROOMS = ("logic", "circuits", "priors", "training", "app")

# LabelSpace.compile and .count lead users from a space to its circuit; the import waits inside the method.
DOORS = {("logic/space.py", "dssl.circuits.compiler"), ("logic/space.py", "dssl.circuits.relaxation")}


def imports(source: str, *, typing_too: bool = False) -> Iterator[str]:
    """Every module that a source imports, inside functions too; imports for type checking only are left out."""
    tree = ast.parse(source)
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not typing_too
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def misplaced(room: str, file: str, source: str) -> list[str]:
    """Imports of rooms further down than `room`."""
    below = ROOMS[ROOMS.index(room) + 1 :]
    found = [m for m in imports(source) if m.startswith(tuple(f"dssl.{other}" for other in below))]
    return [m for m in found if not any(file == f and m.startswith(door) for f, door in DOORS)]


def modules() -> list[Path]:
    return sorted(path for path in SOURCE.rglob("*.py") if path.name not in ("__init__.py", "__main__.py"))


@pytest.mark.parametrize("room", ROOMS)
def test_rooms_import_only_from_rooms_above(room: str) -> None:
    for path in (SOURCE / room).rglob("*.py"):
        file = path.relative_to(SOURCE).as_posix()
        assert not misplaced(room, file, path.read_text()), f"{file} imports from a room below it"


def test_a_misplaced_import_is_found() -> None:
    assert misplaced("logic", "logic/formula.py", "from dssl.priors.gaussian import GaussianPrior")
    assert misplaced("circuits", "circuits/x.py", "def f():\n    import dssl.training.loop")
    assert misplaced("logic", "logic/formula.py", "from dssl.circuits.compiler import compile_constraints")
    assert not misplaced("priors", "priors/x.py", "from dssl.circuits.circuit import Circuit")


def test_the_logic_room_never_imports_torch_or_numba() -> None:
    for path in (SOURCE / "logic").rglob("*.py"):
        heavy = [m for m in imports(path.read_text()) if m.split(".")[0] in ("torch", "numba")]
        assert not heavy, f"{path.name} imports {heavy}"
    assert [m for m in imports("import torch") if m == "torch"]  # the twin: it would be seen


def untested(paths: list[Path], tests: Path) -> list[str]:
    """Modules without a test file of their name in the same room of the tests."""
    out = []
    for path in paths:
        place = path.parent.relative_to(SOURCE) if path.is_relative_to(SOURCE) else Path()
        if not (tests / place / f"test_{path.stem}.py").exists():
            out.append(path.name)
    return out


def test_every_module_has_its_test_file() -> None:
    assert untested(modules(), ROOT / "tests") == []


def test_a_module_without_tests_is_found(tmp_path: Path) -> None:
    assert untested([SOURCE / "logic" / "formula.py"], tmp_path) == ["formula.py"]


def test_no_module_of_helpers() -> None:
    assert not [p for p in modules() if p.stem in ("utils", "util", "helpers", "common", "misc")]


# ---- public names ----


def documented_names(page: str) -> set[str]:
    """The names that the API page has a heading for."""
    return {line.split("`")[1].split("(")[0] for line in page.splitlines() if line.startswith("## `")}


def test_public_names_are_the_documented_ones() -> None:
    assert documented_names((ROOT / "docs" / "api.md").read_text()) == set(dssl.__all__)
    assert all(getattr(dssl, name) is not None for name in dssl.__all__)


def test_an_undocumented_name_is_found() -> None:
    assert documented_names("## `LabelSpace(text)`\n") != set(dssl.__all__)


# ---- light imports ----


def loaded(statement: str) -> set[str]:
    """Top-level packages in sys.modules after a statement in a fresh process."""
    code = f"import sys\n{statement}\nprint(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_dssl_is_light() -> None:
    assert not loaded("import dssl") & {"torch", "numba", "numpy", "pysat"}


def test_the_symbolic_half_never_loads_torch() -> None:
    use = """
from dssl import LabelSpace
space = LabelSpace("legs, fins\\nlegs -> !fins")
space.check([[1, 1]]), space.complete([{"legs": 1}]), list(space.valid()), space.diagnose(), space.count()
"""
    assert "torch" not in loaded(use)


def test_a_heavy_import_would_be_seen() -> None:
    assert "torch" in loaded("import dssl\nimport torch")
