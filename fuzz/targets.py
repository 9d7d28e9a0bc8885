"""What is fuzzed: every reader of the library, with files that are right to begin from, and what it may answer.

A reader may accept bytes or refuse them with one of our errors, raised by our code, short, and with a remedy. Anything
else is a finding: an error from inside another library, a crash, a hang. `Target.check` holds that; the tests run it
on mutated files, `run.py` under atheris.
"""

from __future__ import annotations

import atexit
import gzip
import io
import json
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import dssl
from dssl.errors import DataError, RuleError

Read = Callable[[Path], object]
OURS = str(Path(dssl.__file__).parent)
LONGEST = 3000  # characters of a message
RULES = """legs, fins, wings
species: {cat, dog, "big trout"}   # a choice
age: 0..9
size: -2..3

legs -> !fins
species in {cat, dog} -> legs & !fins
exactly_one(legs, fins, wings) | age >= 3
at_most(2, legs, fins & wings, age >= 3)
age + size <= 2*age - 1
0.9 :: wings <-> fins
"""


class Finding(AssertionError):
    """A reader that answered otherwise than it should."""


@dataclass(frozen=True)
class Target:
    """A reader: `seeds` gives right files, `read` takes a path to bytes written under `file`."""

    name: str
    file: str
    seeds: Callable[[], list[bytes]]
    read: Read
    refusals: tuple[type[Exception], ...] = (DataError,)

    def check(self, data: bytes) -> bool:
        """Whether the bytes were accepted; a `Finding` if they were neither accepted nor properly refused."""
        path = _folder() / self.file
        path.write_bytes(data)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.read(path)
        except self.refusals as error:
            if fault := fault_of(error):
                raise Finding(f"{self.name}: {fault}") from error
            return False
        except (KeyboardInterrupt, SystemExit, Finding):
            raise
        except BaseException as error:  # a Rust panic is no Exception
            raise Finding(f"{self.name}: {type(error).__name__}: {str(error)[:300]}") from error
        return True


def fault_of(error: BaseException, *also: str, remedy: bool = True) -> str:
    """What is wrong with a refusal, or nothing; `also` are folders whose code may raise it besides ours."""
    *_, last = traceback.extract_tb(error.__traceback__)
    text = str(error)
    if not last.filename.startswith((OURS, *also)):
        return f"{type(error).__name__} was raised in {last.filename}: {text[:300]}"
    if len(text) > LONGEST:
        return f"the message has {len(text):,} characters: {text[:300]}"
    if remedy and not has_remedy(text):
        return f"the message has no remedy: {text}"
    return ""


def has_remedy(text: str) -> bool:
    """Whether a message says what to do: in a further line, in a sentence after the first, or by what must be."""
    return any(mark in text.strip() for mark in ("\n", ". ", " must be ", ": choose ", " instead of "))


