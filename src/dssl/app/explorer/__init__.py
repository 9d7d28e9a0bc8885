"""The explorer: a page on this machine that shows rules, priors and runs. In: a browser's requests. Out: answers.

`server` and `guard` speak HTTP, `pool` and `worker` keep the work in bounds, the other modules answer, `static` draws.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ["serve"]


def serve(path: str | Path | None = None, *, port: int = 0, open_browser: bool = True) -> None:
    """Serve the page on 127.0.0.1 until interrupted; `path` is a file of rules or the folder of a run.

    Port 0 takes one that is free; the address is printed.
    """
    from dssl.app.explorer.server import run

    run(None if path is None else Path(path), port, open_browser)
