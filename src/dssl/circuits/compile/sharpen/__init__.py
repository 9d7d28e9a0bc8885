"""Constraints made sharper. In: the normal form of a label space. Out: another with the same solutions.

Start at `subsumption.py`.

    subsumption  without clauses that say less than another
    backbone     with clauses for values that no solution takes, for problems that the search finds hard
"""
