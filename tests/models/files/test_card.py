"""The model card says what the model is."""

from __future__ import annotations

from typing import Any

from dssl.models.files.card import model_card

FACTS: dict[str, Any] = {
    "versions": {"dssl": "0.1.0"},
    "created": "2026-01-02T03:04:05",
    "targets": {"space": "legs, fins\nlegs -> !fins", "classes": {"values": ["legs", "fins"]}},
    "input_shape": [3, 8, 8],
    "feature_names": None,
    "network": {"name": "cnn", "class": "Sequential", "weights": 12345},
    "parameters": {"prior": "deterministic", "prior_weight": 1.0},
    "steps": 1000,
    "metrics": {"accuracy": 0.91234},
}


def test_the_card_holds_the_facts() -> None:
    card = model_card("pets", FACTS)
    for said in (
        "# pets",
        "3 × 8 × 8",
        "legs -> !fins",
        "cnn, 12,345 weights",
        "deterministic prior",
        "| accuracy | 0.9123 |",
    ):
        assert said in card
    assert "load(path)" in card


def test_an_own_module_is_asked_for() -> None:
    card = model_card("pets", {**FACTS, "network": {"name": None, "class": "Mine", "weights": 1}, "metrics": {}})
    assert "network=module" in card
    assert "## Measured" not in card


def test_names_from_data_are_neither_markup_nor_cells() -> None:
    evil = "<script>boom()</script> | [link](javascript:boom()) `x`\n# head"
    facts = {
        **FACTS,
        "targets": {**FACTS["targets"], "classes": {"values": [evil[:50], "fins"]}},
        "feature_names": [evil[:50]],
        "metrics": {evil: 1.0},
    }
    card = model_card(evil, facts)
    assert "<script>" not in card
    assert "\n# head" not in card
    assert "[link](" not in card.replace("\\[link](", "")
    rows = [line.replace("\\|", "") for line in card.splitlines() if line.startswith("|")]
    assert {row.count("|") for row in rows} == {3}


def test_the_card_says_whether_probabilities_were_calibrated() -> None:
    plain, set_ = ({**FACTS, "network": {**FACTS["network"], "calibrated": c}} for c in (False, True))
    assert "they are not calibrated." in model_card("m", plain)
    assert "they are calibrated on labelled rows" in model_card("m", set_)
