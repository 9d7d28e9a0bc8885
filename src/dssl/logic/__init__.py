"""What labels can be. In: rule text, formulas, tables. Out: a LabelSpace, and what it says about labels.

Plain Python and numpy; knows nothing of circuits, tensors or training. Start at `space.py`.

    language/    rule text ⇄ variables and formulas
    reasoning/   formulas → the normal form that solvers read; conflicts and other findings
    induction/   rules learned from labels
    space        LabelSpace itself
    composing    spaces put together out of spaces and rules
    operations   projected counts, forgetting, equivalence
    labels       labels as people have them ⇄ its columns
    validity     whether labels obey its rules
    sources      spaces from names, hierarchies, tables and DIMACS files
    inferred     spaces from labels alone
    json_form    spaces as JSON
    dimacs       spaces as CNF for other tools
"""

from dssl.logic.language.symbols import (
    at_least,
    at_most,
    conjunction,
    disjunction,
    exactly,
    exactly_one,
    implies,
    symbols,
    xor,
)

__all__ = [
    "at_least",
    "at_most",
    "conjunction",
    "disjunction",
    "exactly",
    "exactly_one",
    "implies",
    "symbols",
    "xor",
]
