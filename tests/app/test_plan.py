"""Plans: what is learnt from, what is held out, what a run depends on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from dssl.app.options import Options
from dssl.app.plan import Plan, make_plan
from dssl.app.terminal import Terminal
from dssl.errors import DataError

RULES = "legs, fins, wings\nlegs -> !fins\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    legs = (random.random(60) < 0.5).astype(int)
    frame = pl.DataFrame({"a": random.normal(size=60), "b": ["x", "y"] * 30, "legs": legs, "fins": 1 - legs})
    known = pl.Series(np.arange(60) < 40)
    frame = frame.with_columns(pl.when(known).then(pl.col(name)).alias(name) for name in ("legs", "fins"))
    frame.write_csv(tmp_path / "d.csv")
    (tmp_path / "d.rules").write_text(RULES)
    return tmp_path / "d.csv"


def planned(data: Path, **options: Any) -> Plan:
    return make_plan(data, Options(rules=data.with_suffix(".rules"), **options))


def test_rows_are_split_by_their_labels(data: Path) -> None:
    plan = planned(data, test_share=0.25)
    assert plan.test is not None
    assert (len(plan.train), len(plan.test), int(plan.train.labelled.sum())) == (50, 10, 30)
    assert plan.test.labelled.all()
    assert not set(plan.test.names) & set(plan.train.names)
    assert plan.notes == ("no column tells 'wings': it is learnt from the rules alone",)
    whole = planned(data)
    by_name = dict(zip(whole.train.names, whole.train.x.tolist()))
    assert [by_name[name] for name in plan.test.names] == plan.test.x.tolist()


def test_the_split_depends_on_the_seed_only(data: Path) -> None:
    first, again, other = (planned(data, test_share=0.25, seed=seed).test for seed in (0, 0, 1))
    assert first is not None
    assert again is not None
    assert other is not None
    assert first.names == again.names != other.names


def test_facts(data: Path) -> None:
    plan = planned(data)
    facts = plan.facts()
    assert facts["rows"] == {"labelled": 40, "unlabelled": 20, "test": 0}
    assert facts["inputs"] == [3]
    assert facts["valid_labels"] == 6
    assert facts["known"]["legs"] == int(np.nansum(plan.train.known[:, 0]))
    assert facts["network"] == "mlp"
    assert facts["weights"] == sum(p.numel() for p in plan.model(progress=False).fit(
        plan.train.x, plan.train.y).network_.parameters())  # fmt: skip


def test_the_identity_is_of_what_the_model_depends_on(data: Path) -> None:
    first = planned(data, steps=5).identity()
    assert planned(data, steps=5, devices=2, out=Path("other")).identity() == first
    assert planned(data, steps=6).identity() != first
    data.write_text(data.read_text().replace(",x,", ",z,", 1))
    assert planned(data, steps=5).identity() != first


def test_the_model_gets_what_was_said_and_defaults_otherwise(data: Path) -> None:
    model = planned(data, prior="none", steps=3, power=4.0, devices=2).model(log="log.csv")
    assert (model.prior, model.steps, model.power, model.random_state) == (None, 3, 4.0, 0)
    assert model.settings == {"devices": 2, "log": "log.csv"}
    assert planned(data).model().prior == "deterministic"
    assert planned(data, consistency=["vat"], augment="table").model().consistency == "vat"
    assert planned(data, consistency=["vat", "mixup"]).model().consistency == ["vat", "mixup"]


def test_further_rows_and_test_files(data: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("b,a,other\nx,1.5,q\nz,2.5,q\n")
    plan = planned(data, unlabelled=more, test=data)
    assert (len(plan.train), int(plan.train.labelled.sum())) == (62, 40)
    assert plan.train.names[-2:] == ["unlabelled 1", "unlabelled 2"]
    assert "b=z" in plan.preprocessing.inputs
    assert plan.test is not None
    assert len(plan.test) == 60
    assert any("which are left out: other" in note for note in plan.notes)


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("a,legs,fins\n1,,\n2,,\n", {}, "no row is labelled"),
        ("legs,fins\n1,0\n0,1\n", {}, "has no column to learn from besides legs, fins"),
        ("a,legs,fins\n1,1,0\n1,0,1\n", {}, "has no column to learn from"),
        ("a,legs,fins\n1,1,1\n2,0,1\n", {}, "the labels of 1 of 2 rows break the rules"),
        ("a,legs,fins\n1,1,0\n2,0,1\n", {"test_share": 0.2}, "2 labelled rows are too few to hold out a share of 0.2"),
        ("a,legs,fins\n1,1,0\n2,0,1\n", {"steps": 0}, "The 'steps' parameter"),
        ("a,legs,fins\n1,1,0\n2,0,1\n", {"ema": 1.5}, "The 'ema' parameter"),
    ],
)
def test_what_cannot_be_learnt_from(data: Path, content: str, options: dict[str, Any], said: str) -> None:
    data.write_text(content)
    with pytest.raises(DataError) as caught:
        planned(data, **options)
    assert said in str(caught.value)
    assert "\n" in str(caught.value)  # a remedy


@pytest.mark.parametrize("on_violation", ["warn", "drop", "repair"])
def test_labels_that_break_rules_may_pass(data: Path, on_violation: str) -> None:
    data.write_text("a,legs,fins\n1,1,1\n5,0,1\n3,1,0\n")
    notes = planned(data, on_violation=on_violation).notes
    assert any("line 2" in note and "break the rules" in note for note in notes)


def test_files_that_do_not_go_with_the_data(data: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.csv"
    more.write_text("a\n1\n")
    with pytest.raises(DataError, match=r"has no column 'b' \(--unlabelled\)"):
        planned(data, unlabelled=more)
    np.savez(tmp_path / "images.npz", X=np.zeros((2, 1, 3, 3)))
    with pytest.raises(DataError, match="are not of one kind"):
        planned(data, unlabelled=tmp_path / "images.npz")
    more.write_text("a,b,legs,fins\n1,x,,\n")
    with pytest.raises(DataError, match="has no labelled row to measure on"):
        planned(data, test=more)
    more.write_text("a,b,legs\n1,x,1\n")
    with pytest.raises(DataError, match=r"has no column 'fins' \(--test\)"):
        planned(data, test=more)


def test_people_see_the_plan(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned(data, steps=7).show(Terminal())
    said = capsys.readouterr().out
    for part in ("categorical", "x, y", "40 labelled, 20 unlabelled, 0 test", "legs, fins: 6 valid", "steps 7"):
        assert part in said
