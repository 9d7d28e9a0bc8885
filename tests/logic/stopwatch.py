"""Time limits: the best of three runs, and an alarm for what might never end."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

LOADED = 5  # the limits of the project hold on a quiet machine; tests allow for this much load


def best_of_three(call: Callable[[], Any]) -> float:
    """Seconds of the fastest of three calls."""
    times = []
    for _ in range(3):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


class _TooLong(BaseException):
    """Raised by the alarm wherever the program is; no `except Exception` may swallow it."""


@contextmanager
def within(seconds: int) -> Iterator[None]:
    """Fail what takes longer."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise _TooLong

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    except _TooLong:
        raise AssertionError(f"took more than {seconds} s") from None
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
