"""`dssl refit`: a run learns further, from the answers that people gave in the page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssl.app.options import FLAG
from dssl.app.terminal import JSON, Terminal, UsageError


def refit(
    run: Annotated[Path, Parameter(help="Folder of a run.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="Folder of the new run. Default: RUN-2, RUN-3, …")] = None,
    rules: Annotated[
        Path | None, Parameter(help="File of other rules; the network then starts from the beginning.")
    ] = None,
    steps: Annotated[int | None, Parameter(help="Updates of the network. Default 150.")] = None,
    json: Annotated[bool, JSON] = False,
    quiet: Annotated[bool, Parameter(help="Print only warnings and errors.", **FLAG)] = False,
) -> int:
    """Fit a run again, from its last weights, with the answers that people have given since, into a new folder."""
    if not run.exists():
        raise FileNotFoundError(2, "No such file or directory", str(run))
    if steps is not None and steps < 1:
        raise UsageError(f"--steps {steps} is below 1\nGive 1 or more.")
    from dssl.app.commands.fit import run_prepared
    from dssl.app.refits import learns_further, write_changes
    from dssl.app.runs import next_folder, refuse_taken

    terminal = Terminal(as_json=json, quiet=quiet)
    place = next_folder(run) if out is None else out
    refuse_taken(place, overwrite=False)
    prepared = learns_further(run, rules, steps)
    for note in prepared.notes:
        terminal.warn(note)
    terminal.say(f"{prepared.beside['refit']['answers']:,} answers beside the data are used")
    code = run_prepared(prepared, place, terminal)
    if code == 0:
        told = write_changes(run, place)
        known = f"; of those with labels, {told['better']:,} for the better and {told['worse']:,} for the worse"
        terminal.say(f"{told['changed']:,} of {told['rows']:,} rows are predicted differently{known}")
    return code
