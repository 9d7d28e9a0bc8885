"""What a run's held-out rows say about its model. In: a model, rows and labels. Out: plain numbers for a summary.

Start at `sentences.py`.

    comparison   the same rows by simpler means: a constant, labels alone, labels and rules
    changed      what the rules changed in predictions, for better and worse
    importance   which columns of the table the predictions rest on
    mistakes     the rows that are wrong, with their values and pictures
    pictures     the image of a row as part of a page
    sentences    what all of this comes to: three sentences, and what stands out
"""
