"""Safety: nothing that is read is executed, nothing is written where it was not asked for, nothing is taken for markup.

The explorer's guard, policy and escaping are tested in `app/explorer`, the report's escaping in `app/test_report.py`;
here they meet a hostile run from beginning to end, and a hostile page in a real browser.
"""

from __future__ import annotations

import ast
import http.server
import io
import json
import pickle
import re
import subprocess
import sys
import tarfile
import threading
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "app"))

from browser import browser, console

import dssl
from dssl.app.cli import main
from dssl.circuits.compile import cache
from dssl.data.published import _unpack
from dssl.errors import DataError
from dssl.models.files import saved
from trust import right
from trust.bad_models import facts

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

__all__ = ["browser"]
ROOT = Path(__file__).parent.parent.parent
SOURCE = ROOT / "src" / "dssl"

# ---- what the source may do ----

DANGEROUS = {
    "eval", "exec", "compile", "__import__", "pickle.load", "pickle.loads", "cloudpickle.load", "cloudpickle.loads",
    "torch.load", "joblib.load", "marshal.loads", "shelve.open", "yaml.load", "os.system", "os.popen", "sympify",
    "tarfile.TarFile.extractall", "importlib.import_module",
}  # fmt: skip
# The ranks of one training are processes of one user, which hand each other a call in a folder of their own (0700).
# Kernels are kept where numba keeps them and as numba does, in a folder of the installation or the user's own.
# dssl's public names are imported when they are first used, out of a table in the source.
ALLOWED = {
    ("training/processes.py", "pickle.loads"),
    ("circuits/jit.py", "pickle.loads"),
    ("__init__.py", "importlib.import_module"),
    ("data/cells.py", "texts.str.extract"),  # polars: a pattern in texts, no archive
}


def dangers(source: str) -> set[str]:
    """Dangerous calls in a source, and calls that ask for pickles or a shell."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if name in DANGEROUS or name.endswith((".extractall", ".extract")):
            found.add(name)
        for keyword in node.keywords:
            if keyword.arg in ("allow_pickle", "shell") and ast.unparse(keyword.value) != "False":
                found.add(f"{name}({keyword.arg}=…)")
        if name in ("np.load", "numpy.load") and not any(k.arg == "allow_pickle" for k in node.keywords):
            found.add(name)
    return found


def test_the_source_executes_nothing_that_it_reads() -> None:
    found = {
        (path.relative_to(SOURCE).as_posix(), name)
        for path in SOURCE.rglob("*.py")
        for name in dangers(path.read_text())
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    "source",
    [
        "eval(text)",
        "torch.load(path)",
        "np.load(p)",
        "np.load(p, allow_pickle=True)",
        "run(x, shell=True)",
        "tar.extractall()",
    ],
)
def test_a_dangerous_call_is_found(source: str) -> None:
    assert dangers(source)


# ---- files with something to execute ----


class Trap:
    """What unpickling it would do is seen: a file appears."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def traps(folder: Path, mark: Path) -> None:
    """Every file that dssl reads, with a pickle in its place or inside it; and code lying about."""
    data = pickle.dumps(Trap(mark))
    held = io.BytesIO()
    np.savez(held, X=np.array([[Trap(mark)]], dtype=object), meta=np.array([Trap(mark)], dtype=object))
    for name in (
        "raw.npz",
        "raw.parquet",
        "raw.csv",
        "raw.arff",
        "raw.prior",
        "raw.safetensors",
        "raw.rules",
        "raw.nnf",
    ):
        (folder / name).write_bytes(data)
    (folder / "objects.npz").write_bytes(held.getvalue())
    for kind in ("raw", "facts", "beside"):
        import shutil

        shutil.copytree(right.run(), folder / kind)
    (folder / "raw/model/model.safetensors").write_bytes(data)
    (folder / "facts/model/model.json").write_bytes(data)
    (folder / "beside/preprocessing.json").write_bytes(data)
    code = f"import pathlib\npathlib.Path({str(mark)!r}).touch()\n"
    for name in ("__init__.py", "network.py", "conftest.py", "sitecustomize.py", "model.py", "dssl.py"):
        (folder / "raw/model" / name).write_text(code)
        (folder / "facts" / name).write_text(code)
    (folder / "facts/model/model.pt").write_bytes(data)
    (folder / f"{'0' * 64}.npz").write_bytes(held.getvalue())


