"""One fit. In: rows, label columns and a plan. Out: what the loop of `training` needs, and a look at the result.

Start at `lessons.py`.

    lessons   rows and labels of one fit, and which of them count
    losses    its objective: what was asked for, and what the plan adds
    pace      its steps, batches and rates
    large     the same for more rows than memory holds
    variety   whether predictions are as varied as labels
"""
