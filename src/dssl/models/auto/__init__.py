"""What "auto" decides. In: labelled and unlabelled rows. Out: a plan, and a layer that calibrates what was trained.

Start at `plan.py`.

    plan              every decision, with its reason
    ground            which rows are similar or near, whatever their labels
    judging           ridge regression, judged by labels
    beside, ridge, trees  modules that answer beside a network: ridge models, forests
    scales            whether features share one scale, judged by labels
    views             which changes of images leave labels as they are, judged by labels
    elements          what the parts of a row show, and the network that reads each of them alike
    outputs           where predictions begin, and what outputs mean
    beginning         the network of a fit, before it has learned anything
    committee         networks that were trained apart, and answer together
    calibration       how sure predictions should be, by labelled rows left out in folds
"""
