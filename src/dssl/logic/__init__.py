"""What labels may be. In: rule text, formulas, tables. Out: a LabelSpace.

Plain Python and numpy; knows nothing of circuits, tensors or training.
"""

from dssl.logic.symbols import at_least, at_most, conjunction, disjunction, exactly, exactly_one, symbols

__all__ = ["at_least", "at_most", "conjunction", "disjunction", "exactly", "exactly_one", "symbols"]
