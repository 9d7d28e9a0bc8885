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
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
HERE = ROOT / "fuzz"
MEGABYTES, HANG_S, LONGEST = 4096, 20, 20_000  # of a process, of one input, of an input's bytes
COMPILING = ("circuit", "cache", "prior", "model", "weights", "checkpoint")  # whose seeds are compiled
UPSTREAM = {  # faults that are not ours to mend: counted, not kept
    "parquet": r"memory allocation of \d+ bytes failed",  # polars believes a page's length and ends the process
}
_TOKENS = {  # words that bytes alone would take long to find
    "rules": "at_most( at_least( exactly( exactly_one( all( any( none( -> <-> :: .. in not and or xor \\n 0.5 true",
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
        command = [
            sys.executable, __file__, "--worker", name, str(corpus), f"-max_total_time={left}", f"-timeout={HANG_S}",
            f"-rss_limit_mb={MEGABYTES}", f"-max_len={LONGEST}", f"-artifact_prefix={findings}/{name}-",
            "-print_final_stats=1", *_dictionary(name),
        ]  # fmt: skip
        done = subprocess.run(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
            cwd=ROOT,
        )
        said = done.stdout
        executions += sum(map(int, re.findall(r"number_of_executed_units: (\d+)", said)[-1:]))
        edges = max([edges, *map(int, re.findall(r"\bcov: (\d+)", said))])
        if done.returncode == 0:
            break
        if name in UPSTREAM and re.search(UPSTREAM[name], said):
            upstream += 1
            for file in set(findings.iterdir()) - before:
                file.unlink()
            continue
        print(f"{name}: {_reason(said)}", flush=True)
        if not executions and not set(findings.iterdir()) - before:  # it never began
            print(said[-2000:])
            return _row(name, executions, edges, corpus, 1, upstream)
    return _row(name, executions, edges, corpus, len(set(findings.iterdir()) - before), upstream)


def _row(name: str, executions: int, edges: int, corpus: Path, found: int, upstream: int) -> dict[str, object]:
    kept = sum(1 for _ in corpus.iterdir())
    said = f"{found} FINDINGS" if found else "nothing found" + (f", {upstream} known upstream" if upstream else "")
    return {
        "name": name, "executions": executions, "edges": edges, "corpus": kept, "findings": found,
        "upstream": upstream, "found": said,
    }  # fmt: skip


def _reason(said: str) -> str:
    found = re.findall(r"(Finding: .*|ERROR: libFuzzer: .*|SUMMARY: .*)", said)
    return found[0][:300] if found else said.strip().splitlines()[-1][:300]


def _dictionary(name: str) -> list[str]:
    words = _TOKENS.get(name) or (_JSON if name in ("model", "preprocessing", "summary") else "")
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
        import dssl.circuits.packed
        import dssl.logic.space
    if name in COMPILING:
        import dssl.circuits.choices
        import dssl.circuits.compiler
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
