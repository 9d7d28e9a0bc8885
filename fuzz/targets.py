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
import math
import os
import shutil
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from itertools import cycle
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
STRUCTURED = """n = 3
w = [2, 1, 3]
x[1..n]: 1..n   # arrays, loops, structures
t[1..3]: {O, B, I}
e[a,b], e[b,c], e[a,c]
legs
rule near(i, j) = x[i] - x[j] <= 1
for i in 1..2 where i != 9: near(i, i+1)
"why": sum(w[i] * x[i] for i in 1..n) >= n + count(legs)
regular(t[*], "(O | B I*)*")
path(e[*, *], a, c)
table(x[1], legs) in {(1, true), (3, false)}
w[x[1]] < 3 & 0 <= abs(x[2] - 2*x[3]) * x[1] < 9
t[x[1]] != I | (x[1] + x[2]) mod 2 = 0
if legs then max(x[*]) = 3 else element(x[2], w[*]) > 1
hierarchy one path:
    animal
        cat, dog
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


FOLDER = "DSSL_FUZZ_FOLDER"  # in the environment: a folder for inputs, which then outlives the process


@cache
def _folder() -> Path:
    if FOLDER in os.environ:
        return Path(os.environ[FOLDER])
    folder = new_folder()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def new_folder() -> Path:
    """A folder for inputs, in memory where that is to be had: files cost nothing there."""
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="dssl-fuzz-", dir=memory if memory.is_dir() else None))


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


def read_json(path: Path) -> None:
    """JSON that is read is written as JSON of the same space."""
    space = dssl.LabelSpace.from_json(path.read_bytes().decode(errors="replace"))
    if dssl.LabelSpace.from_json(space.to_json()) != space:
        raise Finding(f"json: written and read again, this differs:\n{space}")


def _json_files() -> list[bytes]:
    return [dssl.LabelSpace(text).to_json().encode() for text in (RULES, STRUCTURED)]


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


_WIDE, _LARGE = 400, 20_000  # columns and edges up to which every query is asked


def _ask(circuit: dssl.Circuit) -> None:
    """Every query, in both precisions, on circuits that are small enough; contradicting answers are a finding."""
    valid = circuit.count()
    if circuit.width > _WIDE or circuit.edges > _LARGE:
        _ask_little(circuit)
        return
    wrong = [*_asked(circuit, valid), *_asked_in_single(circuit), *_asked_with_choices(circuit)]
    if circuit.nodes <= 200:
        circuit.to_dot()
        circuit.to_svg()
    circuit.verify()
    circuit.to_nnf()
    if wrong:
        raise Finding(f"a circuit of {valid} labels: {', '.join(wrong)}")


def _ask_little(circuit: dssl.Circuit) -> None:
    """What a large circuit can be asked quickly: one row of each query."""
    import torch

    pos = neg = torch.zeros(1, circuit.width)
    value, best = circuit.log_wmc(pos, neg), circuit.mpe(pos, neg)[1]
    circuit.marginals(pos, neg)
    circuit.entropy(pos, neg)
    if value > -torch.inf:
        circuit.sample(pos, neg)
    if best > value + 1e-3 * (1 + value.abs()):
        raise Finding("a large circuit: the heaviest label outweighs all of them")


def _rows(circuit: dssl.Circuit) -> Any:
    """Five rows of log weights: of count, and with evidence."""
    import torch

    generator = torch.Generator().manual_seed(circuit.edges)
    pos, neg = torch.randn(2, 5, circuit.width, generator=generator, dtype=torch.float64)
    pos[0] = neg[0] = 0
    pos[1:3, ::3], neg[2:4, 1::3] = -torch.inf, -torch.inf
    return pos, neg, generator


def _asked(circuit: dssl.Circuit, valid: int) -> list[str]:
    """What is wrong with the answers in double precision."""
    import torch

    from dssl.circuits.evaluate import layered

    pos, neg, generator = _rows(circuit)
    value, mu = circuit.log_wmc(pos, neg), circuit.marginals(pos, neg)
    labels, weight = circuit.top_k(pos, neg, 7)
    best, heaviest = circuit.mpe(pos, neg)
    entropy, possible = circuit.entropy(pos, neg), value > -torch.inf
    drawn = circuit.sample(pos[possible], neg[possible], 3, generator)
    shut = torch.where(drawn, neg[possible], pos[possible]) * 0 - torch.inf  # each draw as evidence
    on, off = torch.where(drawn, pos[possible], shut), torch.where(drawn, shut, neg[possible])
    given = pos.clone().requires_grad_()
    (slope,) = torch.autograd.grad(circuit.log_wmc(given, neg)[possible].sum(), given, create_graph=True)
    direction = torch.linspace(-1, 1, circuit.width, dtype=torch.float64)
    bends = [
        torch.autograd.grad((answer(given) * direction).sum(), given)[0]
        for answer in (lambda x: circuit.marginals(x, neg), lambda x: layered.marginals(circuit, x, neg))
    ]
    slopes = [
        slope,
        *torch.autograd.grad(slope.sum(), given),
        *torch.autograd.grad(circuit.entropy(given, neg).sum(), given),
        *bends,
    ]
    weights = torch.stack([pos[1], neg[1]], -1).exp().numpy()
    exact = math.log(valid) if valid else -math.inf
    checks = {
        "a gradient is not a number": any(bool(x.isnan().any()) for x in slopes),
        "marginals are not the gradient": not torch.allclose(slope, mu, atol=1e-9),
        "two ways to the gradient of marginals differ": not torch.allclose(*bends, atol=1e-7),
        "layers of torch operations count otherwise": not torch.allclose(layered.log_wmc(circuit, pos, neg), value),
        "marginals are not probabilities": bool(((mu < 0) | (mu > 1)).any()),
        "log WMC is not the count": not circuit.soft and not math.isclose(value[0].item(), exact, abs_tol=1e-6),
        "log_weight is not log WMC": not math.isclose(circuit.log_weight(weights), value[1].item(), abs_tol=1e-9),
        "the heaviest label is not the first of k": not torch.allclose(heaviest, weight[:, 0]),
        "labels come in the wrong order": bool((weight.diff() > 1e-9).any()),
        # the column of a soft rule should follow from the label; in a circuit that somebody else wrote it may be free
        "one label comes twice": not circuit.soft
        and any(len({*map(tuple, x.tolist())}) < len(x) for x in _distinct(labels, weight)),
        "the heaviest label outweighs all of them": bool((heaviest > value + 1e-9).any()),
        "a sample is not valid": bool((circuit.log_wmc(on, off) == -torch.inf).any()),
        "the entropy exceeds that of a uniform choice": not circuit.soft
        and bool((entropy > max(exact, 0) + 1e-6).any()),
        "a label is chosen where there is none": bool(best[~possible].any()),
    }
    return [what for what, is_wrong in checks.items() if is_wrong]


def _asked_in_single(circuit: dssl.Circuit) -> list[str]:
    """What is wrong with the answers in single precision, as networks ask; each against double precision."""
    import torch

    pos, neg, generator = _rows(circuit)
    single = pos.float(), neg.float()
    possible = circuit.log_wmc(*single) > -torch.inf
    circuit.sample(single[0][possible], single[1][possible], 2, generator)
    answers = {
        "log WMC": circuit.log_wmc,
        "marginals": circuit.marginals,
        "the entropy": circuit.entropy,
        "the heaviest weight": lambda *w: circuit.mpe(*w)[1],
        "the weights of the heaviest": lambda *w: circuit.top_k(*w, 3)[1],
    }
    return [
        f"{what} differs in single precision"
        for what, ask in answers.items()
        if not torch.allclose(ask(*single).double(), ask(pos, neg), rtol=1e-3, atol=1e-2)
    ]


def _asked_with_choices(circuit: dssl.Circuit) -> list[str]:
    """What is wrong with the answers of a circuit whose branches have weights."""
    import torch

    from dssl.circuits.branches import with_choices
    from dssl.circuits.weighted import WeightedCircuit

    if not circuit.count():
        return []
    pos, neg, generator = _rows(circuit)
    choices = with_choices(circuit)
    model = WeightedCircuit(choices, torch.zeros(len(choices.owner), dtype=torch.float64), learn=True)
    with torch.no_grad():
        value, mu = model.log_wmc(pos, neg), model.marginals(pos, neg)
        possible = value > -torch.inf
        drawn = model.sample(pos[possible], neg[possible], 2, generator)
        entropy, (_, heaviest) = model.entropy(pos, neg), model.mpe(pos, neg)
    model.log_wmc(pos, neg)[possible].sum().backward()
    checks = {
        "weighted branches leave other rows possible": not torch.equal(
            possible, circuit.log_wmc(pos, neg) > -torch.inf
        ),
        "weighted marginals are not probabilities": bool(((mu < -1e-9) | (mu > 1 + 1e-9) | mu.isnan()).any()),
        "the weighted entropy is negative": bool((entropy < -1e-6).any()),
        "a weighted label outweighs all of them": bool((heaviest > value + 1e-6).any()),
        "a weighted sample has the wrong shape": drawn.shape[1:] != pos[possible].shape,
        "a gradient of branches is not a number": any(
            bool(p.grad.isnan().any()) for p in model.parameters() if p.grad is not None
        ),
    }
    return [what for what, is_wrong in checks.items() if is_wrong]


def _distinct(labels: Any, weight: Any) -> list[Any]:
    return [row[w > -math.inf] for row, w in zip(labels, weight)]


def _nnf(path: Path) -> None:
    _ask(dssl.Circuit.from_nnf(path))


def _sdd(path: Path) -> None:
    _ask(dssl.Circuit.from_sdd(path))


# A circuit as bytes, so that every change is another circuit: the numbers of binary columns, of values of a categorical
# block and of soft rules; then for each node its kind, and its literal or the number of children and those, as steps
# back from the node. A number of children from 128 on stands for hundreds, the same few over and over.
_GRAPHS = [
    bytes([2, 3, 0, 2, 1, 2, 255, 2, 2, 2, 254, 3, 2, 4, 1, 3, 2, 4, 3, 4, 2, 2, 1]),
    bytes([1, 2, 1, 2, 1, 2, 255, 2, 2, 2, 3, 2, 4, 2, 252, 3, 3, 6, 4, 2, 3, 3, 6, 4, 2, 4, 2, 2, 1]),
]


def _arity(count: int) -> int:
    """The children that a byte stands for: up to 2,048, more than a byte can count."""
    return count if count < 128 else (count - 127) * 16


def _graph(path: Path) -> None:
    """A circuit read out of bytes, saved and loaded, so that only what compiled code relies on is left to refuse."""
    data = iter(path.read_bytes())
    binary, values, soft = (next(data, 0) % 20 for _ in range(3))
    nodes: list[tuple[int, int, list[int]]] = []
    for kind in data:
        kind %= 6  # the sixth is none
        literal, children = 0, []
        if kind == 2:
            literal = (next(data, 0) + 128) % 256 - 128
        elif kind > 2:
            count = next(data, 1)
            steps = [next(data, 1) for _ in range(count if count < 128 else 1 + count % 8)]
            children = [len(nodes) - step for _, step in zip(range(_arity(count)), cycle(steps))]
        nodes.append((kind, literal, children))
    sizes = [1] * binary + [values] * (values > 0) + [1] * soft
    held = path.with_name("graph.npz")
    meta = {"format": "dssl circuit", "version": 1, "soft": [0.25] * soft}
    meta["names"] = [f"x{i}" for i in range(binary + values)]
    np.savez(
        held,
        kind=np.array([kind for kind, _, _ in nodes], np.int8),
        literal=np.array([literal for _, literal, _ in nodes], np.int32),
        ptr=np.cumsum([0, *(len(children) for _, _, children in nodes)], dtype=np.int64),
        child=np.array([x for _, _, children in nodes for x in children], np.int32),
        starts=np.cumsum([0, *sizes], dtype=np.int32),
        categorical=np.array([False] * binary + [True] * (values > 0) + [False] * soft, bool),
        meta=np.frombuffer(json.dumps(meta).encode(), np.uint8),
    )
    _ask(dssl.Circuit.load(held))


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
    _ask(dssl.Circuit.load(path))


_KEY = "0" * 64


@cache
def _cache_files() -> list[bytes]:
    from dssl.circuits.compile import cache as compiled

    circuit = dssl.LabelSpace(RULES).compile()
    with _cache_in(_folder() / "cached"):
        compiled.save(_KEY, (circuit.kind, circuit.literal, circuit.ptr, circuit.child))
        return [(_folder() / "cached" / f"{_KEY}.npz").read_bytes()]


def _cached(path: Path) -> None:
    """A damaged file of the cache is as good as none: never an error."""
    from dssl.circuits.compile import cache as compiled

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
    from dssl.data.tables import read

    read(path)


_CSV = [b'name,weight,"a, b"\ncat,1.5,0\ndog,,1\n"big ""trout""",-3e4,1\n', "\ufeffa;b\n1;2\n".encode()]
_ARFF = [
    b"% zoo\n@relation r\n@attribute x numeric\n@attribute 'y z' {a,b,'c d'}\n@data\n1.5,a\n?,'c d'\n{0 2, 1 b}\n",
    b"@relation r\n@attribute x real\n@attribute class hierarchical 01,01/02,03\n@data\n1,01/02@03\n",
]


