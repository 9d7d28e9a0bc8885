"""From rows to weights. In: rows, a network and a prior. Out: a trained network.

May use all rooms above it; knows nothing of estimators, commands or pages. Start at `objective.py`, then `loop.py`.

    objective, balance, kinds           the loss of a batch (Eq. DSSL), and which of its rows are labelled
    terms/                              terms that look at rows again, and the views they look at
    networks, averaging                 from x to logits, and a running mean of weights
    elements/                           one reader for every element of a row
    loop, streams, settings, processes  the loop, which rows a step sees, every setting, several processes
    optimisers                          torch's, without its compiler
    checkpoints, identity, logs, signals  resuming after a stop, and what a run reports
"""
