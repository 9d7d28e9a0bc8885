"""What people see. In: files, models and commands. Out: text, pages and exit codes.

May use every room; nothing else may use it. Start at `cli.py`.

    commands/, cli, options, terminal  the `dssl` command
    preparation, runs, trained         what a fit needs, the folder it writes, that folder in use
    worth, answers, refits             rows worth labelling, what people said of them, and a run that learns it
    measures, summary, charts, report  numbers about a run, and the page that shows them
    findings/                          what held-out rows say about its model, in numbers and sentences
    explorer/                          the page for exploring rules and runs
    cluster/                           saved models, and estimators, on Ray
    demo                               `dssl demo`
"""
