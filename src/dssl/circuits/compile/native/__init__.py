"""Circuits built directly, without a search. In: rules that are decided step by step. Out: the arrays of a circuit.

Start at `chains.py`.

    single   one rule alone: an automaton, a graph, a sum, a table
    chains   rules such as path(…), tree(…) or regular(…), together with all others of a space
    paths    the simple paths of a graph that is given as such
    diagram  the nodes that chains and paths write, from the last decision up
"""
