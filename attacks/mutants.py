"""Faults put into the source one at a time: do the tests notice?

    python attacks/mutants.py                                         all modules, up to two faults a place
    python attacks/mutants.py --module queries --sample 150 --seed 0  150 of one module, drawn at random
    python attacks/mutants.py --again                                 what survived last time and was not read
    python attacks/mutants.py --module queries --show AddNot/12       one fault, with what pytest says

It needs the extra `mutation`. The faults are those of cosmic-ray's operators, and statements left out. They never touch
the disk: this process loads torch, the kernels and whatever of dssl does not depend on the module, and each fault is
one forked child, in which the module is imported from the changed text. A fault is given to the tests that run its
line, the quickest first, until one fails. Tests that start a new Python do not see it. hypothesis draws the same 25
examples each time and does not shrink. A module whose functions numba compiles is run as plain Python instead.

Faults that change nothing but annotations are not made. Those that survived and were found to change nothing that a
test could see are named with the reason in `attacks/equivalent.py`.
"""

from __future__ import annotations

import argparse
import ast
import functools
import gc
import importlib
import importlib.machinery
import importlib.util
import json
import multiprocessing
import os
import platform
import random
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "attacks" / "results" / "mutants.json"
MEGABYTES = 4096  # that a child may hold
EXAMPLES = 25  # of a hypothesis test
STATES = ("killed", "timeout", "survived", "not run")
PATIENCE_S, PATIENCE = 10, 3  # of a core, that a child may take: so much, and times what its tests took without a fault
ASLEEP_S = 900  # that it may last, whatever else the machine does


@dataclass(frozen=True)
class Module:
    """A module, the test files (or tests) it is held to, and modules whose compiled functions run as plain Python."""

    name: str
    tests: tuple[str, ...]
    interpreted: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return ROOT / "src" / Path(*self.name.split(".")).with_suffix(".py")


_KERNELS = ("components", "emission", "order.elimination", "order.ordering", "propagation", "search", "store")
_SEARCH = tuple(f"dssl.circuits.compile.{module}" for module in _KERNELS)
_SEARCHED = (
    "circuits/compile/test_components.py",
    "circuits/compile/test_search.py",
    "circuits/compile/test_compiler.py::test_circuit_has_the_models_that_enumeration_finds",
)
MODULES = {
    "formula": Module(
        "dssl.logic.language.formula", ("logic/language/test_formula.py", "logic/language/test_symbols.py")
    ),
    "compiler": Module("dssl.circuits.compile.compiler", ("circuits/compile/test_compiler.py",)),
    "turns": Module("dssl.circuits.compile.turns", ("circuits/compile/test_turns.py",)),
    "budget": Module("dssl.circuits.compile.budget", ("circuits/compile/test_budget.py",)),
    "queries": Module("dssl.circuits.queries", ("circuits/test_queries.py",)),
    "relaxations": Module("dssl.priors.relaxations", ("priors/test_relaxations.py", "priors/test_dirichlet.py")),
    "objective": Module(
        "dssl.training.objective", ("training/test_objective.py", "training/terms/test_consistency.py")
    ),
    "search": Module("dssl.circuits.compile.search", _SEARCHED, _SEARCH),
    "components": Module("dssl.circuits.compile.components", _SEARCHED, _SEARCH),
}


# ---- running tests ----


