"""The `dssl` command: reads the command line, runs the command, and returns an exit code.

0 all went well, 1 bad input (a sentence on stderr says what and where), 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from dssl import __version__
from dssl.app.commands import fit, predict, refit, rules, tours
from dssl.app.terminal import UsageError, error_text
from dssl.errors import BudgetError, DataError, RuleError

_EXTRAS = {"PIL": "images", "cloudpickle": "distributed", "lightning_fabric": "distributed"}  # by package
OK, BAD_INPUT, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130

app = App(
    name="dssl",
    help="Learn from a few labels, plenty of unlabelled data and a page of rules about what labels can look like.",
    version=__version__,
    help_format="plaintext",
    result_action="return_value",
    suppress_keyboard_interrupt=False,
)
_LOOKS = (tours.explore, tours.label, tours.report, tours.reproduce, tours.demo)
for command in (fit.fit, refit.refit, predict.predict, predict.evaluate, rules.app, *_LOOKS):
    app.command(command)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line, by default this process's own, and give its exit code."""
    if argv is None:  # our own process: sums are to be the same on any number of threads; set before torch is loaded
        os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")
    try:
        code = app(list(sys.argv[1:] if argv is None else argv), exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else OK
    except CycloptsError as error:
        return _failed(WRONG_USAGE, f"{error}\nTry: {_help_of(error)} --help")
    except UsageError as error:
        return _failed(WRONG_USAGE, str(error))
    except (RuleError, DataError, BudgetError, FloatingPointError) as error:
        return _failed(BAD_INPUT, str(error))
    except KeyboardInterrupt:
        return _failed(INTERRUPTED, "interrupted")
    except BrokenPipeError:  # the reader of our output has closed it; a later flush must not complain
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        remedy = f"Install it: pip install 'dssl[{_EXTRAS[error.name]}]'"
        return _failed(BAD_INPUT, f"this needs the package {error.name}, which is not installed\n{remedy}")
    except OSError as error:
        return _failed(BAD_INPUT, error_text(error))


def _failed(code: int, text: str) -> int:
    print(f"error: {text}", file=sys.stderr, flush=True)
    return code


def _help_of(error: CycloptsError) -> str:
    return " ".join(["dssl", *(error.command_chain or ())])
