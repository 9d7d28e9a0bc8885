"""What other rules would do to a run: labels they break, predictions they change, and rules that labels suggest."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dssl import DataError, LabelSpace
from dssl.app.explorer.desk import Desk
from dssl.app.explorer.effects import Effects, different
from dssl.app.explorer.predictions import Run
from dssl.app.explorer.spaces import Malformed
from dssl.models.decoding import Decoder

NAMES = "legs, fins, wings\n"
RULES = NAMES + "legs -> !fins\nlegs | fins | wings\n"


@pytest.fixture
def effects(run_folder: Path, tmp_path: Path) -> Effects:
    shutil.copytree(run_folder.parent, tmp_path / "copy")
    record = tmp_path / "copy" / "run" / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "data": str(tmp_path / "copy" / "animals.csv")}))
    return Effects(Desk(Run.open(tmp_path / "copy" / "run")))


def test_the_rules_of_the_run_change_nothing(effects: Effects) -> None:
    found = effects.effects({"text": RULES})
    assert (found["broken"], found["changed"], found["rows"]) == (0, 0, 80)


def test_labels_that_break_a_rule_are_named_by_row(effects: Effects) -> None:
    found = effects.effects({"text": RULES + "!legs\n"})
    rows = effects.looked()
    legs = rows.numbers[rows.known[:, 0] == 1].tolist()
    assert found["broken"] == len(legs) > 0
    assert [each["row"] for each in found["broken_rows"]] == legs[:20]
    assert "!legs" in found["broken_rows"][0]["rules"][0]


def test_changed_predictions_are_those_of_decoding_with_the_new_rules(effects: Effects) -> None:
    text = RULES + "legs -> wings\n"
    found = effects.effects({"text": text})
    rows = effects.looked()
    before = effects.desk.run.trained.model.decoder_.best(rows.logits)
    after = Decoder(LabelSpace(text)).best(rows.logits)
    changed = (before != after).any(axis=1)
    known = ~np.isnan(rows.known).any(axis=1)
    right = [(each == rows.known).all(axis=1) & known for each in (before, after)]
    assert found["changed"] == changed.sum() > 0
    assert found["better"] == (changed & ~right[0] & right[1]).sum()
    assert found["worse"] == (changed & right[0] & ~right[1]).sum() > 0
    assert found["changed_rows"][0]["row"] == rows.numbers[changed][0]


def test_answers_count_as_labels(effects: Effects) -> None:
    row = effects.desk.next({})["row"]
    effects.desk.answer({"id": "answer-1", "row": row, "said": {"0": [1], "2": [1]}, "seen": None})
    assert row in [each["row"] for each in effects.effects({"text": RULES + "legs -> !wings\n"})["broken_rows"]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("legs, fins\n", "it lacks wings"),
        (NAMES + "tail\n", "it has tail"),
        ("fins, legs, wings\n", "another order"),
        ("legs: {a, b}\nfins, wings\n", "the values of legs are others"),
        ("legs -> ", "the text has an error"),
    ],
)
def test_rules_about_something_else_are_said_to_be(effects: Effects, text: str, said: str) -> None:
    assert said in effects.effects({"text": text})["other"]


def test_the_same_variables_do_not_differ() -> None:
    assert different(LabelSpace(NAMES), LabelSpace(RULES)) is None


def test_labels_suggest_rules_that_hold_in_them(effects: Effects) -> None:
    found = effects.proposals({"text": NAMES})["rules"]
    known = effects.looked().known
    told = known[~np.isnan(known).any(axis=1)]
    assert found
    for rule in found:
        assert not len(LabelSpace(NAMES + rule["text"]).check(told))
        assert "chances" in rule["figures"]
    more = NAMES + "\n".join(rule["text"] for rule in found)
    assert effects.proposals({"text": more})["rules"] == []


def test_rules_are_kept_in_a_new_file(effects: Effects) -> None:
    first = effects.keep({"text": RULES, "sure": True})
    second = effects.keep({"text": RULES, "sure": True})
    assert (first["name"], second["name"]) == ("animals-2.rules", "animals-3.rules")
    assert Path(first["kept"]).read_text() == RULES


@pytest.mark.parametrize(
    ("request_", "error", "said"),
    [
        ({"text": "legs ->", "sure": True}, DataError, "have an error"),
        ({"text": "legs", "sure": True}, DataError, "not about this run"),
        ({"text": RULES}, Malformed, "sure"),
        ({"text": 5, "sure": True}, Malformed, "needs rule text"),
    ],
)
def test_what_cannot_be_kept_is_said(effects: Effects, request_: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        effects.keep(request_)
    assert not list(effects.desk.file.path.parent.glob("*.rules"))
