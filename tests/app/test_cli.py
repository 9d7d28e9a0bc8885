"""The `dssl` command as a whole: help, versions, exit codes, and that it is light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import dssl
from dssl.app.cli import main

SCRIPT = Path(sys.executable).with_name("dssl")


def ran(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False)


def test_help_lists_every_command() -> None:
    done = ran("--help")
    assert done.returncode == 0
    for command in ("fit", "predict", "evaluate", "rules", "explore", "label", "report", "refit", "reproduce", "demo"):
        assert f" {command} " in done.stdout
    assert ran("--version").stdout == f"{dssl.__version__}\n"


def test_it_is_also_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "dssl", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"{dssl.__version__}\n"


def loaded(code: str) -> set[str]:
    """Top-level packages that a fresh process has loaded after some code."""
    told = "print(*{m.split('.')[0] for m in sys.modules}, file=sys.stderr)"
    words = [sys.executable, "-c", f"import sys\n{code}\n{told}"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return set(done.stderr.split())


def test_help_and_checking_rules_load_nothing_heavy(tmp_path: Path) -> None:
    rules = tmp_path / "a.rules"
    rules.write_text("legs, fins\nlegs -> !fins\n")
    heavy = {"torch", "numba", "sklearn", "polars", "scipy"}
    assert not loaded("from dssl.app.cli import main\nmain(['--help'])") & (heavy | {"numpy", "pysat"})
    for command in ("check", "count", "list", "explain"):
        assert not loaded(f"from dssl.app.cli import main\nmain(['rules', '{command}', {str(rules)!r}])") & heavy
    assert "polars" in loaded("import dssl.data.tables")  # the twin: it would be seen


def test_loading_a_model_loads_nothing_that_only_learning_needs() -> None:
    told = "print(*sys.modules, file=sys.stderr)"
    code = f"import sys, dssl.app.trained, dssl.models.files.saved\n{told}"
    found = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr.split())
    assert "dssl.models.estimators" in found
    others = ("sklearn.neighbors", "sklearn.linear_model", "torch._dynamo", "torch._inductor", "sympy", "matplotlib")
    assert not found & {*others, "jinja2", "starlette", "uvicorn"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fti"], 'Unknown command "fti". Did you mean "fit"?'),
        (["rules", "check"], "requires an argument"),
        (["rules", "check", "a", "b"], "Unused Tokens"),
        (["predict", "run"], "requires an argument"),
        (["fit", "x", "--seed", "one"], 'unable to convert "one" into int'),
    ],
)
def test_wrong_usage_has_code_2_and_a_way_on(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert "--help" in shown.err


def test_an_interruption_has_code_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("dssl.app.demo.main", interrupted)
    assert main(["demo"]) == 130
    assert capsys.readouterr().err == "error: interrupted\n"


def test_a_mistake_of_ours_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise RuntimeError("our own mistake")

    monkeypatch.setattr("dssl.app.demo.main", broken)
    with pytest.raises(RuntimeError, match="our own mistake"):
        main(["demo"])


def test_a_package_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert main(["fit", str(tmp_path), "--out", str(tmp_path / "run")]) == 1
    assert "needs the package PIL, which is not installed\nInstall it: pip install 'dssl[images]'" in (
        capsys.readouterr().err
    )


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    rules = tmp_path / "wide.rules"
    rules.write_text(", ".join(f"x{i}" for i in range(12)))
    words = [SCRIPT, "rules", "list", str(rules), "--limit", "4096"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("x0=0")
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
