"""The rule language. In: rule text, or Python symbols. Out: variables and formulas, which print as text again.

Start at `parser.py`; `symbols` is the Python form of the same.

tokens       text → tokens, each with its place; errors that point into the text
indentation  rules below a loop, classes of a hierarchy
reading      tokens → the tree of a statement as it was written
terms        what stands inside its formulas: numbers, sums, names, sets, loops
declaring    lines that declare variables, arrays and constants
constants    numbers, sets and lists, and arithmetic that is done beforehand
arrays       names of elements, and slices of them
predicates   rules with parameters
expanding    a tree with loops → flat formulas
syntax       the classes of that tree
structures   constraints on many variables at once
parser       all of the above, in order: text → variables and rules
formula      what a rule says
quoting      names and values as rule text
variables    its atoms in text
symbols      its atoms in Python
"""