HOOKED = """
import json, os, sys, warnings
from pathlib import Path
warnings.simplefilter("ignore")
import dssl
from dssl.data.tables import read
from dssl.app.trained import Trained
from dssl.app.summary import Summary
from dssl.circuits.compile import cache
from dssl.circuits.jit import patience
from dssl.priors.learned import LearnedPrior
from dssl.training import checkpoints
from dssl.data import published
from dssl.data.stored.parquet import ParquetData

folder, right = Path(sys.argv[1]), Path(sys.argv[2])
calls = [
    lambda: Trained.open(right),
    *(lambda kind=kind: Trained.open(folder / kind) for kind in ("raw", "facts", "beside")),
    lambda: dssl.load(folder / "raw" / "model"),
    *(lambda name=name: read(folder / name) for name in ("raw.npz", "objects.npz", "raw.parquet", "raw.arff")),
    lambda: read(folder / "raw.csv"),
    lambda: dssl.Circuit.load(folder / "raw.npz"),
    lambda: dssl.Circuit.load(folder / "objects.npz"),
    lambda: dssl.Circuit.from_nnf(folder / "raw.nnf"),
    lambda: LearnedPrior.load(folder / "raw.prior"),
    lambda: checkpoints.load(folder / "raw.safetensors"),
    lambda: dssl.LabelSpace.read(folder / "raw.rules"),
    lambda: Summary.load(folder / "raw.rules"),
    lambda: published.read_svhn(folder / "raw.csv"),
    lambda: cache.load("0" * 64),
]
os.environ["DSSL_CACHE"] = str(folder)
with patience(0.0):
    calls[0]()  # what is imported or compiled late is so now
seen = []
WATCHED = (
    "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect", "os.putenv",
    "os.remove", "os.rename", "os.mkdir", "shutil.rmtree", "ctypes.dlopen",
)

def hook(event, args):
    if event in WATCHED or (event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")):
        seen.append(event + " " + str(args[0])[:100])
    if event == "import" and str(args[1] or "").startswith(str(folder)):
        seen.append("import " + args[0])

sys.addaudithook(hook)
outcomes = []
for call in calls:
    try:
        call()
        outcomes.append("read")
    except (ValueError, dssl.DataError) as error:
        outcomes.append("refused")
print(json.dumps({"outcomes": outcomes, "seen": seen}))
"""