def _careless(i: int) -> str:
    """A row of several names, a unit of its own, a word for unknown, a compact date and a month."""
    names, paid = ("a, b", "b", "a, c", "c, a, b")[i % 4], ("late", f"{i}.5")[i % 3 > 0]
    return f"{names};{i % 5} rooms;{paid};{20200101 + i};Jan-{i + 10}"


_COLUMNS = [
    "name;price;since;open;note\na;1.200,50 €;01.02.2019;ja;the old red door\nb;80 €;15.07.2021;nein;a new red door\n"
    "c;n/a;03.03.2020;ja;the blue door is old\n".encode(),
    b"id,kg,day,kind\n7,1 kg,2020-01-02,sea\n9,2.5 kg,2021-11-30 23:59,wood\n8,-,1999-12-31,sea\n",
    "\n".join(["has;rooms;paid;since;when", *(_careless(i) for i in range(20))]).encode(),
]
_LABELS = [
    b"x,kind\n1,cat\n2,dog\n3,!cat\n4,cat|dog\n5,\n6,fish\n",
    b"x,topics\n1,wheat corn\n2,corn\n3,wheat\n4,oil corn\n5,oil\n6,oil wheat\n7,[]\n",
]


def _columns(path: Path) -> None:
    """What was found out about columns is also used, on the same rows."""
    from dssl.data import TableTransformer
    from dssl.data.tables import read

    table = read(path)
    TableTransformer().fit(table).transform(table)