@cache
def _folder() -> Path:
    memory = Path("/dev/shm")  # where it is to be had, files cost nothing
    folder = Path(tempfile.mkdtemp(prefix="dssl-fuzz-", dir=memory if memory.is_dir() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


# ---- rules ----


def read_rules(path: Path) -> None:
    """Text that parses also prints, and what was printed parses to the same."""
    space = dssl.LabelSpace(path.read_bytes().decode(errors="replace")[:600])
    again = dssl.LabelSpace(str(space))
    if (again.variables, [(r.formula, r.probability) for r in again.rules]) != (
        space.variables,
        [(r.formula, r.probability) for r in space.rules],
    ):
        raise Finding(f"rules: printed and parsed again, this differs:\n{space}")


def _dimacs(path: Path) -> None:
    dssl.LabelSpace.dimacs(path, projection="ignore")


_DIMACS = [
    b"c a comment\np cnf 3 2\n1 -2 0\n2 3 0\n",
    b"c p weight 1 0.25 0\nc p show 1 2 0\np cnf 3 2\n1 -2\n0 2 3 0\n%\n0\n",
]

# ---- circuits ----

_NNF = [
    b"nnf 7 6 3\nL 1\nL -2\nL 3\nA 2 0 1\nL -1\nA 2 4 2\nO 1 2 3 5\n",
    b"o 1 0\na 2 0\nt 3 0\nf 4 0\n1 2 1 0\n1 4 -1 2 0\n2 3 -2 3 0\n",
]
_SDD = [b"c sdd\nsdd 5\nL 0 0 1\nL 1 0 -1\nT 2\nF 3\nD 4 1 2 0 2 1 3\n"]
_VTREE = [b"c vtree\nvtree 3\nL 0 1\nL 2 2\nI 1 0 2\n"]


def _nnf(path: Path) -> None:
    dssl.Circuit.from_nnf(path).count()


def _sdd(path: Path) -> None:
    dssl.Circuit.from_sdd(path).count()


def _vtree(path: Path) -> None:
    sdd = path.with_name("beside.sdd")
    sdd.write_bytes(_SDD[0])
    dssl.Circuit.from_sdd(sdd, path)


@cache
def _circuit_files() -> list[bytes]:
    path = _folder() / "seed.npz"
    dssl.LabelSpace(RULES).compile().save(path)
    plain = path.read_bytes()
    with np.load(path) as arrays:
        held = io.BytesIO()
        np.savez_compressed(held, **dict(arrays))
    return [plain, held.getvalue()]


def _circuit(path: Path) -> None:
    circuit = dssl.Circuit.load(path)
    circuit.count()


_KEY = "0" * 64


@cache
def _cache_files() -> list[bytes]:
    from dssl.circuits import cache as compiled

    circuit = dssl.LabelSpace(RULES).compile()
    with _cache_in(_folder() / "cached"):
        compiled.save(_KEY, (circuit.kind, circuit.literal, circuit.ptr, circuit.child))
        return [(_folder() / "cached" / f"{_KEY}.npz").read_bytes()]


def _cached(path: Path) -> None:
    """A damaged file of the cache is as good as none: never an error."""
    from dssl.circuits import cache as compiled

    place = path.parent / "cache"
    place.mkdir(exist_ok=True)
    path.replace(place / f"{_KEY}.npz")
    with _cache_in(place):
        compiled.load(_KEY)


class _cache_in:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __enter__(self) -> None:
        import os

        self.before = os.environ.get("DSSL_CACHE")
        os.environ["DSSL_CACHE"] = str(self.place)

    def __exit__(self, *_: object) -> None:
        import os

        if self.before is None:
            del os.environ["DSSL_CACHE"]
        else:
            os.environ["DSSL_CACHE"] = self.before


# ---- tables ----


def _table(path: Path) -> None:
    from dssl.app.tables import read

    read(path)


_CSV = [b'name,weight,"a, b"\ncat,1.5,0\ndog,,1\n"big ""trout""",-3e4,1\n', "\ufeffa;b\n1;2\n".encode()]
_ARFF = [
    b"% zoo\n@relation r\n@attribute x numeric\n@attribute 'y z' {a,b,'c d'}\n@data\n1.5,a\n?,'c d'\n{0 2, 1 b}\n",
    b"@relation r\n@attribute x real\n@attribute class hierarchical 01,01/02,03\n@data\n1,01/02@03\n",
]


def _arff(path: Path) -> None:
    from dssl.training.arff import read_arff

    read_arff(path)


@cache
def _npz_files() -> list[bytes]:
    out = []
    for write in (np.savez, np.savez_compressed):
        held = io.BytesIO()
        write(held, X=np.arange(12.0).reshape(4, 3), y=np.array(["a", "b", "", "a"]))
        out.append(held.getvalue())
    return out


@cache
def _parquet_files() -> list[bytes]:
    import polars as pl

    held = io.BytesIO()
    pl.DataFrame({"x": [1.0, None, 3.0], "name": ["a", "b", None], "y": [1, 0, None]}).write_parquet(held)
    return [held.getvalue()]


@cache
def _png_files() -> list[bytes]:
    from PIL import Image

    out = []
    for kind in ("PNG", "JPEG", "GIF"):
        held = io.BytesIO()
        Image.fromarray(np.arange(48, dtype=np.uint8).reshape(4, 4, 3)).save(held, kind)
        out.append(held.getvalue())
    return out


def _image(path: Path) -> None:
    place = path.parent / "images"
    place.mkdir(exist_ok=True)
    path.replace(place / path.name)
    _table(place)


# ---- published sets ----


def _published(reader: str) -> Read:
    def read(path: Path) -> object:
        from dssl.training import published

        return getattr(published, reader)(path)

    return read


def _zoo(path: Path) -> None:
    from dssl.training.published import load_zoo

    load_zoo(path.parent)


_IDX = [b"\0\0\x08\x02\0\0\0\2\0\0\0\3abcdef", gzip.compress(b"\0\0\x08\x01\0\0\0\4abcd", mtime=0)]
_XML = [b'<?xml version="1.0"?><labels xmlns="m"><label name="a"><label name="b"/></label></labels>']
_ZOO = [b"animal_name,hair,legs,type\nbear,1,4,1\nhawk,0,2,2\n"]


@cache
def _svhn_files() -> list[bytes]:
    from scipy.io import savemat

    out = []
    for packed in (False, True):
        held = io.BytesIO()
        savemat(held, {"X": np.zeros((32, 32, 3, 2), np.uint8), "y": [[1], [10]]}, do_compression=packed)
        out.append(held.getvalue())
    return out


# ---- models and their files ----


@cache
def _model() -> Path:
    x = np.random.default_rng(0).normal(size=(12, 2))
    y = [[1, 0], [0, 1], [0, 0], [None, None]] * 3
    model = dssl.DSSLClassifier("legs, fins\nlegs -> !fins", steps=2, network="linear", random_state=0)
    return dssl.save(model.fit(x, y), _folder() / "model")


def _facts(path: Path) -> None:
    """Facts whose checksum is made to fit, so that what comes after it is reached."""
    from dssl.training import model

    data = path.read_bytes()
    try:
        facts = json.loads(data)
        if isinstance(facts, dict) and "checksum" in facts:
            data = json.dumps(facts | {"checksum": model._checksum(facts)}).encode()
    except (ValueError, RecursionError):
        pass
    place = path.parent / "facts"
    place.mkdir(exist_ok=True)
    (place / "model.json").write_bytes(data)
    (place / "model.safetensors").write_bytes((_model() / "model.safetensors").read_bytes())
    model.load(place)


def _weights(path: Path) -> None:
    """Weights whose checksum is made to fit."""
    import hashlib

    from dssl.training import model

    facts = json.loads((_model() / "model.json").read_text())
    facts["files"] = {"model.safetensors": hashlib.sha256(path.read_bytes()).hexdigest()}
    facts["checksum"] = model._checksum(facts)
    place = path.parent / "weights"
    place.mkdir(exist_ok=True)
    (place / "model.json").write_text(json.dumps(facts))
    path.replace(place / "model.safetensors")
    model.load(place)


def _seed(name: str) -> list[bytes]:
    return [(_model() / name).read_bytes()]


@cache
def _prior_files() -> list[bytes]:
    path = _folder() / "seed.prior"
    dssl.learn_prior([[1, 0], [0, 1], [0, 0]], dssl.LabelSpace("legs, fins\nlegs -> !fins")).save(path)
    return [path.read_bytes()]


def _prior(path: Path) -> None:
    from dssl.priors.learned import LearnedPrior

    LearnedPrior.load(path)


@cache
def _checkpoint_files() -> list[bytes]:
    import torch

    from dssl.training.checkpoint import Checkpoint, _packed

    return [_packed(Checkpoint(3, {"w": torch.ones(2, 3)}, {"plain": {"stopped": None}}))]


def _checkpoint(path: Path) -> None:
    from dssl.training.checkpoint import load

    load(path)


@cache
def _preprocessing_files() -> list[bytes]:
    from dssl.app.columns import Column
    from dssl.app.preprocessing import Preprocessing

    path = _folder() / "seed.json"
    Preprocessing((Column("x", "numeric", fill=0.5), Column("h", "categorical", ("a", "b"), "a")), None, ("y",)).save(
        path
    )
    return [path.read_bytes()]


def _preprocessing(path: Path) -> None:
    """What was read is also used, on a table that fits the seed."""
    from dssl.app.preprocessing import Preprocessing
    from dssl.app.tables import read

    loaded = Preprocessing.load(path)
    table = path.with_name("beside.csv")
    table.write_text("x,h,y\n1,a,0\n2,b,1\n")
    loaded(read(table))


def _summary(path: Path) -> None:
    from dssl.app.summary import Summary

    Summary.load(path)


_SUMMARY = [b'{"format": "dssl summary", "version": 1, "title": "t", "counts": {"rows": 1}, "curves": [{"a": 1.0}]}']
_TOML = [b'steps = 500\npower = 2.0\nlabel = ["a", "b"]\nprior = "entropy"\nout = "run"\noverwrite = true\n']


def _settings(path: Path) -> None:
    from dssl.app.options import Options

    Options().with_file(path)


_VALUE: Any = (ValueError,)
TARGETS = {
    target.name: target
    for target in (
        Target("rules", "a.rules", lambda: [RULES.encode()], read_rules, (RuleError,)),
        Target("dimacs", "a.cnf", lambda: _DIMACS, _dimacs, (DataError, RuleError)),
        Target("nnf", "a.nnf", lambda: _NNF, _nnf, _VALUE),
        Target("sdd", "a.sdd", lambda: _SDD, _sdd, _VALUE),
        Target("vtree", "a.vtree", lambda: _VTREE, _vtree, _VALUE),
        Target("circuit", "a.npz", _circuit_files, _circuit, _VALUE),
        Target("cache", "c.npz", _cache_files, _cached, ()),
        Target("csv", "a.csv", lambda: _CSV, _table),
        Target("csv.gz", "a.csv.gz", lambda: [gzip.compress(_CSV[0], mtime=0)], _table),
        Target("arff", "a.arff", lambda: _ARFF[:1], _table),
        Target("hmc", "h.arff", lambda: _ARFF[1:], _arff),
        Target("arff.gz", "a.arff.gz", lambda: [gzip.compress(_ARFF[0], mtime=0)], _table),
        Target("npz", "t.npz", _npz_files, _table),
        Target("parquet", "a.parquet", _parquet_files, _table),
        Target("image", "a.png", _png_files, _image),
        Target("idx", "a", lambda: _IDX[:1], _published("read_idx")),
        Target("idx.gz", "a.gz", lambda: _IDX[1:], _published("read_idx")),
        Target("cifar", "a.bin", lambda: [bytes(3073), b"\x03" + bytes(3072)], _published("read_cifar")),
        Target("svhn", "a.mat", _svhn_files, _published("read_svhn")),
        Target("mulan", "a.xml", lambda: _XML, _published("read_label_names")),
        Target("zoo", "zoo.csv", lambda: _ZOO, _zoo),
        Target("model", "model.json", partial(_seed, "model.json"), _facts, (DataError, RuleError)),
        Target("weights", "model.safetensors", partial(_seed, "model.safetensors"), _weights),
        Target("prior", "a.prior", _prior_files, _prior, _VALUE),
        Target("checkpoint", "a.safetensors", _checkpoint_files, _checkpoint),
        Target("preprocessing", "preprocessing.json", _preprocessing_files, _preprocessing),
        Target("summary", "summary.json", lambda: _SUMMARY, _summary),
        Target("settings", "a.toml", lambda: _TOML, _settings),
    )
}
