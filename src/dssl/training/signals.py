"""How a run is told to stop: by Ctrl-C, or by a system that wants the process to end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def stoppable(stop: Callable[[], None]) -> Iterator[None]:
    """Within it, `stop` is called on Ctrl-C and on SIGTERM; a second signal acts at once, as usual.

    A SIGTERM is passed on when the work within is done, so the process ends as it was asked to. Signals
    reach the main thread only: elsewhere nothing changes.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked: list[int] = []

    def tell(number: int, frame: Any) -> None:
        asked.append(number)
        as_before()
        stop()

    def as_before() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    heard = [signal.SIGINT]
    if signal.getsignal(signal.SIGTERM) not in (None, signal.SIG_IGN):
        heard.append(signal.SIGTERM)
    before = {number: signal.signal(number, tell) for number in heard}
    try:
        yield
    finally:
        as_before()
        if signal.SIGTERM in asked:
            signal.raise_signal(signal.SIGTERM)
