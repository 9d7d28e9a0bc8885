"""From data to a model. In: data, a network and a prior. Out: a trained model.

May use all rooms above it; knows nothing of the command line or of pages.
"""
