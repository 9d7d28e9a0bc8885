"""How kernels are compiled."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from attacks.failing import Disk, failing

from dssl.circuits import jit
from dssl.circuits.jit import allocating, always, entry, inner, kept, source_stamp, stand_in


@inner
def doubled(x):  # type: ignore[no-untyped-def]
    return 2 * x


@entry
def double_all(array):  # type: ignore[no-untyped-def]
    for k in range(len(array)):
        array[k] = doubled(array[k])


def test_an_entry_calls_inner_functions_on_the_callers_array() -> None:
    array = np.arange(4)
    double_all(array)
    assert array.tolist() == [0, 2, 4, 6]


IMPORTS = [
    "from dssl.b import x",
    "from dssl import b",
    "import dssl.b",
    "import dssl.other, dssl.b",
    "import os, dssl.b as b",
    "from dssl import (\n    other,\n    b,\n)",
]


@pytest.mark.parametrize("line", IMPORTS)
def test_the_stamp_changes_with_every_source_a_kernel_depends_on(tmp_path: Path, line: str) -> None:
    """An upgrade that changes an inner function must not find yesterday's kernel on disk."""
    folder = tmp_path / "dssl"
    folder.mkdir()
    for name, text in {"a": line, "b": "import dssl.c", "c": "x = 1", "other": ""}.items():
        (folder / f"{name}.py").write_text(text)

    def stamp() -> str:
        source_stamp.cache_clear()
        return source_stamp(folder / "a.py", tmp_path)

    before = stamp()
    assert stamp() == before
    (folder / "c.py").write_text("x = 2")  # two imports away
    assert stamp() != before


def with_answer(x):  # type: ignore[no-untyped-def]
    return answer(x)  # type: ignore[name-defined]  # noqa: F821


def test_a_function_stands_in_for_each_it_is_given() -> None:
    """One wrapper calls several functions, and numba keeps each under the name and file of that function."""
    functions = [stand_in(with_answer, tripled, answer=tripled), stand_in(with_answer, re.escape, answer=str)]
    assert [function(4) for function in functions] == [12, "4"]
    assert [function.__qualname__ for function in functions] == ["tripled", "escape"]
    assert [function.__code__.co_filename for function in functions] == [__file__, re.__file__]
    assert "answer" not in globals()


SOURCE = Path(jit.__file__).parents[1]
DECORATED = re.compile(r"^\s*@(entry|inner|allocating|kept|unlocked|always)$", re.MULTILINE)
KERNELS = sorted(path for path in SOURCE.rglob("*.py") if DECORATED.search(path.read_text()))
APART = ("app", "models", "training", "data", "priors", "logic/language", "errors.py", "files.py")  # from kernels


def idle(kernel: Path, source: Path) -> list[str]:
    """Files that a kernel does not need, but is compiled anew for."""
    found = (path.relative_to(source) for path in jit._reached(kernel, source.parent))
    return sorted(path.as_posix() for path in found if any(path.is_relative_to(other) for other in APART))


@pytest.mark.parametrize("kernel", KERNELS, ids=[path.stem for path in KERNELS])
def test_the_stamp_stays_when_another_room_is_edited(kernel: Path) -> None:
    """Editing the command line, a message or the rule language recompiles no kernel."""
    assert idle(kernel, SOURCE) == []
    assert {path.parts[len(SOURCE.parts)] for path in jit._reached(kernel, SOURCE.parent)} == {"circuits"}


def test_every_kernel_is_found_and_so_is_what_it_depends_on() -> None:
    names = {path.stem for path in KERNELS}
    assert {"search", "propagation", "wmc", "vectors", "heaviest", "lowering", "scopes", "nodes"} <= names
    search = SOURCE / "circuits" / "compile" / "search.py"
    assert {search.with_name("propagation.py"), search.with_name("records.py")} <= jit._reached(search, SOURCE.parent)


@pytest.mark.parametrize("other", ["app/cli.py", "logic/language/formula.py", "errors.py", "files.py"])
def test_a_kernel_that_depends_on_another_room_is_found(tmp_path: Path, other: str) -> None:
    source = tmp_path / "dssl"
    for name, text in {
        "circuits/a.py": "from dssl.circuits import b",
        "circuits/b.py": f"import os, {module(other)}",
    }.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text)
    (source / other).parent.mkdir(parents=True, exist_ok=True)
    (source / other).write_text("")
    assert idle(source / "circuits" / "a.py", source) == [other]


def module(file: str) -> str:
    return f"dssl.{file.removesuffix('.py').replace('/', '.')}"