def _labels(path: Path) -> None:
    """Labels in the last column."""
    from dssl.data.labelling import find_labels
    from dssl.data.tables import read

    table = read(path)
    find_labels(table, [table.names[-1]], None).read(table)


@cache
def _table_files() -> list[bytes]:
    from dssl.data import TableTransformer
    from dssl.data.tables import read

    place = _folder() / "seed.csv"
    out = []
    for data in _COLUMNS:
        place.write_bytes(data)
        TableTransformer(text=["note"] if b"note" in data else []).fit(read(place)).save(_folder() / "seed.json")
        out.append((_folder() / "seed.json").read_bytes())
    return out


def _transformer(path: Path) -> None:
    """What was read is also used, on tables that fit the seeds."""
    from dssl.data import TableTransformer
    from dssl.data.tables import read

    loaded = TableTransformer.load(path)
    for number, data in enumerate(_COLUMNS):
        table = path.with_name(f"beside{number}.csv")
        table.write_bytes(data)
        with suppress(DataError):  # the other seed's columns
            loaded.transform(read(table))


def _arff(path: Path) -> None:
    from dssl.data.formats.arff import read_arff

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
        from dssl.data import published

        return getattr(published, reader)(path)

    return read


def _zoo(path: Path) -> None:
    from dssl.data.published import load_zoo

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
    from dssl.models.files import saved

    data = path.read_bytes()
    try:
        facts = json.loads(data)
        if isinstance(facts, dict) and "checksum" in facts:
            data = json.dumps(facts | {"checksum": saved._checksum(facts)}).encode()
    except (ValueError, RecursionError):
        pass
    place = path.parent / "facts"
    place.mkdir(exist_ok=True)
    (place / "model.json").write_bytes(data)
    (place / "model.safetensors").write_bytes((_model() / "model.safetensors").read_bytes())
    saved.load(place)


