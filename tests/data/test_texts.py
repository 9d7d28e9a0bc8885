"""Texts as TF-IDF: equal to the formula, rows of length 1, kept small."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest

from dssl.data import texts
from dssl.data.texts import Vocabulary, between_names, is_text, names_in

LONG = [" ".join(["the", "old" if i % 2 else "new", "door", f"of{i % 5}", *["and"] * 30]) for i in range(20)]


def test_the_formula() -> None:
    found = Vocabulary.of(LONG)
    assert found.pieces == ()
    x = found(["the the door nobody"]).toarray()[0]
    n = len(LONG)
    idf = {"the": math.log((1 + n) / (1 + n)) + 1, "door": math.log((1 + n) / (1 + n)) + 1}
    raw = {"the": (1 + math.log(2)) * idf["the"], "door": idf["door"]}
    length = math.hypot(*raw.values())
    for word, value in raw.items():
        assert x[found.words.index(word)] == pytest.approx(value / length)
    assert np.linalg.norm(x) == pytest.approx(1)


def test_short_texts_have_pieces_too_that_count_as_much() -> None:
    found = Vocabulary.of(["red door", "red window", "blue door", "door"])
    assert found.pieces
    x = found(["red doors", "reds"])
    assert np.linalg.norm(x.toarray(), axis=1) == pytest.approx([1, 0.5**0.5], rel=1e-5)  # "reds" has pieces only
    assert len(found.names) == len(found) == x.shape[1]
    assert found.names[-1].startswith("…")


def test_what_is_not_known_is_nothing() -> None:
    found = Vocabulary.of(LONG)
    assert found(["", "never heard"]).nnz == 0


def test_vocabularies_are_limited_to_frequent_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "WORDS", 3)
    assert set(Vocabulary.of(LONG).words) == {"and", "door", "the"}
    assert Vocabulary.of(["only once", "never twice"]).words == ()


def test_characters_are_words_where_nothing_separates_them() -> None:
    chinese = pl.Series(["今天天气很好", "昨天天气不好", "明天天气很冷"])
    assert is_text(chinese)
    assert {"天", "气"} <= set(Vocabulary.of(chinese.to_list()).words)


@pytest.mark.parametrize(
    ("cells", "text"),
    [
        (["a b c d", "b c d e", "c d e f"], True),
        (["a b c d"] * 10, False),
        (["AB-123", "CD-456", "EF-789"], False),
        (["Anna Smith", "Bert Jones"], False),
        ([f"the number {i} is here" for i in range(300)] * 3, True),
    ],
)
def test_what_is_a_text(cells: list[str], text: bool) -> None:
    assert is_text(pl.Series(cells)) == text


@pytest.mark.parametrize(
    "odd",
    [
        Vocabulary((), ()),
        Vocabulary(("a",), ()),
        Vocabulary(("a", "a"), (1.0, 1.0)),
        Vocabulary((1,), (1.0,)),  # type: ignore[arg-type]
        Vocabulary(("a",), (float("nan"),)),
        Vocabulary(("a",), (1.0,), ("b",), ()),
    ],
)
def test_edited_ones_are_found(odd: Vocabulary) -> None:
    assert not odd.sound()
    assert Vocabulary(("a",), (1.0,)).sound()


def test_names_of_a_cell_recur() -> None:
    cells = pl.Series(["wifi|pool", "pool", "bar|wifi", "pool|bar", "bar", "wifi"])
    assert between_names(cells) == "|"
    assert between_names(cells.str.replace("|", "; ", literal=True)) == ";"
    assert between_names(pl.Series(["12 High Street, York", "3 Low Lane, Hull", "9 Mill Way, York"])) == ""
    assert between_names(pl.Series(["a", "b", "a"])) == ""
    assert names_in(pl.Series(["['a', \"b\"]", "", "a,,b "]), ",").to_list() == [["a", "b"], [], ["a", "b"]]
