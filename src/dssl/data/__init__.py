"""From files to rows and label columns. In: files, arrays and labels as people have them. Out: rows x and columns y.

May use label spaces; knows nothing of networks or training. Start at `tables.py` for files, `targets.py` for labels
given from Python.

    tables, published                 files → raw tables and published sets
    formats/                          formats that we read ourselves
    cells, columns, meaning, texts    what a cell says, what a column is, what it means, which words count
    transformer, preprocessing        raw columns → numbers: `TableTransformer`; what a run keeps of it
    features                          numbers on one scale, equal rows counted once
    labelling, targets, mending       label columns: which they are, what they say, what breaks a rule
    leaks                             columns that give the label away because they were made from it
    rows                              rows of x with labels, however they are stored, and those of arrays
    stored/                           rows that stay in files: Parquet, images; a pass over more than memory holds
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dssl.data.transformer import TableTransformer

__all__ = ["TableTransformer"]


def __getattr__(name: str) -> Any:
    if name == "TableTransformer":
        from dssl.data.transformer import TableTransformer

        return TableTransformer
    raise AttributeError(f"module 'dssl.data' has no attribute '{name}'")
