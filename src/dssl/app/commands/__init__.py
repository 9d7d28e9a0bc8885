"""The commands of `dssl`. In: flags. Out: text, files and exit codes.

They read flags; the rest of the room does the work. Nothing heavy is imported before a command runs, because
`dssl --help` must appear at once. Start at `fit.py`.

fit          `dssl fit`
refit        `dssl refit`
predict      `dssl predict` and `dssl evaluate`
rules        `dssl rules` and its subcommands
tours        `dssl explore`, `dssl label`, `dssl report`, `dssl reproduce` and `dssl demo`
"""
