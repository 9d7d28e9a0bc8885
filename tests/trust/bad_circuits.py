"""Saved circuits, and circuits of other tools, that are damaged or made up."""

from __future__ import annotations

import io
import json
import pickle
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dssl
from dssl.errors import DataError
from trust.bad import Bad, Content, both, deep, nothing, put

SDD = "sdd 3\nL 0 0 1\nL 1 0 -1\nD 2 1 1 0 1\n"


def nnf(name: str, content: Content, said: str) -> Bad:
    return Bad(f"nnf: {name}", put("a.nnf", content), lambda f: dssl.Circuit.from_nnf(f / "a.nnf"), said, DataError)


def sdd(name: str, content: Content, said: str) -> Bad:
    return Bad(f"sdd: {name}", put("a.sdd", content), lambda f: dssl.Circuit.from_sdd(f / "a.sdd"), said, DataError)


def vtree(name: str, content: Content, said: str) -> Bad:
    return Bad(
        f"vtree: {name}",
        both(put("a.sdd", SDD), put("a.vtree", content)),
        lambda f: dssl.Circuit.from_sdd(f / "a.sdd", f / "a.vtree"),
        said,
        DataError,
    )


@cache
def arrays() -> dict[str, Any]:
    """The arrays of a circuit as it is saved."""
    held = dssl.LabelSpace("a, b\nkind: {x, y, z}\na -> !b\nkind = x -> a\n0.9 :: b").compile()
    fields = {n: getattr(held, n) for n in ("kind", "literal", "ptr", "child", "starts", "categorical")}
    return fields | {
        "meta": {"format": "dssl circuit", "version": 1, "names": list(held.names), "soft": list(held.soft)}
    }


def saved(change: Callable[[dict[str, Any]], object]) -> Callable[[], bytes]:
    """The bytes of a circuit file with something changed."""

    def content() -> bytes:
        held = {n: v.copy() for n, v in arrays().items()}
        change(held)
        if isinstance(held.get("meta"), dict):
            held["meta"] = np.frombuffer(json.dumps(held["meta"]).encode(), np.uint8)
        out = io.BytesIO()
        np.savez(out, **held)
        return out.getvalue()

    return content


def circuit(name: str, content: Content, said: str) -> Bad:
    return Bad(f"circuit: {name}", put("a.npz", content), lambda f: dssl.Circuit.load(f / "a.npz"), said, DataError)


def at(name: str, place: Any, value: Any) -> Callable[[], bytes]:
    return saved(lambda held: held[name].__setitem__(place, value))


def instead(name: str, array: Callable[[Any], Any]) -> Callable[[], bytes]:
    return saved(lambda held: held.update({name: array(held[name])}))


