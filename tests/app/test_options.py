"""Options of a run: settings files, flags that win, and what does not go together."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from dssl.app.options import Options, Terms
from dssl.app.terminal import UsageError
from dssl.errors import DataError


def test_a_file_says_what_flags_do_not(tmp_path: Path) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(
        'steps = 10\nlabel = ["legs", "fins"]\nignore = "name"\nprior-weight = 2\nout = "run"\nconstrained = true\n'
        'network = "linear"\n'
    )
    options = Options(steps=5, network="mlp").with_file(path)
    assert options.said() == {
        "steps": 5, "label": ["legs", "fins"], "ignore": ["name"], "prior_weight": 2.0, "out": "run",
        "constrained": True, "network": "mlp",
    }  # fmt: skip
    assert options.out == Path("run")
    assert Options().with_file(None) == Options()
    assert Options().said() == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("stepz = 1", "has a setting 'stepz' that dssl fit does not know\nDid you mean 'steps'?"),
        ("[training]\nsteps = 1", "has a setting 'training' that dssl fit does not know"),
        ("steps = 1.5", "steps = 1.5 does not fit\nGive a whole number."),
        ("steps = true", "steps = True does not fit\nGive a whole number."),
        ('prior_weight = "2"', "does not fit\nGive a number."),
        ("constrained = 1", "does not fit\nGive true or false."),
        ('prior = "gauss"', 'Give one of "auto", "deterministic", "entropy"'),
        ("label = [1, 2]", "label = 1 does not fit\nGive a text in quotes."),
        ('consistency = ["vat", "fat"]', "consistency = 'fat' does not fit\nGive one of \"fixmatch\""),
        ("rules = 3", "does not fit\nGive a path in quotes."),
        ("id = 3", "does not fit\nGive a text in quotes."),
        ("steps =", "is not TOML"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "settings.toml"
    path.write_text(text)
    with pytest.raises(DataError) as caught:
        Options().with_file(path)
    assert f"'{path}'" in str(caught.value)
    assert said in str(caught.value)


def test_choices_are_those_of_the_estimator() -> None:
    from dssl.models.names import PRIORS, TERMS
    from dssl.training.terms.augmentation import AUGMENTATIONS

    kinds = get_type_hints(Options)
    assert set(get_args(Terms)) == {*TERMS, "none"}
    assert set(get_args(get_args(kinds["augment"])[0])) == {*AUGMENTATIONS, "auto"}
    assert set(get_args(get_args(kinds["prior"])[0])) == {*PRIORS, "auto", "none"}


@pytest.mark.parametrize(
    "given",
    [
        {"test": Path("a.csv"), "test_share": 0.2},
        {"test_share": 0.0},
        {"test_share": 0.6},
    ],
)
def test_flags_that_do_not_go_together(given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="Give"):
        Options(**given).checked()


def test_every_setting_of_learning_says_its_default() -> None:
    hints = get_type_hints(Options, include_extras=True)
    told = {name: hint.__metadata__[0] for name, hint in hints.items()}
    learning = {name: parameter for name, parameter in told.items() if parameter.show is not False}
    learning = {name: p for name, p in learning.items() if p.group and p.group[0].name.startswith("Learning")}
    assert len(learning) > 20
    for name, parameter in learning.items():
        assert "default" in parameter.help.lower(), name
