"""What the page says about rule texts, held against the Python API; and what it refuses."""

from __future__ import annotations

import random

import pytest

from dssl import LabelSpace
from dssl.app.explorer import spaces
from dssl.app.explorer.spaces import Malformed, Refused, diagnosis, open_text, rules
from dssl.app.explorer.worker import answered
from dssl.errors import BudgetError

ANIMALS = "legs, fins, wings\nlegs -> !fins"


def test_a_right_text_is_answered_as_python_would() -> None:
    space, said = LabelSpace(ANIMALS), rules({"text": ANIMALS})
    circuit = space.compile()
    assert said["count"] == str(space.count())
    assert said["all"] == "8"
    assert [v["name"] for v in said["variables"]] == ["legs", "fins", "wings"]
    assert said["rules"] == [{"text": "legs -> !fins", "line": 2}]
    assert (said["circuit"]["nodes"], said["circuit"]["edges"]) == (circuit.nodes, circuit.edges)
    assert said["circuit"]["milliseconds"] > 0
    found = [{k: v == "true" for k, v in label.items()} for label in said["labels"]]
    assert found == list(space.valid())


def test_columns_of_variables_follow_the_space() -> None:
    text = "age: 0..3\nlegs\nspecies: {cat, dog}\nage >= 2 -> legs"
    said = rules({"text": text})["variables"]
    assert [(v["start"], v["stop"]) for v in said] == list(LabelSpace(text).spans)
    assert [v["values"] for v in said] == [["0", "1", "2", "3"], ["false", "true"], ["cat", "dog"]]


def test_an_error_has_its_place_its_line_and_its_remedy() -> None:
    said = rules({"text": "legs, fins\nlegs -> !fisn"})["error"]
    assert (said["line"], said["column"], said["source"]) == (2, 10, "legs -> !fisn")
    assert said["reason"] == "'fisn' is not declared"
    assert "Did you mean 'fins'?" in said["remedy"]
    assert said["conflict"] == []


def test_a_conflict_names_its_minimal_set() -> None:
    text = "legs, fins, wings\nlegs -> fins\nwings -> legs\nlegs -> !fins\nwings = true\nfins -> !wings | legs"
    said = rules({"text": text})["error"]
    assert [rule["line"] for rule in said["conflict"]] == [2, 3, 4, 5]
    assert "contradict" in said["reason"]


def test_a_rule_too_large_for_the_solver_is_left_to_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_PLACES", 3)
    assert rules({"text": "a, b, c, d\n1 * a + 2 * b + 4 * c + 8 * d <= 9"})["count"] == "10"
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_LESSONS", 0)
    said = rules({"text": "a, b, c, d\n1 * a + 2 * b + 4 * c + 8 * d <= 9\na & d & b"})["error"]
    assert "contradict each other" in said["reason"]
    assert said["remedy"]
    assert said["conflict"] == []


def test_what_neither_solver_nor_compiler_decides_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_PLACES", 3)
    monkeypatch.setattr("dssl.logic.reasoning.solver._MAX_LESSONS", 0)
    request = {"text": "a, b, c, d\n1 * a + 2 * b + 4 * c + 8 * d <= 11"}
    status, said = answered({"diagnosis": diagnosis}, "diagnosis", request)
    assert (status, said["findings"]) == (200, [])  # the circuit knows that nothing stands out

    def compile_(*_: object, **__: object) -> None:
        raise BudgetError("7 nodes are more than budget_nodes=6")

    monkeypatch.setattr(LabelSpace, "compile", compile_)
    status, said = answered({"diagnosis": diagnosis}, "diagnosis", request)
    assert status == 200
    assert "7 nodes are more than" in said["refused"]


@pytest.mark.parametrize("text", ["", "# nothing", "\n\n"])
def test_no_variables_is_an_error_without_a_conflict(text: str) -> None:
    said = rules({"text": text})["error"]
    assert said["line"] is None
    assert said["conflict"] == []


def test_warnings_are_those_of_diagnose() -> None:
    text = "legs, fins\nlegs -> !fins\nlegs -> !fins | !legs\nfins | !fins"
    said = diagnosis({"text": text})
    found = LabelSpace(text).diagnose().findings
    assert [(f["kind"], f["message"]) for f in said["findings"]] == [(f.kind, f.message) for f in found]
    assert {f["kind"] for f in said["findings"]} == {"redundant", "vacuous"}
    assert diagnosis({"text": "legs ->"}) == {"findings": []}


def test_many_findings_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spaces, "FINDINGS", 3)
    text = "a, b, c, d, e\n" + "\n".join(f"{name} = true" for name in "abcde")
    said = diagnosis({"text": text})
    assert len(said["findings"]) == 3
    assert said["more"] == 2


def test_a_picture_has_no_style_and_no_markup_from_names() -> None:
    said = rules({"text": '"<script>boom()</script>", b\n"<script>boom()</script>" -> b'})
    assert "<style" not in said["circuit"]["svg"]
    assert "<script" not in said["circuit"]["svg"]
    assert "&lt;script&gt;" in said["circuit"]["svg"]


def test_a_large_circuit_is_not_drawn() -> None:
    names = [f"x{i}" for i in range(60)]
    said = rules({"text": f"{', '.join(names)}\nexactly(20, {', '.join(names)})"})
    assert said["circuit"]["nodes"] > said["circuit"]["drawn"]
    assert said["circuit"]["svg"] is None
    assert said["count"] == str(LabelSpace(f"{', '.join(names)}\nexactly(20, {', '.join(names)})").count())


# ---- bounds ----


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a, " * 7000, "21,000 characters"),
        ("a: 0..99999\n" + "\n".join(f"b{i}: 0..99999" for i in range(900)), "ranges with"),
        (", ".join(f"x{i}" for i in range(700)), "700 columns"),
        ("a: 0..500\nb: 0..500", "ranges with"),
        ("a, b\n" + "a -> b\n" * 1500, "1,500 rules"),
    ],
)
def test_large_texts_are_refused_before_they_cost_anything(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        rules({"text": text})


def monster(variables: int = 150, clauses: int = 300) -> str:
    """Random clauses whose circuit no budget of a page can hold."""
    chance = random.Random(0)
    names = [f"x{i}" for i in range(variables)]
    lines = [" | ".join(chance.choice(["", "!"]) + name for name in chance.sample(names, 3)) for _ in range(clauses)]
    return ", ".join(names) + "\n" + "\n".join(lines)


def test_a_monster_is_refused_by_the_compilers_budget() -> None:
    with pytest.raises(Refused, match="too large for this page: compiling took more than"):
        rules({"text": monster()})


@pytest.mark.parametrize("request_", [{}, {"text": 3}, {"text": None}, {"text": ["a"]}])
def test_a_request_without_text_is_malformed(request_: dict[str, object]) -> None:
    with pytest.raises(Malformed, match="needs rule text"):
        rules(request_)


def test_texts_are_compiled_once() -> None:
    assert open_text("a, b\na -> b") is open_text("a, b\na -> b")
