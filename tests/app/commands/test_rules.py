"""`dssl rules`: each command on rules that are right, and on what is wrong with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dssl import LabelSpace
from dssl.app.cli import main
from dssl.circuits.circuit import Circuit
from dssl.errors import BudgetError


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    path = tmp_path / "a.rules"
    path.write_text("legs, fins, wings\nlegs -> !fins\nlegs & fins -> wings\n")
    return path


def test_check_count_list_compile_and_explain_through_the_script(
    dssl: Callable[..., Any], rules: Path, tmp_path: Path
) -> None:
    checked = dssl("rules", "check", rules)
    assert checked.returncode == 0
    assert checked.stdout == f"{rules}: 3 variables, 2 rules\n6 of 8 labels are valid\n"
    assert "warning: redundant: 'legs & fins -> wings' follows from:\n    line 2: legs -> !fins" in checked.stderr
    assert dssl("rules", "check", rules, "--strict").returncode == 1
    assert dssl("rules", "count", rules).stdout == "6\n"
    listed = dssl("rules", "list", rules, "--limit", 2)
    assert listed.stdout.splitlines()[:2] == ["legs=0 fins=0 wings=0", "legs=0 fins=0 wings=1"]
    assert "and more" in listed.stdout
    circuit = tmp_path / "a.npz"
    compiled = dssl("rules", "compile", rules, "--out", circuit)
    assert "6 valid labels" in compiled.stdout
    assert Circuit.load(circuit).count() == 6
    explained = dssl("rules", "explain", rules, "--label", "legs=1 fins=1")
    assert explained.stdout.splitlines() == [
        "this label breaks", "  line 2: legs -> !fins", "valid again without legs=1",
        "valid again without fins=1",
    ]  # fmt: skip


def spoken(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main([str(word) for word in words]) == 0
    return capsys.readouterr().out


def facts(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, Any]:
    return dict(json.loads(spoken(capsys, *words, "--json")))


def test_rules_that_cannot_be_counted_are_checked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "many.rules"
    path.write_text("a[1..30]\nat_least(12, a[*])\n")

    def compile_(*_: object, budget_s: float) -> None:
        assert budget_s < 60
        raise BudgetError("too many")

    monkeypatch.setattr(LabelSpace, "compile", compile_)
    assert "some of 1,073,741,824 labels are valid; counting them takes more than" in spoken(
        capsys, "rules", "check", path
    )
    assert facts(capsys, "rules", "check", path)["valid"] is None
    assert main(["rules", "check", str(path), "--strict"]) == 0


def test_every_command_speaks_json(capsys: pytest.CaptureFixture[str], rules: Path, tmp_path: Path) -> None:
    checked = facts(capsys, "rules", "check", rules)
    assert (checked["variables"], checked["rules"], checked["valid"]) == (["legs", "fins", "wings"], 2, 6)
    assert [f["kind"] for f in checked["findings"]] == ["redundant", "dead"]
    assert facts(capsys, "rules", "count", rules)["valid"] == 6
    listed = facts(capsys, "rules", "list", rules)
    assert listed["labels"] == list(LabelSpace.read(rules).valid())
    assert listed["complete"]
    assert facts(capsys, "rules", "compile", rules)["nodes"] > 1
    assert facts(capsys, "rules", "explain", rules, "--label", "legs=1")["forced"] == {"fins": False}


def test_many_labels_are_counted_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "wide.rules"
    names = [f"x{i}" for i in range(80)]
    path.write_text(", ".join(names) + "\nat_least(1, " + ", ".join(names) + ")\n")
    assert spoken(capsys, "rules", "count", path) == f"{2**80 - 1}\n"


@pytest.mark.parametrize("suffix", [".svg", ".dot", ".nnf"])
def test_circuits_are_written_in_other_forms(
    capsys: pytest.CaptureFixture[str], rules: Path, tmp_path: Path, suffix: str
) -> None:
    out = (tmp_path / "circuit").with_suffix(suffix)
    spoken(capsys, "rules", "compile", rules, "--out", out)
    assert {".svg": "<svg", ".dot": "digraph", ".nnf": "nnf "}[suffix] in out.read_text()


def test_contradictions_are_explained(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "clash.rules"
    path.write_text("a, b, c\na -> b\na -> !b\na = true\nc -> b\n")
    said = spoken(capsys, "rules", "explain", path)
    assert "these rules contradict each other" in said
    assert "line 3: a -> !b" in said
    assert "c -> b" not in said  # a smallest set
    assert facts(capsys, "rules", "explain", path)["consistent"] is False


def test_what_nothing_is_wrong_with_is_said(capsys: pytest.CaptureFixture[str], rules: Path) -> None:
    rules.write_text("a, b\na -> b\n")
    assert "nothing stands out" in spoken(capsys, "rules", "explain", rules)
    assert spoken(capsys, "rules", "explain", rules, "--label", "b=0") == "valid, and it follows that a=0\n"
    assert spoken(capsys, "rules", "explain", rules, "--label", "b=1, a=1") == "valid\n"
    rules.write_text("x[1..2, 1..2]\nfor i in 1..2: x[i, 1] -> x[i, 2]\n")
    said = spoken(capsys, "rules", "explain", rules, "--label", "x[1,1]=1, x[2,2]=0")
    assert said == "valid, and it follows that x[1,2]=1 x[2,1]=0\n"


def test_rules_are_learned_from_labels(dssl: Callable[..., Any], tmp_path: Path) -> None:
    labels, out = tmp_path / "labels.csv", tmp_path / "learned.rules"
    rows = ["legs,fins,wings"] + ["1,0,0", "0,1,0", "1,0,1", "0,0,0"] * 40
    labels.write_text("\n".join(rows) + "\n")
    done = dssl("rules", "learn", labels, "--out", out, "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["rows"] == 160
    assert found["rules"]
    space = LabelSpace.read(out)
    assert not space.check([{"legs": 1, "fins": 0, "wings": 1}])
    assert space.check([{"legs": 1, "fins": 1}])


# ---- wrong uses ----


def test_mistakes_in_rules_are_shown_where_they_are(fails: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "bad.rules"
    path.write_text("legs, fins\nlegs -> !fisn\n")
    said = fails("rules", "check", path)
    assert f"error: '{path}', line 2, column 10: 'fisn' is not declared" in said
    assert "  legs -> !fisn\n           ^\n" in said
    assert "Did you mean 'fins'?" in said
    path.write_text("a, b\na -> b\na = true\nb = false\n")
    assert "these rules contradict each other" in fails("rules", "count", path)
    path.write_text("")
    assert "no variables are declared" in fails("rules", "list", path)
    path.write_bytes(b"\xff\xfe\x00")
    assert "is not UTF-8 text" in fails("rules", "explain", path)
    assert "is a folder" in fails("rules", "check", tmp_path)


def test_a_file_that_is_not_there_is_named_with_the_nearest(fails: Callable[..., str], rules: Path) -> None:
    said = fails("rules", "check", rules.with_name("b.rules"))
    assert "b.rules': No such file or directory\nDid you mean 'a.rules'?" in said


def test_wrong_labels_to_explain(fails: Callable[..., str], rules: Path) -> None:
    assert "'legs' in --label is not name=value" in fails("rules", "explain", rules, "--label", "legs")
    assert "'legz' that the space does not declare" in fails("rules", "explain", rules, "--label", "legz=1")
    assert "'legs' cannot be '7'" in fails("rules", "explain", rules, "--label", "legs=7")
    assert "--label is empty" in fails("rules", "explain", rules, "--label", " ")


def test_wrong_usage_has_code_2(fails: Callable[..., str], rules: Path) -> None:
    assert 'Did you mean "check"?' in fails("rules", "chek", rules, code=2)
    assert "requires an argument" in fails("rules", "check", code=2)
    assert "--limit 0 lists nothing" in fails("rules", "list", rules, "--limit", 0, code=2)
    assert 'unable to convert "many" into int' in fails("rules", "list", rules, "--limit", "many", code=2)
    assert "a circuit is written as" in fails("rules", "compile", rules, "--out", "circuit.png", code=2)
    assert "Did you mean --json?" in fails("rules", "count", rules, "--jsn", code=2)


def test_a_circuit_out_of_budget(fails: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "hard.rules"
    names = [f"x{i}" for i in range(60)]
    random = Random(0)
    clauses = ["x{} | !x{} | x{}".format(*random.sample(range(60), 3)) for _ in range(120)]
    path.write_text("\n".join([", ".join(names), *clauses]))
    said = fails("rules", "compile", path, "--budget-nodes", 10, "--json")
    assert "budget" in said


def test_wrong_labels_to_learn_from(fails: Callable[..., str], tmp_path: Path, rules: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("a,b\n1,0\n")
    assert "has no column 'c' (--columns)" in fails("rules", "learn", labels, "--columns", "c")
    assert "a format that dssl does not read" in fails("rules", "learn", rules)
    labels.write_text("a,b\n")
    assert "has no rows" in fails("rules", "learn", labels)


def test_rules_are_shown_short_and_written_out(capsys: pytest.CaptureFixture[str], rules: Path) -> None:
    rules.write_text("x[1..3]\nfor i  in 1..2: x[i]implies x[i+1]\n")
    assert spoken(capsys, "rules", "show", rules) == "x[1..3]\nfor i in 1..2: x[i] -> x[i+1]\n"
    flat = spoken(capsys, "rules", "show", rules, "--expand")
    assert flat == "x[1..3]\nx[1] -> x[2]\nx[2] -> x[3]\n"
    assert facts(capsys, "rules", "show", rules, "--expand")["text"] == flat


def test_a_file_is_tidied_and_keeps_its_comments(dssl: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "untidy.rules"
    path.write_text("a,b # two\n\nfor i in {1}:\n    a->b  # why\nany(a,\n  b)\n")
    assert dssl("rules", "format", path, "--check").returncode == 1
    assert dssl("rules", "format", path).stdout == f"{path}: tidied\n"
    assert path.read_text() == "a, b # two\n\nfor i in {1}:\n    a -> b  # why\nany(a,\n  b)\n"
    again = dssl("rules", "format", path, "--check")
    assert (again.returncode, again.stdout) == (0, f"{path}: tidy\n")


def test_a_file_of_rows_is_found_beside_the_rules(
    dssl: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.rules"
    path.write_text('x: 1..3\ny: {a,b}\ntable(x,y) in "rows.csv"\n')
    (tmp_path / "rows.csv").write_text("y,x\na,1\nb,3\n")
    assert dssl("rules", "count", path).stdout == "2\n"
    assert "table(x, y) in {(1, a), (3, b)}" in dssl("rules", "show", path).stdout
    assert dssl("rules", "format", path).stdout == f"{path}: tidied\n"
    assert path.read_text() == 'x: 1..3\ny: {a, b}\ntable(x, y) in "rows.csv"\n'


def test_what_show_writes_as_json_is_read_as_rules(
    dssl: Callable[..., Any], rules: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.json"
    path.write_text(dssl("rules", "show", rules, "--json").stdout)
    assert LabelSpace.read(path) == LabelSpace.read(rules)
    assert dssl("rules", "check", path).stdout == f"{path}: 3 variables, 2 rules\n6 of 8 labels are valid\n"
    path.write_text("{}")
    refused = dssl("rules", "check", path)
    assert refused.returncode == 1
    assert 'this JSON does not say "format"' in refused.stderr
    assert "dssl rules show --json" in refused.stderr
