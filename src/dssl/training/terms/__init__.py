"""Terms that look at rows again. In: rows and their changed views. Out: what a loss adds for predictions that differ.

Start at `consistency.py`.

    consistency   predictions that stay as they are under small changes of x, between near rows, or as a teacher says
    matching      guessed labels: MixMatch, ReMixMatch, FixMatch, mixup
    denoising     noise in every layer, removed at the top
    deep_generative, autoencoder  a model of x given y and a latent z
    augmentation  the changes: of images, digits and tables
"""
