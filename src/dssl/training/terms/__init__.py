"""Terms that look at rows again. In: rows and their changed views. Out: what a loss adds for predictions that differ.

Start at `consistency.py`.

    consistency   predictions that stay as they are under small changes of x, between near rows, or as a teacher says
    matching      guessed labels: MixMatch, ReMixMatch, FixMatch, mixup
    augmentation  the changes: of images, digits and tables
"""
