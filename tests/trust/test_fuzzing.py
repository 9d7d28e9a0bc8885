"""Every reader, on mutated files: accepted, or refused with our error. The targets are those of `fuzz/run.py`.

The same few thousand inputs every time, so that a failure can be had again; `python fuzz/run.py --minutes 10` goes
on from there, guided by coverage. What it found is below, as files that once broke a reader.
"""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fuzz import run, targets
from fuzz.targets import RULES, TARGETS, Finding, Target, fault_of
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import dssl
from dssl.circuits.weighted import WeightedCircuit
from dssl.errors import DataError, RuleError
from dssl.priors.learned import LearnedPrior
from logic.stopwatch import within

PIECES = [
    b"", b"\0", b"\xff", b"\n", b",", b"'", b'"', b"{", b"[", b"(", b"-1", b"0", b"1e999", b"NaN", b"null", b"true",
    b"9" * 5000, b"--5", "²".encode(), "\ufeff".encode(), b"999999999", b"<a", b" ", b"_", b"x" * 3000,
]  # fmt: skip
SLOW = ("model", "weights", "prior", "parquet", "image", "svhn")
FUZZ = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Bits flipped, bytes replaced, parts removed, repeated, or replaced by pieces that often hurt."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        at = rng.randrange(len(out) + 1)
        to = min(len(out), at + rng.choice([0, 1, 2, 4, 8, 30]))
        change = rng.randrange(6)
        if change == 0 and at < len(out):
            out[at] ^= 1 << rng.randrange(8)
        elif change == 1 and at < len(out):
            out[at] = rng.randrange(256)
        elif change == 2:
            del out[at:to]
        elif change == 3:
            out[at:to] = rng.choice(PIECES)
        elif change == 4:
            out[at:at] = out[at:to] * rng.choice([1, 2, 40])
        else:
            del out[at:]
    return bytes(out)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_mutated_files_are_read_or_refused(target: Target) -> None:
    rng, seeds = random.Random(target.name), target.seeds()
    target.check(seeds[0])  # kernels are compiled now, not while the stopwatch runs
    for _ in range(30 if target.name in SLOW else 120):
        with within(20):
            target.check(mutated(rng, rng.choice(seeds)))


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
def test_right_files_are_read(target: Target) -> None:
    accepted = [target.check(seed) for seed in target.seeds()]
    assert accepted
    assert all(accepted) or target.name == "summary"  # whose seed has its first fields only


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS.keys())
@pytest.mark.parametrize("data", [b"", b"\0", b"\xff" * 64, b"\n" * 100, bytes(4096), b"[" * 20_000])
def test_what_is_no_file_at_all(target: Target, data: bytes) -> None:
    with within(20):
        target.check(data)


def test_bytes_can_stand_for_any_number_of_children() -> None:
    """Hundreds of children, of which each occurs many times, are more than a deterministic OR can have."""
    assert {targets._arity(byte) for byte in range(256)} >= {0, 1, 2, 127, 16, 256, 2048}
    many = bytes([2, 0, 0, 2, 1, 2, 255, 4, 150, 1, 2, 1, 2, 1, 2, 1])
    assert not TARGETS["graph"].check(many)


ASKED = ("log_wmc", "marginals", "entropy", "mpe", "top_k", "sample", "log_weight", "count", "verify", "to_nnf")


@pytest.mark.parametrize("query", [*ASKED, "to_dot", "to_svg"])
@pytest.mark.parametrize("target", ["nnf", "sdd", "graph", "circuit"])
def test_every_query_is_asked(monkeypatch, target: str, query: str) -> None:
    """A query that fails on a circuit that was read is found."""

    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError(query)

    monkeypatch.setattr(dssl.Circuit, query, broken)
    with pytest.raises(Finding, match=query):
        [TARGETS[target].check(seed) for seed in TARGETS[target].seeds()]


