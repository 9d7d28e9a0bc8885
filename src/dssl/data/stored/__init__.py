"""Rows that stay in files until a batch asks for them. In: paths. Out: `Data` that may be larger than memory.

Start at `parquet.py`.

    parquet   Parquet files and folders of them, block by block
    images    folders of images, decoded when needed
    larger    files larger than memory, as `dssl fit` reads them: a sample, and `Data`
    surveys   one pass over more rows than memory holds: statistics, labels, a sample
"""
