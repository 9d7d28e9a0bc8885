"""From trees to formulas. In: the tree of a statement as it was written. Out: flat formulas about declared variables.

Start at `expansion.py`.

expansion    loops gone through, names looked up, atoms checked
conditions   what stands after `where`, quickly
indices      elements whose index is a variable
sums         totals of weighted terms
structured   patterns, tables, sequences and graphs
"""