@pytest.mark.parametrize("query", ["log_wmc", "marginals", "entropy", "mpe", "sample"])
def test_every_query_of_weighted_branches_is_asked(monkeypatch, query: str) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError(query)

    monkeypatch.setattr(WeightedCircuit, query, broken)
    with pytest.raises(Finding, match=query):
        TARGETS["graph"].check(TARGETS["graph"].seeds()[0])


@pytest.mark.parametrize("query", ["log_prob", "sample_labels", "log_prob_labels"])
def test_a_prior_that_was_read_is_asked(monkeypatch, query: str) -> None:
    def broken(*args: object, **options: object) -> None:
        raise ZeroDivisionError(query)

    monkeypatch.setattr(LearnedPrior, query, broken)
    with pytest.raises(Finding, match=query):
        TARGETS["prior"].check(TARGETS["prior"].seeds()[0])


# ---- rules ----

WORDS = (
    "legs fins wings species age size cat dog zebra true false at_most( at_least( exactly( exactly_one( all( any( "
    'none( ( ) { } , : :: .. = != < <= > >= + - * & | ^ ! ~ -> <-> in not and or xor 0 1 2 9 -1 0.5 1e3 \n # \\ " '
    "for where i 1..3 x[i] x[*] [ ] sum( count( max( min( element( table( regular( path( tree( connected( lex( rule "
    "all_different( increasing( permutation( ranking( hierarchy: one path leaf if then else div mod 'a | b' w = \n\t"
).split(" ")


def same_when_printed(text: str) -> None:
    """Text that parses prints to text that parses to the same; other text is refused as it should be."""
    try:
        space = dssl.LabelSpace(text)
    except RuleError as error:
        fault = fault_of(error, remedy=bool(error.remedy))
        if fault:
            raise Finding(fault) from error
        return
    again = dssl.LabelSpace(str(space))
    assert again.variables == space.variables
    assert [(r.formula, r.probability) for r in again.rules] == [(r.formula, r.probability) for r in space.rules]


@FUZZ
@given(st.lists(st.sampled_from(WORDS), max_size=30))
@example(["legs", "\n", "legs", "->", "0"])
def test_any_words_in_any_order(words: list[str]) -> None:
    same_when_printed("legs, fins, wings\nspecies: {cat, dog}\nage: 0..9\nsize: 0..3\n" + " ".join(words))


@FUZZ
@given(st.randoms(use_true_random=False))
def test_mutated_rules(rng: random.Random) -> None:
    same_when_printed(mutated(rng, RULES.encode()).decode(errors="replace"))


@FUZZ
@given(st.randoms(use_true_random=False))
def test_crossed_rules(rng: random.Random) -> None:
    lines = RULES.splitlines()
    halves = [line.split(" ") for line in rng.choices(lines, k=4)]
    crossed = [
        " ".join(a[: rng.randrange(len(a) + 1)] + b[rng.randrange(len(b) + 1) :]) for a, b in itertools.pairwise(halves)
    ]
    same_when_printed("\n".join(lines[:4] + crossed))


# ---- what was found ----