def _weights(path: Path) -> None:
    """Weights whose checksum is made to fit."""
    import hashlib

    from dssl.models.files import saved

    facts = json.loads((_model() / "model.json").read_text())
    facts["files"] = {"model.safetensors": hashlib.sha256(path.read_bytes()).hexdigest()}
    facts["checksum"] = saved._checksum(facts)
    place = path.parent / "weights"
    place.mkdir(exist_ok=True)
    (place / "model.json").write_text(json.dumps(facts))
    path.replace(place / "model.safetensors")
    saved.load(place)


def _seed(name: str) -> list[bytes]:
    return [(_model() / name).read_bytes()]


@cache
def _prior_files() -> list[bytes]:
    path = _folder() / "seed.prior"
    dssl.learn_prior([[1, 0], [0, 1], [0, 0]], dssl.LabelSpace("legs, fins\nlegs -> !fins")).save(path)
    return [path.read_bytes()]


def _prior(path: Path) -> None:
    import torch

    from dssl.priors.learned import LearnedPrior

    prior = LearnedPrior.load(path)
    if prior.space.width > 20:
        return
    logits = torch.linspace(-2, 2, 3 * prior.space.width).reshape(3, -1).requires_grad_()
    answer = prior.log_prob(logits)
    answer.sum().backward()
    if answer.isnan().any() or logits.grad is None or logits.grad.isnan().any():
        raise Finding("prior: an answer is not a number")
    prior.sample_labels(2)
    prior.log_prob_labels(np.full((1, prior.space.width), np.nan))


