"""The tree is the data flow: each room imports only from rooms above it, each module has its tests."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin

import dssl

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "dssl"
ROOMS = ("logic", "circuits", "priors", "data", "training", "models", "app")

# LabelSpace.compile and .count lead users from a space to its circuit; the import waits inside the method.
DOORS = {("logic/space.py", "dssl.circuits.compile.compiler"), ("logic/space.py", "dssl.circuits.relaxation")}


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
    assert misplaced("logic", "logic/language/formula.py", "from dssl.priors.gaussian import GaussianPrior")
    assert misplaced("circuits", "circuits/x.py", "def f():\n    import dssl.training.loop")
    assert misplaced("logic", "logic/language/formula.py", "from dssl.circuits.compile.compiler import compiled")
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


def twins(paths: list[Path]) -> list[str]:
    """Names that several files have."""
    return [name for name, n in Counter(path.name for path in paths).items() if n > 1]


def test_no_two_test_files_have_one_name() -> None:
    """pytest imports them by it, and would collect none of them."""
    assert twins(list((ROOT / "tests").rglob("test_*.py"))) == []
    assert twins([Path("logic/test_a.py"), Path("data/test_a.py"), Path("data/test_b.py")]) == ["test_a.py"]


def test_no_module_of_helpers() -> None:
    assert not [p for p in modules() if p.stem in ("utils", "util", "helpers", "common", "misc")]


FULLEST = 14  # modules in a folder, at most: more are a list, not a map


def crowded(paths: list[Path]) -> list[str]:
    """Folders with too many modules to take in at a glance."""
    counts = Counter(path.parent for path in paths)
    return [folder.name for folder, n in counts.items() if n > FULLEST]


def test_no_folder_is_crowded() -> None:
    assert crowded(modules()) == []


def test_a_crowded_folder_is_found() -> None:
    assert crowded([SOURCE / "app" / f"page{i}.py" for i in range(FULLEST + 1)]) == ["app"]


# ---- the map of each folder ----


def unmapped(folder: Path) -> list[str]:
    """Modules and inner rooms that the `__init__` of a folder does not name."""
    page = map_of(folder)
    files = [path.stem for path in folder.glob("*.py") if path.name not in ("__init__.py", "__main__.py")]
    rooms = [path.parent.name for path in folder.glob("*/__init__.py")]
    return sorted(name for name in [*files, *rooms] if not re.search(rf"\b{name}\b", page))


def unmarked(folder: Path) -> list[str]:
    """What the map of a room leaves out: what comes in, what goes out, the file to open first."""
    page = map_of(folder)
    first = re.search(r"Start at `(\w+\.py)`", page)
    started = first is not None and (folder / first[1]).is_file()
    return [mark for mark in ("In:", "Out:") if mark not in page] + ([] if started else ["Start at"])


def map_of(folder: Path) -> str:
    return ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""


FOLDERS = sorted(path.parent for path in SOURCE.rglob("__init__.py"))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.relative_to(SOURCE).as_posix())
def test_every_module_is_on_the_map_of_its_folder(folder: Path) -> None:
    assert unmapped(folder) == []
    assert folder == SOURCE or unmarked(folder) == []


def test_a_module_missing_from_the_map_is_found(tmp_path: Path) -> None:
    for name in ("told", "hidden"):
        (tmp_path / f"{name}.py").write_text("")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "__init__.py").write_text("")
    (tmp_path / "__init__.py").write_text('"""A map. In: x. Start at `gone.py`: told."""')
    assert unmapped(tmp_path) == ["hidden", "inner"]
    assert unmarked(tmp_path) == ["Out:", "Start at"]
    (tmp_path / "__init__.py").write_text('"""In: x. Out: y. Start at `told.py`; hidden, inner."""')
    assert unmapped(tmp_path) == unmarked(tmp_path) == []


# ---- what other libraries do not promise ----

LIBRARIES = ("llvmlite", "numba", "numpy", "polars", "pysat", "scipy", "sklearn", "torch")
PRIVATE = {  # the one file that uses it, says why, and has a test of what it relies on
    "numba.core.dispatcher": "circuits/jit.py",
    "numba.core.event": "circuits/jit.py",
    "numba.core.registry": "circuits/jit.py",
    "numba.core.serialize": "circuits/jit.py",
    "sklearn.utils._param_validation": "models/parameters.py",
    "sklearn.utils._safe_indexing": "models/inference.py",
    "torch._C": "priors/predictive.py",
}


def private(source: str) -> set[str]:
    """Names of other libraries that are theirs alone: with an underscore, or of numba's core."""
    tree = ast.parse(source)
    names = {alias.asname or alias.name.split(".")[0]: alias for node in ast.walk(tree)
             if isinstance(node, ast.Import) for alias in node.names}  # fmt: skip
    whole = {name: alias.name if alias.asname else name for name, alias in names.items()}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            whole |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    used = set(whole.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = ast.unparse(node).partition(".")
            used |= {f"{whole[first]}.{rest}"} if first in whole and re.fullmatch(r"[\w.]+", rest) else set()
    out = set()
    for name in (name for name in used if name.startswith(tuple(f"{library}." for library in LIBRARIES))):
        parts = name.split(".")
        hidden = [i for i, part in enumerate(parts) if re.match(r"_(?!_)", part)]
        if hidden:
            out.add(".".join(parts[: hidden[0] + 1]))
        elif name.startswith("numba.core."):
            out.add(".".join(parts[:3]))
    return out


def test_private_names_of_other_libraries_stand_in_one_file_each() -> None:
    found = {(name, path.relative_to(SOURCE).as_posix()) for path in modules() for name in private(path.read_text())}
    assert found == set(PRIVATE.items())


def test_a_private_name_is_found() -> None:
    assert private("from sklearn.utils import _safe_indexing as taken") == {"sklearn.utils._safe_indexing"}
    assert private("from torch import nn\nnn.modules.dropout._DropoutNd") == {"torch.nn.modules.dropout._DropoutNd"}
    assert private("import numpy as np\nnp._core.f(1)") == {"numpy._core"}
    assert private("from numba.core import cgutils\ncgutils.f()") == {"numba.core.cgutils"}
    assert not private("import torch\nfrom numba import njit\ntorch.__version__, njit(_nrt=False), self._x")


INHERITED = {  # private names that our classes get from theirs: which files use them, and why no public name will do
    # scikit-learn checks parameters of its own estimators by this table and method, and documents no other way
    "_parameter_constraints": {"models/estimators.py", "models/generative.py", "models/representations.py"},
    "_validate_params": {
        "app/preparation.py",
        "models/estimators.py",
        "models/generative.py",
        "models/representations.py",
    },
    # whether a number is learned or fixed; `named_parameters` would walk through all modules below
    "_parameters": {"priors/learned.py", "priors/relaxations.py"},
    # a shallow copy of a module with another buffer; torch copies modules only with all their tensors
    "_buffers": {"priors/relaxations.py"},
}


def theirs() -> set[str]:
    """Private attributes of the classes that ours are made from."""
    found = [*dir(torch.nn.Module()), *dir(BaseEstimator), *dir(ClassifierMixin)]
    declared = {"_parameter_constraints"}  # scikit-learn looks for it, but its own base class has none
    return {name for name in found if re.match(r"_(?!_)", name)} | declared


def inherited(source: str) -> set[str]:
    """Attributes that a source reads, sets or overrides although they are private to another library's class."""
    tree = ast.parse(source)
    read = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.bases]
    body = [part for node in classes for part in node.body]
    made = {part.name for part in body if isinstance(part, ast.FunctionDef)}
    made |= {part.target.id for part in body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)}
    made |= {name.id for part in body if isinstance(part, ast.Assign) for name in part.targets
             if isinstance(name, ast.Name)}  # fmt: skip
    return (read | made) & theirs()