FOUND = {
    "nnf": [
        b"nnf 1 0 1\nL --5\n",
        "nnf 1 0 1\nL ²\n".encode(),
        b"nnf 1 0 999999999\nL 1\n",
        b"o 1 0\n1 1 99999999999 0\n",
    ],
    "sdd": ["sdd 1\nL 0 0 ²\n".encode(), b"sdd 1\nL 0 0 999999999999\n"],
    "vtree": [b"vtree 1\nL 0 1" + b"1" * 17 + b"\n", b"vtree 1\nI 1 0 " + b"9" * 5000],
    "dimacs": [b"p cnf 99999999 0\n"],
    "csv": [b'a,b\n"1,2\n', b"a\0b\n1\n", b"\xff,b\n1,2\n"],
    "csv.gz": [b"", b"\x1f\x8b9999", b"a,b\n"],
    "arff": [
        b"@attribute k {a,b,a}\n@data\na\n",
        b"@attribute x real\n@data\n{z 1}\n",
        b"@attribute x\xff real\n",
        b"@data\n{0 1}\n",
    ],
    "npz": [b"\x93NUMPY\x01\x00v\x00"],
    "idx.gz": [b"\x1f\x8b\x08", b"\0\0\x08\x01"],
    "idx": [
        b"\0\0\x08\x14" + b"\x13" * 76 + bytes(4),  # no byte, in twenty dimensions of which one is 0
        b"\0\0\x08\x02" + b"\x80\0\0\0" * 2,  # 2⁶² bytes
        b"\0\0\x08\x03" + b"\0\x80\0\0\0\x80\0\0\0\4\0\0",  # 2⁶⁴, which is 0 in 64 bits
        b"\0\0\x08\x64" + b"\0\0\0\1" * 100 + b"x",  # a byte, in a hundred dimensions
    ],
    "svhn": [
        b"\x1eA",
        b"MATLAB 5.0".ljust(124) + b"\0\1IM" + b"\x0e\0\0\0\0\0\0\0",
        b"MATLAB 5.0".ljust(124) + b"\0\1IM" + b"\x0e\0\0\0\xff\xff\xff\x7f" + bytes(16),
    ],
    "mulan": [b"<labels><label/></labels>"],
    "zoo": [b"", b"animal_name,type\nx,\n", b"animal_name,type\n\xac", b"animal_name,a,type\nx,1,1\ny,1\n"],
    "model": [
        b'{"format": "dssl model", "version": 1, "checksum": ""}',
        b'{"format": "dssl model", "version": 3, "versions": []}',
    ],
    "preprocessing": [
        b"\xff",
        b'{"format": "dssl preprocessing", "version": "1"}',
        b'{"format": "dssl preprocessing", "version": ' + b"9" * 5000 + b"}",
    ],
    "labels": [b"x^topics\n1,wheat\n2,corn\n w"],  # begins like a compressed file
    "settings": [b"steps = " + b"9" * 5000, b"power = 1" + b"0" * 400, b"steps = " + b"[" * 5000],
    "checkpoint": [b"", b"\xf0\xff"],
    "image": [b"GIF87a\xff\xff\xff\xff\x83\0\0" + bytes(100)],
}


@pytest.mark.parametrize(("name", "data"), [(name, data) for name, all_ in FOUND.items() for data in all_])
def test_what_once_broke_a_reader_is_refused(name: str, data: bytes) -> None:
    with within(20):
        assert not TARGETS[name].check(data)


# ---- the fuzzers themselves ----


@pytest.mark.parametrize(
    "error", [KeyError("x"), ValueError("from elsewhere"), DataError("a fact\nA remedy."), SystemError()]
)
def test_an_error_that_is_not_as_it_should_be_is_a_finding(error: Exception) -> None:
    def read(_: Path) -> None:
        raise error

    with pytest.raises(Finding):
        Target("broken", "broken", lambda: [b""], read).check(b"")


def test_every_dictionary_has_a_target_and_is_written_as_libfuzzer_reads_it() -> None:
    assert set(run._TOKENS) <= set(TARGETS)
    assert "fuzz" in (run.__doc__ or "")


