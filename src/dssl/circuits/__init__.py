"""Exact answers. In: a LabelSpace and literal weights. Out: a Circuit and what it can be asked.

May use the logic room; knows nothing of networks, priors or training.
"""