class Tests:
    """A pytest plugin: hypothesis made short, and some tests only, the quickest first.

    It notes the core seconds of each test, tells `switch` which begins, and `done` the code and the test that failed.
    """

    def __init__(
        self,
        seconds: dict[str, float] | None = None,
        switch: Callable[[str], Any] | None = None,
        done: Callable[[int, str], Any] | None = None,
    ) -> None:
        self.wanted, self.switch, self.done = seconds, switch, done
        self.seconds: dict[str, float] = {}
        self.failed = ""

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        from hypothesis import Phase, settings

        for item in items:
            test = getattr(item, "obj", None)
            if kept := getattr(test, "_hypothesis_internal_use_settings", None):
                few = min(kept.max_examples, EXAMPLES)
                phases = (Phase.explicit, Phase.generate)
                short = settings(kept, max_examples=few, derandomize=True, database=None, phases=phases, deadline=None)
                test._hypothesis_internal_use_settings = short  # type: ignore[union-attr]
        if self.wanted is not None:  # examples of a docstring share a namespace: all of them, in their order
            wanted = self.wanted
            items[:] = [i for i in items if i.nodeid in wanted or "line:" in i.nodeid]
            items.sort(key=lambda item: 0 if "line:" in item.nodeid else wanted[item.nodeid])

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.seconds[nodeid] = -time.process_time()
        if self.switch:
            self.switch(nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid] += time.process_time()

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.failed = self.failed or (report.nodeid if report.failed else "")

    def pytest_collectreport(self, report: Any) -> None:
        self.failed = self.failed or (f"import of {report.nodeid}" if report.failed else "")

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if self.done:
            self.done(int(exitstatus), self.failed)


def run_pytest(module: Module, tests: Tests) -> int:
    """All tests of a module that the plugin lets through, until one fails."""
    import pytest

    files = [f"tests/{name}" for name in module.tests] + [str(module.path.relative_to(ROOT))]
    plugins = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "cov", "randomly")]
    return int(pytest.main(["-x", "-q", "--tb=short", "--assert=plain", *plugins, *files], plugins=[tests]))


@dataclass
class Warm:
    """What a run without a fault tells: seconds of each test, and the tests that run each line."""

    module: Module
    seconds: dict[str, float]
    lines: dict[int, list[str]]

    def tests_of(self, at: int) -> dict[str, float]:
        """Tests that run the statement, by seconds; all of them if it is run at import."""
        from attacks.faults import statement

        span = statement(self.module.path.read_text(), at)
        names = {name for line in span for name in self.lines.get(line, [])} if span else {""}
        return dict(self.seconds) if "" in names else {name: self.seconds[name] for name in names}


def warm_up(module: Module) -> Warm:
    """Run the tests here, which loads libraries and kernels; then forget what depends on the module."""
    import coverage
    import torch

    if module.interpreted:
        interpret(module.interpreted)
    alone, torch.set_num_threads = torch.set_num_threads, lambda number: None  # OpenMP's threads do not survive a fork
    traced = coverage.Coverage(include=[str(module.path)], data_file=None, config_file=False)
    tests = Tests(switch=lambda name: traced.switch_context(name))
    with traced.collect():
        if run_pytest(module, tests):
            raise SystemExit(f"a test of {module.name} fails without a fault: {tests.failed}\nMend it first.")
    torch.set_num_threads = alone
    found = traced.get_data().contexts_by_lineno(str(module.path))
    forget(dependents(module.name))
    gc.freeze()  # children need not look through it
    return Warm(module, tests.seconds, {line: list(names) for line, names in found.items()})


def interpret(names: tuple[str, ...]) -> None:
    """Have compiled functions of these modules run as plain Python; numbers wrap around as the compiled do."""
    import numpy as np

    from dssl.circuits import jit

    def plain(compiled: Callable[..., Any]) -> Callable[..., Any]:
        return lambda function: function if function.__module__ in names else compiled(function)

    jit.entry, jit.inner = plain(jit.entry), plain(jit.inner)
    np.seterr(over="ignore")


def dependents(name: str) -> set[str]:
    """The modules of dssl that hold on to something of this one: they import it, or one that does, at their head."""
    imports: dict[str, set[str]] = {}
    for path in (ROOT / "src").rglob("*.py"):
        own = ".".join(path.relative_to(ROOT / "src").with_suffix("").parts).removesuffix(".__init__")
        heads = [node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom | ast.Import)]
        froms = [node for node in heads if isinstance(node, ast.ImportFrom)]
        imports[own] = {str(node.module) for node in froms} | {f"{n.module}.{a.name}" for n in froms for a in n.names}
        imports[own] |= {alias.name for node in heads if isinstance(node, ast.Import) for alias in node.names}
    out = {name}
    while more := {own for own, used in imports.items() if used & out} - out:
        out |= more
    return out