@pytest.mark.parametrize("room", sorted((SOURCE / "circuits").rglob("__init__.py")), ids=lambda p: p.parent.name)
def test_the_map_of_a_room_names_everything_in_it(room: Path) -> None:
    text = room.read_text()
    assert [word for word in ("In: ", "Out: ", "Start at `") if word not in text] == []
    assert unnamed(room.parent, text) == []


def unnamed(folder: Path, text: str) -> list[str]:
    inside = [
        p.stem for p in folder.iterdir() if p.stem != "__init__" and (p.suffix == ".py" or (p / "__init__.py").exists())
    ]
    return sorted(name for name in inside if not re.search(rf"\b{name}\b", text))


def test_a_module_that_no_map_names_is_found(tmp_path: Path) -> None:
    (tmp_path / "walls.py").write_text("")
    assert unnamed(tmp_path, "Start at `doors.py`.") == ["walls"]


def test_packages_hold_no_code_that_a_stamp_would_miss() -> None:
    """Stamps follow modules: the files of packages are maps, and imports are written out in full."""
    for path in (SOURCE / "circuits").rglob("*.py"):
        assert not re.search(r"^from \.", path.read_text(), re.MULTILINE), path
        if path.name == "__init__.py":
            assert len(ast.parse(path.read_text()).body) == 1, path


@pytest.mark.compiled
def test_kept_code_is_named_by_the_stamp() -> None:
    """Where numba would have looked at the time and size of one file."""
    with jit.patience(0.0):
        double_all(np.arange(2))
    shelf = double_all.compiled._cache._cache_file
    stamp = source_stamp(Path(__file__))[:12]
    assert list(shelf._folder.glob(f"test_jit.double_all*.{stamp}-*.nbc"))


