"""Signals: the first is heard, the second acts as usual, and a request to end the process is passed on."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from dssl.training.signals import stoppable


class Ended(Exception):
    pass


@pytest.fixture(autouse=True)
def ending() -> Iterator[None]:
    """SIGTERM raises here, and does not end the tests; Ctrl-C is heard even if they were started in the background."""

    def end(number: int, frame: Any) -> None:
        raise Ended

    usual = {signal.SIGTERM: end, signal.SIGINT: signal.default_int_handler}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def handlers() -> list[Any]:
    return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_ctrl_c_is_heard_once_and_the_second_interrupts() -> None:
    heard: list[int] = []
    before = handlers()
    with stoppable(lambda: heard.append(1)):
        signal.raise_signal(signal.SIGINT)
        assert heard == [1]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert (heard, handlers()) == ([1], before)


def test_a_request_to_end_is_heard_and_passed_on_afterwards() -> None:
    heard: list[str] = []
    before = handlers()
    with contextlib.suppress(Ended), stoppable(lambda: heard.append("asked")):
        signal.raise_signal(signal.SIGTERM)
        heard.append("work ended")
    assert heard == ["asked", "work ended"]
    assert handlers() == before
    with pytest.raises(Ended), stoppable(lambda: None):
        signal.raise_signal(signal.SIGTERM)


def test_a_second_request_acts_at_once() -> None:
    reached: list[str] = []
    with pytest.raises(Ended), stoppable(lambda: None):  # noqa: PT012
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
        reached.append("more work")
    assert not reached


def test_who_ignores_such_requests_goes_on_doing_so() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    heard: list[int] = []
    with stoppable(lambda: heard.append(1)):
        signal.raise_signal(signal.SIGTERM)
    assert heard == []


def test_in_other_threads_nothing_changes() -> None:
    seen: list[bool] = []

    def work() -> None:
        before = handlers()
        with stoppable(lambda: None):
            seen.append(handlers() == before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [True]