def test_loading_executes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under an audit hook: no unpickling, no process, no connection, no file written, no import from the folder."""
    mark, folder = tmp_path / "sprung", tmp_path / "in"
    folder.mkdir()
    traps(folder, mark)
    monkeypatch.chdir(folder)
    done = subprocess.run(
        [sys.executable, "-P", "-c", HOOKED, str(folder), str(right.run())], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["seen"] == []
    assert (
        told["outcomes"][0] == told["outcomes"][-1] == "read"
    )  # a right run; and a cache, which ignores what is wrong
    assert set(told["outcomes"][1:-1]) == {"refused"}
    assert not mark.exists()


def test_the_trap_and_the_hook_would_be_seen(tmp_path: Path) -> None:
    pickle.loads(pickle.dumps(Trap(tmp_path / "sprung")))
    assert (tmp_path / "sprung").exists()
    code = HOOKED.split("calls = [")[0].replace("import dssl\n", "", 1).split("from dssl")[0] + (
        "folder = Path('.')\n" + HOOKED[HOOKED.index("seen = []") : HOOKED.index("outcomes")]
        + "import pickle\npickle.loads(pickle.dumps(Path('x')))\nopen('y', 'w').close()\nprint(json.dumps(seen))\n"
    )  # fmt: skip
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    seen = json.loads(done.stdout)
    assert any(event.startswith("pickle.find_class") for event in seen)
    assert "open y" in seen


def test_a_poisoned_cache_is_as_good_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DSSL_CACHE", str(tmp_path))
    monkeypatch.setattr("dssl.circuits.compile.compiler.WORTH_KEEPING_S", -1.0)
    space = dssl.LabelSpace("a, b, c\na -> b & c\nat_most(2, a, b, c)")
    key = cache.content_key(space.constraints)
    count = space.compile().count()
    good = (tmp_path / f"{key}.npz").read_bytes()
    (arrays := dict(np.load(tmp_path / f"{key}.npz")))["literal"][0] *= -1  # another circuit, with the old checksum
    other = io.BytesIO()
    np.savez(other, **arrays)
    trap = io.BytesIO()
    np.savez(trap, **{**arrays, "kind": np.array([Trap(tmp_path / "sprung")], dtype=object)})
    for poison in (b"", good[:-9], other.getvalue(), trap.getvalue(), pickle.dumps(Trap(tmp_path / "sprung"))):
        (tmp_path / f"{key}.npz").write_bytes(poison)
        assert dssl.LabelSpace(str(space)).compile().count() == count
        assert (tmp_path / f"{key}.npz").read_bytes() != poison  # and it is replaced by a good one
    assert not (tmp_path / "sprung").exists()


# ---- files that are written ----


def test_a_loaded_model_does_not_say_where_to_write(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(right.model(), tmp_path / "model")
    places = {"checkpoint": str(tmp_path / "c"), "log": str(tmp_path / "l.csv"), "tensorboard": str(tmp_path / "t")}
    facts(lambda f: f["parameters"].update(settings={**places, "clip": 1.0}))(tmp_path)
    loaded = dssl.load(tmp_path / "model")
    assert loaded.settings == {"clip": 1.0}
    loaded.fit(np.eye(4), [[1, 0], [0, 1], [0, 0], [None, None]])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]


def test_a_model_links_to_nothing_that_saving_would_change(tmp_path: Path) -> None:
    """Saving over a folder replaces the folder; what its links lead to stays as it is."""
    precious = tmp_path / "precious"
    precious.write_text("old")
    folder = dssl.save(dssl.load(right.model()), tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to(precious)
    with pytest.raises(DataError, match="changed or cut short"):
        dssl.load(folder)
    dssl.save(dssl.load(right.model()), folder)
    assert precious.read_text() == "old"
    assert not (folder / "model.safetensors").is_symlink()


def test_members_of_an_archive_stay_beside_it(tmp_path: Path) -> None:
    inner = tmp_path / "in"
    inner.mkdir()
    precious = tmp_path / "precious.bin"
    precious.write_text("old")
    with tarfile.open(inner / "a.tar.gz", "w:gz") as tar:
        for name in ("../precious.bin", str(precious), "ok/data_batch_1.bin", "x/../../precious.bin"):
            entry = tarfile.TarInfo(name)
            entry.size = 3
            tar.addfile(entry, io.BytesIO(b"new"))
        for name, kind in (("link.bin", tarfile.SYMTYPE), ("pipe.bin", tarfile.FIFOTYPE), ("dev.bin", tarfile.CHRTYPE)):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, str(precious)
            tar.addfile(entry)
    with pytest.raises(DataError, match="is not an archive of CIFAR-10"):
        _unpack(inner / "a.tar.gz")
    assert precious.read_text() == "old"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a.tar.gz", "in", "precious.bin"]


# ---- pages ----

SCRIPT = "<script>window.top.name='taken';document.title='taken'</script>"
IMAGE = "<img src=x onerror=\"document.title='taken'\">"
QUOTES = "'\"></td></style>{{ 7*7 }}${7*7}&amp;"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `dssl fit` in which columns, categories, labels and rules are markup."""
    folder = tmp_path_factory.mktemp("hostile")
    quoted = [json.dumps(name, ensure_ascii=False) for name in (SCRIPT, IMAGE)]
    head = ",".join('"' + name.replace('"', '""') + '"' for name in (QUOTES, "home", SCRIPT, IMAGE))
    home = '"' + IMAGE.replace('"', '""') + '"'
    rows = [
        f"{i % 5}.5,{home if i % 3 else 'b'},{'' if i > 15 else i % 2},{'' if i > 15 else 1 - i % 2}" for i in range(40)
    ]
    (folder / "d.csv").write_text("\n".join([head, *rows]) + "\n")
    (folder / "a.rules").write_text(f"{quoted[0]}, {quoted[1]}\n{quoted[0]} -> !{quoted[1]}  # {SCRIPT}\n")
    words = [
        "fit",
        folder / "d.csv",
        "--rules",
        folder / "a.rules",
        "--out",
        folder / "run",
        "--steps",
        5,
        "--test-share",
        0.5,
    ]
    assert main([str(word) for word in words]) == 0
    return folder / "run"


def test_a_hostile_run_makes_a_harmless_report(hostile: Path) -> None:
    html = (hostile / "report.html").read_text()
    assert len(re.findall("<script", html)) == 1
    assert SCRIPT not in html
    assert IMAGE not in html
    assert "49" not in re.findall(r"\{\{.{0,9}|\$\{.{0,9}", html)  # templates are not taken for their values
    card = (hostile / "model" / "README.md").read_text()
    assert "<script>" not in "".join(card.split("```")[::2])  # outside of what is quoted as it stands


