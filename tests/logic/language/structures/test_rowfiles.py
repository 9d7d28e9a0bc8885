"""Rows of a table from a file: what is read, how a header is known, and that nothing needs the file afterwards."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dssl.errors import RuleError
from dssl.logic.language.parser import parse, parse_rules
from dssl.logic.language.structures.rowfiles import value_of
from dssl.logic.language.variables import Variable
from dssl.logic.space import LabelSpace
from logic.messages import BadCall, calls_about, check_call
from logic.strategies import WORDS, written

HEAD = "pet: {cat, dog, 7}\nlegs\nage[1..2]: 0..9\n"


@pytest.mark.parametrize("case", calls_about("rowfiles"), ids=lambda case: case.reason[:40])
def test_errors_say_what_to_do(case: BadCall, tmp_path: Path) -> None:
    check_call(case, tmp_path)


def space(folder: Path, content: str, rule: str = 'table(pet, legs) in "rows.csv"') -> LabelSpace:
    (folder / "rows.csv").write_text(content)
    return LabelSpace(HEAD + rule, folder=folder)


def braces(rule: str) -> LabelSpace:
    return LabelSpace(HEAD + rule)


@pytest.mark.parametrize(
    "content",
    [
        "cat,1\n7,0\n",
        "cat,true\r\n7,False",
        '\ufeff"cat", 1\n\n  7 ,0\n,\n',
        "pet,legs\ncat,1\n7,0\n",
        "legs,pet\n1,cat\n0,7\n",
    ],
)
def test_rows_are_those_in_braces(tmp_path: Path, content: str) -> None:
    assert space(tmp_path, content) == braces("table(pet, legs) in {(cat, true), (7, false)}")


@pytest.mark.parametrize(
    ("rule", "content", "meant"),
    [
        ('table(age[*]) in "rows.csv"', '"age[2]","age[1]"\n1,2\n', "table(age[*]) in {(2, 1)}"),
        ('table(age[*]) in "rows.csv"', "1,2\n", "table(age[*]) in {(1, 2)}"),
        ('table(age[1], pet) in "rows.csv"', "pet,age\ncat,3\n", "table(age[1], pet) in {(3, cat)}"),
        ('!(table(pet) in "rows.csv") | legs', "cat\n", "!(table(pet) in {(cat)}) | legs"),
        (
            'for i in 1..2: table(pet, age[i]) in "rows.csv"',
            "pet,age\ncat,3\n",
            "for i in 1..2: table(pet, age[i]) in {(cat, 3)}",
        ),
        (
            'rule fits(x, y) = table(x, y) in "rows.csv"\nfits(pet, age[2])',
            "y,x\n3,cat\n",
            "table(pet, age[2]) in {(cat, 3)}",
        ),
    ],
)
def test_a_header_names_the_columns_as_the_rule_does(tmp_path: Path, rule: str, content: str, meant: str) -> None:
    assert space(tmp_path, content, rule) == braces(meant)


def test_what_is_printed_kept_or_sent_needs_no_file(tmp_path: Path) -> None:
    rule = 'for i in 1..2: "known pairs": table(pet, age[i]) in "rows.csv"'
    found = space(tmp_path, "pet,age\ncat,3\n7,0\n", rule)
    (tmp_path / "rows.csv").unlink()
    assert 'for i in 1..2: "known pairs": table(pet, age[i]) in {(cat, 3), (7, 0)}\n' in str(found)
    assert LabelSpace(str(found), folder=None) == found == pickle.loads(pickle.dumps(found))
    with pytest.raises(RuleError, match="there is no file"):
        LabelSpace(HEAD + rule, folder=tmp_path)


def test_a_name_of_a_loop_that_is_also_a_value_is_printed_written_out(tmp_path: Path) -> None:
    rule = 'for cat in 1..2: table(pet, age[cat]) in "rows.csv"'
    found = space(tmp_path, "cat,3\n", rule)
    assert found == braces("table(pet, age[1]) in {(cat, 3)}\ntable(pet, age[2]) in {(cat, 3)}")
    assert LabelSpace(str(found)) == found


def test_paths_are_relative_to_the_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "rules").mkdir()
    (tmp_path / "data" / "rows.csv").write_text("cat,1\n")
    file = tmp_path / "rules" / "a.rules"
    file.write_text(HEAD + 'table(pet, legs) in "../data/rows.csv"')
    assert LabelSpace.read(file).rules == braces("table(pet, legs) in {(cat, 1)}").rules
    monkeypatch.chdir(tmp_path / "data")
    assert LabelSpace(HEAD, 'table(pet, legs) in "rows.csv"') == LabelSpace.read(file)


def test_text_names_a_file_only_where_it_is_told_a_folder(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("cat\n")
    rule = f'table(pet) in "{tmp_path}/rows.csv"'
    for call in (lambda: parse(HEAD + rule), lambda: parse_rules(rule, parse(HEAD)[0])):
        with pytest.raises(RuleError, match="must not name files") as caught:
            call()
        assert caught.value.column == 15
    assert parse(HEAD + rule, tmp_path)[1] == parse_rules(rule, parse(HEAD)[0], tmp_path)


def test_an_error_points_at_the_name_and_says_for_which_index(tmp_path: Path) -> None:
    with pytest.raises(RuleError) as caught:
        space(tmp_path, "cat,3\ndog,10\n", 'for i in 1..2: table(pet, age[i]) in "rows.csv"')
    assert str(caught.value) == (
        "line 4, column 38: 'age[1]' has no value '10', in line 2 of \"rows.csv\", for i = 1\n"
        '  for i in 1..2: table(pet, age[i]) in "rows.csv"\n'
        "                                       ^\n"
        "Did you mean '1'? Its values: 0, 1, 2, 3, 4, 5, 6, 7, … (10 in all)."
    )


def test_a_cell_is_a_name_before_it_is_a_number() -> None:
    assert value_of(Variable.choice("v", ["1", "x"]), "1") == "1"
    assert value_of(Variable.choice("v", [1, 2]), "01") == 1
    assert value_of(Variable("v"), "TRUE") is True


@given(st.lists(st.tuples(st.sampled_from(WORDS), st.integers(-3, 12), st.booleans()), min_size=1, max_size=9))
@settings(max_examples=40, deadline=None)
def test_any_rows_are_those_in_braces_and_print_to_the_same(tmp_path_factory, rows) -> None:  # type: ignore[no-untyped-def]
    folder = tmp_path_factory.mktemp("rows")
    cells = [[f'"{word}"', str(number), str(flag)] for word, number, flag in rows]
    (folder / "a.csv").write_text("\n".join(map(",".join, cells)))
    head = f"word: {{{', '.join(map(written, WORDS))}}}\nnumber: -3..12\nflag\n"
    inline = ", ".join(f"({written(word)}, {number}, {str(flag).lower()})" for word, number, flag in rows)
    found = LabelSpace(head + 'table(word, number, flag) in "a.csv"', folder=folder)
    assert found == LabelSpace(head + f"table(word, number, flag) in {{{inline}}}")
    assert LabelSpace(str(found), folder=None) == found
    assert found.count() == len(set(rows))
