"""In which order a search branches. In: the flat arrays of a problem. Out: the rank of each of its blocks.

Start at `ordering.py`.

    ordering       orders by degree and by fill-in, within a budget
    elimination    orders by degree of graphs of any size
    decomposition  an order from the middle of the graph, for problems that are hard
"""
