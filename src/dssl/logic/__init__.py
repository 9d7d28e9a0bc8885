"""What labels may be. In: rule text, formulas, tables. Out: a LabelSpace.

Plain Python and numpy; knows nothing of circuits, tensors or training.
"""
