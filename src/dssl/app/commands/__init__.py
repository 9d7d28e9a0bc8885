"""The commands of `dssl`, a file for those that belong together. They read flags; the rest of the room does the work.

Nothing heavy is imported before a command runs: `dssl --help` must be there at once.
"""
