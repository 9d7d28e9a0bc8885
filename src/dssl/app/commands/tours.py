"""`dssl explore`, `dssl label`, `dssl report`, `dssl reproduce` and `dssl demo`: things to look at."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dssl.errors import DataError


def explore(
    path: Annotated[Path | None, Parameter(help="File of rules, or folder of a run.")] = None,
    /,
    *,
    port: Annotated[int, Parameter(help="Port of the page; 0 for any that is free.")] = 0,
    browser: Annotated[bool, Parameter(help="Open the page.", negative="--no-browser")] = True,
) -> None:
    """Open a page, on this machine only, to try rules and priors and to look at a run."""
    if path is not None and not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    from dssl.app.explorer import serve

    serve(path, port=port, open_browser=browser)


def label(
    run: Annotated[Path, Parameter(help="Folder of a run.")],
    /,
    *,
    port: Annotated[int, Parameter(help="Port of the page; 0 for any that is free.")] = 0,
    browser: Annotated[bool, Parameter(help="Open the page.", negative="--no-browser")] = True,
) -> None:
    """Open a page, on this machine only, that asks about the rows worth labelling; answers go beside the data."""
    if not run.exists():
        raise FileNotFoundError(2, "No such file or directory", str(run))
    if not run.is_dir():
        raise DataError(f"'{run}' is a file\nGive the folder of a run, as dssl fit --out wrote it.")
    from dssl.app.explorer import serve

    serve(run, port=port, open_browser=browser, tab="label")


def report(
    run: Annotated[Path, Parameter(help="Folder of a run.")],
    /,
    *,
    out: Annotated[Path | None, Parameter(help="File for the page. Default: report.html of the run.")] = None,
    browser: Annotated[bool, Parameter(help="Open the page.", negative="--no-browser")] = True,
) -> None:
    """Write the report of a run again, from its summary, and open it."""
    if not run.exists():
        raise FileNotFoundError(2, "No such file or directory", str(run))
    from dssl.app.report import write_report
    from dssl.app.runs import REPORT, SUMMARY
    from dssl.app.summary import Summary

    if not (run / SUMMARY).is_file():
        raise DataError(
            f"'{run}' is not a run: there is no {SUMMARY} in it\nGive the folder that dssl fit --out wrote."
        )
    page = write_report(Summary.load(run / SUMMARY), out or run / REPORT)
    print(f"report   {page}")
    if browser:
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def reproduce(
    name: Annotated[str | None, Parameter(help="What to run. Without it, the names are listed.")] = None,
    /,
    *more: Annotated[str, Parameter(help="Flags of the experiment, such as --sets.", allow_leading_hyphen=True)],
    full: Annotated[
        bool, Parameter(help="Use the paper's full settings where the default is shorter.", negative="")
    ] = False,
) -> int:
    """Run an experiment again, such as a table or figure of the paper, in the folder experiments/again.

    If it is stopped, the same command resumes it. DSSL_RESULTS names another folder.
    """
    from dssl.logic.language.variables import nearest

    known = _experiments()
    if name is None:
        for each, file in known.items():
            print(f"{each:<16}{_first_line(file)}")
        return 0
    if name not in known:
        raise DataError(f"there is no experiment '{name}'\n{nearest(name, known)}There are: {', '.join(known)}.")
    if full and "--full" not in known[name].read_text(encoding="utf-8"):
        raise DataError(f"'{name}' has one size only\nRun it without --full.")
    words = [sys.executable, str(known[name]), *(["--full"] if full else []), *more]
    again = {"DSSL_RESULTS": str(known[name].parent / "again")}
    return subprocess.run(words, check=False, env=again | os.environ).returncode


def _experiments() -> dict[str, Path]:
    """The scripts of the source tree, by name."""
    import dssl

    folder = Path(dssl.__file__).parents[2] / "experiments"
    found = {
        file.stem: file
        for file in sorted(folder.glob("*.py"))
        if 'if __name__ == "__main__":' in file.read_text(encoding="utf-8")
    }
    if not found:
        raise DataError(
            "the experiments are not part of the installed package\n"
            "Clone the repository, install it with pip install -e ., and run the same there."
        )
    return found


def _first_line(file: Path) -> str:
    import ast

    return (ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def demo() -> None:
    """See it all in a minute: rules, their answers, and a model that obeys them."""
    from dssl.app.demo import main

    main()
