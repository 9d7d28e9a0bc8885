"""Worker: a process that answers one request after another. In: a line of JSON. Out: a line of JSON.

It is a separate process so that work that takes too long can be ended, whatever it is doing.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from dssl.app.explorer import beliefs, figures, spaces
from dssl.circuits.jit import patience
from dssl.errors import BudgetError, DataError, RuleError, WriteError

SPARE = 3 << 30  # bytes that answers may take beyond what the process has when it is ready
LONGEST_S = 30  # after which the process ends itself: its parent may be gone

Handler = Callable[[dict[str, Any]], dict[str, Any]]

HANDLERS: dict[str, Handler] = {
    "rules": spaces.rules,
    "diagnosis": spaces.diagnosis,
    "beliefs": beliefs.beliefs,
    "triangle": figures.triangle,
    "gaussians": figures.gaussians,
}


def answered(handlers: dict[str, Handler], name: str, request: Any) -> tuple[int, dict[str, Any]]:
    """The status and body of an answer: 200, also if it says "too large" or what is wrong with the input.

    400 is for requests that the page does not send.
    """
    if not isinstance(request, dict):
        return 400, {"message": "the request must be a JSON object."}
    try:
        return 200, handlers[name](request)
    except spaces.Refused as refusal:
        return 200, {"refused": str(refusal)}
    except BudgetError as error:
        return 200, {"refused": f"too large for this page: {error}"}
    except MemoryError:
        return 200, {"refused": "too large for this page: it needs more memory than this page may take."}
    except (DataError, WriteError) as error:
        return 200, {"message": str(error)}
    except spaces.Malformed as error:
        return 400, {"message": str(error)}


def warm_up() -> None:
    """Load, and on a new machine compile, everything that answers need."""
    text = "a, b, c\nd: {x, y, z}\na -> !b\n0.9 :: c"
    values = [0.3, 0.6, 0.5, 0.0, 1.0, 2.0]
    with patience(0.0):  # answers are given little time, and the compiler would take it
        spaces.rules({"text": text})
        beliefs.beliefs({"text": text, "values": values})
        beliefs.beliefs({"text": "a", "values": [0.5]})
        figures.triangle({"steps": 8})
        figures.gaussians({})


def main(run: str | None) -> None:
    """Say that the worker is ready, then answer lines until there are no more."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not come between answers
    import torch

    torch.set_num_threads(1)
    handlers = dict(HANDLERS)
    if run is not None:
        from dssl.app.explorer.desk import Desk
        from dssl.app.explorer.effects import Effects
        from dssl.app.explorer.predictions import Run

        try:
            opened = Run.open(Path(run))
            desk = Desk(opened)
            handlers |= opened.handlers() | desk.handlers() | Effects(desk).handlers()
        except (DataError, RuleError, OSError) as error:
            print(f"error: {error}", file=sys.stderr, flush=True)
            _say(out, {"failed": str(error)})
            return
    warm_up()
    _limit_memory()
    _say(out, {"ready": True})
    for line in sys.stdin:
        name, request = json.loads(line)
        _alarm(LONGEST_S)
        status, answer = answered(handlers, name, request)
        _alarm(0)
        _say(out, {"status": status, "answer": answer})


def _say(out: TextIO, what: dict[str, Any]) -> None:
    out.write(json.dumps(what, allow_nan=False) + "\n")
    out.flush()


def _alarm(seconds: int) -> None:
    """On POSIX: have the system end the process after this many seconds, whatever it is doing; 0 cancels that."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _limit_memory() -> None:
    """On Linux: let the process grow by `SPARE` bytes and no further."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        import resource

        now = int(statm.read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (now + SPARE, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