def forget(names: set[str]) -> None:
    """Drop modules, all tests, and what the remaining ones remember of calls."""
    tests = (str(ROOT / "tests"), str(ROOT / "conftest.py"))
    for name, module in list(sys.modules.items()):
        if name in names or str(getattr(module, "__file__", None)).startswith(tests):
            del sys.modules[name]
            package, _, last = name.rpartition(".")
            if package in sys.modules and hasattr(sys.modules[package], last):
                delattr(sys.modules[package], last)
    gc.collect()
    for cached in gc.get_objects():
        if type(cached) is functools._lru_cache_wrapper and str(cached.__module__).startswith("dssl."):
            cached.cache_clear()


# ---- one fault ----


class _Changed(importlib.machinery.SourceFileLoader):
    """Loads a module from the text of a mutant."""

    def __init__(self, module: Module, source: str) -> None:
        super().__init__(module.name, str(module.path))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that of `1 is 1`, which tests would take for an error
            self.code = compile(source, self.path, "exec", dont_inherit=True)

    def get_code(self, fullname: str) -> Any:
        return self.code

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        return importlib.util.spec_from_loader(name, self) if name == self.name else None


def in_child(module: Module, source: str, seconds: dict[str, float], folder: str, show: bool) -> None:
    """The tests with the changed module: exit 0 if all pass, 1 with the name of the one that does not."""
    if not show:
        out = os.open(os.devnull, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEGABYTES << 20,) * 2)
    resource.setrlimit(resource.RLIMIT_CPU, (round(PATIENCE_S + PATIENCE * sum(seconds.values())),) * 2)
    os.environ["DSSL_CACHE"] = folder
    sys.meta_path.insert(0, _Changed(module, source))  # type: ignore[arg-type]

    def done(code: int, failed: str) -> None:
        Path(folder, "failed").write_text(failed or f"pytest ended with {code}")
        if not show:  # nothing needs to be cleaned up
            os._exit(code)

    os._exit(run_pytest(module, Tests(seconds, done=done)))


def outcome(warm: Warm, line: int, changed: str, show: bool = False) -> tuple[str, str]:
    """ "killed" with the test that failed, "timeout", "survived", or "not run": no test runs the line."""
    seconds = warm.tests_of(line)
    if not seconds:
        return "not run", ""
    with tempfile.TemporaryDirectory() as folder:
        arguments = (warm.module, changed, seconds, folder, show)
        child = multiprocessing.get_context("fork").Process(target=in_child, args=arguments)
        child.start()
        child.join(ASLEEP_S)
        if child.is_alive() or child.exitcode in (-signal.SIGXCPU, -signal.SIGKILL):
            child.kill()
            child.join()
            return "timeout", ""
        if child.exitcode == 0:
            return "survived", ""
        failed = Path(folder, "failed")
        return "killed", failed.read_text() if failed.exists() else f"the process ended with {child.exitcode}"


# ---- the command ----


