"""Coverage-guided fuzzing by command: `python fuzz/run.py --minutes 10`. See the docstring of the folder.

Every target runs in a process of its own, so that a crash, a hang or a flood of memory ends one target and is
reported. Only dssl's own code is instrumented, without the kernels: what other libraries do on the way is theirs, what
they raise is ours to translate.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
HERE = ROOT / "fuzz"
MEGABYTES, HANG_S, LONGEST = 4096, 20, 20_000  # of a process, of one input, of an input's bytes
PATIENCE = 10  # times as long as that, an input is waited for by itself
COMPILING = (
    "nnf",
    "sdd",
    "graph",
    "circuit",
    "cache",
    "prior",
    "model",
    "weights",
    "checkpoint",
)  # whose seeds are compiled
UPSTREAM = {  # faults that are not ours to mend: counted, not kept
    "parquet": r"memory allocation of \d+ bytes failed",  # polars believes a page's length and ends the process
}
SAID = ".said"  # the end of a file's name that holds what a process said, beside its last input
_TOKENS = {  # words that bytes alone would take long to find
    "rules": "at_most( at_least( exactly( exactly_one( all( any( none( -> <-> :: .. in not and or xor iff \\n 0.5 true "
    "for where sum( count( max( min( element( table( regular( path( tree( connected( all_different( increasing( "
    "strictly_increasing( lex( permutation( ranking( hierarchy: leaf any if then else div mod rule [ ] [*]",
    "dimacs": "p_cnf c_p_weight c_p_show % -1 0 inf nan",
    "nnf": "nnf L A O o a t f 0 -1 --1 ²",
    "sdd": "sdd L D T F 0 -1",
    "vtree": "vtree L I 0 -1",
    "arff": "@relation @attribute @data numeric real hierarchical { } ? ' %",
    "hmc": "@relation @attribute @data numeric hierarchical { } ? ' @ /",
    "settings": "= [ ] { } true inf nan steps prior label rules",
}
_JSON = '{ } [ ] : , " null true false 1e999 NaN Infinity -1 "version" "format" "checksum"'


def main() -> int:
    """All targets, one after the other; the exit code is 1 if anything was found."""
    sys.path.insert(0, str(ROOT))
    from fuzz.targets import TARGETS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="for all targets together")
    parser.add_argument("--target", choices=sorted(TARGETS), nargs="*", help="some targets only")
    parser.add_argument("--again", type=Path, help="give one file to its target, named before the first '-'")
    parser.add_argument("--json", type=Path, help="write the figures here as well")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    options, rest = parser.parse_known_args()
    if options.worker:
        return work(options.worker, rest)
    if options.again:
        TARGETS[options.again.name.partition("-")[0]].check(options.again.read_bytes())
        return 0
    names = options.target or list(TARGETS)
    seconds = max(1, round(60 * options.minutes / len(names)))
    rows = [fuzz(name, seconds, TARGETS[name].seeds()) for name in names]
    for row in rows:
        print("{name:14} {executions:9,} executions  {edges:6,} edges  {corpus:5,} inputs kept  {found}".format(**row))
    print(f"{sum(row['executions'] for row in rows):,} executions, {sum(row['findings'] for row in rows)} findings")
    if options.json:
        options.json.write_text(json.dumps({"seconds_each": seconds, "targets": rows}, indent=1) + "\n")
    return 1 if any(row["findings"] for row in rows) else 0


def fuzz(name: str, seconds: int, seeds: list[bytes]) -> dict[str, object]:
    """One target, in a process of its own, begun anew after a finding until its time is over."""
    corpus, findings = HERE / "corpus" / name, HERE / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    for i, seed in enumerate(seeds):
        (corpus / f"seed-{i}").write_bytes(seed)
    before, executions, edges, upstream = set(findings.iterdir()), 0, 0, 0
    end = time.monotonic() + seconds
    while (left := round(end - time.monotonic())) > 0:
        there = set(findings.iterdir())
        status, said, last = _worker(name, [
            str(corpus), f"-max_total_time={left}", f"-timeout={HANG_S}", f"-rss_limit_mb={MEGABYTES}",
            f"-max_len={LONGEST}", f"-artifact_prefix={findings}/{name}-", "-print_final_stats=1", *_dictionary(name),
        ])  # fmt: skip
        done = sum(map(int, re.findall(r"number_of_executed_units: (\d+)", said)[-1:]))
        executions += done
        edges = max([edges, *map(int, re.findall(r"\bcov: (\d+)", said))])
        if status == 0:
            break
        left_behind = set(findings.iterdir()) - there
        if name in UPSTREAM and re.search(UPSTREAM[name], said):
            upstream += 1
            for file in left_behind:
                file.unlink()
            continue
        slow = {file for file in left_behind if re.search(r"-(timeout|slow-unit)-", file.name)}
        if slow and slow == left_behind and not any(_hangs(file) for file in slow):
            for file in slow:
                file.unlink()
            continue
        if not left_behind:
            _leave(findings / f"{name}-ended-{len(there)}", last, f"exit code {status}\n{said}")
        print(f"{name}: {_reason(said)}", flush=True)
        if not done and not left_behind:  # it never began
            print(said[-2000:])
            break
    for file in set(findings.glob(f"{name}-slow-unit-*")) - before:  # written in passing, by a process that ends well
        if not _hangs(file):
            file.unlink()
    found = {file for file in set(findings.iterdir()) - before if file.suffix != SAID}
    return _row(name, executions, edges, corpus, len(found), upstream)


def _worker(name: str, options: list[str]) -> tuple[int, str, bytes]:
    """Runs a target's process: its exit code, what it said, and the last input that it was given."""
    from fuzz.targets import FOLDER, TARGETS, new_folder

    folder = new_folder()
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--worker", name, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            cwd=ROOT,
            env={**os.environ, FOLDER: str(folder)},
        )
        last = folder / TARGETS[name].file
        return done.returncode, done.stdout, last.read_bytes() if last.is_file() else b""
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _hangs(file: Path) -> bool:
    """Whether an input that took long takes as much of the processor: on a busy machine any input takes long."""
    command = [sys.executable, __file__, "--again", str(file)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    try:
        done = subprocess.run(command, capture_output=True, check=False, cwd=ROOT, timeout=PATIENCE * HANG_S)
    except subprocess.TimeoutExpired:
        return True
    now = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return done.returncode != 0 or seconds > HANG_S


def _leave(path: Path, last: bytes, said: str) -> None:
    """Leaves the last input of a process that ended without one of its own, killed say, and what it said."""
    path.write_bytes(last)
    path.with_name(path.name + SAID).write_text(said)


def _row(name: str, executions: int, edges: int, corpus: Path, found: int, upstream: int) -> dict[str, object]:
    kept = sum(1 for _ in corpus.iterdir())
    said = f"{found} FINDINGS" if found else "nothing found" + (f", {upstream} known upstream" if upstream else "")
    return {
        "name": name, "executions": executions, "edges": edges, "corpus": kept, "findings": found,
        "upstream": upstream, "found": said,
    }  # fmt: skip


def _reason(said: str) -> str:
    found = re.findall(r"(Finding: .*|ERROR: libFuzzer: .*|SUMMARY: .*)", said)
    return next(iter([*found, *said.strip().splitlines()[-1:]]), "it ended without a word")[:300]


def _dictionary(name: str) -> list[str]:
    words = _TOKENS.get(name) or (_JSON if name in ("json", "model", "preprocessing", "summary") else "")
    if not words:
        return []
    path = HERE / "corpus" / f"{name}.dict"
    escaped = (word.replace("_", " ").replace("\\", "\\\\").replace('"', '\\"') for word in words.split())
    path.write_text("".join(f'"{word}"\n' for word in escaped if word.isascii()))
    return [f"-dict={path}"]


def work(name: str, rest: list[str]) -> int:
    """The process of one target: atheris with dssl instrumented as it is imported."""
    import atheris

    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    from fuzz.targets import TARGETS

    target = TARGETS[name]
    with atheris.instrument_imports(include=["dssl"]):  # numba cannot compile instrumented kernels: they come after
        import dssl.circuits.formats.packed
        import dssl.logic.space
    import dssl.circuits.counting

    if name in COMPILING:
        import dssl.circuits.branches
        import dssl.circuits.compile.compiler
        import dssl.circuits.queries  # noqa: F401
    with atheris.instrument_imports(include=["dssl"]):  # whatever else the target needs is imported by using it
        for seed in target.seeds():
            target.check(seed)

    def one(data: bytes) -> None:
        target.check(data)

    atheris.Setup([sys.argv[0], *rest], one)
    atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
