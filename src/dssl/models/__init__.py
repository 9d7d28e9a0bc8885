"""Models people hold. In: arrays and rules. Out: estimators that predict valid labels, and files of them.

May use all rooms above it; knows nothing of commands or pages. Start at `estimators.py`.

    estimators, parameters, names  DSSLClassifier, its settings, what its names stand for
    auto/                          how "auto" decides, and what it learns from labels
    fitting/                       one fit: its rows, objective and pace
    answering, inference           what a fitted model answers; a network on rows
    decoding, decisions            logits → valid labels and probabilities
    generative, densities          p(x, y), the generative twin
    representations                features learned from all rows, before a classifier
    splitting                      cross-validation with unlabelled rows
    files/                         models as files, and parameters in them
"""
