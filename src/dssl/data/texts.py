"""Texts as features: which columns hold them, or several names per cell, which words count, and how much."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse as sp

# Measured on Reuters with 200 to 7,913 labels: more words help a linear model only where labels are many, and hurt it
# where they are few; pieces of words help in titles, and in long texts cost ten times as much for nothing.
WORDS, PIECES = 2000, 3000  # the most frequent ones, of one column
_SHORT = 20.0  # words per text on average, up to which pieces of words count too
_SEVERAL, _TWO = 3.0, 1.5  # words per text on average, and those with letters; fewer are a name, unless words recur
_RECURRING, _OFTEN = 0.8, 0.01  # share of words that recur, and of texts in which a word does
_AT_A_TIME = 1.3  # names per cell on average, from which cells hold several
_MOST_NAMES = 200
_BETWEEN = (";", "|", ",")  # what may stand between names
_DIFFERENT = 0.5  # share of different texts above which they are not categories
_MOST_CATEGORIES = 200
# Chinese, Japanese and Thai have no spaces between words: each character counts as one.
_UNSPACED = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\u0e00-\u0e7f"
_TOKEN = rf"(?u)[{_UNSPACED}]|\b\w\w+\b"


@dataclass(frozen=True)
class Vocabulary:
    """Words, and pieces of words, that count in a column's texts, and how much each does."""

    words: tuple[str, ...]
    idf: tuple[float, ...]
    pieces: tuple[str, ...] = ()
    pieces_idf: tuple[float, ...] = ()

    def __len__(self) -> int:
        return len(self.words) + len(self.pieces)

    @classmethod
    def of(cls, texts: Sequence[str]) -> Vocabulary:
        """The most frequent words that occur in at least two texts; of short texts, also pieces of words.

        >>> Vocabulary.of(["red door", "red window", "blue door"]).words
        ('door', 'red')
        """
        words, idf = _learned(texts, "word", WORDS)
        short = sum(text.count(" ") + 1 for text in texts) <= _SHORT * len(texts)
        pieces, pieces_idf = _learned(texts, "char_wb", PIECES) if short and words else ((), ())
        return cls(words, idf, pieces, pieces_idf)

    def sound(self) -> bool:
        """Whether it can be used: it may come from a file that was edited."""
        lists = ((self.words, self.idf), (self.pieces, self.pieces_idf))
        return bool(self.words) and all(
            len(names) == len(idf) == len(set(names))
            and all(isinstance(name, str) for name in names)
            and all(type(v) in (int, float) and np.isfinite(v) for v in idf)
            for names, idf in lists
        )

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.words, *(f"…{piece}…" for piece in self.pieces))

    def __call__(self, texts: Sequence[str]) -> Any:
        """TF-IDF of texts (n, words and pieces), sparse: rows have length 1, or 0 where no word is known.

        >>> Vocabulary(("door", "red"), (1.0, 1.0))(["red red door", ""]).toarray().round(2)
        array([[0.51, 0.86],
               [0.  , 0.  ]], dtype=float32)
        """
        counted = _vectoriser("word", self.words, self.idf).transform(texts)
        if not self.pieces:
            return counted
        pieces = _vectoriser("char_wb", self.pieces, self.pieces_idf).transform(texts)
        return sp.hstack([counted, pieces], format="csr") * np.float32(0.5**0.5)


def is_text(known: pl.Series) -> bool:
    """Whether cells are texts to read, not names or categories: several words, and mostly different.

    >>> is_text(pl.Series(["the door is open", "the window is shut", "a door was painted red"]))
    True
    >>> is_text(pl.Series(["Anna Smith", "Bert Jones", "Cleo Brown"]))
    False
    """
    different = known.n_unique()
    if different <= _MOST_CATEGORIES and different <= _DIFFERENT * known.len():
        return False
    unspaced = known.str.count_matches(f"[{_UNSPACED}]")
    words, lettered = (float((known.str.count_matches(w) + unspaced).mean()) for w in (r"\S+", r"\S*\p{L}\S*"))  # type: ignore[arg-type]
    if lettered < _TWO:
        return False
    return words >= _SEVERAL or _recurring(known.str.to_lowercase().str.extract_all(_TOKEN))


def _recurring(found: pl.Series) -> bool:
    """Whether nearly all words, or names, of cells are in several others: those of people and places are not."""
    parts = found.list.unique().list.explode().drop_nulls()
    counts = parts.rename("part").value_counts()["count"]
    often = max(2.0, _OFTEN * found.len())
    return bool(parts.len()) and float(counts.filter(counts >= often).sum()) >= _RECURRING * parts.len()


# ---- several names in a cell ----


def names_in(cells: pl.Series, separator: str) -> pl.Series:
    """The names in each cell, as lists; brackets and quotes around them do not count.

    >>> names_in(pl.Series(["['a', 'b']", "a"]), ",").to_list()
    [['a', 'b'], ['a']]
    """
    inside = cells.str.strip_chars("[](){} ").str.split(separator)
    return inside.list.eval(pl.element().str.strip_chars("'\" ")).list.eval(pl.element().filter(pl.element() != ""))


def between_names(known: pl.Series) -> str:
    """What stands between the names of cells that hold several which recur, such as wifi, pool; nothing for others.

    >>> between_names(pl.Series(["wifi, pool", "pool", "bar, wifi", "pool, bar", "bar", "wifi"]))
    ','
    """
    for separator in _BETWEEN:
        found = names_in(known, separator)
        if float(found.list.len().mean() or 0) < _AT_A_TIME:  # type: ignore[arg-type]
            continue
        different = found.list.explode().drop_nulls().n_unique()
        if different <= min(_MOST_NAMES, known.n_unique()) and _recurring(found):
            return separator
    return ""


def _learned(texts: Sequence[str], analyser: str, most: int) -> tuple[tuple[str, ...], tuple[float, ...]]:
    vectoriser = _new(analyser, max_features=most, min_df=min(2, len(texts)))
    try:
        vectoriser.fit(texts)
    except ValueError:  # nothing occurs twice
        return (), ()
    return tuple(map(str, vectoriser.get_feature_names_out())), tuple(map(float, vectoriser.idf_))


def _new(analyser: str, **given: Any) -> Any:
    from sklearn.feature_extraction.text import TfidfVectorizer

    ways: dict[str, Any] = {"word": {"token_pattern": _TOKEN}, "char_wb": {"ngram_range": (3, 5)}}
    return TfidfVectorizer(analyzer=analyser, sublinear_tf=True, dtype=np.float32, **ways[analyser], **given)


@lru_cache(maxsize=32)  # a file is read in many chunks
def _vectoriser(analyser: str, names: tuple[str, ...], idf: tuple[float, ...]) -> Any:
    vectoriser = _new(analyser, vocabulary=list(names))
    vectoriser.idf_ = np.array(idf, np.float32)
    return vectoriser
