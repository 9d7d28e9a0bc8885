"""One reader for every element of a row. In: rows of elements (n, k, …). Out: logits (n, width), for rules to relate.

Rows are boards of cells, pairs of pictures, sentences of words; all elements are read with the same weights.

Start at `network.py`.

    network  puts together what a reader says of each element
    readers  the readers: "sequence" and "transformer" see an element among its neighbours, all others see it alone
"""
