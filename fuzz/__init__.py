"""Coverage-guided fuzzing of every reader of the library.

    python fuzz/run.py --minutes 10                 all targets, each an equal share of the time
    python fuzz/run.py --minutes 2 --target rules   one of them
    python fuzz/run.py --again fuzz/findings/x      one file again, with its traceback

It needs the extra `fuzz` (atheris, Linux). Inputs that reached new code are kept in `fuzz/corpus`, findings in
`fuzz/findings`; neither is part of the repository. A process that ends by itself, killed say, leaves its last input
there as well, and beside it what it said. A finding becomes a test in `tests/trust`.
"""