def attack(name: str, options: argparse.Namespace, last: dict[str, Any] | None) -> dict[str, Any]:
    """All faults of a module, or those that survived last time; the record for the file of results."""
    from attacks.equivalent import reason
    from attacks.faults import difference, mutants

    began = time.process_time()
    source = MODULES[name].path.read_text()
    drawn = mutants(source, options.each, options.seed)
    if MODULES[name].interpreted:  # there the decorators do nothing
        drawn = [m for m in drawn if m.operator != "RemoveDecorator"]
    if options.sample and options.sample < len(drawn):
        chosen = random.Random(options.seed).sample(range(len(drawn)), options.sample)
        drawn = [drawn[i] for i in sorted(chosen)]
    record: dict[str, Any] = {"killed": 0, "timeout": 0, "survived": 0, "not run": 0, "left": []}
    if last is not None:
        left = {(one["key"], one["before"]): one for one in last["left"]}
        drawn = [m for m in mutants(source, 100, 0) if m.key in {key for key, _ in left}]
        record |= {"killed": last["killed"], "timeout": last["timeout"]}
    warm = warm_up(MODULES[name])
    for i, mutant in enumerate(drawn):
        changed = mutant.applied(source)
        if changed is None:
            continue
        before, after = difference(source, changed)
        if last is not None and (mutant.key, before) not in left:
            continue
        why = reason(name, before, after)
        read = last is not None and bool(why)  # it was run last time, and stays
        state, by = (left[mutant.key, before]["state"], "as before") if read else outcome(warm, mutant.line, changed)
        record[state] += 1
        print(f"{name} {i + 1}/{len(drawn)} {mutant.key} line {mutant.line}: {state} {by}", file=sys.stderr, flush=True)
        if state in ("survived", "not run"):
            one = {"key": mutant.key, "line": mutant.line, "before": before, "after": after, "state": state}
            record["left"].append({**one, "equivalent": why})
    record["mutants"] = sum(record[state] for state in STATES)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    record["equivalent"] = sum(bool(one["equivalent"]) for one in record["left"])
    record["core_seconds"] = round(time.process_time() - began + children.ru_utime + children.ru_stime)
    return record


def alone(name: str, options: argparse.Namespace, last: dict[str, Any] | None) -> dict[str, Any]:
    """`attack` in a process of its own, so that what one module's run loads is not in the next one's."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(attack, name, options, last).result()


def tell(name: str, path: Path, record: dict[str, Any]) -> None:
    print(
        f"{name:12} {record['mutants']:5} mutants {record['killed']:5} killed {record['timeout']:3} timeouts "
        f"{record['survived']:4} survived {record['not run']:3} not run; {record['equivalent']} change nothing"
    )
    for one in record["left"]:
        if not one["equivalent"]:
            print(f"  {path.relative_to(ROOT)}:{one['line']}  {one['key']}  ({one['state']})")
            print("    - " + one["before"].replace("\n", "\n      "))
            print("    + " + one["after"].replace("\n", "\n      "))


def main() -> None:
    sys.path[:0] = [str(ROOT), str(ROOT / "src")]
    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path[:2])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", choices=MODULES, nargs="*", default=list(MODULES))
    parser.add_argument("--each", type=int, default=2, help="faults of each kind at each place")
    parser.add_argument("--sample", type=int, default=0, help="faults of a module, drawn from all; 0 is all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--again", action="store_true", help="only what survived in the file of results, and is not in equivalent.py"
    )
    parser.add_argument("--show", metavar="KEY", help="one fault of one module, with what pytest says")
    parser.add_argument("--json", type=Path, default=RESULTS)
    options = parser.parse_args()
    if options.show:
        from attacks.faults import difference, mutants

        module = MODULES[options.module[0]]
        source = module.path.read_text()
        chosen = next(m for m in mutants(source, 100, 0) if m.key == options.show)
        changed = chosen.applied(source) or source
        print(*difference(source, changed), *outcome(warm_up(module), chosen.line, changed, show=True), sep="\n")
        return
    kept = json.loads(options.json.read_text()) if options.json.exists() else {"modules": {}}
    settings = {"each": options.each, "sample": options.sample, "seed": options.seed, "examples": EXAMPLES}
    for name in options.module:
        last = kept["modules"].get(name)
        if options.again and last is None:
            continue
        record = alone(name, options, last if options.again else None)
        record["settings"] = last["settings"] if options.again and last else settings
        record["first"] = (last or {}).get("first") or {
            k: record[k] for k in ("killed", "timeout", "survived", "not run")
        }
        if options.again and last:
            record["core_seconds"] += last["core_seconds"]
        kept["modules"][name] = record
        versions = {package: version(package) for package in ("cosmic-ray", "pytest", "hypothesis", "torch", "numba")}
        kept["versions"] = {"python": platform.python_version(), **versions}
        options.json.parent.mkdir(exist_ok=True)
        options.json.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        tell(name, MODULES[name].path, record)


if __name__ == "__main__":
    main()
