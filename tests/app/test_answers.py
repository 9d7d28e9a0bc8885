"""Answers in a file: none lost, none doubled, whoever writes at once and wherever a crash comes."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from dssl import DataError, LabelSpace
from dssl.app.answers import CANNOT_TELL, LABEL, AnswerFile, Meanwhile, cell
from dssl.errors import WriteError
from dssl.logic.language.variables import Variable

SPACE = LabelSpace("pet: {cat, dog, trout}\nlegs, fins\npet = trout -> fins & !legs\nlegs -> !fins")


@pytest.fixture
def file(tmp_path: Path) -> AnswerFile:
    return AnswerFile(tmp_path / "pets.answers.csv", SPACE)


def test_answers_are_read_as_they_were_given(file: AnswerFile) -> None:
    file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    file.add("answer-2", 3, LABEL, ["cat|dog", "", ""])
    file.add("answer-3", 9, CANNOT_TELL, ["", "", ""])
    rows, columns = file.labels()
    assert rows == [5, 3]
    nan = np.nan
    np.testing.assert_array_equal(columns, [[1, 0, 0, 1, 0], [nan, nan, 0, nan, nan]])
    assert file.path.read_text().splitlines()[0] == "id,row,time,answer,pet,legs,fins"


def test_an_answer_that_is_sent_twice_is_written_once(file: AnswerFile) -> None:
    first = file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    assert file.add("answer-1", 5, LABEL, ["cat", "1", "0"]) == first
    assert len(file.path.read_text().splitlines()) == 2


def test_whoever_did_not_see_the_last_answer_is_told(file: AnswerFile) -> None:
    file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    with pytest.raises(Meanwhile) as other:
        file.add("answer-2", 5, LABEL, ["dog", "1", "0"])
    assert other.value.answer is not None
    assert other.value.answer.id == "answer-1"
    file.add("answer-2", 5, LABEL, ["dog", "1", "0"], seen="answer-1")
    assert file.current()[5].cells == ("dog", "1", "0")
    with pytest.raises(Meanwhile):
        file.add("answer-4", 7, LABEL, ["dog", "1", "0"], seen="answer-1")


def test_undo_takes_back_one_answer_and_the_one_before_holds_again(file: AnswerFile) -> None:
    file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    file.add("answer-2", 5, LABEL, ["dog", "1", "0"], seen="answer-1")
    file.undo("answer-2")
    file.undo("answer-2")
    assert file.current()[5].id == "answer-1"
    assert len(file.path.read_text().splitlines()) == 4
    file.undo("answer-1")
    assert file.current() == {}
    with pytest.raises(DataError, match="there is no answer 'answer-9' to take back"):
        file.undo("answer-9")


def test_half_a_line_that_a_crash_left_is_no_answer(file: AnswerFile) -> None:
    file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    with file.path.open("a") as torn:
        torn.write('answer-2,6,2026-01-01T00:00:00+00:00,label,"ca')
    assert list(file.current()) == [5]
    file.add("answer-3", 7, LABEL, ["dog", "1", "0"])
    assert [answer.id for answer in file.given()] == ["answer-1", "answer-3"]
    assert file.path.read_text().endswith("\n")


def test_a_crash_before_the_first_line_leaves_a_file_that_works(file: AnswerFile) -> None:
    file.path.write_text("id,row,ti")
    file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    assert list(file.current()) == [5]


def test_many_writers_at_once_lose_and_double_nothing(file: AnswerFile) -> None:
    """Each answer is sent twice, by threads and by another process."""
    code = (
        "import sys; from pathlib import Path; from dssl import LabelSpace; from dssl.app.answers import AnswerFile\n"
        "file = AnswerFile(Path(sys.argv[1]), LabelSpace(sys.argv[2]))\n"
        "for i in range(40): file.add(f'process-{i}', 1000 + i, 'label', ['cat', '1', '0'])"
    )
    command = [sys.executable, "-c", code, str(file.path), str(SPACE)]
    with subprocess.Popen(command) as other, ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda i: file.add(f"thread-{i % 40}", i % 40, LABEL, ["dog", "1", "0"]), range(80)))
    assert other.returncode == 0
    lines = file.path.read_text().splitlines()
    assert len(lines) == 81
    assert len({line.split(",")[0] for line in lines}) == 81


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("id,row,time,answer,other\n", "has answers for other labels: other"),
        ("id,row,time,answer,pet,legs,fins\na,b,c,label,cat,1,0\n", "is not a file of answers"),
        ("id,row,time,answer,pet,legs,fins\na\n", "is not a file of answers"),
        ("id,row,time,answer,pet,legs,fins\naaaaaaaa,1,t,label,cat\n", "lines of different lengths"),
    ],
)
def test_a_file_that_is_not_ours_is_left_alone(file: AnswerFile, content: str, said: str) -> None:
    file.path.write_text(content)
    with pytest.raises(DataError, match=said):
        file.add("answer-1", 5, LABEL, ["cat", "1", "0"])
    assert file.path.read_text() == content


def test_bad_answers_are_refused(file: AnswerFile) -> None:
    for id, kind, cells in (("x", LABEL, ["", "", ""]), ("answer-1", "undo", ["", "", ""]), ("answer-1", LABEL, [""])):
        with pytest.raises(DataError):
            file.add(id, 1, kind, cells)
    assert not file.path.exists()


def test_a_folder_that_cannot_be_written_to_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="cannot be written"):
        AnswerFile(tmp_path / "gone" / "a.csv", SPACE).add("answer-1", 1, LABEL, ["cat", "", ""])


def test_values_with_bars_cannot_be_one_of_several() -> None:
    odd = Variable("odd", "categorical", ("a|b", "c", "d", "e"))
    assert cell(odd, [0]) == "a|b"
    with pytest.raises(DataError, match="one of several cannot be written"):
        cell(odd, [1, 2])