def test_the_command_finds_a_planted_fault(tmp_path: Path) -> None:
    """Under atheris, guided by coverage; skipped where it is not installed."""
    pytest.importorskip("atheris", reason="coverage-guided fuzzing needs atheris: pip install 'dssl[fuzz]'")
    code = (
        "import sys, atheris\n"
        "from fuzz.targets import Target\n"
        "@atheris.instrument_func\n"
        "def read(path):\n"
        "    data = path.read_bytes()\n"
        "    if data[:1] == b'b':\n"
        "        if data[1:2] == b'u':\n"
        "            if data[2:3] == b'g':\n"
        "                raise KeyError('planted')\n"
        "def one(data):\n"
        "    Target('planted', 'planted', lambda: [], read).check(data)\n"
        "atheris.Setup([sys.argv[0], '-runs=200000', '-seed=1', '-max_len=8'], one)\n"
        "atheris.Fuzz()\n"
    )
    root = Path(run.__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, errors="replace", check=False, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)}, timeout=300,
    )  # fmt: skip
    assert done.returncode != 0
    assert "Finding: planted: KeyError: 'planted'" in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("status", "said", "executed"), [(-9, "", 0), (-9, "stat::number_of_executed_units: 7", 7), (1, "ImportError", 0)]
)
def test_a_process_that_ends_by_itself_leaves_its_last_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, said: str, executed: int
) -> None:
    """Killed before libFuzzer could write its input, or before there was any."""
    ended = iter([(status, said, b"a,b\n1"), (0, "", b"")])
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "_worker", lambda name, options: next(ended))
    found = run.fuzz("csv", 5, [b"a,b\n"])
    assert (found["findings"], found["executions"]) == (1, executed)
    (last,) = (path for path in (tmp_path / "findings").iterdir() if path.suffix != run.SAID)
    assert last.read_bytes() == b"a,b\n1"
    assert last.name.partition("-")[0] == "csv"  # as `--again` reads it
    assert said in last.with_name(last.name + run.SAID).read_text()


def test_faults_of_others_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = iter([(-6, "memory allocation of 2305843009213693952 bytes failed", b"PAR1"), (0, "", b"")])
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "_worker", lambda name, options: next(ended))
    found = run.fuzz("parquet", 5, [])
    assert (found["findings"], found["upstream"]) == (0, 1)
    assert list((tmp_path / "findings").iterdir()) == []


def test_the_last_input_of_a_worker_is_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        (Path(options["env"][targets.FOLDER]) / TARGETS["csv"].file).write_bytes(b"x")
        return subprocess.CompletedProcess(command, -9, "said")

    monkeypatch.setattr(run.subprocess, "run", killed)
    assert run._worker("csv", []) == (-9, "said", b"x")


@pytest.mark.parametrize("hangs", [True, False])
def test_an_input_that_was_noted_in_passing_is_judged_too(
    hangs: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that goes on and ends well leaves slow inputs behind as well."""

    def worker(name: str, options: list[str]) -> tuple[int, str, bytes]:
        (tmp_path / "findings" / f"{name}-slow-unit-0").write_bytes(b"a")
        return 0, "stat::number_of_executed_units: 7", b""

    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "_worker", worker)
    monkeypatch.setattr(run, "_hangs", lambda file: hangs)
    assert run.fuzz("csv", 5, [])["findings"] == int(hangs)


@pytest.mark.parametrize("hangs", [False, True])
def test_an_input_that_took_long_is_a_finding_if_it_does_so_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: bool
) -> None:
    ended = iter([(70, "ERROR: libFuzzer: timeout after 23 seconds", b""), (0, "", b"")])

    def worker(name: str, options: list[str]) -> tuple[int, str, bytes]:
        status, said, last = next(ended)
        if status:
            (tmp_path / "findings" / "csv-timeout-0").write_bytes(b"a")
        return status, said, last

    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "_worker", worker)
    monkeypatch.setattr(run, "_hangs", lambda file: hangs)
    assert run.fuzz("csv", 5, [])["findings"] == int(hangs)
    assert (tmp_path / "findings" / "csv-timeout-0").exists() == hangs


@pytest.mark.parametrize(("code", "patience", "expected"), [
    ("", 60, False),
    ("raise SystemExit(1)", 60, True),
    ("import time\nend = time.process_time() + 1.2\nwhile time.process_time() < end: pass", 60, True),
    ("import time\ntime.sleep(60)", 1, True),
], ids=["nothing", "an error", "work", "a wait"])  # fmt: skip
def test_what_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, patience: int, expected: bool) -> None:
    """By the processor's time, of which starting Python takes little; or by waiting for ever."""
    script = tmp_path / "again.py"
    script.write_text(code)
    monkeypatch.setattr(run, "__file__", str(script))
    monkeypatch.setattr(run, "HANG_S", 1)
    monkeypatch.setattr(run, "PATIENCE", patience)
    assert run._hangs(tmp_path) == expected