def test_private_attributes_of_other_libraries_are_known() -> None:
    found: dict[str, set[str]] = {}
    for path in modules():
        for name in inherited(path.read_text()):
            found.setdefault(name, set()).add(path.relative_to(SOURCE).as_posix())
    assert found == INHERITED


def test_a_private_attribute_is_found() -> None:
    assert inherited("self._buffers['x'] = y") == {"_buffers"}
    assert inherited("class A(Module):\n    def _apply(self, f): ...") == {"_apply"}
    assert inherited("class A(BaseEstimator):\n    _parameter_constraints = {}") == {"_parameter_constraints"}
    assert inherited("model._validate_params()") == {"_validate_params"}
    assert not inherited("self._own = 1\ndef _apply(f): ...\nmodel.parameters()")


def bounds(names: list[str]) -> dict[str, str]:
    """The least version of each package that a list of requirements allows; "" if it has no such bound."""
    found = (re.match(r"([\w-]+)(?:\[.*\])?(?:.*?>=([\w.]+))?", name) for name in names)
    return {match[1]: match[2] or "" for match in found if match}


def test_versions_are_ranges_and_their_lower_ends_are_tested() -> None:
    """`make oldest` runs the tests with the versions of oldest.txt, `make test` with the newest ones."""
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert not [name for name in needed if "==" in name]
    least = bounds(needed)
    assert all(least.values())
    lines = (ROOT / "oldest.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert set(least) <= set(pinned)
    for name in set(least) - {"torch"}:  # oldest.txt says why
        assert f"{pinned[name]}.".startswith(f"{least[name]}."), name


def test_the_least_version_is_read() -> None:
    assert bounds(["numba>=0.60,<1", "x-y[z]>=2.1.dev3", "torch<3"]) == {
        "numba": "0.60",
        "x-y": "2.1.dev3",
        "torch": "",
    }


# ---- the page and the picture of it ----

PAGE = ROOT / "docs" / "architecture.md"
WAYS = ("The way of a rule", "The way of a row")


def way(page: str, title: str) -> list[str]:
    """The files of the table below a heading, step by step."""
    section = page.partition(f"## {title}")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d+ \| `([^`]+)` \|", section, re.MULTILINE)


def steps_back(files: list[str]) -> list[tuple[str, str]]:
    """Steps from a file to one of an earlier room."""
    rooms = [ROOMS.index(file.split("/")[0]) for file in files]
    return [(a, b) for a, b, i, j in zip(files, files[1:], rooms, rooms[1:]) if j < i]


@pytest.mark.parametrize("title", WAYS)
def test_a_way_through_the_house_never_goes_back(title: str) -> None:
    files = way(PAGE.read_text(), title)
    assert len(files) > 10
    assert [file for file in files if not (SOURCE / file).is_file()] == []
    assert steps_back(files) == []
    assert "training/objective.py" in files  # where the two meet


def test_a_step_back_is_found() -> None:
    page = "## The way of a rule\n| 1 | `priors/blocks.py` | x | y |\n| 2 | `logic/space.py` | x | y |\n\n## More\n"
    assert steps_back(way(page, "The way of a rule")) == [("priors/blocks.py", "logic/space.py")]


def test_the_page_names_the_rooms_in_their_order_and_files_that_exist() -> None:
    page = PAGE.read_text()
    rows = re.findall(r"^\| `(\w+)` \|.*\| `([^`]+)` \|$", page, re.MULTILINE)
    assert tuple(room for room, _ in rows) == ROOMS
    assert all(file.startswith(f"{room}/") for room, file in rows)
    named = re.findall(rf"`((?:{'|'.join(ROOMS)})(?:/\w+)+(?:\.py)?)`", page)
    assert [name for name in named if not (SOURCE / name).exists()] == []


def test_the_picture_shows_the_files_of_the_page() -> None:
    picture = (ROOT / "docs" / "pictures" / "architecture.svg").read_text()
    drawn = re.findall(r'<text class="file"[^>]*>(\w+)</text>', picture)
    page = PAGE.read_text()
    assert sorted(drawn) == sorted({Path(file).stem for title in WAYS for file in way(page, title)})
    assert tuple(re.findall(r'<text class="name"[^>]*>(\w+)</text>', picture)) == ROOMS
    assert "prefers-color-scheme: dark" in picture


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