@pytest.mark.compiled
def test_compiling_is_announced_once_and_loading_never(tmp_path: Path) -> None:
    code = (
        "import numpy as np\nfrom dssl.circuits.jit import patience\nfrom dssl.circuits.nodes import levels\n"
        "from dssl.circuits.scopes import ranks\nx = np.zeros(2, np.int64)\n"
        "with patience(0.0):\n    levels(x, x[:0])\n    ranks(x[:1], x, x[:0], 1)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    runs = [
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    assert [run.stderr.count("compiling kernels") for run in runs] == [1, 0]


# ---- while nothing is compiled ----


@allocating
def sum_of(array):  # type: ignore[no-untyped-def]
    total = np.int64(0)
    for x in np.sort(array):
        total += doubled(x)
    return total


@kept
def summary(array):  # type: ignore[no-untyped-def]
    return sum_of(array), (array[0], len(array) > 2), array[:1]


@pytest.fixture
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> jit.Entry:
    """A loop that was never compiled."""
    keep_in(tmp_path, monkeypatch)
    monkeypatch.setattr(jit, "_patience", jit._Patience(1.0))
    return kept(summary.compiled.py_func)


@pytest.mark.compiled
def test_python_runs_a_small_loop_and_returns_what_compiled_code_does(fresh: jit.Entry) -> None:
    array = np.array([3, 1, 2], np.int32)
    by_python = fresh(array)
    assert not fresh.loaded
    assert not fresh.compiled.signatures
    with jit.patience(0.0):
        compiled = fresh(array)
    assert fresh.loaded
    assert by_python[:2] == compiled[:2] == (12, (3, True))
    assert [type(x) for x in (by_python[0], *by_python[1])] == [type(x) for x in (compiled[0], *compiled[1])]
    assert by_python[2].dtype == compiled[2].dtype
    assert fresh(array)[0] == 12


@pytest.mark.compiled
def test_a_large_one_is_compiled(fresh: jit.Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "_SHORT", 4)
    assert fresh(np.arange(4))[0] == 12
    assert not fresh.loaded
    assert fresh(np.arange(5))[0] == 20
    assert fresh.loaded


@pytest.mark.compiled
def test_patience_ends(fresh: jit.Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter(range(100))
    monkeypatch.setattr(jit.time, "thread_time", lambda: float(next(seconds)))  # each look at the clock is a second
    fresh(np.arange(3))
    assert not fresh.loaded
    fresh(np.arange(3))
    assert fresh.loaded


@pytest.mark.compiled
def test_what_is_kept_on_disk_is_loaded_at_once(fresh: jit.Entry) -> None:
    with jit.patience(0.0):
        fresh(np.arange(3))
    again = kept(summary.compiled.py_func)
    again(np.arange(3))
    assert again.loaded
    assert sum(again.compiled.stats.cache_hits.values()) == 1


@pytest.mark.compiled
def test_compiling_and_running_without_are_not_counted(fresh: jit.Entry) -> None:
    before, clock = jit.thread_time(), jit.time.thread_time()
    with jit.patience(0.0):
        fresh(np.arange(3))
    took = jit.time.thread_time() - clock
    assert jit.thread_time() - before < took / 2


@pytest.mark.compiled
def test_where_nothing_can_be_kept_python_runs_small_loops_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    monkeypatch.setattr(jit, "_patience", jit._Patience(1.0))
    monkeypatch.setattr(jit, "_announce", jit._Announce())
    function = kept(summary.compiled.py_func)
    assert function(np.arange(3))[0] == 6
    assert not function.loaded


def test_loops_over_floats_are_always_compiled() -> None:
    """Python and compiled code may round differently; whole numbers are the same in both."""
    assert floats_in_entries(SOURCE) == []


FLOATS = re.compile(r"\b(np\.(log\w*|exp\w*|float\w*|sqrt|inf|nan)|float|math\.\w+)\b|\d\.\d| / ")


def floats_in_entries(source: Path) -> list[str]:
    """Functions that Python may run, or that such a file has for them, in which there is a float."""
    found = []
    for path in sorted(source.rglob("*.py")):
        text = path.read_text()
        if not re.search(r"^@(entry|kept|unlocked)$", text, re.MULTILINE):
            continue
        for node in ast.parse(text).body:
            names = {getattr(decorator, "id", "") for decorator in getattr(node, "decorator_list", [])}
            if names & {"entry", "kept", "unlocked", "inner", "allocating"} and FLOATS.search(ast.unparse(node)):
                found.append(f"{path.stem}.{node.name}")  # type: ignore[attr-defined]
    return found


def test_a_loop_over_floats_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(
        "@kept\ndef half(x):\n    return x / 2\n\n\n@kept\ndef twice(x):\n    return 2 * x\n"
    )
    assert floats_in_entries(tmp_path) == ["a.half"]


# ---- where nothing can be kept ----


def tripled(x):  # type: ignore[no-untyped-def]
    return 3 * x


def keep_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled code is kept in this folder from here on.

    numba reads its settings from the environment again, before it compiles, if any NUMBA_ variable has changed since,
    as it does where processes are started in parallel: a setting alone would be forgotten in the middle of a test.
    """
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(folder))
    monkeypatch.setattr("numba.config.CACHE_DIR", str(folder))


@pytest.mark.compiled
def test_the_folder_stays_when_the_environment_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in(tmp_path, monkeypatch)
    monkeypatch.setenv("NUMBA_OF_ANOTHER_TEST", "1")
    for _ in range(2):
        function = always(tripled)
        assert function(1) == 3
        assert Path(function._cache._cache_path).is_relative_to(tmp_path)


@pytest.mark.compiled
def test_code_of_another_version_is_never_taken_for_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older code has another name and goes when newer code is kept; a process killed meanwhile leaves neither."""
    keep_in(tmp_path, monkeypatch)
    monkeypatch.setattr(jit, "source_stamp", lambda path: "older-version")
    assert always(tripled)(1) == 3
    (old,) = tmp_path.rglob("*.nbc")
    assert ".older-versio-" in old.name
    monkeypatch.setattr(jit, "source_stamp", lambda path: "newer-version")

    def killed(partial: Path, place: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("dssl.files.os.replace", killed)
        with pytest.raises(KeyboardInterrupt):
            always(tripled)(1)
    assert not list(tmp_path.rglob("*.nbc"))
    again = always(tripled)
    assert again(1) == 3
    assert dict(again.stats.cache_hits) == {}
    (new,) = tmp_path.rglob("*.nbc")
    assert ".newer-versio-" in new.name
    last = always(tripled)
    assert last(1) == 3
    assert list(last.stats.cache_hits.values()) == [1]


@pytest.mark.compiled
@pytest.mark.parametrize("left", [0, 100])
def test_code_that_is_not_whole_is_compiled_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: int) -> None:
    """A file that a broken disk or a copy has cut short."""
    keep_in(tmp_path, monkeypatch)
    assert always(tripled)(1) == 3
    (file,) = tmp_path.rglob("*.nbc")
    file.write_bytes(file.read_bytes()[:left])
    again = always(tripled)
    assert again(1) == 3
    assert dict(again.stats.cache_hits) == {}


def test_a_full_disk_only_means_that_nothing_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep_in(tmp_path, monkeypatch)
    function = always(tripled)
    with failing(Disk(tmp_path, 0, lasting=True)):
        assert function(2) == 6
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.compiled
def test_without_any_place_to_write_kernels_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("numba.core.caching.CacheImpl._locator_classes", [])
    monkeypatch.setattr(jit, "_announce", jit._Announce())
    function = always(tripled)
    with jit.announced():
        assert function(2) == 6
    assert "which cannot be kept: set NUMBA_CACHE_DIR" in capsys.readouterr().err
