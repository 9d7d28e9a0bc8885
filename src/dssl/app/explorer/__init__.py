"""The explorer: a page on this machine that shows rules, priors and runs. In: a browser's requests. Out: answers.

Start at `server.py`; the page itself is in `static`.

server, guard         HTTP: addresses, and which requests are let in
screens, background   which row each open page shows, and the fit that goes on behind them
pool, worker          the processes that answer, within bounds of time and memory
spaces                answers about a rule text
beliefs, figures      answers about one prediction θ, and pictures of priors
predictions, reasons  answers about a run, and why rules changed a prediction
effects               what other rules would do to a run
desk                  the next row worth a label, what follows from an answer, and answers written down
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["serve"]


def serve(path: str | Path | None = None, *, port: int = 0, open_browser: bool = True, tab: str = "run") -> None:
    """Serve the page on 127.0.0.1 until interrupted; `path` is a file of rules or the folder of a run.

    Port 0 picks a free one; the address, with its token, is printed. `tab`: where a run opens, "run" or "label".
    """
    from dssl.app.explorer.server import run

    run(None if path is None else Path(path), port, open_browser, tab)