def untaken(driver: Chrome) -> None:
    assert driver.title != "taken"
    assert driver.execute_script("return window.top.name") != "taken"
    assert driver.execute_script("return document.querySelectorAll('img[src=x]').length") == 0
    assert [entry for entry in console(driver) if "frame-ancestors" not in entry] == []


def test_no_script_of_a_hostile_run_runs_in_its_report(browser: Chrome, hostile: Path) -> None:
    browser.get((hostile / "report.html").as_uri())
    assert "onerror" in browser.find_element("tag name", "body").text  # it is shown, as text
    untaken(browser)


@pytest.fixture(scope="module")
def explored(hostile: Path) -> Iterator[str]:
    """The address of an explorer on the hostile run."""
    code = "import sys; from dssl.app.explorer import serve; serve(sys.argv[1], open_browser=False)"
    process = subprocess.Popen([sys.executable, "-c", code, str(hostile)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    yield process.stdout.readline().split()[2].rstrip("/")
    process.terminate()
    process.stdout.close()
    process.wait(20)


def test_no_script_of_a_hostile_run_runs_in_the_explorer(browser: Chrome, explored: str) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    def until(script: str) -> None:
        WebDriverWait(browser, 120, 0.1).until(lambda d: d.execute_script(script), script)

    browser.get(f"{explored}/#" + json.dumps({"tab": "run"}))
    until("return document.getElementById('status').textContent === 'ready'")
    until("return document.getElementById('run-inputs').textContent.includes('onerror')")
    untaken(browser)
    browser.get(f"{explored}/run/report")
    assert "onerror" in browser.find_element("tag name", "body").text
    untaken(browser)


def test_a_foreign_page_can_neither_ask_nor_frame_the_explorer(browser: Chrome, explored: str, tmp_path: Path) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    (tmp_path / "index.html").write_text(
        f"""<!DOCTYPE html><title>foreign</title><iframe id=f src="{explored}/"></iframe><script>
        const out = {{}}, body = JSON.stringify({{text: "a"}}), address = "{explored}/api/rules";
        const tries = {{
          json: {{method: "POST", body, headers: {{"content-type": "application/json"}}}},
          plain: {{method: "POST", body, headers: {{"content-type": "text/plain"}}}},
          get: {{method: "GET"}},
        }};
        Promise.all(Object.entries(tries).map(([name, how]) =>
          fetch(address, how).then((r) => r.text(), (e) => "blocked").then((said) => out[name] = said)))
          .then(() => setTimeout(() => {{ window.result = out }}, 1000));
        </script>"""
    )
    handler = partial(_Quiet, directory=str(tmp_path))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_port}/index.html")
        WebDriverWait(browser, 30, 0.1).until(lambda d: d.execute_script("return window.result"))
        result = browser.execute_script("return window.result")
        server.shutdown()
    assert result == {"json": "blocked", "plain": "blocked", "get": "blocked"}
    assert any("frame-ancestors" in entry or "refused to connect" in entry.lower() for entry in console(browser))


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


# ---- what others may do to us ----


def test_dependencies_are_bounded_and_few() -> None:
    """Each has a least version; `make audit` looks them up. A new one is a decision, made here too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {re.split(r"[<>=\[]", entry)[0] for entry in project["dependencies"]}
    assert all(re.search(r"[<>=]=?\d", entry) for entry in project["dependencies"])
    assert names == {
        "cyclopts", "jinja2", "numba", "numpy", "polars", "python-sat", "rich", "safetensors", "scikit-learn", "scipy",
        "starlette", "threadpoolctl", "torch", "uvicorn",
    }  # fmt: skip


def test_the_promises_are_written_down() -> None:
    text = (ROOT / "SECURITY.md").read_text()
    for word in ("report", "load", "pickle", "127.0.0.1", "network=", "make audit", "fuzz/run.py"):
        assert word in text


def test_checksums_do_not_pretend_to_be_signatures(tmp_path: Path) -> None:
    """Whoever edits a model can mend its checksum: the docs say so, and here it is."""
    import shutil

    shutil.copytree(right.model(), tmp_path / "model")
    facts(lambda f: f.update(metrics={"accuracy": 1.0}))(tmp_path)
    assert dssl.load(tmp_path / "model").metrics_ == {"accuracy": 1.0}
    assert saved._checksum({"checksum": "x", "a": 1}) == saved._checksum({"a": 1})
    assert "not a signature" in (ROOT / "SECURITY.md").read_text()
