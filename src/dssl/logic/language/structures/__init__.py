"""Constraints on many variables at once. In: variables, and what a call such as `path(…)` names. Out: one formula.

Each is a formula of its own, so it prints as it was written, and conflicts name it. Start at `patterns.py`.

patterns     all_different, increasing, lex, permutation, ranking, table
automata     regular expressions over values, as automata
arrows       automata written out
graphs       path, tree, connected: chosen edges of a graph
hierarchy    classes below other classes
rowfiles     rows of a table from a file
"""