NNF = [
    nnf("empty", b"", "line 1: nothing but comments … Pass a file with an `nnf` header (c2d)"),
    nnf("zero bytes", bytes(100), "line 1: expected whole numbers, found … Was the file cut short or edited? Write"),
    nnf("an image", b"\x89PNG\r\n\x1a\n\xff", "byte 0: not a text file … Pass the compiler's text output."),
    nnf(
        "a billion variables",
        "nnf 1 0 1000000000\nL 1\n",
        "a circuit over 1,000,000,000 variables is more than … Number the variables without gaps, from",
    ),
    nnf(
        "a variable of 10^17",
        "o 1 0\nt 2 0\n1 2 100000000000000000 0\n",
        "a circuit over 100,000,000,000,000,000 variables is more … Number the variables without gaps, from",
    ),
    nnf(
        "a number of a million digits",
        "nnf 1 0 1\nL " + "1" * 1_000_000 + "\n",
        "line 2: expected whole numbers, found … Was the file cut short or edited? Write",
    ),
    nnf(
        "two signs",
        "nnf 1 0 1\nL --1\n",
        "line 2: expected whole numbers, found '--1 … Was the file cut short or edited? Write",
    ),
    nnf(
        "a digit that is none",
        "nnf 1 0 1\nL ²\n",
        "line 2: expected whole numbers, found '² … Was the file cut short or edited? Write",
    ),
    nnf(
        "digits of another script",
        "nnf 1 0 1\nL ٣\n",
        "line 2: expected whole numbers, found '٣ … Was the file cut short or edited? Write",
    ),
    nnf(
        "an underscore",
        "nnf 1 0 10\nL 1_0\n",
        "line 2: expected whole numbers, found '1_0 … Was the file cut short or edited? Write",
    ),
    nnf(
        "a child above itself",
        "nnf 1 1 1\nA 1 0\n",
        "line 2: a child is not among the 0 nodes above … Was the file cut short or edited? Write",
    ),
    nnf(
        "a negative child",
        "nnf 2 1 1\nL 1\nA 1 -1\n",
        "line 3: a child is not among the 1 nodes above … Was the file cut short or edited? Write",
    ),
    nnf(
        "a literal of no variable",
        "nnf 1 0 0\nL 1\n",
        "line 2: literal 1 is not among the 0 variables of the header … Was the file cut short or edited? Write",
    ),
    nnf(
        "fewer nodes than announced",
        "nnf 9 0 1\nL 1\n",
        "line 2: the header announces 9 nodes, and the file has 1 … Was the file cut short or edited? Write",
    ),
    nnf(
        "a negative header",
        "nnf -1 0 1\nL 1\n",
        "line 1: expected `nnf nodes edges variables` … Pass a file in c2d's format.",
    ),
    nnf(
        "d4: a circle",
        "o 1 0\no 2 0\n1 2 1 0\n2 1 -1 0\n",
        "line 4: expected one root, found 0 nodes without a parent … Was the file cut short or edited? Write",
    ),
    nnf(
        "d4: an undeclared child",
        "o 1 0\n1 2 1 0\n",
        "line 2: node 2 is not declared … Was the file cut short or edited? Write",
    ),
    nnf(
        "d4: two roots",
        "o 5 0\no 6 0\nt 2 0\n5 2 1 0\n6 2 1 0\n",
        "line 5: expected one root, found 2 nodes without a parent … Was the file cut short or edited? Write",
    ),
    nnf(
        "d4: a literal 0",
        "o 1 0\nt 2 0\n1 2 0 0\n",
        "line 3: expected `o|a|t|f node 0` or `parent child literals … Was the file cut short or edited? Write",
    ),
    nnf(
        "a page of HTML",
        "<html>\n404\n</html>\n",
        "line 1: expected whole numbers, found '<html> … Was the file cut short or edited? Write",
    ),
    nnf(
        "a million brackets",
        deep("(", ")"),
        "line 1: expected whole numbers, found … Was the file cut short or edited? Write",
    ),
    Bad(
        "nnf: too few variables asked for",
        nothing,
        lambda _: dssl.Circuit.from_nnf("nnf 1 0 3\nL 3\n", variables=2),
        "the text uses variable 3, but variables=2 … Raise it.",
        DataError,
    ),
]
SDDS = [
    sdd(
        "empty",
        b"",
        "line 1: the header announces None nodes, and the file has 0 … Was the file cut short or edited? Write",
    ),
    sdd(
        "a header alone",
        "sdd 0\n",
        "line 2: the header announces 0 nodes, and the file has 0 … Was the file cut short or edited? Write",
    ),
    sdd("not text", b"\xff\xff", "byte 0: not a text file … Pass the compiler's text output."),
    sdd(
        "a variable of 10^17",
        "sdd 1\nL 0 0 100000000000000000\n",
        "a circuit over 100,000,000,000,000,000 variables is more … Number the variables without gaps, from",
    ),
    sdd(
        "a literal 0",
        "sdd 1\nL 0 0 0\n",
        "line 2: expected `F`, `T`, `L` or `D` lines of an SDD, … Was the file cut short or edited? Write",
    ),
    sdd(
        "an element that is not there",
        "sdd 1\nD 0 1 1 5 6\n",
        "line 2: node 5 is not above this line … Was the file cut short or edited? Write",
    ),
    sdd(
        "elements without a partner",
        "sdd 2\nL 0 0 1\nD 1 1 1 0\n",
        "line 3: expected `F`, `T`, `L` or `D` lines of an SDD, … Was the file cut short or edited? Write",
    ),
    sdd(
        "a decision of itself",
        "sdd 1\nD 0 1 1 0 0\n",
        "line 2: node 0 is not above this line … Was the file cut short or edited? Write",
    ),
    sdd(
        "more nodes than announced",
        "sdd 1\nL 0 0 1\nL 1 0 -1\n",
        "line 4: the header announces 1 nodes, and the file has 2 … Was the file cut short or edited? Write",
    ),
    sdd(
        "letters for numbers",
        "sdd one\nL a b c\n",
        "line 1: expected whole numbers, found 'one … Was the file cut short or edited? Write",
    ),
    sdd(
        "two signs",
        "sdd 1\nL 0 0 --1\n",
        "line 2: expected whole numbers, found '--1 … Was the file cut short or edited? Write",
    ),
    vtree("not text", b"\xff\xff", "byte 0: not a text file … Pass the compiler's text output."),
    vtree(
        "an sdd",
        SDD,
        "line 1: expected `vtree`, `L` or `I` lines, found `sdd 3` … Was the file cut short or edited? Write",
    ),
    vtree(
        "a variable of 10^17",
        "vtree 1\nL 0 100000000000000000\n",
        "a circuit over 100,000,000,000,000,000 variables is more … Number the variables without gaps, from",
    ),
    vtree(
        "letters for numbers",
        "vtree x\n",
        "line 1: expected whole numbers, found 'x … Was the file cut short or edited? Write",
    ),
]
CIRCUITS = [
    circuit("empty", b"", "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of"),
    circuit(
        "a pickle",
        lambda: pickle.dumps({"kind": 1}),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "cut in half",
        lambda: saved(lambda h: None)()[:300],
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "a bit flipped in the compression method",
        lambda: saved(lambda h: None)().replace(b"PK\x01\x02-\x03-\0\0\0\0\0", b"PK\x01\x02-\x03-\0\0\0\x08\0"),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "no arrays",
        saved(lambda h: [h.pop(n) for n in list(h)]),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "an array is missing",
        saved(lambda h: h.pop("child")),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "an array of objects",
        instead("kind", lambda a: a.astype(object)),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "meta: a list",
        saved(lambda h: h.update(meta=np.frombuffer(b"[1, 2]", np.uint8))),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "meta: nested a hundred thousand deep",
        saved(lambda h: h.update(meta=np.frombuffer(deep("[", "]").encode(), np.uint8))),
        "is not a circuit saved by dssl, or was cut short … Compile the rules with this version of",
    ),
    circuit(
        "meta: no names",
        saved(lambda h: h["meta"].pop("names")),
        "is damaged: 'names … Compile the rules with this version of",
    ),
    circuit(
        "meta: names are numbers",
        saved(lambda h: h["meta"].update(names=[1, 2, 3, 4, 5])),
        "is damaged: `names` are not texts … Compile the rules with this version of",
    ),
    circuit(
        "meta: a newer version",
        saved(lambda h: h["meta"].update(version=99)),
        "has circuit format 99, and this dssl reads 1 … Compile the rules with this version of",
    ),
    circuit(
        "meta: a version that is a text",
        saved(lambda h: h["meta"].update(version="x" * 10_000)),
        "has circuit format … Compile the rules with this version of",
    ),
    circuit(
        "meta: a probability of 2",
        saved(lambda h: h["meta"].update(soft=[2.0])),
        "is damaged: these arrays are not a circuit: soft rules need … See the docstring of",
    ),
    circuit(
        "meta: a probability of NaN",
        saved(lambda h: h["meta"].update(soft=[float("nan")])),
        "is damaged: these arrays are not a circuit: soft rules need … See the docstring of",
    ),
    circuit(
        "a child after its parent",
        at("child", 0, 10**6),
        "is damaged: these arrays are not a circuit: children must come … See the docstring of",
    ),
    circuit(
        "a negative child",
        at("child", 0, -5),
        "is damaged: these arrays are not a circuit: children must come … See the docstring of",
    ),
    circuit(
        "a literal of no column",
        at("literal", 0, 2**31 - 1),
        "is damaged: these arrays are not a circuit: a literal names … See the docstring of",
    ),
    circuit(
        "the least literal",
        at("literal", 0, -(2**31)),
        "is damaged: these arrays are not a circuit: a literal names … See the docstring of",
    ),
    circuit(
        "a kind that is none",
        at("kind", -1, 77),
        "is damaged: these arrays are not a circuit: unknown kinds of … See the docstring of",
    ),
    circuit(
        "children that overlap",
        at("ptr", 1, 10**12),
        "is damaged: these arrays are not a circuit: `ptr` must rise … See the docstring of",
    ),
    circuit(
        "children counted backwards",
        at("ptr", 0, -1),
        "is damaged: these arrays are not a circuit: `ptr` must rise … See the docstring of",
    ),
    circuit(
        "blocks that do not rise",
        at("starts", 1, 0),
        "is damaged: these arrays are not a circuit: `starts` must rise … See the docstring of",
    ),
    circuit(
        "arrays in two dimensions",
        instead("kind", lambda a: a[:, None]),
        "is damaged: these arrays are not a circuit: `kind` has shape … See the docstring of",
    ),
    circuit(
        "arrays without a dimension",
        instead("ptr", lambda a: np.array(3)),
        "is damaged: these arrays are not a circuit: `ptr` has shape () … See the docstring of",
    ),
    circuit(
        "arrays of floats with NaN",
        instead("literal", lambda a: np.full(len(a), np.nan)),
        "is damaged: `literal` is of float64, not of int32 … Compile the rules with this version of",
    ),
    circuit(
        "arrays of numbers too large",
        instead("child", lambda a: a.astype(np.int64) + 2**40),
        "is damaged: `child` is of int64, not of int32 … Compile the rules with this version of",
    ),
    circuit(
        "arrays of texts",
        instead("kind", lambda a: np.array(["a"] * len(a))),
        "is damaged: `kind` is of <U1, not of int8 … Compile the rules with this version of",
    ),
    circuit(
        "no nodes",
        saved(lambda h: h.update(kind=h["kind"][:0], literal=h["literal"][:0], ptr=h["ptr"][:1], child=h["child"][:0])),
        "is damaged: these arrays are not a circuit: `kind`, `literal` … See the docstring of",
    ),
]


def _arrays_of(folder: Path) -> Any:
    fields = {n: v for n, v in arrays().items() if n != "meta"}
    return dssl.Circuit(**{**fields, "kind": fields["kind"][:-1]}, names=tuple("abcde"))


CASES = [
    *NNF,
    *SDDS,
    *CIRCUITS,
    Bad(
        "circuit: arrays of different lengths in Python",
        nothing,
        _arrays_of,
        "these arrays are not a circuit: `starts` ends at 6, but there … See the docstring of",
        DataError,
    ),
]
