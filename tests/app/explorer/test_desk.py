"""Labelling a run: the queue, what follows from an answer, and answers in a file beside the data."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dssl import DataError, LabelSpace
from dssl.app.explorer.desk import Desk, apart, as_columns, impossible
from dssl.app.explorer.predictions import Run
from dssl.app.explorer.spaces import Malformed

SPACE = LabelSpace("pet: {cat, dog, trout}\nlegs, fins\npet = trout -> fins & !legs\nlegs -> !fins\npet = cat -> legs")


@pytest.fixture
def desk(run_folder: Path, tmp_path: Path) -> Desk:
    """The run on a copy of its data, which answers can be written beside."""
    shutil.copytree(run_folder.parent, tmp_path / "copy")
    record = tmp_path / "copy" / "run" / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "data": str(tmp_path / "copy" / "animals.csv")}))
    return Desk(Run.open(tmp_path / "copy" / "run"))


def test_the_next_row_tells_most_and_shows_everything(desk: Desk) -> None:
    found = desk.next({})
    u = desk.unlabelled
    p = desk.run.trained.model.decoder_.predictive(u.logits.double())
    assert found["row"] == u.numbers[int(p.entropy().argmax())]
    assert found["nats"] == pytest.approx(float(p.entropy().max()))
    assert [name for name, _ in found["cells"]][-3:] == ["legs", "fins", "wings"]
    assert (found["left"], found["given"], found["file"]) == (50, 0, "animals.answers.csv")


def test_rows_on_other_pages_and_skipped_ones_are_left_out(desk: Desk) -> None:
    first = desk.next({})["row"]
    second = desk.next({"taken": [first]})["row"]
    third = desk.next({"taken": [first], "skip": [second]})["row"]
    assert len({first, second, third}) == 3
    assert desk.next({"row": first})["row"] == first


def test_an_answer_is_written_with_what_follows_and_the_data_stay_as_they_are(desk: Desk) -> None:
    assert desk.run.data is not None
    before = desk.run.data.read_bytes()
    row = desk.next({})["row"]
    done = desk.answer({"id": "answer-1", "row": row, "said": {"0": [1]}, "seen": None})
    assert done["written"] == "answer-1"
    rows, columns = desk.file.labels()
    assert rows == [row]
    np.testing.assert_array_equal(columns, [[1, 0, np.nan]])  # legs -> !fins
    assert desk.run.data.read_bytes() == before
    assert desk.next({})["row"] != row
    assert desk.undo({"id": "answer-1"})["row"] == row
    assert desk.next({})["row"] == row


def test_two_pages_on_one_row_do_not_overwrite_each_other(desk: Desk) -> None:
    row = desk.next({})["row"]
    desk.answer({"id": "answer-1", "row": row, "said": {"0": [1]}, "seen": None})
    other = desk.answer({"id": "answer-2", "row": row, "said": {"1": [1]}, "seen": None})
    assert other == {"meanwhile": "legs", "seen": "answer-1"}
    done = desk.answer({"id": "answer-2", "row": row, "said": {"1": [1]}, "seen": "answer-1"})
    assert done["recent"][0]["label"] == "fins"


def test_cannot_tell_is_an_answer(desk: Desk) -> None:
    row = desk.next({})["row"]
    done = desk.answer({"id": "answer-1", "row": row, "cannot_tell": True, "seen": None})
    assert done["recent"] == [{"id": "answer-1", "row": row, "label": "cannot tell"}]
    assert desk.file.labels()[0] == []
    assert desk.next({})["row"] != row


def test_nothing_and_what_breaks_a_rule_are_no_answers(desk: Desk) -> None:
    row = desk.next({})["row"]
    with pytest.raises(DataError, match="nothing was said"):
        desk.answer({"id": "answer-1", "row": row, "said": {}, "seen": None})
    with pytest.raises(DataError, match="contradicts the rules"):
        desk.answer({"id": "answer-1", "row": row, "said": {"0": [1], "1": [1]}, "seen": None})
    assert not desk.file.path.exists()


@pytest.mark.parametrize(
    ("call", "request_"),
    [
        ("next", {"taken": 5}),
        ("next", {"skip": ["a"]}),
        ("next", {"skip": [True]}),
        ("next", {"skip": list(range(3000))}),
        ("next", {"row": "5"}),
        ("suppose", {"row": None, "said": {}}),
        ("suppose", {"row": 40, "said": []}),
        ("suppose", {"row": 40, "said": {"9": [0]}}),
        ("suppose", {"row": 40, "said": {"-1": [0]}}),
        ("suppose", {"row": 40, "said": {"0": []}}),
        ("suppose", {"row": 40, "said": {"0": [2]}}),
        ("suppose", {"row": 40, "said": {"0": [True]}}),
        ("answer", {"row": 40, "said": {}}),
        ("answer", {"id": "answer-1", "row": 40, "said": {}, "seen": 5}),
        ("answer", {"id": "answer-1", "row": True, "said": {"0": [1]}, "seen": None}),
        ("undo", {}),
        ("undo", {"id": 7}),
    ],
)
def test_requests_that_the_page_does_not_send_are_refused(desk: Desk, call: str, request_: dict[str, Any]) -> None:
    with pytest.raises(Malformed):
        desk.handlers()[call](request_)
    assert not desk.file.path.exists()


def test_a_row_that_is_not_there_is_said_so(desk: Desk) -> None:
    with pytest.raises(DataError, match="has no row 999"):
        desk.answer({"id": "answer-1", "row": 999, "said": {"0": [1]}, "seen": None})


# ---- what follows ----


def test_impossible_values_are_those_of_no_valid_label() -> None:
    valid = list(SPACE.valid())
    names = [v.name for v in SPACE.variables]
    for possible in ([[0, 1, 2], [0, 1], [1]], [[0, 1], [0, 1], [0, 1]], [[1, 2], [1], [0, 1]], [[2], [0, 1], [0, 1]]):
        fits = [
            [SPACE.variables[i].values.index(label[name]) for i, name in enumerate(names)]
            for label in valid
            if all(SPACE.variables[i].values.index(label[name]) in possible[i] for i, name in enumerate(names))
        ]
        found, clash = impossible(SPACE, possible)
        assert clash is None
        left = {(v, k) for v, values in enumerate(possible) for k in values}
        assert set(found) == left - {(v, label[v]) for label in fits for v in range(3)}
        assert all(rules for rules in found.values())


def test_a_contradiction_names_its_rules() -> None:
    assert impossible(SPACE, [[0], [0, 1], [1]]) == ({}, [1, 2])  # legs -> !fins, and cats have legs


def test_possible_values_as_columns() -> None:
    nan = np.nan
    np.testing.assert_array_equal(as_columns(SPACE, [[0, 2], [1], [0, 1]]), [nan, 0, nan, 1, nan])
    np.testing.assert_array_equal(as_columns(SPACE, [[1], [0], [1]]), [0, 1, 0, 0, 1])


def test_a_sentence_says_why_the_best_label_and_the_largest_marginals_differ() -> None:
    from dssl import Predictive
    from dssl.app.explorer.beliefs import judged

    space = LabelSpace("a, b\na | b")
    told = judged(space, Predictive(torch.tensor([[-0.1, 0.4]]), space), 3)
    assert told["top"][0]["label"] == [0, 1]
    assert told["marginals"][0] > 0.5
    said = apart(space, told)
    assert said is not None
    assert said.startswith("a is more probable by itself")
    assert apart(space, judged(space, Predictive(torch.tensor([[-4.0, 4.0]]), space), 3)) is None
