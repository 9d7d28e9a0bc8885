"""The command that puts faults into the source: what it draws, where it looks, and what it was told to pass over."""

from __future__ import annotations

import pytest
from attacks import equivalent, faults, mutants

SOURCE = '''\
LIMIT = 3


def f(x: int | None, *, k: int = 2) -> bool:
    """Text."""
    if (x or 0) > k:
        note(
            x + 1,
        )
    return x is None


def note(x):
    pass
'''


@pytest.mark.parametrize("at", range(len(equivalent.READ)))
def test_lines_that_were_read_are_still_there(at: int) -> None:
    module, was, _, why = equivalent.READ[at]
    assert was in mutants.MODULES[module].path.read_text()
    assert why


def test_every_reason_is_used() -> None:
    reasons = {text for name, text in vars(equivalent).items() if name.isupper() and isinstance(text, str)}
    assert reasons <= {why for *_, why in equivalent.READ}


def test_reasons_are_given_for_what_was_read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equivalent, "READ", [("queries", "a & b", "a * b", "equal")])
    assert equivalent.reason("queries", "x = a & b", "x = a * b") == "equal"
    assert equivalent.reason("queries", "x = a & b", "x = a | b") == ""
    assert equivalent.reason("formula", "x = a & b", "x = a * b") == ""


def test_test_files_of_all_modules_exist() -> None:
    for module in mutants.MODULES.values():
        assert module.path.exists()
        assert all((mutants.ROOT / "tests" / name.partition("::")[0]).exists() for name in module.tests)


def test_annotations_are_found() -> None:
    found = {SOURCE.splitlines()[line - 1][start:end] for (line, start), (_, end) in faults.annotations(SOURCE)}
    assert found == {"int | None", "int", "bool"}


@pytest.mark.parametrize(
    ("line", "lines"), [(1, None), (4, None), (6, range(6, 7)), (8, range(7, 10)), (10, range(10, 11)), (13, None)]
)
def test_the_lines_of_a_statement(line: int, lines: range | None) -> None:
    """Of a compound statement its head; None for what runs at import."""
    assert faults.statement(SOURCE, line) == lines


def test_dependents_are_those_that_import_at_their_head() -> None:
    found = mutants.dependents("dssl.priors.relaxations")
    assert {"dssl.priors.relaxations", "dssl.priors", "dssl.models.estimators"} <= found
    assert not found & {"dssl.logic.language.formula", "dssl.circuits.queries", "dssl.priors.blocks"}


def test_faults_are_drawn_by_the_seed_and_each_changes_one_place() -> None:
    pytest.importorskip("cosmic_ray", reason="faults are drawn with the extra `mutation`")
    drawn = faults.mutants(SOURCE, each=100, seed=0)
    lines = {m.line for m in drawn}
    assert lines == {1, 4, 6, 7, 8, 10}
    changed = {faults.difference(SOURCE, text) for m in drawn if (text := m.applied(SOURCE)) is not None}
    assert ("if (x or 0) > k:", "if (x or 0) >= k:") in changed
    assert ("if (x or 0) > k:", "if not (x or 0) > k:") in changed
    assert ("return x is None", "return x is not None") in changed
    assert ("note(\nx + 1,\n)", "pass") in changed
    assert not any("int + None" in after or "/, k" in after for _, after in changed)
    few = faults.mutants(SOURCE, each=1, seed=1)
    assert few == faults.mutants(SOURCE, each=1, seed=1) != faults.mutants(SOURCE, each=1, seed=2)
    assert set(few) < set(drawn)
