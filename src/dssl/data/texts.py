"""Texts as features: which columns hold them, which of their words count, and how much."""

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
_SEVERAL = 3.0  # words per text on average, at least; names have fewer
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
    words = known.str.count_matches(r"\S+") + known.str.count_matches(f"[{_UNSPACED}]")
    if float(words.mean()) < _SEVERAL:  # type: ignore[arg-type]
        return False
    different = known.n_unique()
    return different > _MOST_CATEGORIES or different > _DIFFERENT * known.len()


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