@cache
def _checkpoint_files() -> list[bytes]:
    import torch

    from dssl.training.checkpoints import Checkpoint, _packed

    return [_packed(Checkpoint(3, {"w": torch.ones(2, 3)}, {"plain": {"stopped": None}}))]


def _checkpoint(path: Path) -> None:
    from dssl.training.checkpoints import load

    load(path)


@cache
def _preprocessing_files() -> list[bytes]:
    from dssl.data.columns import Column
    from dssl.data.preprocessing import Preprocessing

    path = _folder() / "seed.json"
    Preprocessing((Column("x", "numeric", fill=0.5), Column("h", "categorical", ("a", "b"), "a")), None, ("y",)).save(
        path
    )
    return [path.read_bytes()]


def _preprocessing(path: Path) -> None:
    """What was read is also used, on a table that fits the seed."""
    from dssl.data.preprocessing import Preprocessing
    from dssl.data.tables import read

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
        Target("rules", "a.rules", lambda: [RULES.encode(), STRUCTURED.encode()], read_rules, (RuleError,)),
        Target("json", "a.json", _json_files, read_json, (RuleError,)),
        Target("dimacs", "a.cnf", lambda: _DIMACS, _dimacs, (DataError, RuleError)),
        Target("nnf", "a.nnf", lambda: _NNF, _nnf, _VALUE),
        Target("sdd", "a.sdd", lambda: _SDD, _sdd, _VALUE),
        Target("vtree", "a.vtree", lambda: _VTREE, _vtree, _VALUE),
        Target("graph", "graph", lambda: _GRAPHS, _graph, _VALUE),
        Target("circuit", "a.npz", _circuit_files, _circuit, _VALUE),
        Target("cache", "c.npz", _cache_files, _cached, ()),
        Target("csv", "a.csv", lambda: _CSV, _table),
        Target("csv.gz", "a.csv.gz", lambda: [gzip.compress(_CSV[0], mtime=0)], _table),
        Target("arff", "a.arff", lambda: _ARFF[:1], _table),
        Target("hmc", "h.arff", lambda: _ARFF[1:], _arff),
        Target("hierarchy", "t.arff", lambda: _ARFF[1:], _table),
        Target("columns", "c.csv", lambda: _COLUMNS, _columns),
        Target("labels", "y.csv", lambda: _LABELS, _labels, (DataError, RuleError)),
        Target("transformer", "table.json", _table_files, _transformer),
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
