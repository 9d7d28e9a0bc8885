"""From constraints to a circuit. In: the normal form of a label space. Out: the arrays of a Circuit.

Start at `compiler.py`.

    native/      circuits built directly, where rules are decided step by step
    selections   literals of which exactly one holds, to be decided at once
    problem      constraints → flat arrays, whose columns are in records
    turns        which ways to branch are tried, and how far each search runs
    order/       in which order a search branches
    sharpen/     the same solutions by sharper constraints
    search       branch, propagate, split, remember: one step after another
    propagation  what is left of the constraints after some values are ruled out
    components   what is left, split into parts that share no constraint
    store        the nodes found, and the components already solved
    emission     nodes → the arrays of a circuit
    budget       seconds, nodes and bytes that all of this may use
    cache        circuits on disk, where compiling took long
"""
