"""News: which rows keep their topics, and both ways on a few rows."""

from __future__ import annotations

import os

import news
import pytest
from news import Settings

needs_data = pytest.mark.skipif("DSSL_DATA" not in os.environ, reason="DSSL_DATA names no folder with the data sets")
TOPICS = {
    "bread": "wheat grain", "feed": "corn grain", "petrol": "oil crude", "mill": "grain", "well": "crude",
    "flour": "wheat", "cob": "corn",
}  # fmt: skip
MADE = [
    {"id": str(i), "title": f"{word} again", "body": f"the {word} was sold {i} times", "topics": TOPICS[word]}
    for i in range(100)
    for word in [[*TOPICS][i % 7]]
]


def test_only_some_rows_keep_their_topics() -> None:
    given = news.kept(MADE, 5, 0)
    assert [row["id"] for row in given] == [row["id"] for row in MADE]
    assert sum(bool(row["topics"]) for row in given) == 5
    assert given != news.kept(MADE, 5, 1)
    assert [len(part) for part in news.cut(MADE, 0.7)] == [70, 30]


def test_both_ways_learn_topics_that_words_tell() -> None:
    train, test = news.cut(MADE, 0.7)
    odd = [*test, {**test[0], "topics": f"{test[0]['topics']} unheard"}]
    for way in news.WAYS.values():
        found, harder = way(train, test), way(train, odd)
        assert found["exact"] == found["f1"] == 1
        assert harder["exact"] == pytest.approx(30 / 31)
        assert harder["f1"] < 1


def test_all_labels_are_drawn_once() -> None:
    cases = news.cases(Settings())
    assert len(cases) == 2 * (3 + 3 + 1)
    assert {case["draw"] for case in cases if case["labels"] == 7913} == {0}


def test_the_table_has_means_over_draws() -> None:
    runs = [{"labels": 200, "draw": d, "way": w, "f1": 0.5 + d / 10, "exact": 0.4, "seconds": 2.0}
            for d in (0, 1) for w in news.WAYS]  # fmt: skip
    assert news.table(runs).splitlines()[1] == "   200  dssl fit  0.550  0.400        2"


@needs_data
def test_news_come_in_their_order() -> None:
    found = news.rows()
    assert [int(row["id"]) for row in found] == sorted(int(row["id"]) for row in found)
    assert len(news.cut(found, Settings().learned)[0]) == max(Settings().labels)
